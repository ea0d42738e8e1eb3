//! What can be wrong with what a peer sends.

use thiserror::Error;

use super::Alert;

/// A record that ends the connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("record {record} of the peer: {violation} (answered with {})", self.alert())]
pub struct TlsError {
    /// Which one: its sequence number in the current epoch.
    pub record: u64,
    /// What is wrong with it.
    pub violation: Violation,
}

/// How a record or a message in it breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// The integrity check failed.
    #[error(
        "its integrity check value does not match; it was changed on the way, or the keys differ"
    )]
    BadTag,
    /// The header names another protocol version.
    #[error("its header has version {0:#06x} where 0x0303 must be")]
    Version(u16),
    /// The length field is too small for the cipher.
    #[error("its length of {0} bytes is too short for the cipher's nonce and tag")]
    TooShort(usize),
    /// Longer than the protocol or the agreed record size limit allows (RFC 8449).
    #[error("it has {0} bytes of content where {1} are the limit")]
    TooLong(usize, usize),
    /// A content type that may not come here.
    #[error("content type {0} may not come after the handshake")]
    ContentType(u8),
    /// TLS 1.3: padding and nothing else (RFC 8446 §5.4).
    #[error("it has no content type, only padding")]
    OnlyPadding,
    /// A handshake message or alert of no bytes (RFC 8446 §5.1).
    #[error("it is an empty record of content type {0}, which only application data may be")]
    Empty(u8),
    /// A handshake message that may not come here.
    #[error("handshake message {0} may not come after the handshake")]
    HandshakeMessage(u8),
    /// Other records between the parts of a handshake message (RFC 8446 §5.1).
    #[error("it comes between the parts of a handshake message")]
    Interleaved,
    /// A message that does not end its record although the keys change after it (RFC 8446 §5.1).
    #[error("a key update is not the last message in it")]
    KeyUpdateNotLast,
    /// Neither of the two values that a key update has (RFC 8446 §4.6.3).
    #[error("a key update in it neither requests nor refuses one of ours")]
    KeyUpdateValue,
    /// Keys that change again and again with no data under them.
    #[error("it is key update number {0} without application data between them")]
    TooManyKeyUpdates(u8),
    /// TLS 1.2: the peer asks to renegotiate again and again, whatever it is told.
    #[error("it is request number {0} to renegotiate, and all before it were refused")]
    TooManyRenegotiations(u8),
    /// A handshake message longer than any of its type that may come here (RFC 8446 §6.2, decode_error).
    #[error(
        "a handshake message of {0} bytes is longer than any that may come after the handshake"
    )]
    MessageTooLong(usize),
    /// Bytes that are not what their type says.
    #[error("it has a malformed {0}")]
    Malformed(&'static str),
    /// All numbers that records can have were used under the present keys (RFC 8446 §5.3, RFC 5246 §6.1).
    #[error("no record number is left under the present keys")]
    NumbersUsedUp,
    /// Transformed by a NIC context whose epoch is no longer known.
    #[error("the NIC transformed it under epoch {0}, whose keys are gone")]
    UnknownEpoch(u16),
    /// The key schedule refused a ticket or could not make keys.
    #[error("{0}")]
    Refused(String),
}

impl TlsError {
    /// The alert that tells the peer.
    pub fn alert(&self) -> Alert {
        match self.violation {
            Violation::BadTag => Alert::BadRecordMac,
            Violation::Version(_) => Alert::ProtocolVersion,
            Violation::TooShort(_) | Violation::Malformed(_) | Violation::MessageTooLong(_) => {
                Alert::DecodeError
            }
            Violation::TooLong(..) => Alert::RecordOverflow,
            Violation::ContentType(_)
            | Violation::OnlyPadding
            | Violation::Empty(_)
            | Violation::HandshakeMessage(_)
            | Violation::Interleaved
            | Violation::KeyUpdateNotLast
            | Violation::TooManyKeyUpdates(_)
            | Violation::TooManyRenegotiations(_) => Alert::UnexpectedMessage,
            Violation::KeyUpdateValue => Alert::IllegalParameter,
            Violation::UnknownEpoch(_) | Violation::NumbersUsedUp => Alert::InternalError,
            Violation::Refused(_) => Alert::IllegalParameter,
        }
    }
}
