//! Which command identifiers are in use on a queue.

/// A set of 16-bit identifiers: one bit each, so that no choice of identifiers makes it slow or large.
pub(super) struct CidSet {
    bits: Box<[u64; 1024]>,
}

impl CidSet {
    pub(super) fn new() -> CidSet {
        CidSet {
            bits: Box::new([0; 1024]),
        }
    }

    /// Takes `cid` in. False: it was there.
    pub(super) fn insert(&mut self, cid: u16) -> bool {
        let (word, bit) = place(cid);
        let was = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        !was
    }

    pub(super) fn remove(&mut self, cid: u16) {
        let (word, bit) = place(cid);
        self.bits[word] &= !bit;
    }
}

fn place(cid: u16) -> (usize, u64) {
    (usize::from(cid >> 6), 1 << (cid & 63))
}
