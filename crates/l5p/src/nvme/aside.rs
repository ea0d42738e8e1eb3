//! Missing and late bytes of a PDU.
//!
//! CRC-32C is linear: a PDU is followed with zeros in place of what is missing, however long that is, and what comes late
//! adds its [share]. Only two sums are kept, one for each digest.

use shared::Output;
use wire::nvme::Layout;

use super::Engine;
use super::engine::{Field, Run, data_part, header_part, runs};
use crate::crc32c::share;
use crate::{AnyOrder, Direction, Part};

#[cfg(test)]
mod tests;

/// What tells the fields of a PDU apart when its bytes come late.
#[derive(Clone, Copy, Debug)]
pub struct LatePdu {
    layout: Layout,
}

impl LatePdu {
    /// What bytes of one field have in the checks.
    fn part(&self, run: &Run, bytes: &[u8]) -> Part {
        match run.field {
            Field::Header if self.layout.header_digest => header_part(share(bytes, run.behind)),
            Field::Data if self.layout.data_digest => data_part(share(bytes, run.behind)),
            Field::HeaderDigest => header_part(check_bytes(run.at, bytes)),
            Field::DataDigest => data_part(check_bytes(run.at, bytes)),
            Field::Header | Field::Data | Field::Padding => 0,
        }
    }
}

impl AnyOrder for Engine {
    type Message = LatePdu;

    const MAX_GAP: u32 = u32::MAX;

    fn skip(&mut self, offset: u32, len: u32) {
        let Some(layout) = self.layout else { return };
        for run in runs(&layout, offset, len as usize) {
            let len = run.bytes.len() as u32;
            match run.field {
                Field::Header if layout.header_digest => self.header.update_zeros(len),
                Field::Data if layout.data_digest => self.data.update_zeros(len),
                // The digests begin as zeros.
                _ => {}
            }
        }
    }

    fn message(&mut self, _offset: u32, len: u32) -> Option<LatePdu> {
        let layout = self.layout.filter(|layout| layout.pdu_len() == len)?;
        (self.direction == Direction::Receive).then_some(LatePdu { layout })
    }

    fn transform_aside(
        &mut self,
        pdu: &LatePdu,
        len: u32,
        offset: u32,
        input: &[u8],
        output: Output<'_>,
    ) -> Part {
        // A late packet is short enough to be in the cache for the second pass.
        output.copy_from(input);
        self.absorb_aside(pdu, len, offset, input)
    }

    fn absorb_aside(&mut self, pdu: &LatePdu, _len: u32, offset: u32, input: &[u8]) -> Part {
        runs(&pdu.layout, offset, input.len())
            .map(|run| pdu.part(&run, &input[run.bytes.clone()]))
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
