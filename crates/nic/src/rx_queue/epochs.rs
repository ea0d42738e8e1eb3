//! Knowing when all that was placed before some moment has left the queue.

/// What is placed is counted by its epoch, of which two are in use at most, as in RCU: an epoch ends on request, once all of the
/// one before has left.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Epochs {
    current: u64,
    /// Parts queued, of even epochs and of odd ones.
    parts: [u32; 2],
    /// A descriptor waits for the end of this epoch.
    ends: bool,
}

impl Epochs {
    /// Counts a part. Gives its epoch.
    pub(super) fn enter(&mut self) -> u64 {
        self.parts[parity(self.current)] += 1;
        self.current
    }

    /// Counts it no longer.
    pub(super) fn leave(&mut self, epoch: u64) {
        self.parts[parity(epoch)] -= 1;
        self.advance();
    }

    /// Ends the epoch as soon as possible. Gives it, if there are parts that have not left.
    pub(super) fn end(&mut self) -> Option<u64> {
        if self.parts == [0, 0] {
            return None;
        }
        let epoch = self.current;
        self.ends = true;
        self.advance();
        Some(epoch)
    }

    /// Whether all parts of an epoch that was ended, and of those before, have left.
    pub(super) fn has_passed(&self, epoch: u64) -> bool {
        // The epoch after the next begins when nothing of this one is there any more.
        self.current > epoch + 1 || self.current == epoch + 1 && self.parts[parity(epoch)] == 0
    }

    fn advance(&mut self) {
        if self.ends && self.parts[parity(self.current + 1)] == 0 {
            self.current += 1;
            self.ends = false;
        }
    }
}

fn parity(epoch: u64) -> usize {
    (epoch & 1) as usize
}
