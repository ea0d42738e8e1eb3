//! NVMe/TCP as a protocol of PDUs.

use wire::nvme::{
    self, COMMON_HEADER_LEN, FatalError, FatalErrorStatus, Framing, MAX_TERM_REQ_DATA, Pdu,
    PduType, Phase, Role, TermReq,
};

use crate::crc32c::Crc32c;
use crate::nvme::Parameters;
use crate::pdus::{Layout, MAX_FRONT, PduProtocol};
use crate::{Listed, ProtocolId};

impl PduProtocol for Framing {
    type Pdu = Pdu;
    type Prelude = nvme::Layout;
    type Error = FatalError;

    const ID: ProtocolId = <Parameters as Listed>::ID;
    const NAME: &'static str = "NVMe/TCP";
    const PRELUDE_LEN: usize = COMMON_HEADER_LEN;

    #[inline]
    fn begin(&self, prelude: &[u8]) -> Result<nvme::Layout, FatalError> {
        let layout = self.check(&prelude[..COMMON_HEADER_LEN])?;
        Ok(layout.expect("a common header tells the layout"))
    }

    #[inline]
    fn header_len(&self, layout: &nvme::Layout) -> usize {
        layout.header_digest().end as usize
    }

    #[inline]
    fn parse(&self, layout: &nvme::Layout, header: &[u8]) -> Result<(Pdu, Layout), FatalError> {
        let (header, digest) = header.split_at(layout.header_len());
        if let Some(digest) = digest.first_chunk() {
            let digest = u32::from_le_bytes(*digest);
            if digest != Crc32c::of(header) {
                return Err(FatalError::header_digest(digest));
            }
        }
        Ok((Pdu::parse_checked(header, layout)?, parts(layout)))
    }

    #[inline]
    fn ends_phase(&self, _: &Pdu) -> bool {
        self.phase == Phase::Initializing
    }

    fn layout_of(&self, pdu: &Pdu) -> Layout {
        parts(&self.layout(pdu.pdu_type(), pdu.data_len()))
    }

    fn emit(&self, pdu: &Pdu, front: &mut [u8; MAX_FRONT]) -> Layout {
        let layout = self.layout_of(pdu);
        let (header, rest) = front.split_at_mut(pdu.pdu_type().header_len());
        pdu.emit(self, header);
        if layout.header_len as usize > header.len() {
            rest[..4].copy_from_slice(&Crc32c::of(&*header).to_le_bytes());
        }
        layout
    }

    fn no_room(_: &Pdu) -> FatalError {
        FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE)
    }

    /// A TermReq, unless the refused PDU is one itself (NVMe/TCP 1.0 §3.5.1).
    fn refusal(&self, error: &FatalError, header: &[u8]) -> Option<Pdu> {
        let refused = header.first().copied().and_then(PduType::from_code);
        if matches!(refused, Some(PduType::H2CTermReq | PduType::C2HTermReq)) {
            return None;
        }
        let request = TermReq {
            error: *error,
            data_len: header.len().min(MAX_TERM_REQ_DATA as usize) as u32,
        };
        Some(match self.sender {
            Role::Host => Pdu::H2CTermReq(request),
            Role::Controller => Pdu::C2HTermReq(request),
        })
    }

    fn termination(pdu: &Pdu) -> Option<FatalError> {
        match pdu {
            Pdu::H2CTermReq(request) | Pdu::C2HTermReq(request) => Some(request.error),
            _ => None,
        }
    }
}

/// The parts of an NVMe/TCP PDU, in the words of any PDU.
#[inline]
pub(super) fn parts(layout: &nvme::Layout) -> Layout {
    Layout {
        header_len: layout.header_digest().end,
        data_start: u32::from(layout.pdo),
        data_len: layout.data_len,
        padding: 0,
        data_digest: layout.data_digest,
    }
}
