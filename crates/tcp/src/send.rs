//! The sending half: what goes out next (RFC 9293 §3.8, §3.10.7).

use std::time::Instant;

use wire::SeqNum;
use wire::tcp::{Flags, Header, Options, SackBlocks};

use crate::congestion::Congestion;
use crate::recovery::Phase;
use crate::tcb::CORK_LIMIT;
use crate::time::Time;
use crate::timer::Timer;
use crate::{Backoff, Connection, PeerWindow, State, Tcb, Transmit};

#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) iss: SeqNum,
    /// SND.UNA.
    pub(crate) una: SeqNum,
    /// SND.NXT; it never goes back.
    pub(crate) nxt: SeqNum,
    /// Position of the next byte to be queued; of the FIN once that is queued.
    pub(crate) write_seq: SeqNum,
    pub(crate) window: PeerWindow,
    /// End of the last short segment (Minshall's variant of Nagle's algorithm).
    short_end: SeqNum,
    /// Payload bytes per packet.
    pub(crate) mss: u16,
    pub(crate) fin_queued: bool,
    pub(crate) cork: bool,
    /// A short segment may go out although corked.
    pub(crate) flush: bool,
    /// The SYN or SYN-ACK is to be sent.
    pub(crate) syn_due: bool,
    pub(crate) syn_retries: u8,
    /// A segment may be resent whatever the window.
    pub(crate) resend_now: bool,
    /// A tail loss probe is to be sent.
    pub(crate) tail_probe_due: bool,
    /// A keep-alive or window probe is to be sent.
    pub(crate) probe_due: bool,
    /// The peer's small window may be filled with a short segment (RFC 9293 §3.8.6.2.1, the override).
    pub(crate) fill_window: bool,
    /// The window was what stopped us in the round that ends at `round_end`; most bytes in flight in it.
    cwnd_limited: bool,
    round_end: SeqNum,
    round_flight: u32,
    /// A RST is to be sent, with this sequence number.
    pub(crate) reset_at: Option<SeqNum>,
    /// When data, or the SYN, was sent last.
    pub(crate) sent_at: Time,
    /// When the peer last acknowledged something, or data was first outstanding after a pause.
    pub(crate) progress_at: Time,
}

impl Sender {
    pub(crate) fn new(iss: SeqNum, mss: u16) -> Self {
        Self {
            iss,
            una: iss,
            nxt: iss,
            write_seq: iss + 1,
            window: PeerWindow::unknown(iss),
            short_end: iss,
            mss,
            fin_queued: false,
            cork: false,
            flush: false,
            syn_due: false,
            syn_retries: 0,
            resend_now: false,
            tail_probe_due: false,
            probe_due: false,
            fill_window: false,
            cwnd_limited: false,
            round_end: iss,
            round_flight: 0,
            reset_at: None,
            sent_at: Time(0),
            progress_at: Time(0),
        }
    }

    /// Goes on where another owner has stopped.
    pub(crate) fn put_back(&mut self, tcb: &Tcb) {
        *self = Self {
            una: tcb.snd_una,
            nxt: tcb.snd_nxt,
            write_seq: tcb.write_seq,
            window: PeerWindow::resumed(tcb.snd_wnd, tcb.snd_wnd_max, tcb.rcv_nxt, tcb.snd_una),
            // Whether what is in flight ends in a short segment is not known.
            short_end: tcb.snd_nxt,
            fin_queued: tcb.fin_queued,
            cork: self.cork,
            round_end: tcb.snd_una,
            ..Self::new(tcb.snd_una - 1, self.mss)
        };
    }

    /// Everything before `una` is acknowledged.
    pub(crate) fn advance(&mut self, una: SeqNum) {
        self.una = una;
        // Positions stay within half the sequence space of each other.
        self.short_end = self.short_end.max(una);
    }

    /// Bytes queued and never sent.
    pub(crate) fn unsent(&self) -> u32 {
        if self.nxt.before(self.write_seq) {
            self.nxt.distance_to(self.write_seq)
        } else {
            0
        }
    }

    /// A FIN is queued and was never sent.
    fn fin_unsent(&self) -> bool {
        self.fin_queued && self.nxt.at_or_before(self.write_seq)
    }

    /// Bytes that the peer's window still takes.
    fn window_room(&self) -> u32 {
        let edge = self.una + self.window.bytes();
        if edge.after(self.nxt) {
            self.nxt.distance_to(edge)
        } else {
            0
        }
    }

