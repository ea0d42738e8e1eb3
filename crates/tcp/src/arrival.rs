//! Segments that arrive (RFC 9293 §3.10.7).

use std::time::Instant;

use wire::SeqNum;
use wire::tcp::{Flags, Header};

use crate::time::Time;
use crate::timer::Timer;
use crate::{Acceptance, CloseReason, Connection, ReceiveSpace, Received, SendSpace, State};

/// What tells a segment that ends or begins a connection from all others.
const CONTROL: Flags = Flags::RST.union(Flags::SYN).union(Flags::ACK);

impl Connection {
    /// Takes a segment of this connection: its header, the bytes of its payload, and the packets that it came in
    /// (more than one after LRO).
    pub fn handle_segment(
        &mut self,
        now: Instant,
        segment: &Header,
        payload_len: u32,
        wire_segments: u16,
    ) -> Received {
        let now = self.time(now);
        self.stats.segments_in += 1;
        match self.state {
            State::Closed => Received::default(),
            State::SynSent => {
                self.arrives_in_syn_sent(now, segment);
                Received::default()
            }
            _ => self.arrives(now, segment, payload_len, wire_segments),
        }
    }

    /// RFC 9293 §3.10.7.3.
    fn arrives_in_syn_sent(&mut self, now: Time, segment: &Header) {
        let has_ack = segment.flags.contains(Flags::ACK);
        let ack_is_good = has_ack && self.snd.nxt != self.snd.iss && segment.ack == self.snd.nxt;
        if has_ack && !ack_is_good {
            if !segment.flags.contains(Flags::RST) {
                self.snd.reset_at = Some(segment.ack);
            }
            return;
        }
        if segment.flags.contains(Flags::RST) {
            if ack_is_good {
                self.finish(CloseReason::Refused);
            }
            return;
        }
        if !segment.flags.contains(Flags::SYN) {
            return;
        }
        self.heard_at = now;
        self.take_syn(now, segment);
        self.ecn.take_answer(segment);
        if has_ack {
            self.complete_handshake(now, segment.ack);
            self.rcv.ack.now = true;
        } else {
            // Both open at once (RFC 9293 §3.5, figure 7).
            self.state = State::SynReceived;
            self.snd.due.syn = true;
        }
    }

    /// RFC 9293 §3.10.7.4.
    fn arrives(&mut self, now: Time, segment: &Header, payload_len: u32, packets: u16) -> Received {
        let flags = segment.flags;
        let nothing = Received::default();
        if self.state == State::SynReceived && self.is_answer_to_our_syn(segment) {
            // Both opened at once: the peer's SYN-ACK repeats the SYN that we have.
            self.complete_handshake(now, segment.ack);
            self.rcv.ack.now = true;
            return nothing;
        }
        if !self.is_acceptable(now, segment, payload_len) {
            return nothing;
        }
        if flags.0 & CONTROL.0 != Flags::ACK.0 {
            self.take_control(now, segment);
            return nothing;
        }
        if self.state == State::SynReceived && !self.leaves_syn_received(now, segment) {
            return nothing;
        }
        if !self.sent().is_credible(segment.ack) {
            self.challenge(now);
            return nothing;
        }
        // Only now: who can't guess an ACK must not make the peer's own segments look old.
        if let Some(value) = self.received(now).takes_timestamp(segment) {
            self.timestamps.set(now, value);
        }
        self.heard_at = now;
        if self.state == State::TimeWait {
            if payload_len > 0 || flags.contains(Flags::FIN) {
                self.rcv.ack.now = true;
            }
            return nothing;
        }
        if !self.take_ack(now, segment, payload_len) {
            return nothing;
        }
        if self.detached && payload_len > 0 && self.state.may_receive() {
            let new = (segment.seq + payload_len).after(self.rcv.nxt);
            if new {
                // RFC 1122 §4.2.2.13: it will not be read, and the peer should know.
                self.abort();
                return nothing;
            }
        }
        self.take_payload(now, segment, payload_len, packets)
    }

    /// A segment with RST or SYN, or without ACK (RFC 9293 §3.10.7.4, second to fifth).
    #[cold]
    fn take_control(&mut self, now: Time, segment: &Header) {
        if segment.flags.contains(Flags::RST) {
            self.take_reset(now, segment);
        } else if segment.flags.contains(Flags::SYN) {
            // RFC 5961 §4.2.
            self.challenge(now);
        }
    }

    /// PAWS (RFC 7323 §5.3) and the sequence number (RFC 9293 §3.10.7.4, first).
    fn is_acceptable(&mut self, now: Time, segment: &Header, payload_len: u32) -> bool {
        let acceptance = self.received(now).check(segment, payload_len);
        match acceptance {
            Acceptance::Acceptable => return true,
            Acceptance::Ignored => return false,
            Acceptance::Old if self.is_syn_again(segment) => {
                // The peer did not get our SYN-ACK.
                self.ecn.take_syn_again(segment);
                self.snd.due.syn = true;
                return false;
            }
            Acceptance::Stale | Acceptance::Old | Acceptance::Beyond => {}
        }
        self.note_old_data(segment, payload_len);
        let is_probe = acceptance == Acceptance::Old && self.received(now).is_probe(segment);
        self.answer_unacceptable(now, segment, payload_len, is_probe);
        if acceptance == Acceptance::Old {
            self.take_ack_of_old(now, segment, payload_len);
        }
        false
    }

