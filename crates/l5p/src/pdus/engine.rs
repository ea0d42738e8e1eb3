//! The NIC's part of a protocol of PDUs with digests: the digests of a stream of PDUs, and where their data belong.

use std::fmt::Debug;
use std::ops::Range;

use shared::{Input, Output};

use super::{Layout, MAX_FRONT};
use crate::crc32c::Crc32c;
use crate::{Digest, Direction, Integrity, Judgement, Layer5, Part, Placement};

/// Bytes of a header digest.
const HEADER_DIGEST_LEN: u32 = 4;

/// What an engine must know of a protocol of PDUs: its headers. Digests are CRC-32C.
pub trait Rules: Clone + Debug + Send + 'static {
    /// The first bytes of a header that tell all ([`Layer5::Header`]).
    type Header: AsRef<[u8]> + AsMut<[u8]> + Copy + Debug + Default + Eq + Send;

    /// Whether these bytes, fewer than a header has, may begin one.
    fn may_begin(&self, bytes: &[u8]) -> bool;

    /// Judges the first bytes of a header, as many as [`Header`](Self::Header) has. `None` when they are of none.
    fn judge(&self, header: &[u8], direction: Direction) -> Option<Judged>;

    /// Whether headers or data have digests.
    fn has_digests(&self) -> bool;
}

/// What a header tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Where the parts of the PDU are.
    pub layout: Layout,
    /// Whether the header ends with a digest.
    pub header_digest: bool,
    /// Where its data belong, if that is received.
    pub placement: Option<Placement>,
}

/// Makes or checks the digests of PDUs in pieces of any size, with constant state (Autonomous NIC offloads §5.1).
///
/// A receiving engine checks header and data digests and leaves all bytes as they came. A transmitting one puts the data
/// digest in place of the dummy; header digests it passes on. The index of a message has no meaning but its order.
///
/// Costs: 50 cycles to judge a header, 90 to begin and end a PDU, those of [`Crc32c`] per byte, and 200 more for late bytes of one packet.
#[derive(Clone, Debug)]
pub struct Engine<R> {
    rules: R,
    pub(super) direction: Direction,
    /// The PDU in progress; `None` before the first one.
    pub(super) pdu: Option<Judged>,
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
pub(crate) enum Field {
    Header,
    HeaderDigest,
    Padding,
    /// With the padding that its digest covers.
    Data,
    DataDigest,
}

/// A run of bytes in one field.
pub(crate) struct Run {
    pub(crate) field: Field,
    /// Where in the field the run begins.
    pub(crate) at: u32,
    /// Bytes of the field behind the run.
    pub(crate) behind: u32,
    /// The bytes, counted from the first of those given.
    pub(crate) bytes: Range<usize>,
}

impl<R: Rules> Engine<R> {
    /// An engine for PDUs by these rules.
    #[must_use]
    pub fn of(rules: R, direction: Direction) -> Engine<R> {
        Engine {
            rules,
            direction,
            pdu: None,
            header: Crc32c::new(),
            data: Crc32c::new(),
            header_field: [0; 4],
            data_field: [0; 4],
            residue: 0,
        }
    }

    /// Takes bytes of the header or of a digest, which stay as they are.
    fn take(&mut self, pdu: &Judged, run: &Run, input: &[u8]) {
        match run.field {
            Field::Header if pdu.header_digest => self.header.update(input),
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

impl<R: Rules> Layer5 for Engine<R> {
    type Header = R::Header;

    fn judge(&self, bytes: &[u8]) -> Judgement {
        match bytes.get(..Self::HEADER_LEN) {
            Some(header) => match self.rules.judge(header, self.direction) {
                Some(pdu) => Judgement::Message {
                    len: pdu.layout.len(),
                },
                None => Judgement::NotAHeader,
            },
            None if self.rules.may_begin(bytes) => Judgement::TooShort,
            None => Judgement::NotAHeader,
        }
    }

    fn start(&mut self, _index: u64, header: &[u8]) -> Option<u32> {
        let pdu = self.rules.judge(header, self.direction)?;
        self.pdu = Some(pdu);
        self.header = Crc32c::new();
        self.data = Crc32c::new();
        (self.header_field, self.data_field) = ([0; 4], [0; 4]);
        if pdu.header_digest {
            self.header.update(header);
        }
        Some(pdu.layout.len())
    }

    fn transform(&mut self, offset: u32, mut input: Input<'_>, mut output: Output<'_>) {
        assert_eq!(input.len(), output.len());
        let Some(pdu) = self.pdu else {
            output.copy_from(input);
            return;
        };
        for run in runs(&pdu, offset, input.len()) {
            let (now, later) = input.split_at(run.bytes.len());
            let (made, rest) = output.split_at(run.bytes.len());
            match (run.field, self.direction) {
                (Field::Data, _) if pdu.layout.data_digest => self.data.copy(now, made),
                (Field::DataDigest, Direction::Transmit) => {
                    made.copy_from(self.made_digest(&run));
                }
                (Field::Data | Field::Padding, _) => made.copy_from(now),
                _ => now.read::<MAX_FRONT, _>(|bytes| {
                    self.take(&pdu, &run, bytes);
                    made.copy_from(bytes);
                }),
            }
            (input, output) = (later, rest);
        }
    }

    fn absorb(&mut self, offset: u32, mut input: Input<'_>) {
        let Some(pdu) = self.pdu else { return };
        for run in runs(&pdu, offset, input.len()) {
            let (now, later) = input.split_at(run.bytes.len());
            match (run.field, self.direction) {
                (Field::Data, _) if pdu.layout.data_digest => self.data.update(now),
                (Field::DataDigest, Direction::Transmit) => {
                    self.made_digest(&run);
                }
                (Field::Data | Field::Padding, _) => {}
                _ => now.read::<MAX_FRONT, _>(|bytes| self.take(&pdu, &run, bytes)),
            }
            input = later;
        }
    }

    fn has_checks(&self) -> bool {
        self.rules.has_digests()
    }

    fn placement(&self) -> Option<Placement> {
        self.pdu?.placement
    }

    fn finish(&mut self) -> Integrity {
        self.residue = 0;
        if let (Direction::Receive, Some(pdu)) = (self.direction, self.pdu) {
            if pdu.header_digest {
                let failed = self.header.finish() ^ u32::from_le_bytes(self.header_field);
                self.residue |= header_part(failed);
            }
            if pdu.layout.data_digest {
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
        match self.pdu {
            Some(pdu) if pdu.layout.len() == len => len - pdu.layout.digest_len()..len,
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
pub(crate) fn runs(pdu: &Judged, offset: u32, len: usize) -> impl Iterator<Item = Run> {
    let layout = pdu.layout;
    let digest = layout.header_len;
    let header = digest - u32::from(pdu.header_digest) * HEADER_DIGEST_LEN;
    let data = layout.data_start..layout.data_start + layout.data_len + layout.padding;
    let check = layout.len();
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
