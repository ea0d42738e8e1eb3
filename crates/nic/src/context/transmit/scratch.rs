//! A queue's scratch memory: where recovery puts what it made of a message.

use wire::SeqNum;

use super::RecoveryId;

/// Longest message that can be recovered: a TLS record with room for its header and trailer.
pub(crate) const SCRATCH_BYTES: usize = 16_384 + 512;

/// Transformed bytes of one message, from its start on.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Empty until the queue's first recovery.
    bytes: Box<[u8]>,
    /// The recovery whose verified bytes these are.
    recovery: Option<RecoveryId>,
    start: SeqNum,
}

impl Scratch {
    /// The memory, to be filled anew; what it held is forgotten.
    pub(crate) fn reuse(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; SCRATCH_BYTES].into_boxed_slice();
        }
        self.recovery = None;
        &mut self.bytes
    }

    /// Declares what was filled in as verified by this recovery; it begins at `start`.
    pub(crate) fn keep(&mut self, recovery: RecoveryId, start: SeqNum) {
        self.recovery = Some(recovery);
        self.start = start;
    }

    /// Verified bytes from `tcpsn` on, when they are of this recovery.
    pub(crate) fn get(&self, recovery: RecoveryId, tcpsn: SeqNum, len: u32) -> Option<&[u8]> {
        if self.recovery != Some(recovery) {
            return None;
        }
        let at = self.start.distance_to(tcpsn) as usize;
        self.bytes.get(at..at.checked_add(len as usize)?)
    }
}
