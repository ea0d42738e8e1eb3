//! A small layer-5 protocol for tests: messages with a magic pattern, a length, bytes masked by their position, and a check
//! value that any single wrong, missing or misplaced byte spoils.

use std::ops::Range;

use l5p::{AnyOrder, Digest, Integrity, Judgement, Layer5, Part};
use shared::{Input, Output};

pub(crate) const HEADER_LEN: usize = 4;
pub(crate) const ICV_LEN: usize = 8;
const MAGIC: [u8; 2] = [0xc5, 0x3a];

/// The receiving engine.
#[derive(Debug)]
pub(crate) struct Toy {
    key: u64,
    any_order: bool,
    tells_number: bool,
    index: u64,
    len: u32,
    sum: Part,
}

impl Toy {
    pub(crate) fn new(key: u64, any_order: bool) -> Self {
        Self {
            key,
            any_order,
            tells_number: false,
            index: 0,
            len: 0,
            sum: 0,
        }
    }

    /// One whose check is said to tell the message's number, as it does.
    pub(crate) fn that_tells_numbers(self) -> Self {
        Self {
            tells_number: true,
            ..self
        }
    }
}

fn mix(key: u64, index: u64, offset: u32, byte: u8) -> u64 {
    let mut word =
        key ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(offset) << 9 ^ u64::from(byte);
    word = (word ^ word >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 32
}

/// A whole message on the wire.
pub(crate) fn seal(key: u64, index: u64, plaintext: &[u8]) -> Vec<u8> {
    let len = HEADER_LEN + plaintext.len() + ICV_LEN;
    let mut wire = vec![MAGIC[0], MAGIC[1], (len >> 8) as u8, len as u8];
    for byte in plaintext {
        let offset = wire.len() as u32;
        wire.push(byte ^ mix(key, index, offset, 0) as u8);
    }
    let mut sum = mix(key, index, len as u32, 0);
    for (offset, byte) in wire.iter().enumerate().skip(HEADER_LEN) {
        sum ^= mix(key, index, offset as u32, *byte);
    }
    wire.extend_from_slice(&sum.to_le_bytes());
    wire
}

/// What an offloaded packet holds of that message.
pub(crate) fn opened(plaintext: &[u8], wire: &[u8]) -> Vec<u8> {
    let mut bytes = wire.to_vec();
    bytes[HEADER_LEN..HEADER_LEN + plaintext.len()].copy_from_slice(plaintext);
    bytes
}

fn part(key: u64, index: u64, len: u32, offset: u32, input: &[u8], output: Output<'_>) -> Part {
    let icv = len - ICV_LEN as u32;
    let mut sum = 0;
    let mut made = input.to_vec();
    for (at, (byte, out)) in input.iter().zip(&mut made).enumerate() {
        let position = offset + at as u32;
        if position >= icv {
            sum ^= Part::from(*byte) << (8 * (position - icv));
        } else if position >= HEADER_LEN as u32 {
            *out = byte ^ mix(key, index, position, 0) as u8;
            sum ^= Part::from(mix(key, index, position, *byte));
        }
    }
    output.copy_from(&made);
    sum
}

impl Layer5 for Toy {
    type Header = [u8; HEADER_LEN];

    fn check_tells_number(&self) -> bool {
        self.tells_number
    }

    fn judge(&self, bytes: &[u8]) -> Judgement {
        if bytes.iter().zip(MAGIC).any(|(byte, magic)| *byte != magic) {
            return Judgement::NotAHeader;
        }
        let &[_, _, high, low, ..] = bytes else {
            return Judgement::TooShort;
        };
        let len = u32::from(u16::from_be_bytes([high, low]));
        if (len as usize) < HEADER_LEN + ICV_LEN || len > 20_000 {
            return Judgement::NotAHeader;
        }
        Judgement::Message { len }
    }

    fn start(&mut self, index: u64, header: &[u8]) -> Option<u32> {
        let Judgement::Message { len } = self.judge(header) else {
            return None;
        };
        self.index = index;
        self.len = len;
        self.sum = 0;
        Some(len)
    }

    fn transform(&mut self, offset: u32, input: Input<'_>, output: Output<'_>) {
        let mut bytes = vec![0; input.len()];
        input.copy_to(&mut bytes);
        self.sum ^= part(self.key, self.index, self.len, offset, &bytes, output);
    }

    fn finish(&mut self) -> Integrity {
        self.sum ^= Part::from(mix(self.key, self.index, self.len, 0));
        match self.sum {
            0 => Integrity::Good,
            _ => Integrity::Bad,
        }
    }

    fn icv(&self, len: u32) -> Range<u32> {
        len - ICV_LEN as u32..len
    }

    fn digest(&mut self, _offset: u32) -> Digest {
        self.sum.to_le_bytes()
    }
}

impl AnyOrder for Toy {
    type Message = u64;

    fn message(&mut self, _offset: u32, _len: u32) -> Option<u64> {
        self.any_order.then_some(self.index)
    }

    fn transform_aside(
        &mut self,
        index: &u64,
        len: u32,
        offset: u32,
        input: &[u8],
        output: Output<'_>,
    ) -> Part {
        let zeros = vec![0; input.len()];
        let discarded = &mut zeros.clone();
        let constant = part(self.key, *index, len, offset, &zeros, discarded.into());
        constant ^ part(self.key, *index, len, offset, input, output)
    }

    fn residue(&self) -> Part {
        self.sum
    }
}
