//! How a command went (NVMe Base 2.0 §3.3.3.2.1, Figures 92 to 100; NVMe over Fabrics §3.3, NVM Command Set 1.0 §3.1).

use core::fmt;

use crate::bytes::{put_u16_le, u16_le_at};
use crate::fields::{Field, Le};

/// The status field of a completion: status code (SC) in bits 7:0, status code type (SCT) in 10:8, command retry
/// delay (CRD) in 12:11, more (M) in 13, do not retry (DNR) in 14.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u16);

const DNR: u16 = 1 << 14;
const CODE: u16 = 0x7ff;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $sct:literal, $sc:literal, $text:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($sct << 8 | $sc);)*

            /// Its name in the specification, in words; none for a code that is not listed here.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match (self.code_type(), self.code()) {
                    $(($sct, $sc) => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// Successful Completion.
    SUCCESS = 0, 0x00, "success";
    /// Invalid Command Opcode.
    INVALID_OPCODE = 0, 0x01, "invalid command opcode";
    /// Invalid Field in Command.
    INVALID_FIELD = 0, 0x02, "invalid field in command";
    /// Command ID Conflict.
    CID_CONFLICT = 0, 0x03, "command ID conflict";
    /// Data Transfer Error.
    DATA_TRANSFER_ERROR = 0, 0x04, "data transfer error";
    /// Internal Error.
    INTERNAL_ERROR = 0, 0x06, "internal error";
    /// Command Abort Requested.
    ABORT_REQUESTED = 0, 0x07, "command abort requested";
    /// Command Aborted due to SQ Deletion.
    ABORTED_QUEUE_DELETED = 0, 0x08, "command aborted, its queue is gone";
    /// Invalid Namespace or Format.
    INVALID_NAMESPACE = 0, 0x0b, "invalid namespace or format";
    /// Command Sequence Error.
    SEQUENCE_ERROR = 0, 0x0c, "command sequence error";
    /// Invalid SGL Segment Descriptor.
    INVALID_SGL_SEGMENT = 0, 0x0d, "invalid SGL segment descriptor";
    /// Invalid Number of SGL Descriptors.
    INVALID_SGL_COUNT = 0, 0x0e, "invalid number of SGL descriptors";
    /// Data SGL Length Invalid.
    SGL_LENGTH_INVALID = 0, 0x0f, "data SGL length invalid";
    /// SGL Descriptor Type Invalid.
    SGL_TYPE_INVALID = 0, 0x11, "SGL descriptor type invalid";
    /// Operation Denied.
    OPERATION_DENIED = 0, 0x15, "operation denied";
    /// SGL Offset Invalid.
    SGL_OFFSET_INVALID = 0, 0x16, "SGL offset invalid";
    /// Host Identifier Inconsistent Format.
    HOST_ID_INCONSISTENT = 0, 0x18, "host identifier inconsistent format";
    /// Keep Alive Timer Expired.
    KEEP_ALIVE_EXPIRED = 0, 0x19, "keep alive timer expired";
    /// Keep Alive Timeout Invalid.
    KEEP_ALIVE_INVALID = 0, 0x1a, "keep alive timeout invalid";
    /// Namespace is Write Protected.
    WRITE_PROTECTED = 0, 0x20, "namespace is write protected";
    /// Command Interrupted.
    INTERRUPTED = 0, 0x21, "command interrupted";
    /// Transient Transport Error: the bytes were damaged on their way; what a data digest error completes with
    /// (NVMe/TCP 1.0 §3.5).
    TRANSIENT_TRANSPORT_ERROR = 0, 0x22, "transient transport error";
    /// LBA Out of Range.
    LBA_OUT_OF_RANGE = 0, 0x80, "LBA out of range";
    /// Capacity Exceeded.
    CAPACITY_EXCEEDED = 0, 0x81, "capacity exceeded";
    /// Namespace Not Ready.
    NAMESPACE_NOT_READY = 0, 0x82, "namespace not ready";
    /// Reservation Conflict.
    RESERVATION_CONFLICT = 0, 0x83, "reservation conflict";

    /// Invalid Queue Identifier.
    INVALID_QUEUE_ID = 1, 0x01, "invalid queue identifier";
    /// Invalid Queue Size.
    INVALID_QUEUE_SIZE = 1, 0x02, "invalid queue size";
    /// Abort Command Limit Exceeded.
    ABORT_LIMIT_EXCEEDED = 1, 0x03, "abort command limit exceeded";
    /// Asynchronous Event Request Limit Exceeded.
    AER_LIMIT_EXCEEDED = 1, 0x05, "asynchronous event request limit exceeded";
    /// Invalid Log Page.
    INVALID_LOG_PAGE = 1, 0x09, "invalid log page";
    /// Feature Identifier Not Saveable.
    FEATURE_NOT_SAVEABLE = 1, 0x0d, "feature identifier not saveable";
    /// Feature Not Changeable.
    FEATURE_NOT_CHANGEABLE = 1, 0x0e, "feature not changeable";
    /// Feature Not Namespace Specific.
    FEATURE_NOT_NAMESPACE_SPECIFIC = 1, 0x0f, "feature not namespace specific";
    /// Connect Incompatible Format (fabrics); Conflicting Attributes (I/O).
    CONNECT_INCOMPATIBLE_FORMAT = 1, 0x80, "connect: incompatible format, or conflicting attributes";
    /// Connect Controller Busy (fabrics); Invalid Protection Information (I/O).
    CONNECT_CONTROLLER_BUSY = 1, 0x81, "connect: controller busy, or invalid protection information";
    /// Connect Invalid Parameters (fabrics); Attempted Write to Read Only Range (I/O).
    CONNECT_INVALID_PARAMETERS = 1, 0x82, "connect: invalid parameters, or write to a read-only range";
    /// Connect Restart Discovery (fabrics); Command Size Limit Exceeded (I/O).
    CONNECT_RESTART_DISCOVERY = 1, 0x83, "connect: restart discovery, or command size limit exceeded";
    /// Connect Invalid Host: the host NQN is not allowed here.
    CONNECT_INVALID_HOST = 1, 0x84, "connect: this host NQN is not allowed";
    /// Discover Restart.
    DISCOVER_RESTART = 1, 0x90, "discover: restart";
    /// Authentication Required.
    AUTHENTICATION_REQUIRED = 1, 0x91, "authentication required";

    /// Write Fault.
    WRITE_FAULT = 2, 0x80, "write fault";
    /// Unrecovered Read Error.
    UNRECOVERED_READ_ERROR = 2, 0x81, "unrecovered read error";
    /// Compare Failure.
    COMPARE_FAILURE = 2, 0x85, "compare failure";
    /// Access Denied.
    ACCESS_DENIED = 2, 0x86, "access denied";
    /// Deallocated or Unwritten Logical Block.
    DEALLOCATED_BLOCK = 2, 0x87, "deallocated or unwritten logical block";

    /// Internal Path Error.
    INTERNAL_PATH_ERROR = 3, 0x00, "internal path error";
    /// Asymmetric Access Inaccessible.
    ANA_INACCESSIBLE = 3, 0x02, "asymmetric access inaccessible";
    /// Controller Pathing Error.
    CONTROLLER_PATHING_ERROR = 3, 0x60, "controller pathing error";
    /// Host Pathing Error: the host lost its way to the controller. A host makes it; it is never on the wire.
    HOST_PATHING_ERROR = 3, 0x70, "host pathing error";
    /// Command Aborted By Host. A host makes it; it is never on the wire.
    ABORTED_BY_HOST = 3, 0x71, "command aborted by host";
}

