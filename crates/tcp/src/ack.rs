//! Acknowledgments of what we sent (RFC 9293 §3.10.7.4, fifth).

use wire::SeqNum;
use wire::tcp::{Flags, Header};

use crate::congestion::Acknowledged;
use crate::recovery::Progress;
use crate::sack::Delivery;
use crate::time::{MILLISECOND, Nanos, Time};
use crate::{CloseReason, Connection, State};

impl Connection {
    /// Takes the credible acknowledgment of an acceptable segment. Returns whether to go on with the segment.
    pub(crate) fn take_ack(&mut self, now: Time, segment: &Header, payload_len: u32) -> bool {
        let ack = segment.ack;
        self.probes = 0;
        if ack.before(self.snd.una) {
            return true;
        }
        let window_before = self.snd.window.bytes();
        self.take_window(now, segment);
        let changes_window = self.snd.window.bytes() != window_before;
        if self.snd.una == self.snd.nxt {
            // Nothing is outstanding: the ACK can bring a window, and tell what came twice.
            self.take_late_report(now, segment);
            return true;
        }

        let advanced = self.snd.una.distance_to(ack);
        let echo = segment
            .options
            .timestamps
            .filter(|_| self.options.timestamps)
            .map(|t| t.echo);
        let mut delivery = Delivery::new(
            now,
            self.rtt.minimum(),
            echo.map(|echo| (echo, self.timestamps.value(Time(0)))),
        );
        if advanced > 0 {
            self.advance(now, ack, advanced, &mut delivery);
        }
        let reported_twice = self.take_sack(segment, &mut delivery);
        let duplicate = !self.options.sack
            && advanced == 0
            && payload_len == 0
            && !segment.flags.contains(Flags::FIN)
            && !changes_window;
        let sample = self.sample_rtt(now, echo, &delivery);
        self.rack.update(&delivery);
        self.rack.note_acknowledged(ack);
        let flight = self.flight() + advanced;
        let news = advanced > 0 || delivery.bytes > 0 || changes_window;
        self.judge_probe(reported_twice.is_some(), news, flight);

        let progress = Progress {
            advanced,
            delivered: delivery.bytes,
            original: delivery.once.is_some(),
            resent: delivery.again,
            duplicate,
            reported_twice,
            echo,
        };
        let mut counted = delivery.bytes.min(self.recover(now, &progress));
        if self.ecn.is_on() && self.take_echo(segment.flags, flight) {
            counted = 0;
        }
        if counted > 0 && advanced > 0 {
            self.grow_cwnd(now, counted, sample);
        }
        self.go_on_after_ack(now, advanced, delivery.bytes)
    }

    /// Takes the window that an acknowledgment brings.
    #[inline]
    fn take_window(&mut self, now: Time, segment: &Header) {
        let window = u32::from(segment.window) << self.options.snd_shift;
        self.snd.window.note(segment.seq, segment.ack, window);
        if self.snd.window.bytes() == 0 && self.waits_for_window() {
            // RFC 9293 §3.8.6.1: a peer that answers is alive, however long its window stays closed.
            self.snd.progress_at = now;
        }
    }

    /// Takes what the peer says it got twice, when it has acknowledged all (RFC 8985 §7.4.2, RFC 3708).
    fn take_late_report(&mut self, now: Time, segment: &Header) {
        let reported_twice = self.take_sack(segment, &mut Delivery::new(now, None, None));
        if reported_twice.is_some() {
            self.judge_probe(true, false, 0);
            self.try_undo(&Progress {
                reported_twice,
                ..Progress::default()
            });
        }
    }

    /// Has congestion control grow its window for `bytes` that were acknowledged, if all of it was used.
    #[inline]
    fn grow_cwnd(&mut self, now: Time, bytes: u32, rtt: Option<Nanos>) {
        if self.snd.is_cwnd_limited(&self.congestion) {
            self.congestion.on_ack(&Acknowledged {
                now,
                bytes,
                una: self.snd.una,
                nxt: self.snd.nxt,
                rtt,
                smoothed_rtt: self.rtt.smoothed().unwrap_or(0),
            });
        }
    }

    /// Arms timers behind an ACK. Returns whether to go on with the segment.
    #[inline]
    fn go_on_after_ack(&mut self, now: Time, advanced: u32, delivered: u32) -> bool {
        if advanced > 0 {
            self.snd.due.tail_probe = false;
            self.arm_loss_timer(now);
            return self.on_advanced(now);
        }
        // RFC 8985 §7.2: with something selectively acknowledged the retransmission timer takes over.
        if delivered > 0 && !self.timers.is_set(crate::timer::Timer::Retransmit) {
            self.arm_loss_timer(now);
        }
        true
    }

