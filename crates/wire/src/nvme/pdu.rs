//! A PDU's header of any type.

use super::{
    C2HData, COMMON_HEADER_LEN, CapsuleCmd, CapsuleResp, CommonHeader, FatalError, Framing,
};
use super::{H2CData, ICReq, ICResp, Layout, PduType, R2T, TermReq};

/// A PDU's header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pdu {
    /// Initialize Connection Request.
    ICReq(ICReq),
    /// Initialize Connection Response.
    ICResp(ICResp),
    /// Host to Controller Terminate Connection Request.
    H2CTermReq(TermReq),
    /// Controller to Host Terminate Connection Request.
    C2HTermReq(TermReq),
    /// Command Capsule.
    CapsuleCmd(CapsuleCmd),
    /// Response Capsule.
    CapsuleResp(CapsuleResp),
    /// Host to Controller Data Transfer.
    H2CData(H2CData),
    /// Controller to Host Data Transfer.
    C2HData(C2HData),
    /// Ready to Transfer.
    R2T(R2T),
}

impl Pdu {
    /// Parses a header, of which `bytes` holds all [`HLEN`](PduType::header_len) bytes or more.
    ///
    /// # Errors
    /// What of it breaks the rules of `framing`, the first one in the order of the header's fields.
    ///
    /// # Panics
    /// When `bytes` is shorter than the header; [`Framing::check`] tells how long that is.
    pub fn parse(bytes: &[u8], framing: &Framing) -> Result<Pdu, FatalError> {
        let layout = framing.check(&bytes[..COMMON_HEADER_LEN])?;
        Pdu::parse_checked(bytes, &layout.expect("a common header"))
    }

    /// As [`parse`](Self::parse), for a header whose [check](Framing::check) gave `layout`: looks at the fields behind the common header.
    ///
    /// # Errors
    /// The first of those fields that is wrong.
    ///
    /// # Panics
    /// When `bytes` is shorter than the header.
    #[inline]
    pub fn parse_checked(bytes: &[u8], layout: &Layout) -> Result<Pdu, FatalError> {
        Ok(match layout.pdu_type {
            PduType::ICReq => Pdu::ICReq(ICReq::parse(bytes)?),
            PduType::ICResp => Pdu::ICResp(ICResp::parse(bytes)?),
            PduType::H2CTermReq => Pdu::H2CTermReq(TermReq::parse(bytes, layout)?),
            PduType::C2HTermReq => Pdu::C2HTermReq(TermReq::parse(bytes, layout)?),
            PduType::CapsuleCmd => Pdu::CapsuleCmd(CapsuleCmd::read(bytes, layout.data_len)),
            PduType::CapsuleResp => Pdu::CapsuleResp(CapsuleResp::read(bytes)),
            PduType::H2CData => Pdu::H2CData(H2CData::parse(bytes, layout)?),
            PduType::C2HData => Pdu::C2HData(C2HData::parse(bytes, layout)?),
            PduType::R2T => Pdu::R2T(R2T::parse(bytes)?),
        })
    }

    /// Writes the header to the front of `buffer`, without its digest, and gives its length. The length fields and the digests'
    /// flags are those that `framing` gives it.
    ///
    /// # Panics
    /// When `buffer` is shorter than the header, or the PDU's length exceeds 32 bits.
    pub fn emit(&self, framing: &Framing, buffer: &mut [u8]) -> usize {
        let layout = framing.layout(self.pdu_type(), self.data_len());
        let header = &mut buffer[..layout.header_len()];
        header.fill(0);
        CommonHeader::of(&layout).emit(header);
        match self {
            Pdu::ICReq(pdu) => pdu.write(header),
            Pdu::ICResp(pdu) => pdu.write(header),
            Pdu::H2CTermReq(pdu) | Pdu::C2HTermReq(pdu) => pdu.write(header),
            Pdu::CapsuleCmd(pdu) => pdu.write(header),
            Pdu::CapsuleResp(pdu) => pdu.write(header),
            Pdu::H2CData(pdu) => pdu.write(header),
            Pdu::C2HData(pdu) => pdu.write(header),
            Pdu::R2T(pdu) => pdu.write(header),
        }
        layout.header_len()
    }

    /// What kind of PDU it is.
    #[must_use]
    pub fn pdu_type(&self) -> PduType {
        match self {
            Pdu::ICReq(_) => PduType::ICReq,
            Pdu::ICResp(_) => PduType::ICResp,
            Pdu::H2CTermReq(_) => PduType::H2CTermReq,
            Pdu::C2HTermReq(_) => PduType::C2HTermReq,
            Pdu::CapsuleCmd(_) => PduType::CapsuleCmd,
            Pdu::CapsuleResp(_) => PduType::CapsuleResp,
            Pdu::H2CData(_) => PduType::H2CData,
            Pdu::C2HData(_) => PduType::C2HData,
            Pdu::R2T(_) => PduType::R2T,
        }
    }

    /// Bytes of data that follow the header.
    #[must_use]
    pub fn data_len(&self) -> u32 {
        match self {
            Pdu::H2CTermReq(pdu) | Pdu::C2HTermReq(pdu) => pdu.data_len,
            Pdu::CapsuleCmd(pdu) => pdu.data_len,
            Pdu::H2CData(pdu) => pdu.data_len,
            Pdu::C2HData(pdu) => pdu.data_len,
            Pdu::ICReq(_) | Pdu::ICResp(_) | Pdu::CapsuleResp(_) | Pdu::R2T(_) => 0,
        }
    }
}
