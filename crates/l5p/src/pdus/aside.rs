//! Missing and late bytes of a PDU.
//!
//! CRC-32C is linear: a PDU is followed with zeros in place of what is missing, however long that is, and what comes late
//! adds its [share]. Only two sums are kept, one for each digest.

use shared::Output;

use super::engine::{Engine, Field, Judged, Rules, Run, data_part, header_part, runs};
use crate::crc32c::share;
use crate::{AnyOrder, Direction, Part};

/// What tells the fields of a PDU apart when its bytes come late.
#[derive(Clone, Copy, Debug)]
pub struct LatePdu {
    pdu: Judged,
}

impl LatePdu {
    /// What bytes of one field have in the checks.
    fn part(&self, run: &Run, bytes: &[u8]) -> Part {
        match run.field {
            Field::Header if self.pdu.header_digest => header_part(share(bytes, run.behind)),
            Field::Data if self.pdu.layout.data_digest => data_part(share(bytes, run.behind)),
            Field::HeaderDigest => header_part(check_bytes(run.at, bytes)),
            Field::DataDigest => data_part(check_bytes(run.at, bytes)),
            Field::Header | Field::Data | Field::Padding => 0,
        }
    }
}

impl<R: Rules> AnyOrder for Engine<R> {
    type Message = LatePdu;

    const MAX_GAP: u32 = u32::MAX;

    fn skip(&mut self, offset: u32, len: u32) {
        let Some(pdu) = self.pdu else { return };
        for run in runs(&pdu, offset, len as usize) {
            let len = run.bytes.len() as u32;
            match run.field {
                Field::Header if pdu.header_digest => self.header.update_zeros(len),
                Field::Data if pdu.layout.data_digest => self.data.update_zeros(len),
                // The digests begin as zeros.
                _ => {}
            }
        }
    }

    fn message(&mut self, _offset: u32, len: u32) -> Option<LatePdu> {
        let pdu = self.pdu.filter(|pdu| pdu.layout.len() == len)?;
        (self.direction == Direction::Receive).then_some(LatePdu { pdu })
    }

    fn transform_aside(
        &mut self,
        late: &LatePdu,
        len: u32,
        offset: u32,
        input: &[u8],
        output: Output<'_>,
    ) -> Part {
        // A late packet is short enough to be in the cache for the second pass.
        output.copy_from(input);
        self.absorb_aside(late, len, offset, input)
    }

    fn absorb_aside(&mut self, late: &LatePdu, _len: u32, offset: u32, input: &[u8]) -> Part {
        runs(&late.pdu, offset, input.len())
            .map(|run| late.part(&run, &input[run.bytes.clone()]))
            .fold(0, |sum, part| sum ^ part)
    }

    fn residue(&self) -> Part {
        self.residue
    }
}

/// Bytes of a digest from byte `at` of it on, with zeros for the others.
fn check_bytes(at: u32, bytes: &[u8]) -> u32 {
    let mut check = [0; 4];
    check[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(check)
}
