//! PDUs that move no data of commands: pings, text, logout, and what a target tells by itself (RFC 7143 §11.9 to §11.19).

use core::fmt;

use super::framing::{FINAL, IMMEDIATE};
use super::{Lun, Opcode, ProtocolError, RequestNumbers, ResponseNumbers};
use crate::fields::{Bits, field, fields};

const CONTINUE: u8 = 0x40;

fields! {
    Be:
    /// NOP-Out: a ping of the initiator, or its answer to one of the target.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NopOut {
        /// I: to be delivered at once.
        immediate: bool = Bits(0, IMMEDIATE),
        /// The logical unit that a NOP-In named.
        lun: Lun = 8,
        /// Initiator Task Tag; [`NO_TAG`](super::NO_TAG) when no answer is asked for.
        task_tag: u32 = 16,
        /// Target Transfer Tag of the NOP-In that this answers; else [`NO_TAG`](super::NO_TAG).
        transfer_tag: u32 = 20,
        /// CmdSN and ExpStatSN.
        numbers: RequestNumbers = 24,
        ;
        /// Bytes of data, which the answer repeats.
        data_len: u32,
    }
}

fields! {
    Be:
    /// NOP-In: a ping of the target, or its answer to one of the initiator.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NopIn {
        /// The logical unit, which the answer names too.
        lun: Lun = 8,
        /// Initiator Task Tag of the NOP-Out that this answers; else [`NO_TAG`](super::NO_TAG).
        task_tag: u32 = 16,
        /// Target Transfer Tag; [`NO_TAG`](super::NO_TAG) when no answer is asked for.
        transfer_tag: u32 = 20,
        /// StatSN, which counts in an answer only, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        ;
        /// Bytes of data: those of the NOP-Out.
        data_len: u32,
    }
}

fields! {
    Be:
    /// Text Request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TextRequest {
        /// I: to be delivered at once.
        immediate: bool = Bits(0, IMMEDIATE),
        /// F: the last request of a negotiation.
        is_final: bool = Bits(1, FINAL),
        /// C: the text goes on in the next request.
        continues: bool = Bits(1, CONTINUE),
        /// The logical unit that the Text Response before named.
        lun: Lun = 8,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// Target Transfer Tag of the Text Response before; [`NO_TAG`](super::NO_TAG) in the first request.
        transfer_tag: u32 = 20,
        /// CmdSN and ExpStatSN.
        numbers: RequestNumbers = 24,
        ;
        /// Bytes of text.
        data_len: u32,
    }
}

fields! {
    Be:
    /// Text Response.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TextResponse {
        /// F: the last response of a negotiation.
        is_final: bool = Bits(1, FINAL),
        /// C: the text goes on in the next response.
        continues: bool = Bits(1, CONTINUE),
        /// To be repeated in the next request.
        lun: Lun = 8,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// Target Transfer Tag, to be repeated in the next request; [`NO_TAG`](super::NO_TAG) in the last response.
        transfer_tag: u32 = 20,
        /// StatSN, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        ;
        /// Bytes of text.
        data_len: u32,
    }
}

fields! {
    Be:
    /// Logout Request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LogoutRequest {
        /// I: to be delivered at once.
        immediate: bool = Bits(0, IMMEDIATE),
        /// 0: ends the session; 1: ends a connection. Seven bits.
        reason: u8 = Bits(1, !FINAL),
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// CID of the connection.
        cid: u16 = 20,
        /// CmdSN and ExpStatSN.
        numbers: RequestNumbers = 24,
    }
}

fields! {
    Be:
    /// Logout Response.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LogoutResponse {
        /// 0: the connection or session is closed.
        response: u8 = 2,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// StatSN, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        /// Time2Wait in seconds.
        wait: u16 = 40,
        /// Time2Retain in seconds.
        retain: u16 = 42,
    }
}

fields! {
    Be:
    /// Asynchronous Message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AsyncMessage {
        /// The logical unit that it is about, if it is about one.
        lun: Lun = 8,
        /// StatSN, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        /// What it is about: 0 a SCSI event, 1 a request for logout, 2 and 3 the end of connections, 4 a request for negotiation.
        event: u8 = 36,
        /// The event's parameters.
        parameters: [u16; 3] = 38,
        ;
        /// Bytes of data.
        data_len: u32,
    }
}

fields! {
    Be:
    /// Reject: the target has refused a PDU, whose header is the data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Reject {
        /// Why.
        reason: RejectReason = 2,
        /// StatSN, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        ;
        /// Bytes of data.
        data_len: u32,
    }
}

/// Why a target refuses a PDU (RFC 7143 §11.17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RejectReason(pub u8);

field!(RejectReason(u8));

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0x02 => "data digest error",
            0x03 => "SNACK reject",
            0x04 => "protocol error",
            0x05 => "command not supported",
            0x06 => "too many immediate commands",
            0x07 => "task in progress",
            0x08 => "invalid data acknowledgement",
            0x09 => "invalid PDU field",
            0x0a => "long operation reject",
            0x0c => "waiting for logout",
            _ => return write!(f, "reason {:#04x}", self.0),
        })
    }
}

/// Refuses F and C of text together: they exclude each other.
pub(super) fn check_text(opcode: Opcode, header: &[u8]) -> Result<(), ProtocolError> {
    let flags = header[1];
    match flags & (FINAL | CONTINUE) == FINAL | CONTINUE {
        true => Err(ProtocolError::Flags { opcode, flags }),
        false => Ok(()),
    }
}
