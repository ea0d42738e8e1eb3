//! A PDU's header of any kind.

use super::{
    AsyncMessage, BHS_LEN, DataIn, DataOut, Lengths, LoginRequest, LoginResponse, LogoutRequest,
    LogoutResponse, MOST_DATA, NopIn, NopOut, Opcode, ProtocolError, ReadyToTransfer, Reject,
    ScsiCommand, ScsiResponse, TaskManagementRequest, TaskManagementResponse, TextRequest,
    TextResponse,
};
use crate::bytes::{put_u32, u32_at};

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

/// The numbers that most requests have (RFC 7143 §4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestNumbers {
    /// CmdSN: the number of this command, or of the next one if it is immediate.
    pub cmd_sn: u32,
    /// ExpStatSN: of the next status that the initiator waits for.
    pub exp_stat_sn: u32,
}

impl RequestNumbers {
    pub(super) fn parse(header: &[u8]) -> RequestNumbers {
        RequestNumbers {
            cmd_sn: u32_at(header, 24),
            exp_stat_sn: u32_at(header, 28),
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        put_u32(header, 24, self.cmd_sn);
        put_u32(header, 28, self.exp_stat_sn);
    }
}

/// The numbers that all PDUs of a target have (RFC 7143 §4.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseNumbers {
    /// StatSN: of this status, or of the next one in a PDU without.
    pub stat_sn: u32,
    /// ExpCmdSN: of the next command that the target waits for.
    pub exp_cmd_sn: u32,
    /// MaxCmdSN: of the last command that the target has room for.
    pub max_cmd_sn: u32,
}

impl ResponseNumbers {
    #[inline]
    pub(super) fn parse(header: &[u8]) -> ResponseNumbers {
        ResponseNumbers {
            stat_sn: u32_at(header, 24),
            exp_cmd_sn: u32_at(header, 28),
            max_cmd_sn: u32_at(header, 32),
        }
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        put_u32(header, 24, self.stat_sn);
        put_u32(header, 28, self.exp_cmd_sn);
        put_u32(header, 32, self.max_cmd_sn);
    }
}

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
            Opcode::NopOut => Pdu::NopOut(NopOut::parse(header, data_len)),
            Opcode::NopIn => Pdu::NopIn(NopIn::parse(header, data_len)),
            Opcode::LoginRequest => Pdu::LoginRequest(LoginRequest::parse(header, data_len)?),
            Opcode::LoginResponse => Pdu::LoginResponse(LoginResponse::parse(header, data_len)?),
            Opcode::TextRequest => Pdu::TextRequest(TextRequest::parse(header, data_len)?),
            Opcode::TextResponse => Pdu::TextResponse(TextResponse::parse(header, data_len)?),
            Opcode::LogoutRequest => Pdu::LogoutRequest(LogoutRequest::parse(header)),
            Opcode::LogoutResponse => Pdu::LogoutResponse(LogoutResponse::parse(header)),
            Opcode::TaskManagementRequest => {
                Pdu::TaskManagementRequest(TaskManagementRequest::parse(header))
            }
            Opcode::TaskManagementResponse => {
                Pdu::TaskManagementResponse(TaskManagementResponse::parse(header))
            }
            Opcode::AsyncMessage => Pdu::AsyncMessage(AsyncMessage::parse(header, data_len)),
            Opcode::Reject => Pdu::Reject(Reject::parse(header, data_len)),
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
        match self {
            Pdu::NopOut(pdu) => pdu.emit(header),
            Pdu::ScsiCommand(pdu) => pdu.emit(header),
            Pdu::TaskManagementRequest(pdu) => pdu.emit(header),
            Pdu::LoginRequest(pdu) => pdu.emit(header),
            Pdu::TextRequest(pdu) => pdu.emit(header),
            Pdu::DataOut(pdu) => pdu.emit(header),
            Pdu::LogoutRequest(pdu) => pdu.emit(header),
            Pdu::NopIn(pdu) => pdu.emit(header),
            Pdu::ScsiResponse(pdu) => pdu.emit(header),
            Pdu::TaskManagementResponse(pdu) => pdu.emit(header),
            Pdu::LoginResponse(pdu) => pdu.emit(header),
            Pdu::TextResponse(pdu) => pdu.emit(header),
            Pdu::DataIn(pdu) => pdu.emit(header),
            Pdu::LogoutResponse(pdu) => pdu.emit(header),
            Pdu::ReadyToTransfer(pdu) => pdu.emit(header),
            Pdu::AsyncMessage(pdu) => pdu.emit(header),
            Pdu::Reject(pdu) => pdu.emit(header),
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
