//! What kinds of PDUs there are (RFC 7143 §11.2.1.2).

use crate::fields::codes;

codes! {
    /// What kind of PDU it is, as far as error recovery level 0 has them: there is no SNACK.
    pub enum Opcode: u8 {
        /// NOP-Out: a ping, or the answer to one.
        NopOut = 0x00,
        /// SCSI Command.
        ScsiCommand = 0x01,
        /// Task Management Function Request.
        TaskManagementRequest = 0x02,
        /// Login Request.
        LoginRequest = 0x03,
        /// Text Request.
        TextRequest = 0x04,
        /// SCSI Data-Out.
        DataOut = 0x05,
        /// Logout Request.
        LogoutRequest = 0x06,
        /// NOP-In: a ping, or the answer to one.
        NopIn = 0x20,
        /// SCSI Response.
        ScsiResponse = 0x21,
        /// Task Management Function Response.
        TaskManagementResponse = 0x22,
        /// Login Response.
        LoginResponse = 0x23,
        /// Text Response.
        TextResponse = 0x24,
        /// SCSI Data-In.
        DataIn = 0x25,
        /// Logout Response.
        LogoutResponse = 0x26,
        /// Ready To Transfer.
        ReadyToTransfer = 0x31,
        /// Asynchronous Message.
        AsyncMessage = 0x32,
        /// Reject.
        Reject = 0x3f,
    }
}

impl Opcode {
    /// Whether a PDU of this kind may have data.
    #[inline]
    #[must_use]
    pub const fn may_have_data(self) -> bool {
        !matches!(
            self,
            Opcode::TaskManagementRequest
                | Opcode::TaskManagementResponse
                | Opcode::LogoutRequest
                | Opcode::LogoutResponse
                | Opcode::ReadyToTransfer
        )
    }

    /// Whether bit 7 of the flags is always set.
    #[inline]
    pub(super) const fn is_always_final(self) -> bool {
        !matches!(
            self,
            Opcode::ScsiCommand
                | Opcode::DataOut
                | Opcode::DataIn
                | Opcode::TextRequest
                | Opcode::TextResponse
                | Opcode::LoginRequest
                | Opcode::LoginResponse
        )
    }
}
