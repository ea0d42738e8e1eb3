//! The receiving half: what is in order, the window, acknowledgments (RFC 9293 §3.8.6, RFC 5681 §4.2).

mod payload;
mod tuning;

use tuning::Tuning;
use wire::SeqNum;
use wire::tcp::SackBlocks;

use crate::options::shift_for;
use crate::ranges::Ranges;
use crate::time::{Nanos, Time};
use crate::timer::Timer;
use crate::{Config, Connection, Tcb};

/// Segments acknowledged at once at the start of a connection and after a gap, so that the peer's window grows.
const QUICK_ACKS: u8 = 16;
/// The smallest limit of the buffer, if the scale can express such a window: a TLS record of the longest kind (RFC 8446 §5.2), which is
/// consumed as a whole, and a packet.
const LEAST_LIMIT: u32 = 32 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// RCV.NXT.
    pub(crate) nxt: SeqNum,
    /// What the application has consumed.
    read: SeqNum,
    /// Right edge of the largest window ever offered: what lies before it is taken.
    pub(crate) edge: SeqNum,
    /// The widest window ever offered: the peer never had more on its way.
    widest: u32,
    /// The acknowledgment number that we sent last (RFC 7323 §4.3, Last.ACK.sent).
    pub(crate) last_ack_sent: SeqNum,
    buffer: u32,
    buffer_max: u32,
    /// What of the buffer is offered: it follows the buffer by twice what arrives, so that a buffer that grows does not
    /// let loose a burst.
    share: u32,
    /// Payload bytes per packet that the peer is thought to send.
    pub(crate) mss: u16,
    /// The peer's FIN was taken: `nxt` counts it.
    pub(crate) fin_taken: bool,
    /// Where the peer's FIN is, when it came before all data.
    pub(crate) fin: Option<SeqNum>,
    pub(crate) ranges: Ranges,
    pub(crate) ack: Acks,
    pub(crate) tuning: Tuning,
}

