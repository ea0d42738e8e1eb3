//! The congestion avoidance of Reno (RFC 5681 §3.1), with byte counting (RFC 3465).

#[derive(Clone, Debug, Default)]
pub(super) struct NewReno {
    /// Bytes acknowledged that have not made the window grow yet.
    acknowledged: u32,
}

impl NewReno {
    /// One segment per window acknowledged.
    pub(super) fn growth(&mut self, cwnd: u32, mss: u32, bytes: u32) -> u32 {
        self.acknowledged = self.acknowledged.saturating_add(bytes);
        let windows = self.acknowledged / cwnd.max(1);
        self.acknowledged -= windows * cwnd;
        windows * mss
    }
}
