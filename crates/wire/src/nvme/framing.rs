//! The rules that the headers of one direction must obey.

use super::{COMMON_HEADER_LEN, CommonHeader, DIGEST_LEN, FatalError, FatalErrorStatus, Flags};
use super::{Layout, MAX_TERM_REQ_DATA, PduType};
use crate::bytes::u32_le_at;

/// The two sides of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The side that sends commands; also called the initiator.
    Host,
    /// The side that executes them; also called the target.
    Controller,
}

impl Role {
    /// The other side.
    #[inline]
    #[must_use]
    pub const fn peer(self) -> Role {
        match self {
            Role::Host => Role::Controller,
            Role::Controller => Role::Host,
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The sender's next PDU is its ICReq or ICResp.
    Initializing,
    /// That PDU has been sent.
    Established,
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
    /// HPDA for what a controller sends, CPDA for what a host sends: data is aligned to so many dwords and one more. At most
    /// [`MAX_ALIGNMENT`](super::MAX_ALIGNMENT).
    pub alignment: u8,
    /// The longest PDU in bytes that is accepted.
    pub max_pdu: u32,
}

// A bit for each type that may come first, or later.
const FIRST_OF_HOST: u16 = set(&[PduType::ICReq, PduType::H2CTermReq]);
const LATER_OF_HOST: u16 = set(&[PduType::CapsuleCmd, PduType::H2CData, PduType::H2CTermReq]);
const FIRST_OF_CONTROLLER: u16 = set(&[PduType::ICResp, PduType::C2HTermReq]);
const LATER_OF_CONTROLLER: u16 = set(&[
    PduType::C2HData,
    PduType::CapsuleResp,
    PduType::R2T,
    PduType::C2HTermReq,
]);

const fn set(types: &[PduType]) -> u16 {
    let mut set = 0;
    let mut i = 0;
    while i < types.len() {
        set |= 1 << types[i] as u8;
        i += 1;
    }
    set
}

impl Framing {
    /// The rules for the PDU that opens the direction of `sender`.
    #[must_use]
    pub const fn initializing(sender: Role) -> Framing {
        Framing {
            sender,
            phase: Phase::Initializing,
            header_digest: false,
            data_digest: false,
            alignment: 0,
            max_pdu: 24 + MAX_TERM_REQ_DATA,
        }
    }

    /// Where the parts of a PDU are.
    ///
    /// # Panics
    /// When the PDU's length exceeds 32 bits.
    #[inline]
    #[must_use]
    pub fn layout(&self, pdu_type: PduType, data_len: u32) -> Layout {
        let has_digests = pdu_type.has_digests();
        let header_digest = self.header_digest && has_digests;
        let data_digest = self.data_digest && has_digests && data_len > 0;
        let header_end = pdu_type.header_len() as u32 + DIGEST_LEN * u32::from(header_digest);
        let pdo = if data_len > 0 && has_digests && self.alignment > 0 {
            header_end.next_multiple_of((u32::from(self.alignment) + 1) * 4)
        } else {
            // That is a multiple of four bytes.
            header_end
        };
        assert!(
            data_len <= u32::MAX - pdo - DIGEST_LEN * u32::from(data_digest),
            "{data_len} bytes of data do not fit into one PDU"
        );
        Layout {
            pdu_type,
            header_digest,
            data_digest,
            pdo: pdo as u8,
            data_len,
        }
    }

    /// Checks the first bytes of a header, which may be as few as one, and gives the PDU's layout once there are eight. With 20 of
    /// them, the length that a data PDU gives is checked too. The cost is some 25 cycles.
    ///
    /// # Errors
    /// The first field that breaks the rules, as soon as its bytes are there.
    #[inline]
    pub fn check(&self, bytes: &[u8]) -> Result<Option<Layout>, FatalError> {
        let Some(common) = bytes.first_chunk::<COMMON_HEADER_LEN>() else {
            return self.check_part(bytes).map(|()| None);
        };
        let header = CommonHeader::parse(common);
        let layout = self.check_common(&header)?;
        if layout.pdu_type.must_have_data()
            && bytes.len() >= 20
            && u32_le_at(bytes, 16) != layout.data_len
        {
            return Err(FatalError::field(16));
        }
        Ok(Some(layout))
    }

    /// Checks the fields in their order. PDO and DDGSTF must be those that a PDU with or without data has, and what PLEN leaves for
    /// data tells which it is.
    #[inline]
    fn check_common(&self, header: &CommonHeader) -> Result<Layout, FatalError> {
        let pdu_type = self.check_type(header.pdu_type)?;
        let has_data = pdu_type.may_have_data() && header.plen > self.layout(pdu_type, 0).pdu_len();
        let shortest = self.layout(pdu_type, u32::from(has_data));
        self.check_flags(pdu_type, header.flags)?;
        if header.flags.contains(Flags::DDGSTF) != shortest.data_digest {
            return Err(FatalError::field(1));
        }
        if usize::from(header.hlen) != pdu_type.header_len() {
            return Err(FatalError::field(2));
        }
        if header.pdo != shortest.pdo_field() {
            return Err(FatalError::field(3));
        }
        let more_data = match header.plen.checked_sub(shortest.pdu_len()) {
            Some(0) if has_data || !pdu_type.must_have_data() => 0,
            Some(more) if has_data && header.plen <= self.max_pdu => more,
            _ => return Err(FatalError::field(4)),
        };
        let layout = Layout {
            data_len: shortest.data_len + more_data,
            ..shortest
        };
        if pdu_type.is_term_req() && layout.data_len > MAX_TERM_REQ_DATA {
            return Err(FatalError::field(4));
        }
        Ok(layout)
    }

    /// Checks fewer bytes than the common header has.
    #[cold]
    fn check_part(&self, bytes: &[u8]) -> Result<(), FatalError> {
        let Some(&code) = bytes.first() else {
            return Ok(());
        };
        let pdu_type = self.check_type(code)?;
        if let Some(&flags) = bytes.get(1) {
            self.check_flags(pdu_type, Flags(flags))?;
        }
        match bytes.get(2) {
            Some(&hlen) if usize::from(hlen) != pdu_type.header_len() => Err(FatalError::field(2)),
            _ => Ok(()),
        }
    }

    #[inline]
    fn check_type(&self, code: u8) -> Result<PduType, FatalError> {
        let Some(pdu_type) = PduType::from_code(code) else {
            return Err(FatalError::field(0));
        };
        let (first, later) = match self.sender {
            Role::Host => (FIRST_OF_HOST, LATER_OF_HOST),
            Role::Controller => (FIRST_OF_CONTROLLER, LATER_OF_CONTROLLER),
        };
        let in_turn = match self.phase {
            Phase::Initializing => first,
            Phase::Established => later,
        };
        if in_turn >> code & 1 != 0 {
            Ok(pdu_type)
        } else if (first | later) >> code & 1 != 0 {
            Err(FatalError::of(FatalErrorStatus::SEQUENCE))
        } else {
            Err(FatalError::field(0))
        }
    }

    /// Flags must be those that the type has, and tell of the header digest as it was agreed.
    #[inline]
    fn check_flags(&self, pdu_type: PduType, flags: Flags) -> Result<(), FatalError> {
        let header_digest = self.header_digest && pdu_type.has_digests();
        let success_is_last = flags.contains(Flags::LAST_PDU) || !flags.contains(Flags::SUCCESS);
        if pdu_type.flags().contains(flags)
            && flags.contains(Flags::HDGSTF) == header_digest
            && success_is_last
        {
            Ok(())
        } else {
            Err(FatalError::field(1))
        }
    }
}
