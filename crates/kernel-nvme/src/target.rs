//! Where the data of the PDU in progress goes.

use l5p::nvme::initiator::CommandId;

use crate::memory::Slice;

/// Where it goes. It comes in order.
#[derive(Debug, Default)]
pub(crate) enum Target {
    /// Nowhere.
    #[default]
    Discard,
    /// To the caller that takes the PDU's end: short answers.
    Inline(Vec<u8>),
    /// To a command's memory.
    Memory(Place),
}

/// A part of a command's memory that is being filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) command: CommandId,
    /// All of the PDU's data.
    pub(crate) slice: Slice,
    /// Bytes that have come.
    pub(crate) filled: u32,
}

impl Place {
    /// The memory of the next `len` bytes.
    pub(crate) fn next(&self, len: u32) -> Slice {
        self.slice.part(self.filled, len)
    }
}
