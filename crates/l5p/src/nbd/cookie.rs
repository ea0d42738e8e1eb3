//! What the client names a request by.

/// The cookie of a request, as a client makes it that has a NIC place the data of replies.
///
/// ```text
/// |  tag: 16 bits  |  generation: 16 bits  |  low: 32 bits  |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cookie {
    /// Names the buffer that the data of a read belongs into.
    pub tag: u16,
    /// Tells requests apart that had the tag one after the other.
    pub generation: u16,
    /// Where replies are simple: bytes of data behind a successful one. Where reads are answered by structured replies: the lower 32
    /// bits of the request's offset in the export, which data of the reply are placed relative to.
    pub low: u32,
}

impl Cookie {
    /// As it is in a header.
    #[inline]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.tag as u64) << 48 | (self.generation as u64) << 32 | self.low as u64
    }

    /// That of a header.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Cookie {
        Cookie {
            tag: (bits >> 48) as u16,
            generation: (bits >> 32) as u16,
            low: bits as u32,
        }
    }
}
