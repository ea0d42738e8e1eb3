//! Segments that arrive for a connection in teardown (RFC 9293 §3.10.7.4).
//!
//! The rules, and their order, are those of a [`tcp::Connection`] that its application has closed and let go of.

use std::time::Duration;

use tcp::{Acceptance, ReceiveSpace, SendSpace, State, TimeWaitEntry, Verdict};
use wire::SeqNum;
use wire::tcp::{Flags, Header};

use super::Nanos;
use super::entry::{Entry, MILLISECOND, NEVER, OPEN, Owes, millis};

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It goes on.
    Stay,
    /// It has ended.
    End,
    /// It is to be reset.
    Abort,
    /// It rested, and a new incarnation begins (RFC 6191).
    Reopen,
}

impl Entry {
    /// Takes a segment.
    pub(super) fn handle_segment(&mut self, now: Nanos, segment: &Header, len: u32) -> Next {
        let flags = segment.flags;
        if self.state == State::TimeWait {
            return self.arrives_in_time_wait(now, segment, len);
        }
        if let Err(next) = self.check(now, segment, len) {
            return next;
        }
        if flags.contains(Flags::RST) {
            // RFC 5961 §3.2.
            if segment.seq == self.rcv.nxt {
                return Next::End;
            }
            self.challenge(now);
            return Next::Stay;
        }
        if flags.contains(Flags::SYN) {
            // RFC 5961 §4.2.
            self.challenge(now);
            return Next::Stay;
        }
        if !flags.contains(Flags::ACK) {
            return Next::Stay;
        }
        if !self.sent().is_credible(segment.ack) {
            self.challenge(now);
            return Next::Stay;
        }
        if let Some(value) = self.received().takes_timestamp(segment) {
            self.rcv.recent = value;
        }
        if let Some(next) = self.take_ack(now, segment, len) {
            return next;
        }
        self.take_payload(now, segment, len)
    }

    /// RFC 9293 §3.10.7.4, RFC 1337, RFC 6191: as the host's table of such connections has it.
    fn arrives_in_time_wait(&mut self, now: Nanos, segment: &Header, len: u32) -> Next {
        let resting = TimeWaitEntry {
            snd_nxt: self.snd.nxt,
            rcv_nxt: self.rcv.nxt,
            rcv_wnd: 0,
            window: self.rcv.window,
            timestamps: self.rcv.has_timestamps.then_some((self.rcv.recent, 0)),
        };
        match resting.judge(Duration::ZERO, segment, len) {
            Verdict::Reopen(_) => return Next::Reopen,
            Verdict::Reply(_) if segment.flags.contains(Flags::FIN) => {
                self.owes.ack = true;
                self.rest(now);
            }
            Verdict::Reply(_) if len > 0 => self.owes.ack = true,
            Verdict::Reply(_) => self.challenge(now),
            Verdict::Drop | Verdict::Unknown => {}
        }
        Next::Stay
    }

    fn received(&self) -> ReceiveSpace {
        let rcv = &self.rcv;
        ReceiveSpace {
            nxt: rcv.nxt,
            last_ack_sent: rcv.nxt - u32::from(rcv.fin_unacknowledged),
            edge: rcv.edge,
            timestamps: rcv.has_timestamps,
            recent: Some(rcv.recent),
        }
    }

    fn sent(&self) -> SendSpace {
        SendSpace {
            una: self.snd.una,
            nxt: self.snd.nxt,
            largest_window: self.snd.window.largest(),
        }
    }

    /// PAWS (RFC 7323 §5.3) and the sequence number (RFC 9293 §3.10.7.4, first).
    ///
    /// # Errors
    /// What becomes of the connection, when the segment is not acceptable.
    fn check(&mut self, now: Nanos, segment: &Header, len: u32) -> Result<(), Next> {
        let acceptance = self.received().check(segment, len);
        match acceptance {
            Acceptance::Acceptable => return Ok(()),
            Acceptance::Ignored => return Err(Next::Stay),
            Acceptance::Stale | Acceptance::Old | Acceptance::Beyond => {}
        }
        let is_probe = acceptance == Acceptance::Old && self.received().is_probe(segment);
        if is_probe || len > 0 || segment.flags.contains(Flags::FIN) {
            self.owes.ack = true;
        } else {
            self.challenge(now);
        }
        let next = match acceptance {
            Acceptance::Old => self.take_ack_of_old(now, segment, len),
            _ => None,
        };
        Err(next.unwrap_or(Next::Stay))
    }

    fn take_ack_of_old(&mut self, now: Nanos, segment: &Header, len: u32) -> Option<Next> {
        let rcv = &self.rcv;
        let window = rcv.nxt.distance_to(rcv.edge.max(rcv.nxt));
        let oldest = rcv.nxt - window - 1;
        let counts = self.sent().takes_ack_of_old(segment, oldest);
        counts.then(|| self.take_ack(now, segment, len)).flatten()
    }

