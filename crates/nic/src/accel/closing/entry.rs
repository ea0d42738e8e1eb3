//! One connection in teardown: its numbers, and how it is made.

use tcp::{Backoff, ChallengeLimit, PeerWindow, State, TIMESTAMPS_LEN};
use wire::ethernet::MacAddr;
use wire::tcp::HEADER_LEN;
use wire::{FlowKey, SeqNum, ipv4, ipv6};

use super::Nanos;
use crate::accel::packet_memory::Chain;
use crate::ring::accel::Teardown;

/// No slot, or the end of a list.
pub(super) const NONE: u32 = u32::MAX;
/// No deadline.
pub(super) const NEVER: Nanos = Nanos::MAX;
/// A congestion window that limits nothing: a connection is handed over with no more than the initial window.
pub(super) const OPEN: u8 = u8::MAX;

/// What the device remembers of a connection. The five-tuple names it; the rest is what is left of a [`tcp::Connection`] once
/// the application is gone and an initial window at most is left to send.
#[derive(Debug)]
pub(super) struct Entry {
    /// When the one timer of its state fires: retransmission or window probe, end of FIN-WAIT-2, end of TIME-WAIT.
    pub(super) deadline: Nanos,
    /// From us to the peer.
    pub(super) flow: FlowKey,
    pub(super) function: u16,
    pub(super) hop: MacAddr,
    pub(super) hop_limit: u8,
    /// Of the flow from the peer to us: leads to it in the index of flows.
    pub(super) hash: u64,
    pub(super) state: State,
    pub(super) snd: Sending,
    pub(super) rcv: Receiving,
    pub(super) time_wait_ms: u32,
    pub(super) fin_wait2_ms: u32,
    pub(super) owes: Owes,
    /// Not acknowledged: the bytes from `snd.una` on.
    pub(super) data: Chain,
    /// The tick for which the wheel is armed; 0 while it is not.
    pub(super) armed: u64,
    pub(super) links: Links,
}

/// An entry is three cache lines, with what says whether its place is free.
const _: () = assert!(size_of::<Entry>() <= 192);

/// The sending half.
#[derive(Debug)]
pub(super) struct Sending {
    /// SND.UNA, and SND.NXT, which never goes back.
    pub(super) una: SeqNum,
    pub(super) nxt: SeqNum,
    /// What is sent next: behind `nxt` after a time-out.
    pub(super) send: SeqNum,
    /// End of the data; the FIN is here.
    pub(super) fin: SeqNum,
    /// End of what was sent more than once (Karn); fast recovery goes up to here (RFC 6582).
    pub(super) recover: SeqNum,
    pub(super) window: PeerWindow,
    /// Payload bytes per packet.
    pub(super) mss: u16,
    /// Segments that may be in flight after a time-out.
    pub(super) cwnd: u8,
    pub(super) duplicates: u8,
    /// Shift of the windows that the peer announces.
    pub(super) shift: u8,
    /// A retransmission recovers what duplicate ACKs have shown to be lost.
    pub(super) in_fast_recovery: bool,
    pub(super) backoff: Backoff,
    /// Retransmission timeout in microseconds, not backed off.
    rto_us: u32,
}

impl Sending {
    fn new(teardown: &Teardown, bytes: u32) -> Sending {
        let (una, nxt) = (teardown.snd_una, teardown.snd_nxt);
        Sending {
            una,
            nxt,
            send: nxt,
            fin: una + bytes,
            recover: if teardown.retransmits > 0 { nxt } else { una },
            window: PeerWindow::resumed(teardown.peer_window, 0, teardown.rcv_nxt, una),
            mss: teardown.mss,
            cwnd: OPEN,
            duplicates: 0,
            shift: teardown.peer_shift,
            in_fast_recovery: false,
            backoff: Backoff::resumed(teardown.retransmits, teardown.retransmits),
            rto_us: teardown.rto_us,
        }
    }
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) nxt: SeqNum,
    /// Right edge of the window that we have offered.
    pub(super) edge: SeqNum,
    /// The window field that we send.
    pub(super) window: u16,
    /// The peer's FIN was taken and is not acknowledged yet.
    pub(super) fin_unacknowledged: bool,
    pub(super) has_timestamps: bool,
    /// TS.Recent.
    pub(super) recent: u32,
    /// TSval less the device's milliseconds.
    pub(super) clock: u32,
    pub(super) challenges: ChallengeLimit,
}

impl Receiving {
    fn new(teardown: &Teardown, now_ms: u32) -> Receiving {
        let timestamps = teardown.timestamps;
        Receiving {
            nxt: teardown.rcv_nxt,
            edge: teardown.rcv_nxt + (u32::from(teardown.window) << teardown.our_shift),
            window: teardown.window,
            fin_unacknowledged: false,
            has_timestamps: timestamps.is_some(),
            recent: timestamps.map_or(0, |timestamps| timestamps.recent),
            clock: timestamps.map_or(0, |timestamps| timestamps.value.wrapping_sub(now_ms)),
            challenges: ChallengeLimit::new(now_ms),
        }
    }
}

