//! The rules that the headers of one direction must obey.

use super::{DEFAULT_MAX_DATA, MAX_AHS_LEN, Opcode, ProtocolError};

/// The two sides of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The side that sends commands.
    Initiator,
    /// The side that executes them.
    Target,
}

impl Role {
    /// The other side.
    #[inline]
    #[must_use]
    pub const fn peer(self) -> Role {
        match self {
            Role::Initiator => Role::Target,
            Role::Target => Role::Initiator,
        }
    }
}

/// How far a connection is (RFC 7143 §4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Login: nothing has digests.
    Login,
    /// Full feature phase.
    FullFeature,
}

/// What one direction of a connection agreed on, against which its headers are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Framing {
    /// Who sends the PDUs.
    pub sender: Role,
    /// How far the connection is.
    pub phase: Phase,
    /// Whether headers have digests.
    pub header_digest: bool,
    /// Whether data has digests.
    pub data_digest: bool,
    /// MaxRecvDataSegmentLength of the receiver: the most bytes of data in a PDU.
    pub max_data: u32,
}

/// What the first eight bytes of a header tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The kind of PDU.
    pub opcode: Opcode,
    /// TotalAHSLength, in bytes.
    pub ahs_len: u16,
    /// DataSegmentLength.
    pub data_len: u32,
}

/// The bit of byte 0 that a request has which is to be delivered at once.
pub(super) const IMMEDIATE: u8 = 0x40;
/// Bit 7 of byte 1 in most PDUs.
pub(super) const FINAL: u8 = 0x80;

/// A flag if it is set, else no bit.
pub(super) const fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

impl Framing {
    /// The rules while `sender` logs in, or is logged in to.
    #[must_use]
    pub const fn login(sender: Role) -> Framing {
        Framing {
            sender,
            phase: Phase::Login,
            header_digest: false,
            data_digest: false,
            max_data: DEFAULT_MAX_DATA,
        }
    }

    /// Checks the first bytes of a header, which may be as few as one, and gives lengths once there are eight.
    ///
    /// # Errors
    /// The first field that breaks the rules, as soon as its bytes are there.
    #[inline]
    pub fn check(&self, bytes: &[u8]) -> Result<Option<Lengths>, ProtocolError> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        let opcode = self.check_opcode(first)?;
        if let Some(&flags) = bytes.get(1)
            && opcode.is_always_final()
            && flags & FINAL == 0
        {
            return Err(ProtocolError::Flags { opcode, flags });
        }
        let Some(&words) = bytes.get(4) else {
            return Ok(None);
        };
        let ahs_len = u16::from(words) * 4;
        let is_allowed = opcode == Opcode::ScsiCommand && usize::from(ahs_len) <= MAX_AHS_LEN;
        if ahs_len > 0 && !is_allowed {
            return Err(ProtocolError::AdditionalHeaders {
                opcode,
                len: ahs_len,
            });
        }
        let Some(&[a, b, c]) = bytes.get(5..8).and_then(|len| len.first_chunk()) else {
            return Ok(None);
        };
        let data_len = u32::from_be_bytes([0, a, b, c]);
        let limit = match opcode.may_have_data() {
            true => self.max_data,
            false => 0,
        };
        if data_len > limit {
            return Err(ProtocolError::DataLength {
                opcode,
                len: data_len,
                limit,
            });
        }
        Ok(Some(Lengths {
            opcode,
            ahs_len,
            data_len,
        }))
    }

    #[inline]
    fn check_opcode(&self, first: u8) -> Result<Opcode, ProtocolError> {
        let unknown = ProtocolError::Opcode(first);
        let code = match self.sender {
            Role::Initiator => first & !IMMEDIATE,
            Role::Target => first,
        };
        let opcode = Opcode::from_code(code).ok_or(unknown)?;
        let is_of_target = code & 0x20 != 0;
        if is_of_target != (self.sender == Role::Target)
            || opcode == Opcode::DataOut && first & IMMEDIATE != 0
        {
            return Err(unknown);
        }
        let is_login = matches!(opcode, Opcode::LoginRequest | Opcode::LoginResponse);
        match self.phase {
            Phase::Login if is_login || opcode == Opcode::Reject => Ok(opcode),
            Phase::FullFeature if !is_login => Ok(opcode),
            _ => Err(unknown),
        }
    }
}
