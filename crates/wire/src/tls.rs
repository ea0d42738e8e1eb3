//! TLS record headers (RFC 8446 §5.1, RFC 5246 §6.2.1).

use crate::bytes::{put_u16, u16_at};
use crate::error::ParseError;

/// Bytes of a record header.
pub const HEADER_LEN: usize = 5;
/// The most plaintext bytes of one record.
pub const MAX_PLAINTEXT: usize = 1 << 14;
/// The most bytes after the header of a TLS 1.2 record (RFC 5246 §6.2.3).
pub const MAX_CIPHERTEXT_TLS12: usize = MAX_PLAINTEXT + 2048;
/// The `legacy_record_version` of TLS 1.2 and, on the wire, of TLS 1.3.
pub const VERSION_TLS12: u16 = 0x0303;

/// A record's content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentType(pub u8);

impl ContentType {
    /// alert.
    pub const ALERT: ContentType = ContentType(21);
    /// handshake.
    pub const HANDSHAKE: ContentType = ContentType(22);
    /// application_data.
    pub const APPLICATION_DATA: ContentType = ContentType(23);

    /// Whether it is one of 20..=24.
    #[inline]
    #[must_use]
    pub const fn is_known(self) -> bool {
        20 <= self.0 && self.0 <= 24
    }
}

/// A record header, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordHeader {
    /// The outer content type.
    pub content_type: ContentType,
    /// The legacy record version.
    pub version: u16,
    /// Bytes after the header.
    pub length: u16,
}

impl RecordHeader {
    /// Parses the first five bytes. It judges nothing: whether the values make sense is the caller's affair.
    ///
    /// # Errors
    /// When there are fewer bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<RecordHeader, ParseError> {
        ParseError::require(bytes, HEADER_LEN)?;
        Ok(RecordHeader {
            content_type: ContentType(bytes[0]),
            version: u16_at(bytes, 1),
            length: u16_at(bytes, 3),
        })
    }

    /// Writes the header at the front of `buffer`; gives its length.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        buffer[0] = self.content_type.0;
        put_u16(buffer, 1, self.version);
        put_u16(buffer, 3, self.length);
        HEADER_LEN
    }

    /// The header's five bytes.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        self.emit(&mut bytes);
        bytes
    }
}