impl Status {
    /// From the 15 bits of the status field, without the phase bit.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Status {
        Status(bits & 0x7fff)
    }

    /// The 15 bits of the status field, without the phase bit.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The status code type: 0 generic, 1 command specific, 2 media and data integrity, 3 path related, 7 vendor.
    #[must_use]
    pub const fn code_type(self) -> u8 {
        (self.0 >> 8) as u8 & 0x07
    }

    /// The status code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// The same, telling the host that a retry would fail too (DNR).
    #[must_use]
    pub const fn do_not_retry(self) -> Status {
        Status(self.0 | DNR)
    }

    /// Whether DNR is set.
    #[must_use]
    pub const fn is_final(self) -> bool {
        self.0 & DNR != 0
    }

    /// Whether the command did what it was to do.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 & CODE == 0
    }

    /// Whether code and code type are those of `other`; DNR, M and CRD may differ.
    #[must_use]
    pub const fn is(self, other: Status) -> bool {
        self.0 & CODE == other.0 & CODE
    }

    /// `Ok` for a success, otherwise itself as an error.
    ///
    /// # Errors
    /// Itself, unless it is a success.
    pub const fn ok(self) -> Result<(), Status> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}

/// In a completion, behind the phase bit.
impl Field<Le> for Status {
    fn get(bytes: &[u8], at: usize) -> Status {
        Status::from_bits(u16_le_at(bytes, at) >> 1)
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        put_u16_le(bytes, at, self.bits() << 1);
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => f.write_str("unknown status")?,
        }
        if !self.is_success() {
            write!(f, " (SCT {:x}h, SC {:02x}h", self.code_type(), self.code())?;
            f.write_str(if self.is_final() {
                ", do not retry)"
            } else {
                ")"
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({self})")
    }
}

impl core::error::Error for Status {}
