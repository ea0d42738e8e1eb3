//! What the sending half keeps (RFC 9293 §3.3.1).

use wire::SeqNum;

use crate::congestion::Congestion;
use crate::time::Time;
use crate::{PeerWindow, Tcb};

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
    pub(crate) short_end: SeqNum,
    /// Payload bytes per packet.
    pub(crate) mss: u16,
    pub(crate) fin_queued: bool,
    pub(crate) cork: bool,
    /// What was held back has waited long enough: a short segment although corked, and what a larger burst was to be made of.
    pub(crate) flush: bool,
    pub(crate) due: Due,
    pub(crate) syn_retries: u8,
    /// The peer's small window may be filled with a short segment (RFC 9293 §3.8.6.2.1, the override).
    pub(crate) fill_window: bool,
    pub(crate) round: Round,
    /// A RST is to be sent, with this sequence number.
    pub(crate) reset_at: Option<SeqNum>,
    /// No data leave before, but what a timer asks for; nothing is paced if that is past.
    pub(crate) paced_until: Time,
    /// Bytes of payload that may leave at once.
    pub(crate) most_at_once: u32,
    /// When data, or the SYN, was sent last.
    pub(crate) sent_at: Time,
    /// When the peer last acknowledged something, or data was first outstanding after a pause.
    pub(crate) progress_at: Time,
}

/// Segments that are to be sent beside new data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// The SYN or SYN-ACK.
    pub(crate) syn: bool,
    /// A segment again, whatever the window.
    pub(crate) resend: bool,
    /// A tail loss probe.
    pub(crate) tail_probe: bool,
    /// A keep-alive or window probe.
    pub(crate) probe: bool,
}

impl Due {
    pub(crate) fn is_any(self) -> bool {
        self.syn | self.resend | self.tail_probe | self.probe
    }
}

/// A round, which ends at `end`, in which the use of the congestion window is noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    end: SeqNum,
    /// Most bytes in flight.
    flight: u32,
    /// The congestion window was what stopped us.
    pub(crate) is_cwnd_limited: bool,
}

impl Round {
    fn until(end: SeqNum) -> Self {
        Round {
            end,
            flight: 0,
            is_cwnd_limited: false,
        }
    }
}

impl Sender {
    pub(crate) fn new(iss: SeqNum, mss: u16, most_at_once: u32) -> Self {
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
            due: Due::default(),
            syn_retries: 0,
            fill_window: false,
            round: Round::until(iss),
            reset_at: None,
            paced_until: Time(0),
            most_at_once,
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
            round: Round::until(tcb.snd_una),
            ..Self::new(tcb.snd_una - 1, self.mss, self.most_at_once)
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
    pub(crate) fn fin_unsent(&self) -> bool {
        self.fin_queued && self.nxt.at_or_before(self.write_seq)
    }

    /// Bytes that the peer's window still takes.
    pub(crate) fn window_room(&self) -> u32 {
        let edge = self.una + self.window.bytes();
        if edge.after(self.nxt) {
            self.nxt.distance_to(edge)
        } else {
            0
        }
    }

    /// Growth of the congestion window is justified (RFC 9293 §3.8.2, RFC 7661 in spirit): it was used.
    pub(crate) fn is_cwnd_limited(&self, congestion: &Congestion) -> bool {
        self.round.is_cwnd_limited
            || (congestion.in_slow_start()
                && congestion.cwnd() < self.round.flight.saturating_mul(2))
    }

    pub(crate) fn note_use(&mut self, flight: u32, limited: bool) {
        if self.round.end.at_or_before(self.una) {
            self.round.end = self.nxt;
            self.round.flight = flight;
            self.round.is_cwnd_limited = limited;
        } else {
            self.round.flight = self.round.flight.max(flight);
            self.round.is_cwnd_limited |= limited;
        }
    }
}
