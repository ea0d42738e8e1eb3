//! Data-Out, Data-In and R2T (RFC 7143 §11.7, §11.8).

use super::framing::{FINAL, flag};
use super::{Lun, NO_TAG, Opcode, ProtocolError, Residual, ResponseNumbers};
use crate::bytes::{array_at, put_u32, u32_at};

const STATUS: u8 = 0x01;
const ACKNOWLEDGE: u8 = 0x40;

/// SCSI Data-Out: a part of what a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataOut {
    /// F: the last part of what an R2T asked for, or of unsolicited data.
    pub is_final: bool,
    /// The logical unit, for solicited data.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// Target Transfer Tag of the R2T; [`NO_TAG`] for unsolicited data.
    pub transfer_tag: u32,
    /// ExpStatSN.
    pub exp_stat_sn: u32,
    /// DataSN: counts the parts.
    pub data_sn: u32,
    /// Buffer Offset: where in the command's data it belongs, in bytes.
    pub offset: u32,
    /// Bytes of data.
    pub data_len: u32,
}

/// SCSI Data-In: a part of what a command reads, and possibly its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataIn {
    /// F: the last part of a sequence.
    pub is_final: bool,
    /// S: the command's status. No SCSI Response follows.
    pub status: Option<u8>,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// StatSN, which counts with a status only, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
    /// DataSN: counts the parts.
    pub data_sn: u32,
    /// Buffer Offset: where in the command's data it belongs, in bytes.
    pub offset: u32,
    /// How far the bytes moved differ from those that were expected. Only with a status.
    pub residual: Residual,
    /// Bytes of data.
    pub data_len: u32,
}

/// Ready To Transfer: the target has room for a part of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToTransfer {
    /// The logical unit.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: u32,
    /// Target Transfer Tag: names this R2T in the data that answers it.
    pub transfer_tag: u32,
    /// StatSN of what comes next, ExpCmdSN and MaxCmdSN.
    pub numbers: ResponseNumbers,
    /// R2TSN: counts those of a command.
    pub r2t_sn: u32,
    /// Buffer Offset: where in the command's data the part begins, in bytes.
    pub offset: u32,
    /// Desired Data Transfer Length: bytes asked for, at least one.
    pub len: u32,
}

/// Refuses a range that no buffer has.
fn check_range(opcode: Opcode, offset: u32, len: u32) -> Result<(), ProtocolError> {
    match offset.checked_add(len) {
        Some(_) => Ok(()),
        None => Err(ProtocolError::field(opcode, 40)),
    }
}

/// Refuses a task tag that names no task.
fn task_tag(opcode: Opcode, header: &[u8]) -> Result<u32, ProtocolError> {
    match u32_at(header, 16) {
        NO_TAG => Err(ProtocolError::field(opcode, 16)),
        tag => Ok(tag),
    }
}

impl DataOut {
    #[inline]
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<DataOut, ProtocolError> {
        let opcode = Opcode::DataOut;
        let offset = u32_at(header, 40);
        check_range(opcode, offset, data_len)?;
        Ok(DataOut {
            is_final: header[1] & FINAL != 0,
            lun: Lun(array_at(header, 8)),
            task_tag: task_tag(opcode, header)?,
            transfer_tag: u32_at(header, 20),
            exp_stat_sn: u32_at(header, 28),
            data_sn: u32_at(header, 36),
            offset,
            data_len,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[1] = flag(self.is_final, FINAL);
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, self.transfer_tag);
        put_u32(header, 28, self.exp_stat_sn);
        put_u32(header, 36, self.data_sn);
        put_u32(header, 40, self.offset);
    }
}

impl DataIn {
    #[inline]
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<DataIn, ProtocolError> {
        let opcode = Opcode::DataIn;
        let flags = header[1];
        let refused = ProtocolError::Flags { opcode, flags };
        let has_status = flags & STATUS != 0;
        let residual = Residual::parse(header).ok_or(refused)?;
        // A status ends the last sequence; acknowledgements are asked for at error recovery levels above 0 only (RFC 7143 §11.7.2).
        if has_status && flags & FINAL == 0
            || !has_status && residual != Residual::None
            || flags & ACKNOWLEDGE != 0
        {
            return Err(refused);
        }
        let offset = u32_at(header, 40);
        check_range(opcode, offset, data_len)?;
        Ok(DataIn {
            is_final: flags & FINAL != 0,
            status: has_status.then_some(header[3]),
            task_tag: task_tag(opcode, header)?,
            numbers: ResponseNumbers::parse(header),
            data_sn: u32_at(header, 36),
            offset,
            residual,
            data_len,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[1] = flag(self.is_final, FINAL);
        if let Some(status) = self.status {
            header[1] |= STATUS;
            header[3] = status;
        }
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, NO_TAG);
        self.numbers.emit(header);
        put_u32(header, 36, self.data_sn);
        put_u32(header, 40, self.offset);
        self.residual.emit(header);
    }
}

impl ReadyToTransfer {
    pub(super) fn parse(header: &[u8]) -> Result<ReadyToTransfer, ProtocolError> {
        let opcode = Opcode::ReadyToTransfer;
        let (offset, len) = (u32_at(header, 40), u32_at(header, 44));
        check_range(opcode, offset, len)?;
        if len == 0 {
            return Err(ProtocolError::field(opcode, 44));
        }
        let transfer_tag = u32_at(header, 20);
        if transfer_tag == NO_TAG {
            return Err(ProtocolError::field(opcode, 20));
        }
        Ok(ReadyToTransfer {
            lun: Lun(array_at(header, 8)),
            task_tag: task_tag(opcode, header)?,
            transfer_tag,
            numbers: ResponseNumbers::parse(header),
            r2t_sn: u32_at(header, 36),
            offset,
            len,
        })
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        header[1] = FINAL;
        header[8..16].copy_from_slice(&self.lun.0);
        put_u32(header, 16, self.task_tag);
        put_u32(header, 20, self.transfer_tag);
        self.numbers.emit(header);
        put_u32(header, 36, self.r2t_sn);
        put_u32(header, 40, self.offset);
        put_u32(header, 44, self.len);
    }
}
