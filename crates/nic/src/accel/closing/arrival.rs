//! Segments that arrive for a connection in teardown (RFC 9293 §3.10.7.4).
//!
//! The rules, and their order, are those of a [`tcp::Connection`] that its application has closed and let go of.

use std::time::Duration;

use tcp::{State, TimeWaitEntry, Verdict};
use wire::SeqNum;
use wire::tcp::{Flags, Header};

use super::Nanos;
use super::entry::{Entry, MILLISECOND, NEVER, OPEN, Owes, millis};

/// At most one challenge ACK in this many milliseconds (RFC 5961 §7).
const CHALLENGE_INTERVAL: u32 = 500;

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
            if segment.seq == self.rcv_nxt {
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
        if !self.has_credible_ack(segment) {
            self.challenge(now);
            return Next::Stay;
        }
        if let Some(timestamps) = segment.options.timestamps.filter(|_| self.has_timestamps)
            && segment.seq.at_or_before(self.last_ack_sent())
            && !self.is_older(timestamps.val)
        {
            self.recent = timestamps.val;
        }
        if let Some(next) = self.take_ack(now, segment, len) {
            return next;
        }
        self.take_payload(now, segment, len)
    }

    /// RFC 9293 §3.10.7.4, RFC 1337, RFC 6191: as the host's table of such connections has it.
    fn arrives_in_time_wait(&mut self, now: Nanos, segment: &Header, len: u32) -> Next {
        let resting = TimeWaitEntry {
            snd_nxt: self.nxt,
            rcv_nxt: self.rcv_nxt,
            rcv_wnd: 0,
            window: self.window,
            timestamps: self.has_timestamps.then_some((self.recent, 0)),
        };
        match resting.judge(Duration::ZERO, segment, len) {
            Verdict::Reopen => return Next::Reopen,
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

    /// PAWS (RFC 7323 §5.3) and the sequence number (RFC 9293 §3.10.7.4, first).
    ///
    /// # Errors
    /// What becomes of the connection, when the segment is not acceptable.
    fn check(&mut self, now: Nanos, segment: &Header, len: u32) -> Result<(), Next> {
        let is_reset = segment.flags.contains(Flags::RST);
        if self.has_timestamps && !is_reset {
            match segment.options.timestamps {
                // RFC 7323 §3.2: every segment has them once both SYNs had.
                None => return Err(Next::Stay),
                Some(timestamps) if self.is_older(timestamps.val) => {
                    self.answer_unacceptable(now, segment, len);
                    return Err(Next::Stay);
                }
                Some(_) => {}
            }
        }
        let occupied = segment.sequence_len(len);
        let end = segment.seq + occupied;
        let not_old = if occupied == 0 {
            end.at_or_after(self.last_ack_sent())
        } else {
            end.after(self.rcv_nxt)
        };
        let not_beyond = segment.seq.at_or_before(self.rcv_edge.max(self.rcv_nxt));
        if not_old && not_beyond {
            return Ok(());
        }
        if is_reset {
            return Err(Next::Stay);
        }
        self.answer_unacceptable(now, segment, len);
        let next = match not_beyond {
            true => self.take_ack_of_old(now, segment, len),
            false => None,
        };
        Err(next.unwrap_or(Next::Stay))
    }

    /// The ACK field of a segment whose payload is old counts, if it says something new and the segment can be the peer's.
    fn take_ack_of_old(&mut self, now: Nanos, segment: &Header, len: u32) -> Option<Next> {
        let flags = segment.flags;
        if flags.contains(Flags::SYN) || !flags.contains(Flags::ACK) {
            return None;
        }
        let window = self.rcv_nxt.distance_to(self.rcv_edge.max(self.rcv_nxt));
        let oldest = self.rcv_nxt - window - 1;
        let brings_news = segment.ack.after(self.una) && segment.ack.at_or_before(self.nxt);
        if brings_news && segment.seq.at_or_after(oldest) {
            return self.take_ack(now, segment, len);
        }
        None
    }

    fn answer_unacceptable(&mut self, now: Nanos, segment: &Header, len: u32) {
        if len > 0 || segment.flags.contains(Flags::FIN) {
            self.owes.ack = true;
        } else {
            self.challenge(now);
        }
    }

    /// Acknowledges what can't be right, now and then (RFC 5961 §7).
    fn challenge(&mut self, now: Nanos) {
        let now = millis(now);
        if now.wrapping_sub(self.next_challenge) as i32 >= 0 {
            self.next_challenge = now.wrapping_add(CHALLENGE_INTERVAL);
            self.owes.ack = true;
        }
    }

    fn last_ack_sent(&self) -> SeqNum {
        self.rcv_nxt - u32::from(self.fin_unacknowledged)
    }

    fn is_older(&self, timestamp: u32) -> bool {
        SeqNum(timestamp).before(SeqNum(self.recent))
    }

    /// RFC 5961 §5.2: neither of what was never sent, nor older than the peer's largest window.
    fn has_credible_ack(&self, segment: &Header) -> bool {
        let oldest = self.una - self.max_wnd;
        segment.ack.at_or_before(self.nxt) && segment.ack.at_or_after(oldest)
    }

    /// RFC 9293 §3.10.7.4, fifth. `None` to go on with the segment.
    fn take_ack(&mut self, now: Nanos, segment: &Header, len: u32) -> Option<Next> {
        let ack = segment.ack;
        if ack.before(self.una) {
            return None;
        }
        let window = self.wnd;
        self.note_window(segment.seq, ack, segment.window);
        if !self.is_anything_outstanding() {
            // The ACK can only bring a window.
            return None;
        }
        if ack.after(self.una) {
            self.advance(now, ack);
            return self.on_advanced(now);
        }
        let is_duplicate = len == 0 && !segment.flags.contains(Flags::FIN) && self.wnd == window;
        if is_duplicate {
            self.count_duplicate();
        }
        None
    }

    fn advance(&mut self, now: Nanos, ack: SeqNum) {
        let segments = self.una.distance_to(ack).div_ceil(u32::from(self.mss));
        self.una = ack;
        self.send = self.send.max(ack);
        self.tries = 0;
        self.duplicates = 0;
        if self.cwnd != OPEN {
            // Slow start (RFC 5681 §3.1).
            self.cwnd = self.cwnd.saturating_add(segments.min(255) as u8);
        }
        if ack.after(self.recover) {
            // It is of what was sent once, and would be measured (RFC 6298 §3 and §5).
            self.backoff = 0;
        }
        if self.in_fast_recovery {
            // A partial ACK names the next that was lost (RFC 6582 §3.2).
            self.in_fast_recovery = ack.before(self.recover);
            self.owes.oldest = self.in_fast_recovery;
        }
        self.recover = self.recover.max(ack);
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
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.deadline = now + Nanos::from(self.fin_wait2_ms) * MILLISECOND;
                None
            }
            State::Closing => {
                self.enter_time_wait(now);
                Some(Next::Stay)
            }
            State::LastAck => Some(Next::End),
            _ => None,
        }
    }

    /// RFC 5681 §3.2, RFC 6582 §3.2: three of them, and no recovery under way.
    fn count_duplicate(&mut self) {
        self.duplicates = self.duplicates.saturating_add(1);
        let is_quiet = !self.in_fast_recovery && self.una.at_or_after(self.recover);
        if self.duplicates == 3 && is_quiet {
            self.in_fast_recovery = true;
            self.recover = self.nxt;
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
        if len > 0 && end.after(self.rcv_nxt) {
            // RFC 1122 §4.2.2.13: nobody will read it, and the peer should know.
            return Next::Abort;
        }
        if fin && end == self.rcv_nxt {
            self.rcv_nxt += 1;
            self.fin_unacknowledged = true;
            match self.state {
                State::FinWait1 => self.state = State::Closing,
                _ => self.enter_time_wait(now),
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
