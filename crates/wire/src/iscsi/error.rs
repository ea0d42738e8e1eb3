//! How a peer breaks the protocol.

use super::Opcode;

/// How a PDU breaks the protocol. At error recovery level 0 that ends the session (RFC 7143 §7.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ProtocolError {
    /// The first byte names no kind of PDU that its sender may send now.
    #[error("opcode {0:#04x} is unknown, or out of turn")]
    Opcode(u8),
    /// The second byte contradicts the kind of PDU.
    #[error("flags {flags:#04x} are impossible in a PDU of kind {opcode:?}")]
    Flags {
        /// The kind of PDU.
        opcode: Opcode,
        /// The second byte.
        flags: u8,
    },
    /// Additional header segments where none may be, or too many.
    #[error("{len} bytes of additional headers in a PDU of kind {opcode:?}")]
    AdditionalHeaders {
        /// The kind of PDU.
        opcode: Opcode,
        /// Their length in bytes.
        len: u16,
    },
    /// More data than the receiver accepts, or data where none may be.
    #[error("{len} bytes of data in a PDU of kind {opcode:?}, at most {limit} are accepted")]
    DataLength {
        /// The kind of PDU.
        opcode: Opcode,
        /// DataSegmentLength.
        len: u32,
        /// The most that is accepted.
        limit: u32,
    },
    /// The header's digest is wrong.
    #[error("wrong header digest")]
    HeaderDigest,
    /// The digest of data that no command can do without is wrong.
    #[error("wrong data digest in a PDU of kind {0:?}")]
    DataDigest(Opcode),
    /// A field has a value that it can't have.
    #[error("the field at byte {at} of a PDU of kind {opcode:?} has an impossible value")]
    Field {
        /// The kind of PDU.
        opcode: Opcode,
        /// Where in the header the field begins.
        at: u8,
    },
    /// A task tag that no task under way has, or not one of that kind.
    #[error("task tag {tag:#x} in a PDU of kind {opcode:?} names no task that it could be for")]
    UnknownTask {
        /// The kind of PDU.
        opcode: Opcode,
        /// The tag.
        tag: u32,
    },
    /// A number that is not the next one.
    #[error("{what} is {got}, where {expected} is next")]
    Sequence {
        /// Which number.
        what: &'static str,
        /// What came.
        got: u32,
        /// What should have come.
        expected: u32,
    },
    /// A part of a task's data that is not wanted.
    #[error("{len} bytes at {offset} are outside of the task's data of {limit} bytes")]
    OutOfRange {
        /// Where the part begins.
        offset: u32,
        /// Its length.
        len: u32,
        /// Bytes of the task's data.
        limit: u32,
    },
    /// A PDU that may not come in this state.
    #[error("a PDU of kind {0:?} may not come now")]
    OutOfTurn(Opcode),
    /// Text that is not pairs of keys and values.
    #[error("the text is not of the form key=value")]
    Text,
}

impl ProtocolError {
    /// The field at byte `at` has an impossible value.
    pub(super) const fn field(opcode: Opcode, at: u8) -> ProtocolError {
        ProtocolError::Field { opcode, at }
    }
}
