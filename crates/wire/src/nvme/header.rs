//! The common header, and where the parts of a PDU are.

use std::ops::{BitOr, Range};

use super::{COMMON_HEADER_LEN, DIGEST_LEN};
use crate::bytes::{put_u32_le, u32_le_at};
use crate::fields::codes;

codes! {
    /// What kind of PDU it is: the first byte of the common header (NVMe/TCP 1.0 §3.6.1).
    pub enum PduType: u8 {
        /// Initialize Connection Request.
        ICReq = 0,
        /// Initialize Connection Response.
        ICResp = 1,
        /// Host to Controller Terminate Connection Request.
        H2CTermReq = 2,
        /// Controller to Host Terminate Connection Request.
        C2HTermReq = 3,
        /// Command Capsule.
        CapsuleCmd = 4,
        /// Response Capsule.
        CapsuleResp = 5,
        /// Host to Controller Data Transfer.
        H2CData = 6,
        /// Controller to Host Data Transfer.
        C2HData = 7,
        /// Ready to Transfer.
        R2T = 9,
    }
}

impl PduType {
    /// HLEN: bytes of the header, the common header included and the digest excluded.
    #[inline]
    #[must_use]
    pub const fn header_len(self) -> usize {
        match self {
            PduType::ICReq | PduType::ICResp => 128,
            PduType::CapsuleCmd => 72,
            _ => 24,
        }
    }

    /// The flags that a PDU of this type may have.
    #[inline]
    #[must_use]
    pub(super) const fn flags(self) -> Flags {
        Flags(match self {
            PduType::ICReq | PduType::ICResp | PduType::H2CTermReq | PduType::C2HTermReq => 0,
            PduType::CapsuleResp | PduType::R2T => Flags::HDGSTF.0,
            PduType::CapsuleCmd => Flags::HDGSTF.0 | Flags::DDGSTF.0,
            PduType::H2CData => Flags::HDGSTF.0 | Flags::DDGSTF.0 | Flags::LAST_PDU.0,
            PduType::C2HData => {
                Flags::HDGSTF.0 | Flags::DDGSTF.0 | Flags::LAST_PDU.0 | Flags::SUCCESS.0
            }
        })
    }

    /// Whether its header, and its data if there is any, have digests where those were agreed on.
    #[inline]
    pub(super) const fn has_digests(self) -> bool {
        self.flags().contains(Flags::HDGSTF)
    }

    /// Whether it is one of the two that end a connection.
    #[inline]
    pub(super) const fn is_term_req(self) -> bool {
        matches!(self, PduType::H2CTermReq | PduType::C2HTermReq)
    }

    /// Whether data follows the header in any case.
    #[inline]
    pub(super) const fn must_have_data(self) -> bool {
        matches!(self, PduType::H2CData | PduType::C2HData)
    }

    /// Whether data may follow the header.
    #[inline]
    pub(super) const fn may_have_data(self) -> bool {
        matches!(
            self,
            PduType::H2CTermReq
                | PduType::C2HTermReq
                | PduType::CapsuleCmd
                | PduType::H2CData
                | PduType::C2HData
        )
    }
}

/// The second byte of the common header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// A header digest follows the header.
    pub const HDGSTF: Flags = Flags(1);
    /// A data digest follows the data.
    pub const DDGSTF: Flags = Flags(2);
    /// No data follows for this command, or for this R2T.
    pub const LAST_PDU: Flags = Flags(4);
    /// The command succeeded, and no response capsule follows.
    pub const SUCCESS: Flags = Flags(8);

    /// Whether it has all flags of `other`.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The common header, as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommonHeader {
    /// PDU-Type, known or not.
    pub pdu_type: u8,
    /// FLAGS.
    pub flags: Flags,
    /// HLEN: bytes of the header without its digest.
    pub hlen: u8,
    /// PDO: where the data begins, counted from the PDU's first byte.
    pub pdo: u8,
    /// PLEN: bytes of the whole PDU.
    pub plen: u32,
}

impl CommonHeader {
    /// Reads the first eight bytes. It judges nothing: [`Framing::check`](super::Framing::check) does.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8; COMMON_HEADER_LEN]) -> CommonHeader {
        CommonHeader {
            pdu_type: bytes[0],
            flags: Flags(bytes[1]),
            hlen: bytes[2],
            pdo: bytes[3],
            plen: u32_le_at(bytes, 4),
        }
    }

    /// The common header of a PDU, whose other flags its own fields have.
    pub(super) fn of(layout: &Layout) -> CommonHeader {
        let mut flags = Flags::default();
        if layout.header_digest {
            flags = flags | Flags::HDGSTF;
        }
        if layout.data_digest {
            flags = flags | Flags::DDGSTF;
        }
        CommonHeader {
            pdu_type: layout.pdu_type as u8,
            flags,
            hlen: layout.header_len() as u8,
            pdo: layout.pdo_field(),
            plen: layout.pdu_len(),
        }
    }

    /// Writes the eight bytes to the front of `buffer`.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[0] = self.pdu_type;
        buffer[1] = self.flags.0;
        buffer[2] = self.hlen;
        buffer[3] = self.pdo;
        put_u32_le(buffer, 4, self.plen);
    }
}

/// Where the parts of one PDU are, counted from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// What kind of PDU it is.
    pub pdu_type: PduType,
    /// Whether a header digest follows the header.
    pub header_digest: bool,
    /// Whether a data digest follows the data.
    pub data_digest: bool,
    /// Where the data begins; where the PDU ends if it has none.
    pub pdo: u8,
    /// Bytes of data.
    pub data_len: u32,
}

impl Layout {
    /// What PDO says: nothing where there is no data, nor in a TermReq.
    #[inline]
    pub(super) fn pdo_field(&self) -> u8 {
        if self.data_len > 0 && self.pdu_type.has_digests() {
            self.pdo
        } else {
            0
        }
    }

    /// Bytes of the header without its digest.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.pdu_type.header_len()
    }

    /// Where the header's digest is; empty without one.
    #[inline]
    #[must_use]
    pub fn header_digest(&self) -> Range<u32> {
        let start = self.header_len() as u32;
        start..start + DIGEST_LEN * u32::from(self.header_digest)
    }

    /// Where the data is; empty without data.
    #[inline]
    #[must_use]
    pub fn data(&self) -> Range<u32> {
        u32::from(self.pdo)..u32::from(self.pdo) + self.data_len
    }

    /// Where the data's digest is; empty without one.
    #[inline]
    #[must_use]
    pub fn data_digest(&self) -> Range<u32> {
        let start = self.data().end;
        start..start + DIGEST_LEN * u32::from(self.data_digest)
    }

    /// PLEN: bytes of the whole PDU.
    #[inline]
    #[must_use]
    pub fn pdu_len(&self) -> u32 {
        self.data_digest().end
    }
}
