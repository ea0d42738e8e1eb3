//! The NIC's part of NVMe/TCP: the digests of a stream of PDUs, and where their data belong.

use std::ops::Range;

use shared::{Input, Output};
use wire::nvme::{Framing, Layout, MAX_HEADER_LEN, Pdu, PduType};

use super::Parameters;
use crate::crc32c::Crc32c;
use crate::{Digest, Direction, Integrity, Judgement, Layer5, Part, Placement};

#[cfg(test)]
mod tests;

/// Bytes of the header that tell all: for a data PDU that is the whole of it, without its digest.
pub(super) const HEADER_LEN: usize = 24;

/// Makes or checks the digests of PDUs in pieces of any size, with constant state (Autonomous NIC offloads §5.1).
///
/// A receiving engine checks header and data digests and leaves all bytes as they came. A transmitting one puts the data
/// digest in place of the dummy; header digests it passes on. The index of a message has no meaning but its order.
///
/// Costs: 50 cycles to judge a header, 90 to begin and end a PDU, those of [`Crc32c`] per byte, and 200 more for late bytes of one packet.
#[derive(Clone, Debug)]
pub struct Engine {
    framing: Framing,
    commands: u16,
    pub(super) direction: Direction,
    /// The PDU in progress; `None` before the first one.
    pub(super) layout: Option<Layout>,
    /// Where its data belong.
    placement: Option<Placement>,
    pub(super) header: Crc32c,
    pub(super) data: Crc32c,
    /// The header digest, as it was received.
    header_field: [u8; 4],
    /// The data digest, made or received.
    data_field: [u8; 4],
    /// By how much the digests of the PDU that ended last have failed.
    pub(super) residue: Part,
}

/// What a byte of a PDU, behind the part of the header that was judged, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Header,
    HeaderDigest,
    Padding,
    Data,
    DataDigest,
}

/// A run of bytes in one field.
pub(super) struct Run {
    pub(super) field: Field,
    /// Where in the field the run begins.
    pub(super) at: u32,
    /// Bytes of the field behind the run.
    pub(super) behind: u32,
    /// The bytes, counted from the first of those given.
    pub(super) bytes: Range<usize>,
}

impl Engine {
    /// An engine for PDUs as `parameters` say.
    #[must_use]
    pub fn new(parameters: &Parameters, direction: Direction) -> Engine {
        Engine {
            framing: parameters.framing(),
            commands: parameters.commands,
            direction,
            layout: None,
            placement: None,
            header: Crc32c::new(),
            data: Crc32c::new(),
            header_field: [0; 4],
            data_field: [0; 4],
            residue: 0,
        }
    }

    /// The placement of a data PDU. `Err` when it has none that could be. The tags of PDUs that are sent are the peer's
    /// business: a Linux host puts a generation into the upper bits of its CIDs.
    fn place(&self, pdu: &Pdu, layout: &Layout) -> Result<Option<Placement>, ()> {
        if self.direction == Direction::Transmit {
            return Ok(None);
        }
        let (tag, at) = match pdu {
            Pdu::C2HData(data) => (data.cccid, data.data_offset),
            Pdu::H2CData(data) => (data.ttag, data.data_offset),
            _ => return Ok(None),
        };
        if tag >= self.commands {
            return Err(());
        }
        let data = layout.data();
        Ok(Some(Placement {
            from: data.start,
            to: data.end,
            tag,
            at,
        }))
    }

    /// Judges a whole header of `HEADER_LEN` bytes.
    fn judge_all(&self, header: &[u8]) -> Option<(Layout, Option<Placement>)> {
        let layout = self.framing.check(header).ok()??;
        if layout.pdu_type == PduType::CapsuleCmd {
            return Some((layout, None));
        }
        let pdu = Pdu::parse_checked(header, &layout).ok()?;
        let placement = self.place(&pdu, &layout).ok()?;
        Some((layout, placement))
    }

    /// Takes bytes of the header or of a digest, which stay as they are.
    fn take(&mut self, run: &Run, input: &[u8]) {
        match run.field {
            Field::Header if self.framing.header_digest => self.header.update(input),
            Field::HeaderDigest => note(&mut self.header_field, run.at, input),
            Field::DataDigest => note(&mut self.data_field, run.at, input),
            Field::Header | Field::Padding | Field::Data => {}
        }
    }

    /// The bytes of the data digest that a run of it is to have.
    fn made_digest(&mut self, run: &Run) -> &[u8] {
        if run.at == 0 {
            self.data_field = self.data.finish().to_le_bytes();
        }
        let at = run.at as usize;
        &self.data_field[at..at + run.bytes.len()]
    }
}

impl Layer5 for Engine {
    type Header = [u8; HEADER_LEN];

    fn judge(&self, bytes: &[u8]) -> Judgement {
        match bytes.get(..HEADER_LEN) {
            Some(header) => match self.judge_all(header) {
                Some((layout, _)) => Judgement::Message {
                    len: layout.pdu_len(),
                },
                None => Judgement::NotAHeader,
            },
            None => match self.framing.check(bytes) {
                Ok(_) => Judgement::TooShort,
                Err(_) => Judgement::NotAHeader,
            },
        }
    }

