//! Congestion control: how much may be in flight (RFC 5681).

mod cubic;
mod hystart;
mod new_reno;

use cubic::{Cubic, Goal};
use hystart::HyStart;
use new_reno::NewReno;
use wire::SeqNum;

use crate::config::Algorithm;
use crate::time::{Nanos, Time};

/// An endless threshold: slow start until the first loss.
pub(crate) const UNLIMITED: u32 = u32::MAX;
/// Bytes that any ACK may add in slow start (RFC 3465 §2.3): the largest burst, which a receiver with LRO acknowledges at once.
const SLOW_START_LIMIT: u32 = 1 << 16;
/// The window never grows beyond the largest that can be announced, twice over.
const MAX_WINDOW: u32 = 1 << 31;

#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    /// Bytes.
    cwnd: u32,
    ssthresh: u32,
    /// Bytes per packet.
    mss: u32,
    initial: u32,
    algorithm: State,
    hystart: HyStart,
}

#[derive(Clone, Debug)]
enum State {
    NewReno(NewReno),
    Cubic(Cubic),
}

/// What an ACK means to congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) now: Time,
    /// Bytes newly acknowledged.
    pub(crate) bytes: u32,
    pub(crate) una: SeqNum,
    pub(crate) nxt: SeqNum,
    /// A sample of the round-trip time, if this ACK gives one.
    pub(crate) rtt: Option<Nanos>,
    pub(crate) smoothed_rtt: Nanos,
}

impl Congestion {
    pub(crate) fn new(algorithm: Algorithm, mss: u32, initial_segments: u8) -> Self {
        let initial = mss * u32::from(initial_segments.max(1));
        Self {
            cwnd: initial,
            ssthresh: UNLIMITED,
            mss,
            initial,
            algorithm: match algorithm {
                Algorithm::NewReno => State::NewReno(NewReno::default()),
                Algorithm::Cubic => State::Cubic(Cubic::default()),
            },
            hystart: HyStart::default(),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.algorithm {
            State::NewReno(_) => "newreno",
            State::Cubic(_) => "cubic",
        }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self.algorithm {
            State::NewReno(_) => Algorithm::NewReno,
            State::Cubic(_) => Algorithm::Cubic,
        }
    }

    /// The window that the connection began with, in segments.
    pub(crate) fn initial_segments(&self) -> u8 {
        (self.initial / self.mss.max(1)).clamp(1, 255) as u8
    }

    pub(crate) fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// The window that the connection began with.
    pub(crate) fn initial(&self) -> u32 {
        self.initial
    }

    /// The window is the one that the connection began with: the peer has acknowledged nothing yet, or has not needed more, and nothing was lost.
    pub(crate) fn is_first_window(&self) -> bool {
        self.ssthresh == UNLIMITED && self.cwnd <= self.initial
    }

    pub(crate) fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The size of packets changed.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        let segments = (self.initial / self.mss).max(1);
        if self.cwnd == self.initial {
            self.cwnd = mss * segments;
        }
        self.initial = mss * segments;
        self.mss = mss;
        self.cwnd = self.cwnd.max(mss);
    }

    /// Nothing is known of what the path has carried meanwhile (RFC 5681 §4.1): the window is the restart window, the threshold
    /// remembers where it once led.
    pub(crate) fn restart(&mut self, ssthresh: u32) {
        self.ssthresh = ssthresh.max(2 * self.mss);
        self.cwnd = self.cwnd.min(self.initial);
        self.hystart.reset();
        if let State::Cubic(cubic) = &mut self.algorithm {
            cubic.restart();
        }
    }

    /// The handshake needed a retransmission: start with one segment (RFC 5681 §3.1).
    pub(crate) fn syn_was_lost(&mut self) {
        self.cwnd = self.mss;
    }

    /// Data was acknowledged outside of recovery, and the window was what limited us.
    pub(crate) fn on_ack(&mut self, ack: &Acknowledged) {
        let mut bytes = ack.bytes;
        if self.in_slow_start() {
            let counted = bytes.min(SLOW_START_LIMIT);
            let growth = (self.hystart).growth(ack, counted, self.ssthresh == UNLIMITED);
            let grown = self.cwnd.saturating_add(growth.bytes);
            if growth.leave {
                self.ssthresh = self.cwnd;
            }
            if grown < self.ssthresh {
                self.cwnd = grown.min(MAX_WINDOW);
                return;
            }
            bytes = bytes.min(grown - self.ssthresh);
            self.cwnd = self.ssthresh.max(self.cwnd);
        }
        let growth = match &mut self.algorithm {
            State::NewReno(reno) => reno.growth(self.cwnd, self.mss, bytes),
            State::Cubic(cubic) => cubic.growth(ack, self.cwnd, self.ssthresh, self.mss, bytes),
        };
        self.cwnd = self.cwnd.saturating_add(growth).min(MAX_WINDOW);
    }

    /// Something was lost (RFC 5681 §3.2): lowers the threshold. The window is recovery's business until it ends.
    pub(crate) fn on_congestion(&mut self, flight: u32) {
        let reduced = match &mut self.algorithm {
            State::NewReno(_) => flight / 2,
            State::Cubic(cubic) => cubic.reduce(self.cwnd, self.mss),
        };
        self.ssthresh = reduced.max(2 * self.mss);
        self.hystart.reset();
    }

    /// The retransmission timer expired (RFC 5681 §3.1, the loss window).
    pub(crate) fn on_timeout(&mut self) {
        self.cwnd = self.mss;
        if let State::Cubic(cubic) = &mut self.algorithm {
            cubic.forget();
        }
    }

    /// Recovery sets the window by itself (RFC 6937).
    pub(crate) fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd.max(self.mss).min(MAX_WINDOW);
    }

    /// Nothing was sent for `idle`: the window is stale (RFC 5681 §4.1, decaying as RFC 2861 has it).
    pub(crate) fn on_idle(&mut self, idle: Nanos, rto: Nanos) {
        let restart = self.cwnd.min(self.initial);
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        let halvings = (idle / rto.max(1)).min(31) as u32;
        self.cwnd = (self.cwnd >> halvings).max(restart);
        if let State::Cubic(cubic) = &mut self.algorithm {
            cubic.restart();
        }
    }

    /// What [`undo`](Self::undo) goes back to.
    pub(crate) fn before(&self) -> Before {
        let goal = match &self.algorithm {
            State::NewReno(_) => Goal::default(),
            State::Cubic(cubic) => cubic.goal(),
        };
        Before {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            goal,
        }
    }

    /// Takes back a reduction that was not called for (RFC 4015 §3.2, RFC 9438 §4.9).
    pub(crate) fn undo(&mut self, before: &Before) {
        self.cwnd = self.cwnd.max(before.cwnd);
        self.ssthresh = before.ssthresh;
        if let State::Cubic(cubic) = &mut self.algorithm {
            cubic.undo(before.goal);
        }
    }
}

/// A window before its reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    cwnd: u32,
    ssthresh: u32,
    goal: Goal,
}

#[cfg(test)]
mod tests;
