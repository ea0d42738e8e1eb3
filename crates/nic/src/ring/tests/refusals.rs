//! What makes a descriptor malformed, and how many slots it takes then.

use wire::FlowKey;
use zerocopy::{FromZeros, IntoBytes};

use super::super::function::{DeviceFunction, FunctionConfig, HostFunction, function};
use super::super::gather::Gather;
use super::super::layout::{self, SLOT_WORDS, SendSlot, clear_reserved, layouts};
use super::super::*;
use super::descriptors::{config, pair, slices};
use crate::features::Features;

type Slot = [u64; SLOT_WORDS];

/// A slot of zeros with these bytes.
fn slot(opcode: u8, bytes: &[(usize, u8)]) -> Slot {
    let mut words = [0; SLOT_WORDS];
    words.as_mut_bytes()[0] = opcode;
    for (at, byte) in bytes {
        words.as_mut_bytes()[*at] = *byte;
    }
    words
}

/// What becomes of these slots: the first slot of each descriptor, and why it is refused.
fn answers(slots: &[Slot]) -> Vec<(u64, Option<ErrorCode>)> {
    answers_of(pair(), slots)
}

fn answers_of(
    (mut host, mut device): (HostFunction, DeviceFunction),
    slots: &[Slot],
) -> Vec<(u64, Option<ErrorCode>)> {
    for words in slots {
        host.queues[0].send.post_raw(words).unwrap();
    }
    let _ = host.queues[0].publish();
    let send = &mut device.queues[0].send;
    let mut gather = Gather::EMPTY;
    let answers = std::iter::from_fn(|| send.take(&mut gather))
        .map(|taken| (taken.index, taken.command.err().map(|bad| bad.error)))
        .collect();
    send.publish();
    let send = &mut host.queues[0].send;
    assert_eq!(send.completed(), slots.len() as u64);
    answers
}

const SEND: u8 = 1;
const CONTINUATION: u8 = 2;
const DESTROY: u8 = 4;
const RESYNC_RESPONSE: u8 = 8;
const TOE_OFFER: u8 = 17;
const TOE_SEND: u8 = 20;
const LOAD_RESOURCE: u8 = 27;

fn flow() -> FlowKey {
    FlowKey {
        src: ([10, 0, 0, 1].into(), 80),
        dst: ([10, 0, 0, 2].into(), 40_000),
    }
}

/// `continuations` is the byte at 4.
fn destroy(continuations: u8) -> Slot {
    slot(DESTROY, &[(4, continuations)])
}

/// `docs/device.md`, "Features": each command needs one.
#[test]
fn a_function_has_the_commands_of_its_features() {
    let [_, descriptors, ..] = layouts();
    let commands = |features| -> Vec<u8> {
        let is_known = |opcode: &u8| {
            let config = FunctionConfig {
                features,
                ..config()
            };
            let answers = answers_of(function(config), &[slot(*opcode, &[])]);
            answers[0].1 != Some(ErrorCode::Unsupported)
        };
        (1..=descriptors.len() as u8)
            .filter(|it| *it != CONTINUATION)
            .filter(is_known)
            .collect()
    };
    let expected: [(Features, &[u8]); Features::NAMES.len()] = [
        (Features::CONTEXTS, &[3, 4, 5, 6, 7, 8]),
        (Features::RESOURCES, &[27, 28]),
        (Features::LISTENERS, &[9, 10, 11, 15]),
        (Features::TEARDOWNS, &[12, 15]),
        (Features::SPLICES, &[13, 14, 15, 29]),
        (Features::TOE, &[16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26]),
        (Features::MERGING, &[]),
        (Features::RSS, &[30, 31]),
        (Features::FILTER, &[32]),
    ];
    assert_eq!(commands(Features::NONE), [SEND]);
    for (features, opcodes) in expected {
        assert_eq!(
            commands(features),
            [&[SEND], opcodes].concat(),
            "{features:?}"
        );
    }
}

/// D-2 and N-2 of `docs/device.md`.
#[test]
fn reserved_bits_must_be_zero() {
    let refused = |opcode, at, byte| answers(&[slot(opcode, &[(at, byte)])])[0].1;
    let bad = Some(ErrorCode::BadParameters);
    assert_eq!(refused(DESTROY, 8, 1), None);
    // Flags that the opcode has not.
    assert_eq!(refused(DESTROY, 1, 1), bad);
    assert_eq!(refused(SEND, 1, 4), bad);
    assert_eq!(refused(RESYNC_RESPONSE, 1, 1), None);
    assert_eq!(refused(RESYNC_RESPONSE, 1, 2), bad);
    assert_eq!(refused(TOE_SEND, 1, 1), bad);
    // Bytes of the head: reserved, `header_len` and `mss` of what is no packet.
    assert_eq!(refused(SEND, 5, 1), bad);
    assert_eq!(refused(DESTROY, 2, 1), bad);
    assert_eq!(refused(DESTROY, 7, 1), bad);
    // Bytes between fields and behind them, and of a slice that is not used.
    assert_eq!(refused(DESTROY, 12, 1), bad);
    assert_eq!(refused(DESTROY, 63, 128), bad);
    assert_eq!(refused(SEND, 30, 1), bad);
    assert_eq!(refused(TOE_SEND, 28, 1), bad);
    // What is behind the descriptor, or behind its packet's headers, is not read.
    assert_eq!(refused(DESTROY, 64, 1), None);
    assert_eq!(refused(SEND, 64, 1), None);
}

