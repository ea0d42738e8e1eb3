//! Someone on the path who forges and replays packets that the host's TCP drops (an old timestamp is enough), but the NIC
//! has seen. Whatever is claimed, every byte of a message that it offloads must be one that the message's check covers.

use super::super::in_step::MAX_UNCHECKED;
use super::*;
use proptest::prelude::*;

const OFFLOADED: Verdict = Verdict::Offloaded;

fn messages(count: usize, len: usize) -> Stream {
    Stream::new(SeqNum(u32::MAX - 700), &vec![vec![7; len]; count])
}

/// Gives whole message `n` to the context.
fn whole(stream: &Stream, context: &mut Context, n: usize) -> Verdict {
    stream.receive(context, stream.starts[n], stream.starts[n + 1])
}

#[test]
fn the_rest_of_a_message_whose_check_is_given_up_is_not_offloaded() {
    let stream = messages(2, 1000);
    let mut context = stream.context(ArrivalOrder::Any);
    assert_eq!(stream.receive(&mut context, 0, 300), OFFLOADED);
    assert_eq!(stream.receive(&mut context, 600, 800), OFFLOADED);
    assert_eq!(stream.receive(&mut context, 300, 600), OFFLOADED);
    // So far ahead that the message's start is given up, but not what follows it, and where the gap can't be noted.
    context.recovery.unchecked = MAX_UNCHECKED;
    context.receive(stream.seq((1 << 30) + 100), &[0; 8], &mut [0; 8]);
    let mut forged = stream.wire[800..1012].to_vec();
    forged[10] ^= 1;
    let verdict = context.receive(stream.seq(800), &forged, &mut [0; 212]);
    assert_ne!(verdict, OFFLOADED);
}

#[test]
fn no_byte_is_offloaded_again_after_a_search_began_anew() {
    let stream = messages(8, 1000);
    let mut context = stream.context(ArrivalOrder::Any);
    for n in 0..5 {
        assert_eq!(whole(&stream, &mut context, n), OFFLOADED);
    }
    let (from, to) = (stream.starts[5], stream.starts[6]);
    // The host gets only the second half.
    assert_eq!(stream.receive(&mut context, from, from + 500), OFFLOADED);
    assert_eq!(stream.receive(&mut context, from + 500, to), OFFLOADED);
    context.receive(stream.seq(to), &[0; 100], &mut [0; 100]);
    for _ in 0..64 {
        whole(&stream, &mut context, 3);
    }
    stream.answer(&mut context);
    whole(&stream, &mut context, 4);
    let mut forged = stream.wire[from..from + 500].to_vec();
    forged[100] ^= 1;
    let verdict = context.receive(stream.seq(from), &forged, &mut [0; 500]);
    assert_ne!(verdict, OFFLOADED);
}

#[test]
fn a_late_packet_that_ends_inside_a_header_puts_the_context_in_step() {
    let stream = messages(6, 1000);
    let mut context = stream.context(ArrivalOrder::Any);
    whole(&stream, &mut context, 0);
    let (second, third) = (stream.starts[2], stream.starts[3]);
    stream.receive(&mut context, second - 100, second + 100);
    let guess = context.due_request(0).unwrap();
    assert_eq!(guess, stream.seq(second));
    stream.receive(&mut context, stream.starts[1], third + 2);
    assert!(context.is_in_step());
    assert_eq!(context.tcpsn(), stream.seq(third + 2));
    assert_eq!(context.answer(guess, true, 2), Answer::Stale);
    assert_eq!(
        stream.receive(&mut context, third + 2, stream.starts[4]),
        OFFLOADED
    );
}

#[test]
fn what_never_came_is_forgotten_before_its_sequence_numbers_come_again() {
    let stream = messages(3, 1000);
    let mut context = stream.context(ArrivalOrder::Any);
    assert_eq!(stream.receive(&mut context, 0, 300), OFFLOADED);
    assert_eq!(stream.receive(&mut context, 600, 1012), OFFLOADED);
    // As if a gigabyte had passed in step.
    let far = MAX_JUMP + 2000;
    let recovery = &mut context.recovery;
    recovery.tcpsn += far;
    recovery.newest += far;
    let message = &stream.wire[stream.starts[1]..stream.starts[2]];
    let mut output = vec![0; message.len()];
    let seq = stream.seq(stream.starts[1]) + far;
    assert_eq!(context.receive(seq, message, &mut output), OFFLOADED);
    assert!(!context.open.is_open(stream.seq(300)));
}

