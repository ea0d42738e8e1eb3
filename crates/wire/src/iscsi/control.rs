//! PDUs that move no data of commands: pings, text, logout, and what a target tells by itself (RFC 7143 §11.9 to §11.19).

use core::fmt;

use super::framing::{FINAL, IMMEDIATE, flag};
use super::{Lun, NO_TAG, Opcode, ProtocolError, RequestNumbers, ResponseNumbers};
use crate::bytes::{array_at, put_u16, put_u32, u16_at, u32_at};

const CONTINUE: u8 = 0x40;

/// NOP-Out: a ping of the initiator, or its answer to one of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NopOut {
    /// I: to be delivered at once.
    pub immediate: bool,
    /// The logical unit that a NOP-In named.
    pub lun: Lun,
    /// Initiator Task Tag; [`NO_TAG`] when no answer is asked for.
    pub task_tag: u32,
    /// Target Transfer Tag of the NOP-In that this answers; else [`NO_TAG`].
    pub transfer_tag: u32,
    /// CmdSN and ExpStatSN.
    pub numbers: RequestNumbers,
    /// Bytes of data, which the answer repeats.
    pub data_len: u32,
}

/// NOP-In: a ping of the target, or its answer to one of the initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NopIn {
    /// The logical unit, which the answer names too.
    pub lun: Lun,
    /// Initiator Task Tag of the NOP-Out that this answers; else [`NO_TAG`].
    pub task_tag: u32,
    /// Target Transfer Tag; [`NO_TAG`] when no answer is asked for.
    pub transfer_tag: u32,
    /// StatSN, which counts in an answer only, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
    /// Bytes of data: those of the NOP-Out.
    pub data_len: u32,
}

/// Text Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextRequest {
    /// I: to be delivered at once.
    pub immediate: bool,
    /// F: the last request of a negotiation.
    pub is_final: bool,
    /// C: the text goes on in the next request.
    pub continues: bool,
    /// The logical unit that the Text Response before named.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// Target Transfer Tag of the Text Response before; [`NO_TAG`] in the first request.
    pub transfer_tag: u32,
    /// CmdSN and ExpStatSN.
    pub numbers: RequestNumbers,
    /// Bytes of text.
    pub data_len: u32,
}

/// Text Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextResponse {
    /// F: the last response of a negotiation.
    pub is_final: bool,
    /// C: the text goes on in the next response.
    pub continues: bool,
    /// To be repeated in the next request.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// Target Transfer Tag, to be repeated in the next request; [`NO_TAG`] when there is none.
    pub transfer_tag: u32,
    /// StatSN, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
    /// Bytes of text.
    pub data_len: u32,
}

/// Logout Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutRequest {
    /// I: to be delivered at once.
    pub immediate: bool,
    /// 0: ends the session; 1: ends a connection. Seven bits.
    pub reason: u8,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// CID of the connection.
    pub cid: u16,
    /// CmdSN and ExpStatSN.
    pub numbers: RequestNumbers,
}

/// Logout Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogoutResponse {
    /// 0: the connection or session is closed.
    pub response: u8,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// StatSN, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
    /// Time2Wait in seconds.
    pub wait: u16,
    /// Time2Retain in seconds.
    pub retain: u16,
}

/// Asynchronous Message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncMessage {
    /// The logical unit that it is about, if it is about one.
    pub lun: Lun,
    /// StatSN, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
    /// What it is about: 0 a SCSI event, 1 a request for logout, 2 and 3 the end of connections, 4 a request for negotiation.
    pub event: u8,
    /// The event's parameters.
    pub parameters: [u16; 3],
    /// Bytes of data.
    pub data_len: u32,
}

/// Reject: the target has refused a PDU, whose header is the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Why.
    pub reason: RejectReason,
    /// StatSN, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
    /// Bytes of data.
    pub data_len: u32,
}

/// Why a target refuses a PDU (RFC 7143 §11.17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RejectReason(pub u8);

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

impl NopOut {
    pub(super) fn parse(header: &[u8], data_len: u32) -> NopOut {
        NopOut {
            immediate: header[0] & IMMEDIATE != 0,
            lun: Lun(array_at(header, 8)),
            task_tag: u32_at(header, 16),
            transfer_tag: u32_at(header, 20),
            numbers: RequestNumbers::parse(header),
            data_len,
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[0] |= flag(self.immediate, IMMEDIATE);
        header[1] = FINAL;
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, self.transfer_tag);
        self.numbers.emit(header);
    }
}

