//! A PDU's header of any kind.

use super::control::check_text;
use super::framing::FINAL;
use super::{
    AsyncMessage, BHS_LEN, DataIn, DataOut, Lengths, LoginRequest, LoginResponse, LogoutRequest,
    LogoutResponse, MOST_DATA, NO_TAG, NopIn, NopOut, Opcode, ProtocolError, ReadyToTransfer,
    Reject, ScsiCommand, ScsiResponse, TaskManagementRequest, TaskManagementResponse, TextRequest,
    TextResponse,
};
use crate::bytes::put_u32;
use crate::fields::{fields, part};

/// A PDU's header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as what it has")]
pub enum Pdu {
    NopOut(NopOut),
    ScsiCommand(ScsiCommand),
    TaskManagementRequest(TaskManagementRequest),
    LoginRequest(LoginRequest),
    TextRequest(TextRequest),
    DataOut(DataOut),
    LogoutRequest(LogoutRequest),
    NopIn(NopIn),
    ScsiResponse(ScsiResponse),
    TaskManagementResponse(TaskManagementResponse),
    LoginResponse(LoginResponse),
    TextResponse(TextResponse),
    DataIn(DataIn),
    LogoutResponse(LogoutResponse),
    ReadyToTransfer(ReadyToTransfer),
    AsyncMessage(AsyncMessage),
    Reject(Reject),
}

fields! {
    Be:
    /// The numbers that most requests have (RFC 7143 §4.2.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RequestNumbers {
        /// CmdSN: the number of this command, or of the next one if it is immediate.
        cmd_sn: u32 = 0,
        /// ExpStatSN: of the next status that the initiator waits for.
        exp_stat_sn: u32 = 4,
    }
}

part!(Be: RequestNumbers);

fields! {
    Be:
    /// The numbers that all PDUs of a target have (RFC 7143 §4.2.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResponseNumbers {
        /// StatSN: of this status, or of the next one in a PDU without.
        stat_sn: u32 = 0,
        /// ExpCmdSN: of the next command that the target waits for.
        exp_cmd_sn: u32 = 4,
        /// MaxCmdSN: of the last command that the target has room for.
        max_cmd_sn: u32 = 8,
    }
}

part!(Be: ResponseNumbers);

impl Pdu {
    /// Parses a basic header segment whose `lengths` were [checked](super::Framing::check).
    ///
    /// # Errors
    /// The first field that breaks the rules.
    ///
    /// # Panics
    /// When there are fewer than [`BHS_LEN`] bytes.
    #[inline]
    pub fn parse(header: &[u8], lengths: &Lengths) -> Result<Pdu, ProtocolError> {
        let header = &header[..BHS_LEN];
        let data_len = lengths.data_len;
        Ok(match lengths.opcode {
            Opcode::DataIn => Pdu::DataIn(DataIn::parse(header, data_len)?),
            Opcode::ScsiResponse => Pdu::ScsiResponse(ScsiResponse::parse(header, data_len)?),
            Opcode::ReadyToTransfer => Pdu::ReadyToTransfer(ReadyToTransfer::parse(header)?),
            Opcode::DataOut => Pdu::DataOut(DataOut::parse(header, data_len)?),
            Opcode::ScsiCommand => Pdu::ScsiCommand(ScsiCommand::parse(header, data_len)),
            Opcode::NopOut => Pdu::NopOut(NopOut::read(header, data_len)),
            Opcode::NopIn => Pdu::NopIn(NopIn::read(header, data_len)),
            Opcode::LoginRequest => Pdu::LoginRequest(LoginRequest::parse(header, data_len)?),
            Opcode::LoginResponse => Pdu::LoginResponse(LoginResponse::parse(header, data_len)?),
            Opcode::TextRequest => {
                check_text(lengths.opcode, header)?;
                Pdu::TextRequest(TextRequest::read(header, data_len))
            }
            Opcode::TextResponse => {
                check_text(lengths.opcode, header)?;
                Pdu::TextResponse(TextResponse::read(header, data_len))
            }
            Opcode::LogoutRequest => Pdu::LogoutRequest(LogoutRequest::read(header)),
            Opcode::LogoutResponse => Pdu::LogoutResponse(LogoutResponse::read(header)),
            Opcode::TaskManagementRequest => {
                Pdu::TaskManagementRequest(TaskManagementRequest::read(header))
            }
            Opcode::TaskManagementResponse => {
                Pdu::TaskManagementResponse(TaskManagementResponse::read(header))
            }
            Opcode::AsyncMessage => Pdu::AsyncMessage(AsyncMessage::read(header, data_len)),
            Opcode::Reject => Pdu::Reject(Reject::read(header, data_len)),
        })
    }