#[test]
fn after_many_unchecked_messages_the_host_is_asked() {
    let unchecked = usize::from(MAX_UNCHECKED);
    let stream = messages(unchecked + 40, 100);
    let mut context = stream.context(ArrivalOrder::Any);
    for n in 0..unchecked + 10 {
        stream.receive(&mut context, stream.starts[n], stream.starts[n + 1] - 2);
    }
    assert!(!context.is_in_step());
    assert_eq!(stream.answer(&mut context), Some(Answer::Resumed));
    for n in unchecked + 10..unchecked + 30 {
        whole(&stream, &mut context, n);
    }
    assert_eq!(whole(&stream, &mut context, unchecked + 30), OFFLOADED);
}

#[test]
fn the_highest_index_does_not_stop_the_device() {
    let plaintext = [1; 100];
    let first = toy::seal(KEY, u64::MAX, &plaintext);
    let mut context = Context::new(Toy::new(KEY, true), SeqNum(0), ArrivalOrder::Any);
    context.recovery.walker = Walker::new(u64::MAX);
    let mut output = vec![0; first.len()];
    assert_eq!(context.receive(SeqNum(0), &first, &mut output), OFFLOADED);
}

/// A packet that the NIC sees, wherever it comes from.
#[derive(Clone, Debug)]
struct Seen {
    /// Where it begins; else where the one before it ended.
    from: Option<usize>,
    len: usize,
    /// The byte of it that was changed.
    changed: Option<usize>,
    /// It begins so many bytes further on.
    shift: u32,
    times: usize,
    answer: bool,
}

fn seen() -> impl Strategy<Value = Seen> {
    (
        prop::option::weighted(0.4, 0..MESSAGES * LEN),
        1..2 * LEN,
        prop::option::weighted(0.2, any::<usize>()),
        prop_oneof![
            40 => Just(0u32),
            1 => 1 << 28..1u32 << 31,
        ],
        prop_oneof![20 => Just(1usize), 1 => Just(64)],
        any::<bool>(),
    )
        .prop_map(|(from, len, changed, shift, times, answer)| Seen {
            from,
            len,
            changed,
            shift,
            times,
            answer,
        })
}

const MESSAGES: usize = 8;
const LEN: usize = 60 + toy::HEADER_LEN + toy::ICV_LEN;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// The host may have taken any of the packets, and dropped any. So no byte is offloaded twice, and a message of which
    /// all bytes were offloaded holds what was sent.
    #[test]
    fn a_message_that_was_offloaded_is_authentic(
        packets in prop::collection::vec(seen(), 1..60),
        order in prop::bool::weighted(0.8),
    ) {
        let stream = messages(MESSAGES, 60);
        let order = if order { ArrivalOrder::Any } else { ArrivalOrder::Sequence };
        let mut context = stream.context(order);
        let mut offloaded: Vec<Option<u8>> = vec![None; stream.wire.len()];
        let mut next = 0;
        for packet in packets {
            let from = packet.from.unwrap_or(next) % stream.wire.len();
            let to = (from + packet.len).min(stream.wire.len());
            next = to;
            let mut payload = stream.wire[from..to].to_vec();
            if let Some(at) = packet.changed {
                let at = at % payload.len();
                payload[at] ^= 0x10;
            }
            let mut output = vec![0; payload.len()];
            for _ in 0..packet.times {
                let verdict = context.receive(stream.seq(from) + packet.shift, &payload, &mut output);
                if verdict == OFFLOADED && packet.shift == 0 {
                    for (place, byte) in offloaded[from..to].iter_mut().zip(&output) {
                        prop_assert!(place.is_none(), "{from}..{to} again");
                        *place = Some(*byte);
                    }
                }
            }
            if packet.answer {
                stream.answer(&mut context);
            }
        }
        let all = |from: usize, len: usize| -> Option<Vec<u8>> {
            offloaded.get(from..from + len)?.iter().copied().collect()
        };
        for start in &stream.starts {
            let len = all(*start, toy::HEADER_LEN)
                .map(|header| usize::from(u16::from_be_bytes([header[2], header[3]])));
            if let Some(message) = len.and_then(|len| all(*start, len)) {
                prop_assert_eq!(&message, &stream.opened[*start..*start + message.len()]);
            }
        }
    }
}
