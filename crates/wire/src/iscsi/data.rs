//! Data-Out, Data-In and R2T (RFC 7143 §11.7, §11.8).

use super::framing::FINAL;
use super::{Lun, NO_TAG, Opcode, ProtocolError, Residual, ResponseNumbers};
use crate::bytes::{put_u32, u32_at};
use crate::fields::{Bits, fields};

const STATUS: u8 = 0x01;
const ACKNOWLEDGE: u8 = 0x40;

fields! {
    Be:
    /// SCSI Data-Out: a part of what a command writes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DataOut {
        /// F: the last part of what an R2T asked for, or of unsolicited data.
        is_final: bool = Bits(1, FINAL),
        /// The logical unit, for solicited data.
        lun: Lun = 8,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// Target Transfer Tag of the R2T; [`NO_TAG`] for unsolicited data.
        transfer_tag: u32 = 20,
        /// ExpStatSN.
        exp_stat_sn: u32 = 28,
        /// DataSN: counts the parts.
        data_sn: u32 = 36,
        /// Buffer Offset: where in the command's data it belongs, in bytes.
        offset: u32 = 40,
        ;
        /// Bytes of data.
        data_len: u32,
    }
}

fields! {
    Be:
    /// SCSI Data-In: a part of what a command reads, and possibly its status.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DataIn {
        /// F: the last part of a sequence.
        is_final: bool = Bits(1, FINAL),
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// StatSN, which counts with a status only, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        /// DataSN: counts the parts.
        data_sn: u32 = 36,
        /// Buffer Offset: where in the command's data it belongs, in bytes.
        offset: u32 = 40,
        ;
        /// S: the command's status. No SCSI Response follows.
        status: Option<u8>,
        /// How far the bytes moved differ from those that were expected. Only with a status.
        residual: Residual,
        /// Bytes of data.
        data_len: u32,
    }
}

fields! {
    Be:
    /// Ready To Transfer: the target has room for a part of a command's data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadyToTransfer {
        /// The logical unit.
        lun: Lun = 8,
        /// Initiator Task Tag.
        task_tag: u32 = 16,
        /// Target Transfer Tag: names this R2T in the data that answers it.
        transfer_tag: u32 = 20,
        /// StatSN of what comes next, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        /// R2TSN: counts those of a command.
        r2t_sn: u32 = 36,
        /// Buffer Offset: where in the command's data the part begins, in bytes.
        offset: u32 = 40,
        /// Desired Data Transfer Length: bytes asked for, at least one.
        len: u32 = 44,
    }
}

/// Refuses a range that no buffer has.
fn check_range(opcode: Opcode, header: &[u8], len: u32) -> Result<(), ProtocolError> {
    match u32_at(header, 40).checked_add(len) {
        Some(_) => Ok(()),
        None => Err(ProtocolError::field(opcode, 40)),
    }
}

/// Refuses a task tag that names no task.
fn check_task_tag(opcode: Opcode, header: &[u8]) -> Result<(), ProtocolError> {
    match u32_at(header, 16) {
        NO_TAG => Err(ProtocolError::field(opcode, 16)),
        _ => Ok(()),
    }
}

impl DataOut {
    #[inline]
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<DataOut, ProtocolError> {
        let opcode = Opcode::DataOut;
        check_range(opcode, header, data_len)?;
        check_task_tag(opcode, header)?;
        Ok(DataOut::read(header, data_len))
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
        check_range(opcode, header, data_len)?;
        check_task_tag(opcode, header)?;
        let status = has_status.then_some(header[3]);
        Ok(DataIn::read(header, status, residual, data_len))
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        self.write(header);
        if let Some(status) = self.status {
            header[1] |= STATUS;
            header[3] = status;
        }
        put_u32(header, 20, NO_TAG);
        self.residual.emit(header);
    }
}

impl ReadyToTransfer {
    pub(super) fn parse(header: &[u8]) -> Result<ReadyToTransfer, ProtocolError> {
        let opcode = Opcode::ReadyToTransfer;
        let parsed = ReadyToTransfer::read(header);
        check_range(opcode, header, parsed.len)?;
        if parsed.len == 0 {
            return Err(ProtocolError::field(opcode, 44));
        }
        if parsed.transfer_tag == NO_TAG {
            return Err(ProtocolError::field(opcode, 20));
        }
        check_task_tag(opcode, header)?;
        Ok(parsed)
    }
}