    fn advance(&mut self, now: Time, ack: SeqNum, advanced: u32, delivery: &mut Delivery) {
        self.board.acknowledge(ack, delivery);
        self.snd.advance(ack);
        self.snd.progress_at = now;
        self.rtt.backoff.progressed();
        let fin = u32::from(ack.after(self.snd.write_seq));
        self.stats.bytes_acked += u64::from(advanced - fin);
        self.events.acked |= advanced > fin;
    }

    /// Takes the SACK blocks of an ACK (RFC 2018 §5). Returns what the peer says it got twice (RFC 2883).
    fn take_sack(&mut self, segment: &Header, delivery: &mut Delivery) -> Option<(SeqNum, SeqNum)> {
        if !self.options.sack || segment.options.sack.is_empty() {
            return None;
        }
        let (una, nxt) = (self.snd.una, self.snd.nxt);
        let mut blocks = [(una, una); 4];
        let mut count = 0;
        let mut twice = None;
        let reported = segment.options.sack.as_slice();
        for (index, &(start, end)) in reported.iter().enumerate() {
            if !start.before(end) || end.after(nxt) {
                continue;
            }
            let below = end.at_or_before(una);
            let inside_second = index == 0
                && reported
                    .get(1)
                    .is_some_and(|&(s, e)| s.at_or_before(start) && end.at_or_before(e));
            if index == 0 && (below || inside_second) {
                // A report about long ago would be about another lap of the sequence space.
                if start.at_or_after(una - self.snd.window.largest()) {
                    twice = Some((start, end));
                    self.note_duplicate(end);
                }
            } else if start.at_or_after(una) {
                blocks[count] = (start, end);
                count += 1;
            }
        }
        // In order of sequence, so that a later block does not make an earlier one look reordered.
        let blocks = &mut blocks[..count];
        blocks.sort_unstable_by_key(|block| una.distance_to(block.0));
        for &mut (start, end) in blocks {
            self.board.sack(start, end, delivery);
        }
        twice
    }

    /// The peer got something twice, which ends here. What was lost too early says that packets are reordered; a probe does not, nor does what the
    /// network has doubled (RFC 8985 §6.2).
    fn note_duplicate(&mut self, end: SeqNum) {
        self.stats.duplicates += 1;
        let is_of_probe = self.rack.probe == Some((end, true));
        if !is_of_probe && self.stats.duplicates <= self.stats.resent {
            self.rack.widen(self.snd.una, self.snd.nxt);
        }
    }

    /// Takes a sample of the round-trip time: from what was sent once (Karn), or from the timestamp (RFC 7323 §4.1).
    fn sample_rtt(&mut self, now: Time, echo: Option<u32>, delivery: &Delivery) -> Option<Nanos> {
        // Without SACK, what a filled gap acknowledges may have arrived long ago.
        let clear = self.options.sack || delivery.newest.is_none_or(|(_, _, again)| !again);
        if let Some((oldest, newest)) = delivery.once.filter(|_| clear) {
            self.rtt.sample_coarse(now.since(oldest));
            if self.rtt.note_minimum(now, now.since(newest)) {
                self.reconsider_path(now);
            }
            return Some(now.since(newest));
        }
        let echo = echo.filter(|&echo| echo != 0 && delivery.in_order > 0)?;
        let elapsed = self.timestamps.value(now).wrapping_sub(echo);
        /// A clock that went wrong, or a peer that echoes nonsense.
        const IMPLAUSIBLE: u32 = 600_000;
        if elapsed < IMPLAUSIBLE {
            // The clock ticks in milliseconds: half a tick is the best guess for 0 ticks.
            let rtt = (u64::from(elapsed) * MILLISECOND).max(MILLISECOND / 2);
            self.rtt.sample_coarse(rtt);
        }
        None
    }

    /// `una` moved on: perhaps our FIN is acknowledged (RFC 9293 §3.10.7.4). Returns whether to go on.
    fn on_advanced(&mut self, now: Time) -> bool {
        if self.snd.una.at_or_before(self.snd.write_seq) {
            return true;
        }
        match self.state.on_fin_acknowledged() {
            State::FinWait2 => {
                self.state = State::FinWait2;
                if self.detached {
                    let until = now.after(self.settings.fin_wait_2());
                    self.timers.set(crate::timer::Timer::Linger, until);
                }
                true
            }
            State::TimeWait => {
                self.enter_time_wait(now);
                false
            }
            State::Closed => {
                self.finish(CloseReason::Graceful);
                false
            }
            _ => true,
        }
    }
}
