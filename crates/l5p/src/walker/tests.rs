use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{Digest, Judgement};

/// Messages of a magic byte, a length of the rest, a payload that is complemented, and a last byte
/// that is the sum of the payload.
#[derive(Default)]
struct Summed {
    len: u32,
    sum: u8,
    received: u8,
    started: Vec<u64>,
}

impl Layer5 for Summed {
    type Header = [u8; 3];

    fn judge(&self, bytes: &[u8]) -> Judgement {
        match *bytes {
            [b'M', high, low, ..] => match u16::from_be_bytes([high, low]) {
                0 => Judgement::NotAHeader,
                rest => Judgement::Message {
                    len: 3 + u32::from(rest),
                },
            },
            [] | [b'M'] | [b'M', _] => Judgement::TooShort,
            _ => Judgement::NotAHeader,
        }
    }

    fn start(&mut self, index: u64, header: &[u8]) -> Option<u32> {
        let Judgement::Message { len } = self.judge(header) else {
            return None;
        };
        self.started.push(index);
        self.len = len;
        self.sum = 0;
        Some(len)
    }

    fn transform(&mut self, offset: u32, input: Input<'_>, output: Output<'_>) {
        let mut bytes = vec![0; input.len()];
        input.copy_to(&mut bytes);
        for (i, byte) in bytes.iter_mut().enumerate() {
            if offset + i as u32 == self.len - 1 {
                self.received = *byte;
            } else {
                self.sum = self.sum.wrapping_add(*byte);
                *byte = !*byte;
            }
        }
        output.copy_from(&bytes);
    }

    fn finish(&mut self) -> Integrity {
        if self.sum == self.received {
            Integrity::Good
        } else {
            Integrity::Bad
        }
    }

    fn icv(&self, len: u32) -> Range<u32> {
        len - 1..len
    }

    fn digest(&mut self, _offset: u32) -> Digest {
        [self.sum; 16]
    }
}

fn message(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'M'];
    bytes.extend_from_slice(&(payload.len() as u16 + 1).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes.push(payload.iter().fold(0, |sum, b| sum.wrapping_add(*b)));
    bytes
}

fn transformed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = message(payload);
    let last = bytes.len() - 1;
    for byte in &mut bytes[3..last] {
        *byte = !*byte;
    }
    bytes
}

fn pieces(len: usize, cuts: &[usize]) -> Vec<Range<usize>> {
    let mut places: Vec<usize> = cuts.iter().map(|c| c % (len + 1)).collect();
    places.extend([0, len]);
    places.sort_unstable();
    places.windows(2).map(|w| w[0]..w[1]).collect()
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        payloads in vec(vec(any::<u8>(), 0..50), 0..8),
        cuts in vec(any::<usize>(), 0..20),
    ) {
        let stream: Vec<u8> = payloads.iter().flat_map(|p| message(p)).collect();
        let expected: Vec<u8> = payloads.iter().flat_map(|p| transformed(p)).collect();
        let mut output = vec![0; stream.len()];
        let (mut walker, mut absorber) = (Walker::new(7), Walker::new(7));
        let (mut layer5, mut other) = (Summed::default(), Summed::default());
        let mut finished = 0;
        for range in pieces(stream.len(), &cuts) {
            let input = &stream[range.clone()];
            let walked = walker.advance(&mut layer5, input, &mut output[range]).unwrap();
            prop_assert_eq!(walked.integrity, Integrity::Good);
            prop_assert_eq!(absorber.absorb(&mut other, input), Ok(walked));
            prop_assert_eq!(&absorber, &walker);
            finished += walked.messages_finished;
        }
        prop_assert_eq!(output, expected);
        prop_assert_eq!(finished as usize, payloads.len());
        prop_assert_eq!(walker.index(), 7 + payloads.len() as u64);
        prop_assert!(walker.at_boundary());
        let numbers: Vec<u64> = (7..7 + payloads.len() as u64).collect();
        prop_assert_eq!(layer5.started, numbers);
    }

    #[test]
    fn a_missing_header_is_located(
        payload in vec(any::<u8>(), 0..50),
        cuts in vec(any::<usize>(), 0..10),
    ) {
        let mut stream = message(&payload);
        let boundary = stream.len();
        stream.extend_from_slice(b"M\0\0M");
        let mut walker = Walker::new(0);
        let mut layer5 = Summed::default();
        let found = pieces(stream.len(), &cuts).into_iter().find_map(|range| {
            let refused = walker.absorb(&mut layer5, &stream[range.clone()]).err()?;
            Some(range.start as i64 + refused.at)
        });
        prop_assert_eq!(found, Some(boundary as i64));
    }
}

#[test]
fn positions_are_told() {
    let stream = message(&[1; 10]);
    let mut walker = Walker::new(0);
    let mut layer5 = Summed::default();
    assert_eq!(walker.to_next_header(), Some(0));
    walker.absorb(&mut layer5, &stream[..2]).unwrap();
    assert_eq!(
        (walker.to_next_header(), walker.message_len()),
        (None, None)
    );
    assert!(!walker.at_boundary());
    walker.absorb(&mut layer5, &stream[2..5]).unwrap();
    assert_eq!(walker.to_next_header(), Some(9));
    assert_eq!((walker.offset(), walker.message_len()), (5, Some(14)));
}

#[test]
fn long_input_is_absorbed_and_located() {
    let mut stream = message(&[1; 3 * 2048]);
    stream.extend_from_slice(b"?");
    let refused = Walker::new(0).absorb(&mut Summed::default(), &stream);
    assert_eq!(refused, Err(NotAHeader { at: 3 * 2048 + 4 }));
}

#[test]
fn a_bad_message_is_reported_and_passed() {
    let mut stream = message(&[1, 2, 3]);
    stream[4] = 9;
    stream.extend(message(&[1]));
    let walked = Walker::new(0)
        .absorb(&mut Summed::default(), &stream)
        .unwrap();
    assert_eq!(walked.messages_finished, 2);
    assert_eq!(walked.integrity, Integrity::Bad);
}

#[test]
fn a_walker_is_small() {
    assert!(size_of::<Walker<[u8; 8]>>() <= 48);
}
