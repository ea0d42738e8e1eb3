//! Login Request and Login Response (RFC 7143 §11.12, §11.13).

use core::fmt;

use super::framing::{IMMEDIATE, flag};
use super::{Opcode, ProtocolError, RequestNumbers, ResponseNumbers};
use crate::fields::{Field, fields, part};

/// A stage of the login, as CSG and NSG name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// SecurityNegotiation.
    Security,
    /// LoginOperationalNegotiation.
    Operational,
    /// FullFeaturePhase: only ever the next one.
    FullFeature,
}

impl Stage {
    const fn code(self) -> u8 {
        match self {
            Stage::Security => 0,
            Stage::Operational => 1,
            Stage::FullFeature => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Stage> {
        match code & 3 {
            0 => Some(Stage::Security),
            1 => Some(Stage::Operational),
            3 => Some(Stage::FullFeature),
            _ => None,
        }
    }
}

const TRANSIT: u8 = 0x80;
const CONTINUE: u8 = 0x40;

/// The flags of both: current stage, next stage if the sender is ready for it, and whether more text follows.
fn stages(opcode: Opcode, flags: u8) -> Result<(Stage, Option<Stage>, bool), ProtocolError> {
    let refused = ProtocolError::Flags { opcode, flags };
    let stage = Stage::from_code(flags >> 2).ok_or(refused)?;
    let next = match flags & TRANSIT {
        0 => None,
        _ => Some(Stage::from_code(flags).ok_or(refused)?),
    };
    let continues = flags & CONTINUE != 0;
    if stage == Stage::FullFeature || next.is_some() && continues {
        return Err(refused);
    }
    Ok((stage, next, continues))
}

fn flags(stage: Stage, next: Option<Stage>, continues: bool) -> u8 {
    let next = next.map_or(0, |next| TRANSIT | next.code());
    next | flag(continues, CONTINUE) | stage.code() << 2
}

fields! {
    Be:
    /// Login Request. It is always immediate.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LoginRequest {
        /// ISID: names the session among those of this initiator.
        isid: [u8; 6] = 8,
        /// TSIH: 0 for a new session.
        tsih: u16 = 14,
        /// Initiator Task Tag: the same for all requests of a login.
        task_tag: u32 = 16,
        /// CID: names the connection in its session.
        cid: u16 = 20,
        /// CmdSN and ExpStatSN.
        numbers: RequestNumbers = 24,
        ;
        /// CSG.
        stage: Stage,
        /// T and NSG: the stage that the initiator is ready to go on to.
        next: Option<Stage>,
        /// C: the text goes on in the next request.
        continues: bool,
        /// Bytes of text.
        data_len: u32,
    }
}

impl LoginRequest {
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<LoginRequest, ProtocolError> {
        let opcode = Opcode::LoginRequest;
        if header[0] & IMMEDIATE == 0 {
            return Err(ProtocolError::Opcode(header[0]));
        }
        let (stage, next, continues) = stages(opcode, header[1])?;
        if header[3] != 0 {
            return Err(ProtocolError::field(opcode, 3));
        }
        Ok(LoginRequest::read(header, stage, next, continues, data_len))
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        self.write(header);
        header[0] |= IMMEDIATE;
        header[1] = flags(self.stage, self.next, self.continues);
    }
}

fields! {
    Be:
    /// Login Response.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LoginResponse {
        /// ISID of the request.
        isid: [u8; 6] = 8,
        /// TSIH: the target's name for the session, once it is there.
        tsih: u16 = 14,
        /// Initiator Task Tag of the request.
        task_tag: u32 = 16,
        /// StatSN, ExpCmdSN and MaxCmdSN.
        numbers: ResponseNumbers = 24,
        /// Whether the login goes on.
        status: LoginStatus = 36,
        ;
        /// CSG.
        stage: Stage,
        /// T and NSG: the stage that the login goes on to.
        next: Option<Stage>,
        /// C: the text goes on in the next response.
        continues: bool,
        /// Bytes of text.
        data_len: u32,
    }
}

impl LoginResponse {
    pub(super) fn parse(header: &[u8], data_len: u32) -> Result<LoginResponse, ProtocolError> {
        let opcode = Opcode::LoginResponse;
        let status = LoginStatus::get(header, 36);
        // What else a refusal says is not looked at: targets differ in it.
        let (stage, next, continues) = match status.is_success() {
            true => stages(opcode, header[1])?,
            false => (Stage::Security, None, false),
        };
        if status.is_success() && header[3] != 0 {
            return Err(ProtocolError::field(opcode, 3));
        }
        Ok(LoginResponse::read(
            header, stage, next, continues, data_len,
        ))
    }

    pub(super) fn emit(&self, header: &mut [u8]) {
        self.write(header);
        header[1] = flags(self.stage, self.next, self.continues);
    }
}

fields! {
    Be:
    /// How a login stands (RFC 7143 §11.13.5).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct LoginStatus {
        /// 0: success; 1: redirection; 2: the initiator's error; 3: the target's.
        class: u8 = 0,
        /// Which one of its class.
        detail: u8 = 1,
    }
}

part!(Be: LoginStatus);

impl LoginStatus {
    /// The login goes on, or has succeeded.
    pub const SUCCESS: LoginStatus = LoginStatus {
        class: 0,
        detail: 0,
    };
    /// The initiator could not be authenticated, or must be and was not.
    pub const AUTHENTICATION_FAILURE: LoginStatus = LoginStatus {
        class: 2,
        detail: 1,
    };
    /// The target has no such name.
    pub const NOT_FOUND: LoginStatus = LoginStatus {
        class: 2,
        detail: 3,
    };

    /// Whether the login goes on.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.class == 0
    }

    /// Whether the target is to be found at another address.
    #[must_use]
    pub const fn is_redirection(self) -> bool {
        self.class == 1
    }
}

impl fmt::Display for LoginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.class, self.detail) {
            (0, _) => "success",
            (1, 1) => "the target has moved temporarily",
            (1, 2) => "the target has moved for good",
            (2, 0) => "initiator error",
            (2, 1) => "authentication failure",
            (2, 2) => "this initiator may not use the target",
            (2, 3) => "there is no such target",
            (2, 4) => "the target has been removed",
            (2, 5) => "unsupported version",
            (2, 6) => "too many connections",
            (2, 7) => "missing parameter",
            (2, 8) => "the connection can't be in this session",
            (2, 9) => "session type not supported",
            (2, 10) => "there is no such session",
            (2, 11) => "invalid request during login",
            (3, 0) => "target error",
            (3, 1) => "service unavailable",
            (3, 2) => "out of resources",
            _ => "unknown status",
        };
        write!(f, "{name} (status {:02x}{:02x})", self.class, self.detail)
    }
}
