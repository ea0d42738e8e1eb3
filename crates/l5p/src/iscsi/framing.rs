//! iSCSI as a protocol of PDUs.

use wire::iscsi::{BHS_LEN, DIGEST_LEN, Framing, Lengths, Pdu, ProtocolError, Stage};

use crate::crc32c::Crc32c;
use crate::iscsi::Parameters;
use crate::pdus::{Layout, MAX_FRONT, PduProtocol};
use crate::{Listed, ProtocolId};

/// Bytes that tell how long a PDU is, and each part of it.
const PRELUDE_LEN: usize = 8;
/// Data is padded to a multiple of this.
const WORD: u32 = 4;

impl PduProtocol for Framing {
    type Pdu = Pdu;
    type Prelude = Lengths;
    type Error = ProtocolError;

    const ID: ProtocolId = <Parameters as Listed>::ID;
    const NAME: &'static str = "iSCSI";
    const PRELUDE_LEN: usize = PRELUDE_LEN;

    #[inline]
    fn begin(&self, prelude: &[u8]) -> Result<Lengths, ProtocolError> {
        let lengths = self.check(&prelude[..PRELUDE_LEN])?;
        Ok(lengths.expect("eight bytes tell the lengths"))
    }

    #[inline]
    fn header_len(&self, lengths: &Lengths) -> usize {
        parts(self, lengths).header_len as usize
    }

    #[inline]
    fn parse(&self, lengths: &Lengths, header: &[u8]) -> Result<(Pdu, Layout), ProtocolError> {
        let (header, digest) = header.split_at(BHS_LEN + usize::from(lengths.ahs_len));
        if let Some(digest) = digest.first_chunk()
            && u32::from_le_bytes(*digest) != Crc32c::of(header)
        {
            return Err(ProtocolError::HeaderDigest);
        }
        Ok((Pdu::parse(header, lengths)?, parts(self, lengths)))
    }

    /// Digests, and longer data, begin behind the response that ends the login.
    #[inline]
    fn ends_phase(&self, pdu: &Pdu) -> bool {
        match pdu {
            Pdu::LoginResponse(response) => {
                response.status.is_success() && response.next == Some(Stage::FullFeature)
            }
            _ => false,
        }
    }

    fn layout_of(&self, pdu: &Pdu) -> Layout {
        parts(self, &pdu.lengths())
    }

    fn emit(&self, pdu: &Pdu, front: &mut [u8; MAX_FRONT]) -> Layout {
        let layout = self.layout_of(pdu);
        let len = BHS_LEN + usize::from(pdu.lengths().ahs_len);
        pdu.emit(&mut front[..BHS_LEN]);
        front[BHS_LEN..len].fill(0);
        if self.header_digest {
            let (header, rest) = front.split_at_mut(len);
            rest[..DIGEST_LEN as usize].copy_from_slice(&Crc32c::of(&*header).to_le_bytes());
        }
        layout
    }

    fn no_room(pdu: &Pdu) -> ProtocolError {
        let lengths = pdu.lengths();
        ProtocolError::DataLength {
            opcode: lengths.opcode,
            len: lengths.data_len,
            limit: 0,
        }
    }
}

/// The parts of a PDU, in the words of any PDU.
#[inline]
pub(super) fn parts(framing: &Framing, lengths: &Lengths) -> Layout {
    let digest = u32::from(framing.header_digest) * DIGEST_LEN;
    let header_len = BHS_LEN as u32 + u32::from(lengths.ahs_len) + digest;
    Layout {
        header_len,
        data_start: header_len,
        data_len: lengths.data_len,
        padding: lengths.data_len.next_multiple_of(WORD) - lengths.data_len,
        data_digest: framing.data_digest && lengths.data_len > 0,
    }
}