    fn is_syn_again(&self, segment: &Header) -> bool {
        self.state == State::SynReceived
            && segment.flags.contains(Flags::SYN)
            && segment.seq + 1 == self.rcv.nxt
    }

    fn received(&self, now: Time) -> ReceiveSpace {
        let rcv = &self.rcv;
        ReceiveSpace {
            nxt: rcv.nxt,
            last_ack_sent: rcv.last_ack_sent,
            edge: rcv.edge,
            timestamps: self.options.timestamps,
            recent: self.timestamps.current(now),
        }
    }

    fn sent(&self) -> SendSpace {
        SendSpace {
            una: self.snd.una,
            nxt: self.snd.nxt,
            largest_window: self.snd.window.largest(),
        }
    }

    fn take_ack_of_old(&mut self, now: Time, segment: &Header, payload_len: u32) {
        let rests = !self.state.is_synchronized() || self.state == State::TimeWait;
        let oldest = self.rcv.oldest();
        if !rests && self.sent().takes_ack_of_old(segment, oldest) {
            self.heard_at = now;
            self.take_ack(now, segment, payload_len);
        }
    }

    /// Data that came again is reported (RFC 2883 §4).
    fn note_old_data(&mut self, segment: &Header, payload_len: u32) {
        let end = segment.seq + payload_len;
        if payload_len > 0 && self.options.sack && end.at_or_before(self.rcv.nxt) {
            self.rcv.ranges.note_duplicate(segment.seq, end);
        }
    }

    fn answer_unacceptable(
        &mut self,
        now: Time,
        segment: &Header,
        payload_len: u32,
        is_probe: bool,
    ) {
        let occupies = payload_len > 0 || segment.flags.contains(Flags::FIN);
        if occupies || is_probe {
            self.rcv.ack.now = true;
            if self.state == State::TimeWait && occupies {
                // RFC 9293 §3.10.7.4: the peer's FIN again restarts the rest.
                self.timers
                    .set(Timer::Linger, now.after(self.settings.time_wait()));
            }
        } else {
            self.challenge(now);
        }
    }

    /// RFC 5961 §3.2.
    fn take_reset(&mut self, now: Time, segment: &Header) {
        if segment.seq != self.rcv.nxt {
            self.challenge(now);
            return;
        }
        match self.state {
            // RFC 1337: a RST does not cut TIME-WAIT short.
            State::TimeWait => {}
            State::SynReceived if !self.passive => self.finish(CloseReason::Refused),
            State::Closing | State::LastAck => self.finish(CloseReason::Graceful),
            _ => self.finish(CloseReason::Reset),
        }
    }

    fn is_answer_to_our_syn(&self, segment: &Header) -> bool {
        let wanted = Flags::SYN | Flags::ACK;
        segment.flags.contains(wanted)
            && !segment.flags.contains(Flags::RST)
            && segment.seq + 1 == self.rcv.nxt
            && segment.ack == self.snd.nxt
            && self.snd.nxt != self.snd.iss
    }

    /// RFC 9293 §3.10.7.4, fifth, SYN-RECEIVED.
    fn leaves_syn_received(&mut self, now: Time, segment: &Header) -> bool {
        if segment.ack != self.snd.nxt || self.snd.nxt == self.snd.iss {
            self.snd.reset_at = Some(segment.ack);
            return false;
        }
        // From here on windows are scaled.
        let window = u32::from(segment.window) << self.options.snd_shift;
        self.snd.window.note(segment.seq, segment.ack, window);
        self.complete_handshake(now, segment.ack);
        true
    }

    fn complete_handshake(&mut self, now: Time, ack: SeqNum) {
        debug_assert_eq!(ack, self.snd.iss + 1);
        let rtt = (self.snd.syn_retries == 0).then(|| now.since(self.snd.sent_at));
        self.snd.due.syn = false;
        self.acknowledge_syn();
        self.establish(now, rtt);
    }

    /// The peer will send no more (RFC 9293 §3.10.7.4, eighth).
    pub(crate) fn on_peer_fin(&mut self, now: Time) {
        self.events.peer_fin = true;
        match self.state.on_peer_fin() {
            State::TimeWait => self.enter_time_wait(now),
            state => self.state = state,
        }
    }

    pub(crate) fn enter_time_wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.timers.cancel_all();
        self.timers
            .set(Timer::Linger, now.after(self.settings.time_wait()));
        self.events.time_wait = true;
    }

    /// Acknowledges what can't be right, now and then (RFC 5961 §7).
    pub(crate) fn challenge(&mut self, now: Time) {
        self.rcv.ack.now |= self.challenges.admits(now.millis());
    }
}