    fn start(&mut self, _index: u64, header: &[u8]) -> Option<u32> {
        let (layout, placement) = self.judge_all(header)?;
        self.layout = Some(layout);
        self.placement = placement;
        self.header = Crc32c::new();
        self.data = Crc32c::new();
        (self.header_field, self.data_field) = ([0; 4], [0; 4]);
        if layout.header_digest {
            self.header.update(header);
        }
        Some(layout.pdu_len())
    }

    fn transform(&mut self, offset: u32, mut input: Input<'_>, mut output: Output<'_>) {
        assert_eq!(input.len(), output.len());
        let Some(layout) = self.layout else {
            output.copy_from(input);
            return;
        };
        for run in runs(&layout, offset, input.len()) {
            let (now, later) = input.split_at(run.bytes.len());
            let (made, rest) = output.split_at(run.bytes.len());
            match (run.field, self.direction) {
                (Field::Data, _) if layout.data_digest => self.data.copy(now, made),
                (Field::DataDigest, Direction::Transmit) => {
                    made.copy_from(self.made_digest(&run));
                }
                (Field::Data | Field::Padding, _) => made.copy_from(now),
                _ => now.read::<MAX_HEADER_LEN, _>(|bytes| {
                    self.take(&run, bytes);
                    made.copy_from(bytes);
                }),
            }
            (input, output) = (later, rest);
        }
    }

    fn absorb(&mut self, offset: u32, mut input: Input<'_>) {
        let Some(layout) = self.layout else { return };
        for run in runs(&layout, offset, input.len()) {
            let (now, later) = input.split_at(run.bytes.len());
            match (run.field, self.direction) {
                (Field::Data, _) if layout.data_digest => self.data.update(now),
                (Field::DataDigest, Direction::Transmit) => {
                    self.made_digest(&run);
                }
                (Field::Data | Field::Padding, _) => {}
                _ => now.read::<MAX_HEADER_LEN, _>(|bytes| self.take(&run, bytes)),
            }
            input = later;
        }
    }

    fn has_checks(&self) -> bool {
        self.framing.header_digest || self.framing.data_digest
    }

    fn placement(&self) -> Option<Placement> {
        self.placement
    }

    fn finish(&mut self) -> Integrity {
        self.residue = 0;
        if let (Direction::Receive, Some(layout)) = (self.direction, self.layout) {
            if layout.header_digest {
                let failed = self.header.finish() ^ u32::from_le_bytes(self.header_field);
                self.residue |= header_part(failed);
            }
            if layout.data_digest {
                let failed = self.data.finish() ^ u32::from_le_bytes(self.data_field);
                self.residue |= data_part(failed);
            }
        }
        match self.residue {
            0 => Integrity::Good,
            _ => Integrity::Bad,
        }
    }

    /// The data digest of the PDU in progress, if that has so many bytes and a data digest.
    fn icv(&self, len: u32) -> Range<u32> {
        match self.layout {
            Some(layout) if layout.pdu_len() == len => layout.data_digest(),
            _ => len..len,
        }
    }

    fn digest(&mut self, offset: u32) -> Digest {
        let data = self.data.finish().to_le_bytes();
        let [offset, header] = [offset, self.header.finish()].map(u32::to_le_bytes);
        let mut digest = [0; 16];
        for (part, value) in digest
            .chunks_exact_mut(4)
            .zip([data, self.data_field, header, offset])
        {
            part.copy_from_slice(&value);
        }
        digest
    }
}

/// By how much a header digest fails, as a part of the integrity check.
pub(super) fn header_part(failed: u32) -> Part {
    Part::from(failed) << 32
}

/// By how much a data digest fails, as a part of the integrity check.
pub(super) fn data_part(failed: u32) -> Part {
    Part::from(failed)
}

/// What the `len` bytes from `offset` on are, in order. What lies behind the PDU, for which a caller has no reason, is padding.
pub(super) fn runs(layout: &Layout, offset: u32, len: usize) -> impl Iterator<Item = Run> {
    let (header, digest) = (layout.header_len() as u32, layout.header_digest().end);
    let (data, check) = (layout.data(), layout.data_digest().end);
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u32;
        let (field, range) = if data.contains(&at) {
            (Field::Data, data.clone())
        } else if at < header {
            (Field::Header, 0..header)
        } else if at < digest {
            (Field::HeaderDigest, header..digest)
        } else if at < data.start {
            (Field::Padding, digest..data.start)
        } else if at < check {
            (Field::DataDigest, data.end..check)
        } else {
            (Field::Padding, at..at.saturating_add((len - done) as u32))
        };
        let todo = (len - done).min((range.end - at).max(1) as usize);
        let bytes = done..done + todo;
        done += todo;
        Some(Run {
            field,
            at: at - range.start,
            behind: (range.end - at).saturating_sub(todo as u32),
            bytes,
        })
    })
}

/// Notes bytes of a digest from byte `at` of it on.
fn note(field: &mut [u8; 4], at: u32, bytes: &[u8]) {
    let at = at as usize;
    field[at..at + bytes.len()].copy_from_slice(bytes);
}
