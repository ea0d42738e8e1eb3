//! The window that the peer offers (RFC 9293 §3.3.1, §3.8.6).

use wire::SeqNum;

/// SND.WND, with the segment that it came by.
#[derive(Clone, Copy, Debug)]
pub struct PeerWindow {
    bytes: u32,
    largest: u32,
    /// SND.WL1 and SND.WL2.
    wl1: SeqNum,
    wl2: SeqNum,
}

impl PeerWindow {
    /// The window of a peer that was not heard yet, on a connection that begins at `iss`.
    pub(crate) fn unknown(iss: SeqNum) -> PeerWindow {
        PeerWindow {
            bytes: 0,
            largest: 0,
            wl1: SeqNum(0),
            wl2: iss,
        }
    }

    /// The window as another owner of the connection has left it, which has received up to `rcv_nxt`. Segments from there on
    /// bring a newer one.
    pub fn resumed(bytes: u32, largest: u32, rcv_nxt: SeqNum, snd_una: SeqNum) -> PeerWindow {
        PeerWindow {
            bytes,
            largest: largest.max(bytes).max(1),
            wl1: rcv_nxt,
            wl2: snd_una,
        }
    }

    /// Takes the window of a segment unless a newer one came before (RFC 9293 §3.10.7.4).
    #[inline]
    pub fn note(&mut self, seq: SeqNum, ack: SeqNum, bytes: u32) {
        let first = self.largest == 0;
        if first || self.wl1.before(seq) || (self.wl1 == seq && self.wl2.at_or_before(ack)) {
            self.bytes = bytes;
            self.largest = self.largest.max(bytes).max(1);
            self.wl1 = seq;
            self.wl2 = ack;
        }
    }

    /// SND.WND: bytes that the peer takes from SND.UNA on.
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The largest window ever, at least 1 once the peer was heard.
    #[inline]
    pub fn largest(&self) -> u32 {
        self.largest
    }

    /// Whether a segment of `len` bytes, less than a full one, is worth sending while nothing is in flight (RFC 9293
    /// §3.8.6.2.1).
    pub fn is_worth(&self, len: u32) -> bool {
        len >= self.largest / 2
    }

    /// Where the peer takes a segment without payload: behind all that was sent, or at the edge of its window if that was
    /// taken back (as Linux's `tcp_acceptable_seq`). Windows that are scaled by `shift` don't tell the edge exactly.
    pub fn acceptable_seq(&self, una: SeqNum, nxt: SeqNum, shift: u8) -> SeqNum {
        let edge = una + self.bytes;
        let rounding = (1 << shift) - 1;
        match nxt.after(edge + rounding) {
            true => edge,
            false => nxt,
        }
    }
}
