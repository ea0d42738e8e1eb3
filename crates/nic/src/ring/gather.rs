//! The list of memory slices that a descriptor and its continuations name.

use super::layout::{self, SendSlot};
use super::region::Slice;
use super::toe::MAX_TOE_SEND_SLICES;

/// Most continuation slots that may follow one descriptor. A claim of more is an error, so that a
/// descriptor can never keep the device reading.
pub const MAX_CONTINUATIONS: usize = 3;
/// Slices in one continuation slot.
pub(super) const CONTINUATION_SLICES: usize = layout::Continuation::SLICES;
/// Most slices of the buffer that an `AddRrState` maps.
pub const MAX_RR_SLICES: usize = 16;
/// Most slices of a `Send`.
pub const MAX_SEND_SLICES: usize = most_slices::<layout::Send>();
/// Most slices of a `RecoverContext`.
pub const MAX_RECOVER_SLICES: usize = most_slices::<layout::RecoverContext>();

/// Most slices of a descriptor, with continuations.
pub(super) const fn most_slices<D: SendSlot>() -> usize {
    D::SLICES + MAX_CONTINUATIONS * CONTINUATION_SLICES
}

/// Most bytes that a `RecoverContext` may have the device read again: a PDU of 1 MiB of data, and a record before its end.
pub const MAX_RECOVER_BYTES: u32 = (1 << 20) + (64 << 10);

/// Slices of the descriptor that has most of them.
const CAPACITY: usize = if MAX_TOE_SEND_SLICES > MAX_RECOVER_SLICES {
    MAX_TOE_SEND_SLICES
} else {
    MAX_RECOVER_SLICES
};

/// A bounded list of slices.
#[derive(Debug, Clone)]
pub(crate) struct Gather {
    slices: [Slice; CAPACITY],
    count: u8,
}

impl Gather {
    pub(crate) const EMPTY: Gather = Gather {
        slices: [Slice::NOTHING; CAPACITY],
        count: 0,
    };

    /// Appends a slice. False when the list is full.
    pub(crate) fn push(&mut self, slice: Slice) -> bool {
        let Some(free) = self.slices.get_mut(usize::from(self.count)) else {
            return false;
        };
        *free = slice;
        self.count += 1;
        true
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn slices(&self) -> &[Slice] {
        &self.slices[..usize::from(self.count)]
    }

    /// Bytes of all slices together.
    pub(crate) fn len(&self) -> u64 {
        self.slices().iter().map(|slice| u64::from(slice.len)).sum()
    }
}
