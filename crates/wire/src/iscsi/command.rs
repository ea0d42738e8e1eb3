//! SCSI commands with their responses, and the management of tasks (RFC 7143 §11.3 to §11.6).

use super::framing::{FINAL, IMMEDIATE};
use super::{Lun, ProtocolError, RequestNumbers, ResponseNumbers};
use crate::bytes::{put_u32, u32_at};
use crate::fields::{Bits, fields};

const READ: u8 = 0x40;
const WRITE: u8 = 0x20;
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

fields! {
    Be:
    /// SCSI Command. Its attribute is always Simple.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ScsiCommand {
        /// I: to be delivered at once.
        immediate: bool = Bits(0, IMMEDIATE),
        /// F: no unsolicited Data-Out follows.
        is_final: bool = Bits(1, FINAL),
        /// R: the command is expected to read.
        reads: bool = Bits(1, READ),
        /// W: the command is expected to write.
        writes: bool = Bits(1, WRITE),
        /// The logical unit.
        lun: Lun = 8,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// Expected Data Transfer Length in bytes.
        expected_len: u32 = 20,
        /// CmdSN and ExpStatSN.
        numbers: RequestNumbers = 24,
        /// The command descriptor block.
        cdb: [u8; 16] = 32,
        ;
        /// Bytes of additional header segments.
        ahs_len: u16,
        /// Bytes of immediate data.
        data_len: u32,
    }
}

/// SIMPLE, the task attribute.
const SIMPLE: u8 = 1;

impl ScsiCommand {
    pub(super) fn parse(header: &[u8], data_len: u32) -> ScsiCommand {
        ScsiCommand::read(header, u16::from(header[4]) * 4, data_len)
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        self.write(header);
        header[1] |= SIMPLE;
        header[4] = (self.ahs_len / 4) as u8;
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

fields! {
    Be:
    /// SCSI Response. Its data is the length of the sense data in two bytes, and that.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ScsiResponse {
        /// 0: the command has completed at the target, with the status. All else: it has not.
        response: u8 = 2,
        /// The SCSI status.
        status: u8 = 3,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// StatSN, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        /// ExpDataSN: how many Data-In, or R2T, were sent for the command.
        data_count: u32 = 36,
        ;
        /// How far the bytes moved differ from those that were expected.
        residual: Residual,
        /// Bytes of data.
        data_len: u32,
    }
}

impl ScsiResponse {
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<ScsiResponse, ProtocolError> {
        let refused = ProtocolError::Flags {
            opcode: super::Opcode::ScsiResponse,
            flags: header[1],
        };
        let residual = Residual::parse(header).ok_or(refused)?;
        Ok(ScsiResponse::read(header, residual, data_len))
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        self.write(header);
        self.residual.emit(header);
    }
}

fields! {
    Be:
    /// Task Management Function Request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TaskManagementRequest {
        /// I: to be delivered at once.
        immediate: bool = Bits(0, IMMEDIATE),
        /// What to do: 1 aborts a task, 5 resets a logical unit (RFC 7143 §11.5.1). Seven bits.
        function: u8 = Bits(1, !FINAL),
        /// The logical unit.
        lun: Lun = 8,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// The tag of the task that this is about.
        referenced_tag: u32 = 20,
        /// CmdSN and ExpStatSN.
        numbers: RequestNumbers = 24,
        /// CmdSN of the task that this is about.
        referenced_cmd_sn: u32 = 32,
    }
}

fields! {
    Be:
    /// Task Management Function Response.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TaskManagementResponse {
        /// 0: done (RFC 7143 §11.6.1).
        response: u8 = 2,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// StatSN, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
    }
}