    /// Growth of the congestion window is justified (RFC 9293 §3.8.2, RFC 7661 in spirit): it was used.
    pub(crate) fn is_cwnd_limited(&self, congestion: &Congestion) -> bool {
        self.cwnd_limited
            || (congestion.in_slow_start()
                && congestion.cwnd() < self.round_flight.saturating_mul(2))
    }

    fn note_use(&mut self, flight: u32, limited: bool) {
        if self.round_end.at_or_before(self.una) {
            self.round_end = self.nxt;
            self.round_flight = flight;
            self.cwnd_limited = limited;
        } else {
            self.round_flight = self.round_flight.max(flight);
            self.cwnd_limited |= limited;
        }
    }
}

impl Connection {
    /// The next segment to send, if any may be sent now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.is_parked() {
            return None;
        }
        if let Some(seq) = self.snd.reset_at.take() {
            return Some(self.reset_segment(seq));
        }
        let now = self.time(now);
        match self.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => self.poll_syn(now),
            State::FinWait2 | State::TimeWait => {
                self.poll_probe(now).or_else(|| self.poll_ack(now))
            }
            _ => {
                // What SACK has to tell goes in an ACK of its own, so that data packets keep their size.
                if self.rcv.ack.now && self.options.sack && self.rcv.ranges.has_report() {
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
        if !std::mem::take(&mut self.snd.syn_due) {
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
                Flags::SYN | Flags::ACK
            } else {
                Flags::SYN
            },
            window,
            options: self.options.syn_options(self.settings.adv_mss, timestamps),
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
                .set(Timer::Retransmit, now.after(self.rtt.rto()));
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
        if self.board.lost() == 0 {
            self.snd.resend_now = false;
            return None;
        }
        let mss = u32::from(self.snd.mss);
        let budget = self.congestion.cwnd().saturating_sub(self.pipe());
        if budget < mss && !self.snd.resend_now {
            self.snd.cwnd_limited = true;
            return None;
        }
        let limit = budget.min(self.burst_limit()).max(mss);
        let (start, mut end) = self.board.next_lost(limit - limit % mss)?;
        // RFC 9293 §3.8.6: a peer that has taken back its window is probed with what is oldest only.
        let mut edge = self.snd.una + self.snd.window.bytes();
        if self.snd.resend_now {
            edge = edge.max(self.snd.una + mss);
        }
        if start.at_or_after(edge) {
            return None;
        }
        end = end.min(edge);
        self.snd.resend_now = false;
        Some(self.resend(now, start, end))
    }

    fn resend(&mut self, now: Time, start: SeqNum, end: SeqNum) -> Transmit {
        let bytes = start.distance_to(end);
        self.board.mark_resent(start, end, now);
        self.recovery.note_sent(bytes);
        self.recovery.note_resent(bytes, self.timestamps.value(now));
        self.stats.resent += 1;
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
        if queued == 0 && !fin {
            return None;
        }
        if self.snd.una == self.snd.nxt {
            self.restart_after_idle(now);
        }
        let len = self.sendable(now, queued, fin);
        let with_fin = fin && len == queued && self.snd.window_room() > len;
        if len == 0 && !with_fin {
            self.watch_window(now);
            return None;
        }
        Some(self.send_new(now, len, with_fin))
    }

    fn send_new(&mut self, now: Time, len: u32, with_fin: bool) -> Transmit {
        let mss = u32::from(self.snd.mss);
        let was_idle = self.snd.una == self.snd.nxt;
        let start = self.snd.nxt;
        let end = start + len + u32::from(with_fin);
        self.snd.nxt = end;
        self.board.push(start, end, now, mss);
        self.recovery.note_sent(len);
        if !len.is_multiple_of(mss) {
            self.snd.short_end = end;
            self.snd.flush = false;
            self.timers.cancel(Timer::Cork);
        }
        let limited = self.congestion.cwnd() < self.pipe().saturating_add(mss);
        let flight = self.pipe();
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
        if std::mem::take(&mut self.snd.tail_probe_due) {
            // RFC 8985 §7.3: new data is as good a probe.
            self.rack.probe = Some((self.snd.nxt, false));
        }
        self.rcv.note_interactive();
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
            self.snd.cwnd_limited = true;
        }
        if limit < mss {
            return self.silly_window(queued.min(mss).min(window), window, budget);
        }
        if self.defers(room) {
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

    /// Largest segment to hand over at once: at most half the window, so that ACKs go on coming.
    fn burst_limit(&self) -> u32 {
        let mss = u32::from(self.snd.mss);
        let limit = self
            .settings
            .tso_max
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
            self.timers.set(Timer::Persist, now.after(self.rtt.rto()));
        }
    }

    /// A tail loss probe (RFC 8985 §7.3): new data if there is some, else the last segment again.
    fn poll_tail_probe(&mut self, now: Time) -> Option<Transmit> {
        if !std::mem::take(&mut self.snd.tail_probe_due) || self.snd.una == self.snd.nxt {
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
            let bytes = start.distance_to(end);
            if bytes > mss {
                start = end
                    - if bytes.is_multiple_of(mss) {
                        mss
                    } else {
                        bytes % mss
                    };
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
        if !std::mem::take(&mut self.snd.probe_due) {
            return None;
        }
        Some(self.empty_segment(now, self.snd.una - 1, SackBlocks::EMPTY))
    }

    fn poll_ack(&mut self, now: Time) -> Option<Transmit> {
        if !self.rcv.ack.now {
            return None;
        }
        let mut blocks = SackBlocks::EMPTY;
        if self.options.sack && self.rcv.ranges.has_report() {
            blocks = self
                .rcv
                .ranges
                .take_report(if self.options.timestamps { 3 } else { 4 });
        }
        Some(self.empty_segment(now, self.acceptable_seq(), blocks))
    }

    /// Where the peer takes a segment without payload.
    pub(crate) fn acceptable_seq(&self) -> SeqNum {
        let snd = &self.snd;
        match self.state.is_synchronized() {
            true => (snd.window).acceptable_seq(snd.una, snd.nxt, self.options.snd_shift),
            false => snd.nxt,
        }
    }

    /// Where a RST goes: behind all that was sent. More than the largest window can't have been, whatever an owner that is gone
    /// was given to send.
    pub(crate) fn reset_seq(&self) -> SeqNum {
        if self.state.is_synchronized() {
            self.snd.nxt.min(self.snd.una + self.snd.window.largest())
        } else {
            self.snd.nxt
        }
    }

    /// Brings a segment that was given out before, and is to be sent only now, up to date with what has come meanwhile: what it
    /// acknowledges, its window and its timestamps (RFC 7323 §3.2: a late one with an old TSval may be taken for an old duplicate).
    pub fn bring_up_to_date(&mut self, now: Instant, transmit: &mut Transmit) {
        if !self.state.is_synchronized() {
            return;
        }
        let (seq, flags) = (transmit.header.seq, transmit.header.flags);
        let sack = transmit.header.options.sack;
        let now = self.time(now);
        transmit.header = self.header(now, seq, flags, sack);
    }

    /// `start..end` of what is outstanding; the last position may be the FIN.
    fn data_segment(
        &mut self,
        now: Time,
        start: SeqNum,
        end: SeqNum,
        retransmit: bool,
    ) -> Transmit {
        let fin = end.after(self.snd.write_seq);
        let payload = start.distance_to(end) - u32::from(fin);
        let mut flags = Flags::ACK;
        if fin {
            flags |= Flags::FIN;
        }
        if payload > 0 && (start + payload == self.snd.write_seq) {
            flags |= Flags::PSH;
        }
        self.stats.segments_out += 1;
        self.stats.bytes_sent += u64::from(payload);
        let header = self.header(now, start, flags, SackBlocks::EMPTY);
        Transmit {
            header,
            payload,
            mss: self.snd.mss,
            retransmit,
        }
    }

    fn empty_segment(&mut self, now: Time, seq: SeqNum, sack: SackBlocks) -> Transmit {
        let header = self.header(now, seq, Flags::ACK, sack);
        Transmit {
            header,
            payload: 0,
            mss: self.snd.mss,
            retransmit: false,
        }
    }

    fn header(&mut self, now: Time, seq: SeqNum, flags: Flags, sack: SackBlocks) -> Header {
        let window = self.rcv.window_field(self.options.rcv_shift);
        self.rcv.note_ack_sent(window, self.options.rcv_shift);
        self.timers.cancel(Timer::DelayedAck);
        Header {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq,
            ack: self.rcv.nxt,
            flags,
            window,
            options: Options {
                timestamps: self.options.timestamps.then(|| self.timestamps.option(now)),
                sack,
                ..Options::default()
            },
        }
    }

    fn reset_segment(&self, seq: SeqNum) -> Transmit {
        let header = Header {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq,
            flags: Flags::RST,
            ..Header::default()
        };
        Transmit {
            header,
            payload: 0,
            mss: self.snd.mss,
            retransmit: false,
        }
    }
}
