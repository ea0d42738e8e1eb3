//! Knowing when all that was placed before some moment has left the queue.

/// What is placed is counted by its epoch, of which two are about at most: an epoch ends when somebody asks, and all of the one
/// before has left.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    epoch: u64,
    /// Parts queued, of even epochs and of odd ones.
    parts: [u32; 2],
    /// Somebody waits for the end of this epoch.
    wanted: bool,
}

impl Marks {
    /// Counts a part. Gives its epoch.
    pub(super) fn enter(&mut self) -> u64 {
        self.parts[parity(self.epoch)] += 1;
        self.epoch
    }

    /// Counts it no longer.
    pub(super) fn leave(&mut self, epoch: u64) {
        self.parts[parity(epoch)] -= 1;
        self.advance();
    }

    /// A mark for all parts that are counted now, if there are any.
    pub(super) fn mark(&mut self) -> Option<u64> {
        if self.parts == [0, 0] {
            return None;
        }
        let mark = self.epoch;
        self.wanted = true;
        self.advance();
        Some(mark)
    }

    /// Whether all of them have left.
    pub(super) fn has_passed(&self, mark: u64) -> bool {
        // The epoch after the next begins when nothing of this one is there any more.
        self.epoch > mark + 1 || self.epoch == mark + 1 && self.parts[parity(mark)] == 0
    }

    fn advance(&mut self) {
        if self.wanted && self.parts[parity(self.epoch + 1)] == 0 {
            self.epoch += 1;
            self.wanted = false;
        }
    }
}

fn parity(epoch: u64) -> usize {
    (epoch & 1) as usize
}