/// Each byte that the table of fields calls reserved.
#[test]
fn every_reserved_byte_is_checked() {
    let [_, descriptors, ..] = layouts();
    assert_eq!(descriptors.len(), 32);
    for descriptor in &descriptors {
        let reserved = descriptor.fields.iter().filter(|field| field.is_reserved());
        for at in reserved.flat_map(|field| field.offset..field.offset + field.size) {
            let mut words = slot(descriptor.opcode, &[(at, 1)]);
            let expected = match descriptor.opcode {
                CONTINUATION => ErrorCode::BadOpcode,
                _ => ErrorCode::BadParameters,
            };
            assert_eq!(
                answers(&[words]),
                [(0, Some(expected))],
                "{} at {at}",
                descriptor.name
            );
            clear_reserved(&mut words);
            assert_eq!(words, slot(descriptor.opcode, &[]));
        }
    }
}

/// N-3 of `docs/device.md`.
#[test]
fn a_refused_descriptor_is_answered_once_and_takes_its_continuations() {
    let continuation = slot(CONTINUATION, &[]);
    let cases = [
        // Wrong by its fields, by its lengths, by its opcode; and one that takes no slices.
        (slot(SEND, &[(4, 2), (1, 64)]), ErrorCode::BadParameters),
        (slot(SEND, &[(4, 2), (12, 1)]), ErrorCode::BadLength),
        (slot(200, &[(4, 2)]), ErrorCode::BadOpcode),
        (destroy(2), ErrorCode::BadLength),
        // A continuation without a descriptor.
        (slot(CONTINUATION, &[(4, 2)]), ErrorCode::BadOpcode),
    ];
    for (wrong, error) in cases {
        let slots = [wrong, continuation, continuation, destroy(0)];
        assert_eq!(answers(&slots), [(0, Some(error)), (3, None)]);
    }
}

#[test]
fn a_refused_descriptor_takes_no_other_descriptors_slot() {
    let continuation = slot(CONTINUATION, &[]);
    let short = slot(SEND, &[(4, 3)]);
    assert_eq!(
        answers(&[short, continuation, destroy(0)]),
        [(0, Some(ErrorCode::BadLength)), (2, None)]
    );
    let between = [short, continuation, destroy(0), continuation];
    assert_eq!(
        answers(&between),
        [
            (0, Some(ErrorCode::BadOpcode)),
            (2, None),
            (3, Some(ErrorCode::BadOpcode)),
        ]
    );
}

#[test]
fn a_descriptor_has_at_most_three_continuations() {
    let continuation = slot(CONTINUATION, &[]);
    let greedy = slot(SEND, &[(4, 200)]);
    let slots = [
        greedy,
        continuation,
        continuation,
        continuation,
        continuation,
    ];
    assert_eq!(
        answers(&slots),
        [
            (0, Some(ErrorCode::BadLength)),
            (4, Some(ErrorCode::BadOpcode))
        ]
    );
}

/// A control block, or what a resource is made of, is one slice.
#[test]
fn what_takes_one_slice_takes_no_continuations_slice() {
    let slice: layout::Slice = slices(1)[0].into();
    let offer = layout::ToeOffer {
        flow: (&flow()).into(),
        hop: [2, 0, 0, 0, 0, 9],
        hop_limit: 63,
        slices: [slice],
        ..FromZeros::new_zeroed()
    };
    let load = layout::LoadResource {
        slices: [slice],
        ..FromZeros::new_zeroed()
    };
    let with = |mut words: Slot, opcode: u8, slices: u8, continuations: u8| {
        words.as_mut_bytes()[..5].copy_from_slice(&[opcode, 0, 0, slices, continuations]);
        words
    };
    let mut continuation: layout::Continuation = FromZeros::new_zeroed();
    continuation.slices[0] = slice;
    let continuation = with(continuation.words(), CONTINUATION, 1, 0);
    for (opcode, words) in [(TOE_OFFER, offer.words()), (LOAD_RESOURCE, load.words())] {
        assert_eq!(answers(&[with(words, opcode, 1, 0)]), [(0, None)]);
        let both = [with(words, opcode, 1, 1), continuation];
        assert_eq!(answers(&both), [(0, Some(ErrorCode::BadLength))]);
    }
    let mut elsewhere = offer;
    elsewhere.slices = [FromZeros::new_zeroed()];
    let slots = [with(elsewhere.words(), TOE_OFFER, 0, 1), continuation];
    assert_eq!(answers(&slots), [(0, Some(ErrorCode::BadLength))]);
}

#[test]
fn a_continuation_with_reserved_bits_refuses_its_descriptor() {
    for at in [1, 2, 4, 5, 6, 8, 30] {
        let continuation = slot(CONTINUATION, &[(at, 1)]);
        assert_eq!(
            answers(&[slot(SEND, &[(4, 1)]), continuation, destroy(0)]),
            [(0, Some(ErrorCode::BadParameters)), (2, None)],
            "{at}"
        );
    }
}

/// D-3 of `docs/device.md`: continuations that come late belong to nothing any more.
#[test]
fn continuations_are_published_with_their_descriptor() {
    let (mut host, mut device) = pair();
    let mut take = |slots: &[Slot]| {
        for words in slots {
            host.queues[0].send.post_raw(words).unwrap();
        }
        let _ = host.queues[0].publish();
        let taken = device.queues[0].send.take(&mut Gather::EMPTY.clone());
        let taken = taken.unwrap();
        (taken.index, taken.command.err().map(|bad| bad.error))
    };
    let continuation = slot(CONTINUATION, &[]);
    let first = take(&[slot(SEND, &[(4, 2)]), continuation]);
    assert_eq!(first, (0, Some(ErrorCode::BadLength)));
    assert_eq!(take(&[continuation]), (2, Some(ErrorCode::BadOpcode)));
}