/// Which ACK we owe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acks {
    /// One is to be sent at once.
    pub(crate) now: bool,
    /// Packets received since the last.
    pub(crate) packets: u16,
    /// Packets to acknowledge at once still.
    quick: u8,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Self {
        let buffer_max = config.rcv_buf_max.clamp(4, 1 << 30);
        let granule = 1 << shift_for(buffer_max);
        Self {
            nxt: SeqNum(0),
            read: SeqNum(0),
            edge: SeqNum(0),
            widest: 0,
            last_ack_sent: SeqNum(0),
            // A window that the scale can't express would never open.
            buffer: config.rcv_buf.max(granule * 4).min(buffer_max),
            buffer_max,
            share: 0,
            mss: config.mss,
            fin_taken: false,
            fin: None,
            ranges: Ranges::default(),
            ack: Acks {
                now: false,
                packets: 0,
                quick: QUICK_ACKS,
            },
            tuning: Tuning::default(),
        }
    }

    /// The peer's SYN came.
    pub(crate) fn start(&mut self, irs: SeqNum) {
        self.nxt = irs + 1;
        self.read = self.nxt;
        self.last_ack_sent = self.nxt;
        self.share = self.buffer;
        self.widest = self.buffer.min(u32::from(u16::MAX));
        self.edge = self.nxt + self.widest;
    }

    /// The peer's SYN has come.
    pub(crate) fn has_started(&self) -> bool {
        self.widest > 0
    }

    /// Goes on where another owner has stopped.
    pub(crate) fn put_back(&mut self, now: Time, tcb: &Tcb) {
        self.nxt = tcb.rcv_nxt;
        self.read = tcb.rcv_nxt - u32::from(tcb.fin_taken) - tcb.unread;
        self.tuning.start(now, self.read);
        self.fin_taken = tcb.fin_taken;
        self.fin = if tcb.fin_taken {
            Some(tcb.rcv_nxt - 1)
        } else {
            tcb.fin_at
        };
        self.edge = tcb.rcv_edge.max(tcb.rcv_nxt);
        self.widest = tcb.rcv_window().max(tcb.rcv_buffer);
        self.last_ack_sent = tcb.rcv_nxt;
        self.buffer = tcb.rcv_buffer.max(self.buffer).min(self.buffer_max);
        self.share = self.buffer;
        self.tuning.start(now, self.read);
        self.ranges = tcb.held.iter().copied().collect();
        self.ack = Acks {
            now: tcb.owes_ack,
            packets: u16::from(tcb.owes_ack),
            quick: QUICK_ACKS,
        };
    }

    /// Where the peer's oldest segment may begin that is still on its way; one before that for a probe.
    pub(crate) fn oldest(&self) -> SeqNum {
        self.nxt - self.widest - 1
    }

    /// Position of the first byte that the application has not consumed.
    pub(crate) fn read_seq(&self) -> SeqNum {
        self.read
    }

    /// Another owner has taken in what lies before `nxt`, and has acknowledged it.
    pub(crate) fn advance(&mut self, nxt: SeqNum) {
        self.note_in_order(self.nxt.distance_to(nxt));
        self.nxt = nxt;
        self.edge = self.edge.max(nxt);
        self.last_ack_sent = nxt;
    }

    /// The buffer is no larger than that, until it grows by what is consumed. What was offered before stays good.
    pub(crate) fn limit_buffer(&mut self, bytes: u32) {
        let granule = 1 << shift_for(self.buffer_max);
        let bytes = bytes.max(LEAST_LIMIT).max(granule * 4);
        if bytes < self.buffer {
            self.buffer = bytes;
            self.share = self.share.min(bytes);
            self.tuning.forget();
        }
    }

    /// What has come out of order is gone.
    pub(crate) fn renege(&mut self) -> u32 {
        let bytes = self.ranges.iter().map(|(from, to)| from.distance_to(to));
        let bytes = bytes.sum();
        self.ranges = Ranges::default();
        bytes
    }

    /// The buffer that serves what the application consumes, if that is known anew since it was asked last.
    pub(crate) fn take_proven(&mut self) -> Option<u32> {
        self.tuning.take_proven(self.mss)
    }

    /// Bytes in order that the application has not consumed.
    pub(crate) fn unread(&self) -> u32 {
        self.read.distance_to(self.nxt) - u32::from(self.fin_taken)
    }

    /// Something came beyond what is in order.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty() || (self.fin.is_some() && !self.fin_taken)
    }

    pub(crate) fn buffer(&self) -> u32 {
        self.buffer
    }

    pub(crate) fn buffer_max(&self) -> u32 {
        self.buffer_max
    }

    /// What is left of the window offered.
    pub(crate) fn offered(&self) -> u32 {
        if self.edge.after(self.nxt) {
            self.nxt.distance_to(self.edge)
        } else {
            0
        }
    }

    /// The window to offer now. It grows by steps worth a packet or half the buffer (RFC 9293 §3.8.6.2.2).
    fn window(&self) -> u32 {
        let free = self.share.saturating_sub(self.unread());
        let offered = self.offered();
        let step = u32::from(self.mss).min(self.share / 2).max(1);
        if free >= offered.saturating_add(step) {
            free
        } else {
            offered
        }
    }

    /// The window field to send, rounded down; what was offered before stays good.
    pub(crate) fn window_field(&self, shift: u8) -> u16 {
        (self.window() >> shift).min(u32::from(u16::MAX)) as u16
    }

    /// An ACK with `field` is sent.
    pub(crate) fn note_ack_sent(&mut self, field: u16, shift: u8) {
        self.edge = self.edge.max(self.nxt + (u32::from(field) << shift));
        self.widest = self.widest.max(self.offered());
        self.last_ack_sent = self.nxt;
        self.ack.quick = self
            .ack
            .quick
            .saturating_sub(self.ack.packets.min(255) as u8);
        self.ack.packets = 0;
        self.ack.now = false;
    }

    fn note_in_order(&mut self, bytes: u32) {
        self.share = self
            .share
            .saturating_add(bytes.saturating_mul(2))
            .min(self.buffer);
    }

    /// Data goes the other way at once: ACKs can wait to ride on it.
    pub(crate) fn note_interactive(&mut self) {
        if self.ack.packets > 0 {
            self.ack.quick = 0;
        }
    }

    /// The application consumed `bytes`.
    pub(crate) fn consume(&mut self, now: Time, bytes: u32, smoothed_rtt: Option<Nanos>) {
        self.read += bytes.min(self.unread());
        if let Some(buffer) = self
            .tuning
            .on_consumed(now, self.read, smoothed_rtt, self.mss)
        {
            self.buffer = self.buffer.max(buffer).min(self.buffer_max);
        }
    }

    /// The window has opened so far that the peer should hear of it: to twice what it has left.
    pub(crate) fn should_update_window(&self, shift: u8) -> bool {
        // More than the field holds can't be said.
        let most = u32::from(u16::MAX) << shift;
        let (offered, window) = (self.offered(), self.window().min(most));
        window > offered && window >= offered.saturating_mul(2)
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(self.read.at_or_before(self.nxt));
        assert!(
            self.ranges
                .end()
                .is_none_or(|end| end.at_or_before(self.edge)),
            "nothing is held beyond the window"
        );
        assert!(self.share <= self.buffer && self.buffer <= self.buffer_max);
    }

    /// Where the FIN is, if that has come and is not reached.
    fn early_fin(&self) -> Option<SeqNum> {
        self.fin.filter(|_| !self.fin_taken)
    }

    /// Whether SACK has something to tell.
    pub(crate) fn has_report(&self) -> bool {
        self.ranges.has_report() || self.early_fin().is_some()
    }

    /// The SACK blocks of an ACK, at most `room`.
    pub(crate) fn take_report(&mut self, room: usize) -> SackBlocks {
        let fin = self.early_fin();
        self.ranges.take_report(room, fin)
    }
}

impl Connection {
    /// Decides when to acknowledge (RFC 5681 §4.2, RFC 9293 §3.8.6.3).
    fn owe_ack(&mut self, now: Time, packets: u16, in_order: bool) {
        let ack = &mut self.rcv.ack;
        ack.packets = ack.packets.saturating_add(packets.max(1));
        if !in_order {
            // A gap, its end or a duplicate: the peer's loss recovery wants to know at once.
            ack.now = true;
            ack.quick = QUICK_ACKS;
        }
        match self.settings.delayed_ack() {
            Some(delay) if ack.packets < 2 && ack.quick == 0 => {
                if !ack.now && !self.timers.is_set(Timer::DelayedAck) {
                    self.timers.set(Timer::DelayedAck, now.after(delay));
                }
            }
            _ => ack.now = true,
        }
    }
}
