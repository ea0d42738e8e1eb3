//! SCSI commands with their responses, and the management of tasks (RFC 7143 §11.3 to §11.6).

use super::framing::{FINAL, IMMEDIATE, flag};
use super::{Lun, ProtocolError, RequestNumbers, ResponseNumbers};
use crate::bytes::{array_at, put_u32, u32_at};

const READ: u8 = 0x40;
const WRITE: u8 = 0x20;
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

/// SCSI Command. Its attribute is always Simple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiCommand {
    /// I: to be delivered at once.
    pub immediate: bool,
    /// F: no unsolicited Data-Out follows.
    pub is_final: bool,
    /// R: the command is expected to read.
    pub reads: bool,
    /// W: the command is expected to write.
    pub writes: bool,
    /// The logical unit.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// Expected Data Transfer Length in bytes.
    pub expected_len: u32,
    /// CmdSN and ExpStatSN.
    pub numbers: RequestNumbers,
    /// The command descriptor block.
    pub cdb: [u8; 16],
    /// Bytes of additional header segments.
    pub ahs_len: u16,
    /// Bytes of immediate data.
    pub data_len: u32,
}

/// SIMPLE, the task attribute.
const SIMPLE: u8 = 1;

impl ScsiCommand {
    pub(super) fn parse(header: &[u8], data_len: u32) -> ScsiCommand {
        ScsiCommand {
            immediate: header[0] & IMMEDIATE != 0,
            is_final: header[1] & FINAL != 0,
            reads: header[1] & READ != 0,
            writes: header[1] & WRITE != 0,
            lun: Lun(array_at(header, 8)),
            task_tag: u32_at(header, 16),
            expected_len: u32_at(header, 20),
            numbers: RequestNumbers::parse(header),
            cdb: array_at(header, 32),
            ahs_len: u16::from(header[4]) * 4,
            data_len,
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[0] |= flag(self.immediate, IMMEDIATE);
        header[1] =
            flag(self.is_final, FINAL) | flag(self.reads, READ) | flag(self.writes, WRITE) | SIMPLE;
        header[4] = (self.ahs_len / 4) as u8;
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, self.expected_len);
        self.numbers.emit(header);
        header[32..48].copy_from_slice(&self.cdb);
    }
}

/// By how much the bytes that a command moves differ from those that were expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Residual {
    /// As many as were expected.
    None,
    /// So many fewer.
    Underflow(u32),
    /// So many more would have been.
    Overflow(u32),
}

impl Residual {
    /// From flags and residual count, which have the same places in Data-In and SCSI Response. `None` when both flags are set.
    pub(super) fn parse(header: &[u8]) -> Option<Residual> {
        let count = u32_at(header, 44);
        match header[1] & (OVERFLOW | UNDERFLOW) {
            0 => Some(Residual::None),
            UNDERFLOW => Some(Residual::Underflow(count)),
            OVERFLOW => Some(Residual::Overflow(count)),
            _ => None,
        }
    }

    pub(super) fn emit(self, header: &mut [u8]) {
        let (flag, count) = match self {
            Residual::None => return,
            Residual::Underflow(count) => (UNDERFLOW, count),
            Residual::Overflow(count) => (OVERFLOW, count),
        };
        header[1] |= flag;
        put_u32(header, 44, count);
    }
}

/// SCSI Response. Its data is the length of the sense data in two bytes, and that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScsiResponse {
    /// 0: the command has completed at the target, with the status. All else: it has not.
    pub response: u8,
    /// The SCSI status.
    pub status: u8,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// StatSN, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
    /// ExpDataSN: how many Data-In, or R2T, were sent for the command.
    pub data_count: u32,
    /// How far the bytes moved differ from those that were expected.
    pub residual: Residual,
    /// Bytes of data.
    pub data_len: u32,
}

impl ScsiResponse {
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<ScsiResponse, ProtocolError> {
        let refused = ProtocolError::Flags {
            opcode: super::Opcode::ScsiResponse,
            flags: header[1],
        };
        Ok(ScsiResponse {
            response: header[2],
            status: header[3],
            task_tag: u32_at(header, 16),
            numbers: ResponseNumbers::parse(header),
            data_count: u32_at(header, 36),
            residual: Residual::parse(header).ok_or(refused)?,
            data_len,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        (header[1], header[2], header[3]) = (FINAL, self.response, self.status);
        put_u32(header, 16, self.task_tag);
        self.numbers.emit(header);
        put_u32(header, 36, self.data_count);
        self.residual.emit(header);
    }
}

/// Task Management Function Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagementRequest {
    /// I: to be delivered at once.
    pub immediate: bool,
    /// What to do: 1 aborts a task, 5 resets a logical unit (RFC 7143 §11.5.1). Seven bits.
    pub function: u8,
    /// The logical unit.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// The tag of the task that this is about.
    pub referenced_tag: u32,
    /// CmdSN and ExpStatSN.
    pub numbers: RequestNumbers,
    /// CmdSN of the task that this is about.
    pub referenced_cmd_sn: u32,
}

impl TaskManagementRequest {
    pub(super) fn parse(header: &[u8]) -> TaskManagementRequest {
        TaskManagementRequest {
            immediate: header[0] & IMMEDIATE != 0,
            function: header[1] & !FINAL,
            lun: Lun(array_at(header, 8)),
            task_tag: u32_at(header, 16),
            referenced_tag: u32_at(header, 20),
            numbers: RequestNumbers::parse(header),
            referenced_cmd_sn: u32_at(header, 32),
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[0] |= flag(self.immediate, IMMEDIATE);
        header[1] = FINAL | self.function;
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, self.referenced_tag);
        self.numbers.emit(header);
        put_u32(header, 32, self.referenced_cmd_sn);
    }
}

/// Task Management Function Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagementResponse {
    /// 0: done (RFC 7143 §11.6.1).
    pub response: u8,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// StatSN, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
}

impl TaskManagementResponse {
    pub(super) fn parse(header: &[u8]) -> TaskManagementResponse {
        TaskManagementResponse {
            response: header[2],
            task_tag: u32_at(header, 16),
            numbers: ResponseNumbers::parse(header),
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        (header[1], header[2]) = (FINAL, self.response);
        put_u32(header, 16, self.task_tag);
        self.numbers.emit(header);
    }
}
