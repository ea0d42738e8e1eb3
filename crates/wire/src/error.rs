//! Why bytes could not be parsed.

/// Why bytes are not what they should be. Receivers count these by kind and drop the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseError {
    /// The bytes end before the header, or the length that a header gives, does.
    #[error("truncated: {needed} bytes needed, {have} there")]
    Truncated {
        /// Bytes that the header needs.
        needed: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// The version field is not the one that the EtherType announced.
    #[error("IP version {0} where another was announced")]
    BadVersion(u8),
    /// A header-length field is below the header's minimum or beyond the packet.
    #[error("header length of {0} bytes is impossible here")]
    BadHeaderLength(usize),
    /// A length field contradicts another one or the bytes that are there.
    #[error("length field of {0} contradicts the packet")]
    BadLength(usize),
    /// A TCP option's length is below 2 or beyond the header (RFC 9293 §3.1, MUST-7).
    #[error("TCP option {kind} has the impossible length {length}")]
    BadOption {
        /// The option's kind.
        kind: u8,
        /// The length that it gives.
        length: u8,
    },
    /// A checksum is wrong.
    #[error("wrong checksum")]
    BadChecksum,
    /// A field has a value that the protocol forbids or that we do not know.
    #[error("value {0} is not a known or permitted one")]
    BadValue(u32),
}

impl ParseError {
    /// [`ParseError::Truncated`] unless `bytes` has at least `needed` bytes.
    #[inline(always)]
    pub(crate) fn require(bytes: &[u8], needed: usize) -> Result<(), ParseError> {
        if bytes.len() < needed {
            return Err(ParseError::Truncated {
                needed,
                have: bytes.len(),
            });
        }
        Ok(())
    }
}
