//! The sending side of a connection: remembers where PDUs begin.

use wire::SeqNum;

use crate::MsgState;
use crate::unacknowledged::Unacknowledged;

#[cfg(test)]
mod tests;

/// PDUs that were sent and that TCP has not acknowledged wholly.
///
/// A NIC that makes data digests may need all of a PDU again to make its digest again (NVMeTCP offload, "The Offload Tx Design"), so its data must stay until
/// then. Positions are counted in bytes of the stream that carries the PDUs: TCP's sequence numbers, or bytes of plaintext
/// under TLS.
#[derive(Debug)]
pub struct Writer {
    pdus: Unacknowledged,
    /// Number of the next PDU.
    index: u64,
}

impl Writer {
    /// A writer whose first PDU is number `index`.
    #[must_use]
    pub fn new(index: u64) -> Writer {
        Writer {
            pdus: Unacknowledged::default(),
            index,
        }
    }

    /// Registers a PDU of `len` bytes that begins at `start`, directly after the one before it or further on.
    #[inline]
    pub fn push(&mut self, start: SeqNum, len: u32) -> MsgState {
        let pdu = MsgState {
            start,
            len,
            index: self.index,
            epoch: 0,
        };
        self.pdus.push(pdu, 1);
        self.index = self.index.wrapping_add(1);
        pdu
    }

    /// The PDU that the byte at `position` belongs to: `l5o_get_tx_msgstate` (Autonomous NIC offloads §4.1, Listing 2). `None` when that is wholly
    /// acknowledged or was never registered.
    #[must_use]
    pub fn message_state(&self, position: SeqNum) -> Option<MsgState> {
        self.pdus.message(position)
    }

    /// Forgets the PDUs of which TCP has acknowledged the last byte.
    #[inline]
    pub fn acknowledged(&mut self, una: SeqNum) {
        self.pdus.acknowledged(una);
    }

    /// Up to where payload memory may be released when TCP has acknowledged all before `una`: the start of the PDU that `una` is
    /// inside of, else `una` itself.
    #[must_use]
    pub fn release_point(&self, una: SeqNum) -> SeqNum {
        self.pdus.release_point(una)
    }

    /// Number of the next PDU.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Whether any PDU is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pdus.is_empty()
    }

    /// The PDUs registered, in stream order.
    pub fn pdus(&self) -> impl Iterator<Item = MsgState> {
        self.pdus.iter()
    }
}
