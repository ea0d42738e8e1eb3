//! What an initiator names a task by.

/// The Initiator Task Tag of a SCSI command, as an initiator makes it that has a NIC place the data of reads.
///
/// ```text
/// |  generation: 16 bits  |  tag: 16 bits  |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskTag {
    /// Names the buffer that the data of a read belongs into.
    pub tag: u16,
    /// Tells tasks apart that had the tag one after the other.
    pub generation: u16,
}

impl TaskTag {
    /// As it is in a header.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        (self.generation as u32) << 16 | self.tag as u32
    }

    /// That of a header.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u32) -> TaskTag {
        TaskTag {
            tag: bits as u16,
            generation: (bits >> 16) as u16,
        }
    }
}
