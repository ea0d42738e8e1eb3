//! What a NIC context needs to know of the replies of one connection.

/// What was agreed on in the handshake, and what the client's cookies are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// Reads are answered by structured replies.
    pub structured: bool,
    /// Cookies have tags below this.
    pub tags: u16,
    /// The most bytes of data that the client asks for in one request; at most 512 MiB.
    pub max_data: u32,
}

const STRUCTURED: u8 = 1;
/// Longer messages would make sequence numbers incomparable.
const MOST: u32 = 1 << 29;

impl crate::Parameters for Parameters {
    const ENCODED_LEN: usize = 8;

    /// Flags, a byte of zero, tags, and most data; little-endian.
    fn encode(&self, bytes: &mut [u8]) {
        bytes[0] = if self.structured { STRUCTURED } else { 0 };
        bytes[1] = 0;
        bytes[2..4].copy_from_slice(&self.tags.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.max_data.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Parameters> {
        let [flags, zero, t0, t1, max @ ..] = *bytes.first_chunk::<8>()?;
        let max_data = u32::from_le_bytes(max);
        let is_valid = flags & !STRUCTURED == 0 && zero == 0 && max_data <= MOST;
        is_valid.then_some(Parameters {
            structured: flags & STRUCTURED != 0,
            tags: u16::from_le_bytes([t0, t1]),
            max_data,
        })
    }

    fn tags(&self) -> u16 {
        self.tags
    }
}