    /// Acknowledges what can't be right, now and then (RFC 5961 §7).
    fn challenge(&mut self, now: Nanos) {
        self.owes.ack |= self.rcv.challenges.admits(millis(now));
    }

    /// RFC 9293 §3.10.7.4, fifth. `None` to go on with the segment.
    fn take_ack(&mut self, now: Nanos, segment: &Header, len: u32) -> Option<Next> {
        let ack = segment.ack;
        if ack.before(self.snd.una) {
            return None;
        }
        let window = self.snd.window.bytes();
        self.note_window(segment.seq, ack, segment.window);
        if !self.is_anything_outstanding() {
            // The ACK can only bring a window.
            return None;
        }
        if ack.after(self.snd.una) {
            self.advance(now, ack);
            return self.on_advanced(now);
        }
        let is_duplicate =
            len == 0 && !segment.flags.contains(Flags::FIN) && self.snd.window.bytes() == window;
        if is_duplicate {
            self.count_duplicate();
        }
        None
    }

    fn advance(&mut self, now: Nanos, ack: SeqNum) {
        let segments = self
            .snd
            .una
            .distance_to(ack)
            .div_ceil(u32::from(self.snd.mss));
        self.snd.una = ack;
        self.snd.send = self.snd.send.max(ack);
        self.snd.backoff.progressed();
        self.snd.duplicates = 0;
        if self.snd.cwnd != OPEN {
            // Slow start (RFC 5681 §3.1).
            self.snd.cwnd = self.snd.cwnd.saturating_add(segments.min(255) as u8);
        }
        if ack.after(self.snd.recover) {
            // It is of what was sent once, and would be measured (RFC 6298 §3 and §5).
            self.snd.backoff.measured();
        }
        if self.snd.in_fast_recovery {
            // A partial ACK names the next that was lost (RFC 6582 §3.2).
            self.snd.in_fast_recovery = ack.before(self.snd.recover);
            self.owes.oldest = self.snd.in_fast_recovery;
        }
        self.snd.recover = self.snd.recover.max(ack);
        self.deadline = if self.is_anything_outstanding() {
            now + self.rto()
        } else {
            NEVER
        };
    }

    /// Our FIN may be acknowledged now.
    fn on_advanced(&mut self, now: Nanos) -> Option<Next> {
        if !self.is_fin_acknowledged() {
            return None;
        }
        self.owes.oldest = false;
        match self.state.on_fin_acknowledged() {
            State::FinWait2 => {
                self.state = State::FinWait2;
                self.deadline = now + Nanos::from(self.fin_wait2_ms) * MILLISECOND;
                None
            }
            State::TimeWait => {
                self.enter_time_wait(now);
                Some(Next::Stay)
            }
            State::Closed => Some(Next::End),
            _ => None,
        }
    }

    /// RFC 5681 §3.2, RFC 6582 §3.2: three of them, and no recovery under way.
    fn count_duplicate(&mut self) {
        self.snd.duplicates = self.snd.duplicates.saturating_add(1);
        let is_quiet = !self.snd.in_fast_recovery && self.snd.una.at_or_after(self.snd.recover);
        if self.snd.duplicates == 3 && is_quiet {
            self.snd.in_fast_recovery = true;
            self.snd.recover = self.snd.nxt;
            self.owes.oldest = true;
        }
    }

    /// RFC 9293 §3.10.7.4, seventh and eighth.
    fn take_payload(&mut self, now: Nanos, segment: &Header, len: u32) -> Next {
        let fin = segment.flags.contains(Flags::FIN);
        if len == 0 && !fin {
            return Next::Stay;
        }
        self.owes.ack = true;
        if !self.state.may_receive() {
            // After the peer's FIN nothing more can come but what came before.
            return Next::Stay;
        }
        let end = segment.seq + len;
        if len > 0 && end.after(self.rcv.nxt) {
            // RFC 1122 §4.2.2.13: it will not be read, and the peer should know.
            return Next::Abort;
        }
        if fin && end == self.rcv.nxt {
            self.rcv.nxt += 1;
            self.rcv.fin_unacknowledged = true;
            match self.state.on_peer_fin() {
                State::TimeWait => self.enter_time_wait(now),
                state => self.state = state,
            }
        }
        Next::Stay
    }

    /// Only a RST is to be sent yet.
    pub(super) fn reset(&mut self) {
        self.state = State::Closed;
        self.deadline = NEVER;
        self.owes = Owes {
            reset: true,
            ..Owes::default()
        };
    }
}