    /// Writes the basic header segment.
    ///
    /// # Panics
    /// When there is less room than [`BHS_LEN`], or more data than [`MOST_DATA`].
    pub fn emit(&self, header: &mut [u8]) {
        let header = &mut header[..BHS_LEN];
        header.fill(0);
        let lengths = self.lengths();
        assert!(lengths.data_len <= MOST_DATA, "the length has three bytes");
        header[4..8].copy_from_slice(&lengths.data_len.to_be_bytes());
        header[0] = lengths.opcode as u8;
        if lengths.opcode.is_always_final() {
            header[1] = FINAL;
        }
        match self {
            Pdu::NopOut(pdu) => pdu.write(header),
            Pdu::ScsiCommand(pdu) => pdu.emit(header),
            Pdu::TaskManagementRequest(pdu) => pdu.write(header),
            Pdu::LoginRequest(pdu) => pdu.emit(header),
            Pdu::TextRequest(pdu) => pdu.write(header),
            Pdu::DataOut(pdu) => pdu.write(header),
            Pdu::LogoutRequest(pdu) => pdu.write(header),
            Pdu::NopIn(pdu) => pdu.write(header),
            Pdu::ScsiResponse(pdu) => pdu.emit(header),
            Pdu::TaskManagementResponse(pdu) => pdu.write(header),
            Pdu::LoginResponse(pdu) => pdu.emit(header),
            Pdu::TextResponse(pdu) => pdu.write(header),
            Pdu::DataIn(pdu) => pdu.emit(header),
            Pdu::LogoutResponse(pdu) => pdu.write(header),
            Pdu::ReadyToTransfer(pdu) => pdu.write(header),
            Pdu::AsyncMessage(pdu) => {
                pdu.write(header);
                put_u32(header, 16, NO_TAG);
            }
            Pdu::Reject(pdu) => {
                pdu.write(header);
                put_u32(header, 16, NO_TAG);
            }
        }
    }

    /// What kind of PDU it is.
    #[must_use]
    pub fn opcode(&self) -> Opcode {
        self.lengths().opcode
    }

    /// What its first bytes tell.
    #[must_use]
    pub fn lengths(&self) -> Lengths {
        let (opcode, data_len) = match self {
            Pdu::NopOut(pdu) => (Opcode::NopOut, pdu.data_len),
            Pdu::ScsiCommand(pdu) => (Opcode::ScsiCommand, pdu.data_len),
            Pdu::TaskManagementRequest(_) => (Opcode::TaskManagementRequest, 0),
            Pdu::LoginRequest(pdu) => (Opcode::LoginRequest, pdu.data_len),
            Pdu::TextRequest(pdu) => (Opcode::TextRequest, pdu.data_len),
            Pdu::DataOut(pdu) => (Opcode::DataOut, pdu.data_len),
            Pdu::LogoutRequest(_) => (Opcode::LogoutRequest, 0),
            Pdu::NopIn(pdu) => (Opcode::NopIn, pdu.data_len),
            Pdu::ScsiResponse(pdu) => (Opcode::ScsiResponse, pdu.data_len),
            Pdu::TaskManagementResponse(_) => (Opcode::TaskManagementResponse, 0),
            Pdu::LoginResponse(pdu) => (Opcode::LoginResponse, pdu.data_len),
            Pdu::TextResponse(pdu) => (Opcode::TextResponse, pdu.data_len),
            Pdu::DataIn(pdu) => (Opcode::DataIn, pdu.data_len),
            Pdu::LogoutResponse(_) => (Opcode::LogoutResponse, 0),
            Pdu::ReadyToTransfer(_) => (Opcode::ReadyToTransfer, 0),
            Pdu::AsyncMessage(pdu) => (Opcode::AsyncMessage, pdu.data_len),
            Pdu::Reject(pdu) => (Opcode::Reject, pdu.data_len),
        };
        let ahs_len = match self {
            Pdu::ScsiCommand(command) => command.ahs_len,
            _ => 0,
        };
        Lengths {
            opcode,
            ahs_len,
            data_len,
        }
    }

    /// The numbers of a PDU that a target sends.
    #[must_use]
    pub fn response_numbers(&self) -> Option<ResponseNumbers> {
        Some(match self {
            Pdu::NopIn(pdu) => pdu.numbers,
            Pdu::ScsiResponse(pdu) => pdu.numbers,
            Pdu::TaskManagementResponse(pdu) => pdu.numbers,
            Pdu::LoginResponse(pdu) => pdu.numbers,
            Pdu::TextResponse(pdu) => pdu.numbers,
            Pdu::DataIn(pdu) => pdu.numbers,
            Pdu::LogoutResponse(pdu) => pdu.numbers,
            Pdu::ReadyToTransfer(pdu) => pdu.numbers,
            Pdu::AsyncMessage(pdu) => pdu.numbers,
            Pdu::Reject(pdu) => pdu.numbers,
            _ => return None,
        })
    }
}