impl NopIn {
    pub(super) fn parse(header: &[u8], data_len: u32) -> NopIn {
        NopIn {
            lun: Lun(array_at(header, 8)),
            task_tag: u32_at(header, 16),
            transfer_tag: u32_at(header, 20),
            numbers: ResponseNumbers::parse(header),
            data_len,
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[1] = FINAL;
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, self.transfer_tag);
        self.numbers.emit(header);
    }
}

/// F and C of text, which exclude each other.
fn text_flags(opcode: Opcode, flags: u8) -> Result<(bool, bool), ProtocolError> {
    match (flags & FINAL != 0, flags & CONTINUE != 0) {
        (true, true) => Err(ProtocolError::Flags { opcode, flags }),
        flags => Ok(flags),
    }
}

impl TextRequest {
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<TextRequest, ProtocolError> {
        let (is_final, continues) = text_flags(Opcode::TextRequest, header[1])?;
        Ok(TextRequest {
            immediate: header[0] & IMMEDIATE != 0,
            is_final,
            continues,
            lun: Lun(array_at(header, 8)),
            task_tag: u32_at(header, 16),
            transfer_tag: u32_at(header, 20),
            numbers: RequestNumbers::parse(header),
            data_len,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[0] |= flag(self.immediate, IMMEDIATE);
        header[1] = flag(self.is_final, FINAL) | flag(self.continues, CONTINUE);
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, self.transfer_tag);
        self.numbers.emit(header);
    }
}

impl TextResponse {
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<TextResponse, ProtocolError> {
        let (is_final, continues) = text_flags(Opcode::TextResponse, header[1])?;
        Ok(TextResponse {
            is_final,
            continues,
            lun: Lun(array_at(header, 8)),
            task_tag: u32_at(header, 16),
            transfer_tag: u32_at(header, 20),
            numbers: ResponseNumbers::parse(header),
            data_len,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[1] = flag(self.is_final, FINAL) | flag(self.continues, CONTINUE);
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, self.transfer_tag);
        self.numbers.emit(header);
    }
}

impl LogoutRequest {
    pub(super) fn parse(header: &[u8]) -> LogoutRequest {
        LogoutRequest {
            immediate: header[0] & IMMEDIATE != 0,
            reason: header[1] & !FINAL,
            task_tag: u32_at(header, 16),
            cid: u16_at(header, 20),
            numbers: RequestNumbers::parse(header),
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[0] |= flag(self.immediate, IMMEDIATE);
        header[1] = FINAL | self.reason;
        put_u32(header, 16, self.task_tag);
        put_u16(header, 20, self.cid);
        self.numbers.emit(header);
    }
}

impl LogoutResponse {
    pub(super) fn parse(header: &[u8]) -> LogoutResponse {
        LogoutResponse {
            response: header[2],
            task_tag: u32_at(header, 16),
            numbers: ResponseNumbers::parse(header),
            wait: u16_at(header, 40),
            retain: u16_at(header, 42),
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        (header[1], header[2]) = (FINAL, self.response);
        put_u32(header, 16, self.task_tag);
        self.numbers.emit(header);
        put_u16(header, 40, self.wait);
        put_u16(header, 42, self.retain);
    }
}

impl AsyncMessage {
    pub(super) fn parse(header: &[u8], data_len: u32) -> AsyncMessage {
        AsyncMessage {
            lun: Lun(array_at(header, 8)),
            numbers: ResponseNumbers::parse(header),
            event: header[36],
            parameters: [38, 40, 42].map(|at| u16_at(header, at)),
            data_len,
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[1] = FINAL;
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, NO_TAG);
        self.numbers.emit(header);
        header[36] = self.event;
        for (at, parameter) in [38, 40, 42].into_iter().zip(self.parameters) {
            put_u16(header, at, parameter);
        }
    }
}

impl Reject {
    pub(super) fn parse(header: &[u8], data_len: u32) -> Reject {
        Reject {
            reason: RejectReason(header[2]),
            numbers: ResponseNumbers::parse(header),
            data_len,
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        (header[1], header[2]) = (FINAL, self.reason.0);
        put_u32(header, 16, NO_TAG);
        self.numbers.emit(header);
    }
}
