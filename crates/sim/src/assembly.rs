//! One direction of a TCP connection, put together from the segments that were on the wire.

use wire::SeqNum;

/// The bytes, as far as they are known.
pub(crate) struct Assembly {
    /// The sequence number of the SYN, in front of the first byte.
    pub isn: SeqNum,
    /// All of them, with zeroes where something is missing.
    pub bytes: Vec<u8>,
    known: Vec<bool>,
}

impl Assembly {
    pub fn new(isn: SeqNum) -> Self {
        Self {
            isn,
            bytes: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Takes bytes at a place in the stream. `false` when they are not what was there before.
    pub fn take(&mut self, at: usize, payload: &[u8]) -> bool {
        let end = at + payload.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
            self.known.resize(end, false);
        }
        let places = self.bytes[at..end].iter_mut().zip(&mut self.known[at..end]);
        let mut same = true;
        for ((byte, known), &new) in places.zip(payload) {
            same &= !*known || *byte == new;
            if !*known {
                (*byte, *known) = (new, true);
            }
        }
        same
    }
}
