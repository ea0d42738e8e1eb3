//! The sending half: what goes out next (RFC 9293 §3.8, §3.10.7).

use std::time::Instant;

use wire::tcp::{Flags, Header, SackBlocks};
use wire::{Ecn, SeqNum};

use crate::frto::Frto;
use crate::recovery::Phase;
use crate::tcb::CORK_LIMIT;
use crate::time::{MILLISECOND, Time};
use crate::timer::Timer;
use crate::{Backoff, Connection, State, Transmit};

impl Connection {
    /// Whether [`Self::poll_transmit`] may give a segment: something is to be sent, whether or not the windows allow it.
    #[inline]
    pub fn has_output(&self) -> bool {
        let snd = &self.snd;
        self.rcv.ack.now
            || snd.unsent() > 0
            || snd.fin_unsent()
            || snd.due.is_any()
            || snd.reset_at.is_some()
            || self.board.lost() > 0
    }

    /// The next segment to send, if any may be sent now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.is_parked() {
            return None;
        }
        let now = self.time(now);
        if let Some(seq) = self.snd.reset_at.take() {
            return Some(self.reset_segment(now, seq));
        }
        match self.state {
            State::Closed => None,
            State::SynSent => self.poll_syn(now),
            State::SynReceived => self.poll_syn(now).or_else(|| self.poll_ack(now)),
            State::FinWait2 | State::TimeWait => {
                self.poll_probe(now).or_else(|| self.poll_ack(now))
            }
            _ => {
                // What SACK has to tell goes in an ACK of its own, so that data packets keep their size.
                if self.rcv.ack.now && self.options.sack && self.rcv.has_report() {
                    return self.poll_ack(now);
                }
                self.poll_resend(now)
                    .or_else(|| self.poll_new(now))
                    .or_else(|| self.poll_tail_probe(now))
                    .or_else(|| self.poll_probe(now))
                    .or_else(|| self.poll_ack(now))
            }
        }
    }

    /// The SYN or SYN-ACK (RFC 9293 §3.5).
    fn poll_syn(&mut self, now: Time) -> Option<Transmit> {
        if !std::mem::take(&mut self.snd.due.syn) {
            return None;
        }
        let answers = self.state == State::SynReceived;
        let timestamps = self.timestamps.option(now);
        let window = self.rcv.buffer().min(u32::from(u16::MAX)) as u16;
        let header = Header {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq: self.snd.iss,
            ack: if answers { self.rcv.nxt } else { SeqNum(0) },
            flags: if answers {
                Flags::SYN | Flags::ACK | self.ecn.syn_ack_flags()
            } else {
                Flags::SYN | self.ecn.syn_flags(self.snd.syn_retries)
            },
            window,
            options: self.options.syn_options(self.settings.adv_mss, timestamps),
            ecn: Ecn::NotEct,
        };
        if self.snd.nxt == self.snd.iss {
            // What answers a repetition may answer the first (RFC 6298 §3): the time counts from that.
            self.snd.sent_at = now;
        }
        self.snd.nxt = self.snd.iss + 1;
        if self.rtt.backoff.doublings() == 0 {
            self.snd.progress_at = now;
        }
        self.rcv.ack.now = false;
        // A SYN that comes again and again does not put off the end of our patience.
        if !self.timers.is_set(Timer::Retransmit) {
            self.timers
                .set(Timer::Retransmit, now.after(self.syn_timeout(now)));
        }
        Some(Transmit {
            header,
            payload: 0,
            mss: self.snd.mss,
            retransmit: self.snd.syn_retries > 0,
        })
    }

    /// What is thought lost (RFC 6675 §5, NextSeg rule 1).
    fn poll_resend(&mut self, now: Time) -> Option<Transmit> {
        if self.board.lost() == 0 || self.recovery.frto == Frto::Probing {
            self.snd.due.resend = false;
            return None;
        }
        let mss = u32::from(self.snd.mss);
        let budget = self.congestion.cwnd().saturating_sub(self.pipe());
        if budget < mss && !self.snd.due.resend {
            self.snd.round.is_cwnd_limited = true;
            return None;
        }
        if self.waits_for_pacer(now) && !self.snd.due.resend {
            return None;
        }
        let limit = budget.min(self.burst_limit()).max(mss);
        let (start, mut end) = self.board.next_lost(limit - limit % mss)?;
        if end == self.snd.write_seq && self.board.is_lost(end) {
            // The FIN went in the last packet, and does so again.
            end += 1;
        }
        // RFC 9293 §3.8.6: a peer that has taken back its window is probed with what is oldest only.
        let mut edge = self.snd.una + self.snd.window.bytes();
        if self.snd.due.resend {
            edge = edge.max(self.snd.una + mss);
        }
        if start.at_or_after(edge) {
            return None;
        }
        end = end.min(edge);
        self.snd.due.resend = false;
        Some(self.resend(now, start, end))
    }

    fn resend(&mut self, now: Time, start: SeqNum, end: SeqNum) -> Transmit {
        let bytes = start.distance_to(end);
        self.board.mark_resent(start, end, now, self.snd.mss);
        self.recovery.note_sent(bytes);
        let timestamp = self.timestamps.value(now);
        // A peer may report what it got twice with the FIN or without.
        let fin = start.before(self.snd.write_seq) && end.after(self.snd.write_seq);
        self.recovery
            .note_resent(start, end - u32::from(fin), timestamp);
        self.stats.resent += 1;
        self.snd.sent_at = now;
        let transmit = self.data_segment(now, start, end, true);
        self.stats.bytes_resent += u64::from(transmit.payload);
        if !self.timers.is_set(Timer::Retransmit) && !self.timers.is_set(Timer::Probe) {
            self.arm_loss_timer(now);
        }
        transmit
    }

    /// Data that was never sent, and the FIN.
    fn poll_new(&mut self, now: Time) -> Option<Transmit> {
        let queued = self.snd.unsent();
        let fin = self.snd.fin_unsent();
        if queued == 0 && !fin || self.waits_for_pacer(now) {
            return None;
        }
        if self.snd.una == self.snd.nxt {
            self.restart_after_idle(now);
        }
        if self.searches_path()
            && let Some(probe) = self.poll_path_probe(now, queued)
        {
            return Some(probe);
        }
        let len = self.sendable(now, queued, fin);
        let with_fin = fin && len == queued && self.snd.window_room() > len;
        if len == 0 && !with_fin {
            self.watch_window(now);
            return None;
        }
        Some(self.send_new(now, len, with_fin))
    }

    pub(crate) fn send_new(&mut self, now: Time, len: u32, with_fin: bool) -> Transmit {
        let mss = u32::from(self.snd.mss);
        let was_idle = self.snd.una == self.snd.nxt;
        let start = self.snd.nxt;
        let end = start + len + u32::from(with_fin);
        self.snd.nxt = end;
        self.board.push(start, end, now, self.snd.mss);
        self.recovery.note_sent(len);
        let is_short = !len.is_multiple_of(mss);
        if is_short {
            self.snd.short_end = end;
        }
        if is_short || self.snd.unsent() == 0 {
            self.snd.flush = false;
            self.timers.cancel(Timer::Cork);
        } else if !self.snd.cork {
            self.snd.flush = false;
        } else if !self.snd.flush {
            // What is left waits for itself.
            self.timers.cancel(Timer::Cork);
        }
        let flight = self.pipe();
        let limited = self.congestion.cwnd() < flight.saturating_add(mss);
        self.snd.note_use(flight, limited);
        self.snd.sent_at = now;
        if was_idle {
            self.snd.progress_at = now;
            if self.timers.is_set(Timer::Persist) {
                self.timers.cancel(Timer::Persist);
                self.rtt.backoff = Backoff::default();
            }
            self.snd.fill_window = false;
        }
        if std::mem::take(&mut self.snd.due.tail_probe) {
            // RFC 8985 §7.3: new data is as good a probe.
            self.rack.probe = Some((self.snd.nxt, false));
        }
        if len > 0 {
            self.rcv.note_interactive();
        }
        if !self.timers.is_set(Timer::Retransmit) {
            self.arm_loss_timer(now);
        }
        self.data_segment(now, start, end, false)
    }

    /// How many bytes of the `queued` may be sent now, in one Transmit.
    fn sendable(&mut self, now: Time, queued: u32, fin: bool) -> u32 {
        let mss = u32::from(self.snd.mss);
        let window = self.snd.window_room();
        let budget = self.congestion.cwnd().saturating_sub(self.pipe());
        let room = window.min(budget);
        let limit = room.min(self.burst_limit());
        if queued <= limit {
            let short = queued % mss;
            return if short > 0 && !fin && self.holds_back_short(now) {
                queued - short
            } else {
                queued
            };
        }
        if budget < window && budget < queued {
            self.snd.round.is_cwnd_limited = true;
        }
        if limit < mss {
            return self.silly_window(queued.min(mss).min(window), window, budget);
        }
        if self.defers(room) && self.may_wait(now) {
            0
        } else {
            limit - limit % mss
        }
    }

    /// A window smaller than a segment is used only if it is half of the largest ever, or the override timer says so
    /// (RFC 9293 §3.8.6.2.1).
    fn silly_window(&mut self, len: u32, window: u32, budget: u32) -> u32 {
        let idle = self.snd.una == self.snd.nxt;
        let worth_it = self.snd.window.is_worth(len) || self.snd.fill_window;
        if idle && window > 0 && budget >= len && worth_it {
            len
        } else {
            0
        }
    }

    /// A short segment waits: for the last one to be acknowledged (Nagle, in Minshall's variant), or for the cork.
    fn holds_back_short(&mut self, now: Time) -> bool {
        if self.snd.cork && !self.snd.flush {
            if !self.timers.is_set(Timer::Cork) {
                self.timers.set(Timer::Cork, now.after(CORK_LIMIT));
            }
            return true;
        }
        self.settings.nagle && self.snd.short_end.after(self.snd.una)
    }

    /// More may be sent soon, when ACKs come: wait for a larger segment (as Linux's `tcp_tso_should_defer`). It never
    /// waits with less than two thirds of the window in flight.
    fn defers(&self, room: u32) -> bool {
        let third = self.congestion.cwnd().min(self.snd.window.bytes()) / 3;
        // Each duplicate ACK lets a segment go at once (RFC 3042).
        let clock_is_steady = self.recovery.phase == Phase::Open
            && self.board.sacked() == 0
            && self.recovery.inferred_sacked(1) == 0;
        clock_is_steady && self.pipe() > 0 && room < self.burst_limit().min(third)
    }

    /// Half a round trip is long enough to wait: the ACK may be lost, or not worth sending to the peer.
    fn may_wait(&mut self, now: Time) -> bool {
        if self.snd.flush {
            return false;
        }
        if !self.timers.is_set(Timer::Cork) {
            let half = self.rtt.smoothed().map_or(CORK_LIMIT, |rtt| rtt / 2);
            let limit = half.clamp(MILLISECOND, CORK_LIMIT);
            self.timers.set(Timer::Cork, now.after(limit));
        }
        true
    }

    /// Largest segment to hand over at once: at most half the window, so that ACKs go on coming.
    fn burst_limit(&self) -> u32 {
        let mss = u32::from(self.snd.mss);
        let limit = self
            .snd
            .most_at_once
            .min(self.congestion.cwnd() / 2)
            .max(mss);
        limit - limit % mss
    }

    /// After a pause the window says nothing about the path any more (RFC 5681 §4.1).
    fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.snd.sent_at);
        let rto = self.rtt.base_rto();
        if idle > rto && self.snd.sent_at > Time(0) {
            self.congestion.on_idle(idle, rto);
            self.recovery.forget_window();
            self.snd.sent_at = now;
        }
    }

    /// Data waits, nothing is in flight and the window does not let it go: probe the window from time to time.
    fn watch_window(&mut self, now: Time) {
        let idle = self.snd.una == self.snd.nxt;
        if idle && !self.timers.is_set(Timer::Persist) && !self.timers.is_set(Timer::Cork) {
            self.snd.progress_at = now;
            self.timers
                .set(Timer::Persist, now.after(self.retransmission_timeout(now)));
        }
    }

    /// A tail loss probe (RFC 8985 §7.3): new data if there is some, else the last segment again.
    fn poll_tail_probe(&mut self, now: Time) -> Option<Transmit> {
        if !std::mem::take(&mut self.snd.due.tail_probe) || self.snd.una == self.snd.nxt {
            return None;
        }
        let mss = u32::from(self.snd.mss);
        let new = self.snd.unsent().min(mss).min(self.snd.window_room());
        let transmit = if new > 0 {
            let transmit = self.send_new(now, new, false);
            self.rack.probe = Some((self.snd.nxt, false));
            transmit
        } else {
            let last = self.board.last_unsacked()?;
            let (mut start, end) = (last.start, last.end);
            let fin = u32::from(end.after(self.snd.write_seq));
            let bytes = start.distance_to(end) - fin;
            if bytes > mss {
                let behind = (bytes - 1) % mss + 1;
                start = end - fin - behind;
            }
            let transmit = self.resend(now, start, end);
            self.rack.probe = Some((self.snd.nxt, true));
            transmit
        };
        self.arm_loss_timer(now);
        Some(transmit)
    }

    /// A keep-alive or window probe: an empty segment that the peer must answer (RFC 9293 §3.8.4, §3.8.6.1).
    fn poll_probe(&mut self, now: Time) -> Option<Transmit> {
        if !std::mem::take(&mut self.snd.due.probe) {
            return None;
        }
        // The peer drops it but for its answer: an ACK that it is owed leaves besides.
        let is_owed = self.rcv.ack.now;
        let probe = self.empty_segment(now, self.snd.una - 1, SackBlocks::EMPTY);
        self.rcv.ack.now = is_owed;
        Some(probe)
    }

    fn poll_ack(&mut self, now: Time) -> Option<Transmit> {
        if !self.rcv.ack.now {
            return None;
        }
        let mut blocks = SackBlocks::EMPTY;
        if self.options.sack && self.rcv.has_report() {
            blocks = self.rcv.take_report(self.max_sack_blocks());
        }
        Some(self.empty_segment(now, self.acceptable_seq(), blocks))
    }
}