/// What is to be sent beside data and FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Owes {
    pub(super) ack: bool,
    /// A segment that the peer must answer (RFC 9293 §3.8.6.1).
    pub(super) probe: bool,
    /// The oldest segment again (RFC 5681 §3.2).
    pub(super) oldest: bool,
    /// The peer's small window may be filled (RFC 9293 §3.8.6.2.1, the override).
    pub(super) fill: bool,
    /// The end: everything else is void.
    pub(super) reset: bool,
}

/// Places in the lists of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    /// It waits for its turn to send.
    pub(super) is_ready: bool,
    pub(super) next_ready: u32,
    /// Neighbours among those that rest in TIME-WAIT.
    pub(super) older: u32,
    pub(super) younger: u32,
}

impl Links {
    const NOWHERE: Links = Links {
        is_ready: false,
        next_ready: NONE,
        older: NONE,
        younger: NONE,
    };
}

impl Entry {
    /// A connection as its host leaves it, with `bytes` of data.
    pub(super) fn new(
        now: Nanos,
        function: u16,
        hash: u64,
        teardown: &Teardown,
        bytes: u32,
        data: Chain,
    ) -> Entry {
        let mut entry = Entry {
            deadline: NEVER,
            flow: teardown.flow,
            function,
            hop: teardown.hop,
            hop_limit: teardown.hop_limit,
            hash,
            state: if teardown.peer_closed {
                State::LastAck
            } else {
                State::FinWait1
            },
            snd: Sending::new(teardown, bytes),
            rcv: Receiving::new(teardown, millis(now)),
            time_wait_ms: teardown.time_wait_ms,
            fin_wait2_ms: teardown.fin_wait2_ms,
            // What the host owes goes with the data, or by itself if no data may go.
            owes: Owes {
                ack: true,
                ..Owes::default()
            },
            data,
            armed: 0,
            links: Links::NOWHERE,
        };
        if entry.is_anything_outstanding() {
            entry.deadline = now + entry.rto();
        }
        entry
    }

    /// Sees to it that its packets are not larger than this.
    pub(super) fn fit(&mut self, mtu: u16) {
        let most = mtu.saturating_sub(self.headers_len());
        self.snd.mss = self.snd.mss.min(most).max(1);
    }

    /// Bytes of IP and TCP headers of a packet with data.
    pub(super) fn headers_len(&self) -> u16 {
        let ip = if self.flow.is_ipv6() {
            ipv6::HEADER_LEN
        } else {
            ipv4::HEADER_LEN
        };
        (ip + HEADER_LEN) as u16 + self.options_len() as u16
    }

    /// Of these, the options.
    pub(super) fn options_len(&self) -> u32 {
        match self.rcv.has_timestamps {
            true => TIMESTAMPS_LEN.into(),
            false => 0,
        }
    }

    /// Whether `flow`, from the peer to us, is this one's.
    pub(super) fn is_of(&self, function: u16, flow: &FlowKey) -> bool {
        self.flow.src == flow.dst && self.flow.dst == flow.src && self.function == function
    }

    /// The retransmission timeout with its back-off (RFC 6298 §5.5).
    pub(super) fn rto(&self) -> Nanos {
        const LEAST: Nanos = MILLISECOND;
        let base = (Nanos::from(self.snd.rto_us) * 1000).max(LEAST);
        self.snd.backoff.timeout(base)
    }

    /// Takes the window of a segment.
    pub(super) fn note_window(&mut self, seq: SeqNum, ack: SeqNum, field: u16) {
        let bytes = u32::from(field) << self.snd.shift;
        self.snd.window.note(seq, ack, bytes);
    }

    /// Bytes in flight, FIN included.
    pub(super) fn is_anything_outstanding(&self) -> bool {
        self.snd.una != self.snd.nxt
    }

    /// It has ended, and has nothing more to say.
    pub(super) fn is_gone(&self) -> bool {
        self.state == State::Closed && !self.owes.reset
    }

    /// The peer has not acknowledged all that it is to get.
    pub(super) fn is_unfinished(&self) -> bool {
        match self.state {
            State::TimeWait | State::FinWait2 => false,
            State::Closed => self.owes.reset,
            _ => true,
        }
    }

    /// Our FIN is acknowledged.
    pub(super) fn is_fin_acknowledged(&self) -> bool {
        self.snd.una.after(self.snd.fin)
    }

    pub(super) fn enter_time_wait(&mut self, now: Nanos) {
        self.state = State::TimeWait;
        self.rest(now);
    }

    /// TIME-WAIT begins, or begins anew.
    pub(super) fn rest(&mut self, now: Nanos) {
        self.deadline = now + Nanos::from(self.time_wait_ms) * MILLISECOND;
    }
}

pub(super) const MILLISECOND: Nanos = 1_000_000;

/// The device's milliseconds, of which TSvals and such are made: they wrap.
pub(super) fn millis(now: Nanos) -> u32 {
    (now / MILLISECOND) as u32
}
