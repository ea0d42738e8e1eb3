//! Knowing when all that names a context or a buffer of the host's, and came before some moment, has left the queue.

/// Items are counted by their epochs, of which two are in use at most, as in RCU: an epoch ends on request, once all of the
/// one before has left.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Epochs {
    current: u64,
    /// Items queued, of even epochs and of odd ones.
    items: [u32; 2],
    /// A descriptor waits for the end of this epoch.
    ends: bool,
}

impl Epochs {
    /// Counts an item.
    pub(super) fn enter(&mut self) -> Entered {
        let parity = parity(self.current);
        self.items[parity] += 1;
        Entered(parity as u8)
    }

    /// Counts it no longer.
    pub(super) fn leave(&mut self, Entered(parity): Entered) {
        self.items[usize::from(parity)] -= 1;
        self.advance();
    }

    /// Ends the epoch as soon as possible. Gives it, if there are items that have not left.
    pub(super) fn end(&mut self) -> Option<u64> {
        if self.items == [0, 0] {
            return None;
        }
        let epoch = self.current;
        self.ends = true;
        self.advance();
        Some(epoch)
    }

    /// Whether all items of an epoch that was ended, and of those before, have left.
    pub(super) fn has_passed(&self, epoch: u64) -> bool {
        // The epoch after the next begins when nothing of this one is there any more.
        self.current > epoch + 1 || self.current == epoch + 1 && self.items[parity(epoch)] == 0
    }

    fn advance(&mut self) {
        if self.ends && self.items[parity(self.current + 1)] == 0 {
            self.current += 1;
            self.ends = false;
        }
    }
}

/// In an epoch that is even, or odd.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entered(u8);

fn parity(epoch: u64) -> usize {
    (epoch & 1) as usize
}
