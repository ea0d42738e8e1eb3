//! Payload that is transformed before its frames are written: one call of a cipher for several packets. A call for each takes half as long
//! again as the encryption of a packet's bytes, and more than to copy them.

use std::ops::Range;

use wire::checksum::Sum;

/// Most bytes that are transformed ahead: a record's but for its first packet.
pub(crate) const MAX_AHEAD: u32 = 16 << 10;

/// A queue's memory for such payload.
#[derive(Debug, Default)]
pub(crate) struct AheadBuffer(Box<[u8]>);

impl AheadBuffer {
    /// The memory for `len` bytes, at most [`MAX_AHEAD`]; there is some from the first call on.
    pub(crate) fn reuse(&mut self, len: u32) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; MAX_AHEAD as usize].into_boxed_slice();
        }
        &mut self.0[..len as usize]
    }

    /// Moves the first bytes of those at `ahead` into a frame; gives their sum.
    pub(crate) fn take(&self, ahead: &mut Range<u32>, out: &mut [u8]) -> Sum {
        let from = ahead.start as usize;
        ahead.start += out.len() as u32;
        Sum::of_copied(&self.0[from..ahead.start as usize], out)
    }
}
