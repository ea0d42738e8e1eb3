//! Arbitrary arrivals: what is flagged is right, what is whole is authentic, and the offload comes back.

use proptest::prelude::*;
use testkit::arrivals::{Fate, arrivals};

use super::*;

/// What the L5 software answers.
#[derive(Clone, Copy, Debug)]
enum Reply {
    Truth { delay: u8 },
    Lie { delay: u8, index: u8 },
    Denial { delay: u8 },
    Silence,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrives),
        2 => Just(Fate::Lost),
        2 => (1u8..30).prop_map(Fate::Late),
        1 => (1u8..30).prop_map(Fate::Twice),
        1 => (0u16..400, 0u16..400).prop_map(|(a, b)| Fate::Overlaps(a, b)),
        1 => Just(Fate::Corrupt(0)),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        4 => (0u8..40).prop_map(|delay| Reply::Truth { delay }),
        1 => (0u8..40, any::<u8>()).prop_map(|(delay, index)| Reply::Lie { delay, index }),
        1 => (0u8..40).prop_map(|delay| Reply::Denial { delay }),
        1 => Just(Reply::Silence),
    ]
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![0usize..40, 0usize..400, Just(1000usize), 0usize..4000];
    // Planted headers: the mask is different at each place, so that plaintext can't aim at ciphertext in this toy; they are
    // put into the wire bytes by `plant`.
    let lengths = prop_oneof![
        prop::collection::vec(length, 20..60),
        (20usize..60, 0usize..2000).prop_map(|(count, len)| vec![len; count]),
    ];
    lengths.prop_map(|lengths| {
        lengths
            .into_iter()
            .enumerate()
            .map(|(n, len)| vec![n as u8; len])
            .collect()
    })
}

/// Overwrites ciphertext with what looks like headers. The messages' checks no longer hold, the framing does.
fn plant(stream: &mut Stream, places: &[u16]) {
    for place in places {
        let at = usize::from(*place) % stream.wire.len();
        let message = stream.starts.partition_point(|start| *start <= at) - 1;
        let (start, end) = (stream.starts[message], stream.starts[message + 1]);
        if at >= start + toy::HEADER_LEN && at + 4 + toy::ICV_LEN <= end {
            let planted = [0xc5, 0x3a, 0, 200];
            for (offset, byte) in planted.into_iter().enumerate() {
                stream.opened[at + offset] ^= stream.wire[at + offset] ^ byte;
                stream.wire[at + offset] = byte;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn flagged_bytes_are_right_whole_messages_authentic_and_the_offload_comes_back(
        any_order in any::<bool>(),
        engine_can in any::<bool>(),
        counts in any::<bool>(),
        first in prop_oneof![Just(0u32), Just(u32::MAX - 20_000), any::<u32>()],
        plaintexts in messages(),
        sizes in prop::collection::vec(prop_oneof![1usize..60, 100usize..1500, Just(1448usize)], 1..8),
        fates in prop::collection::vec(fate(), 1..60),
        replies in prop::collection::vec(reply(), 1..8),
        places in prop::collection::vec(any::<u16>(), 0..4),
    ) {
        let mut stream = Stream::new(SeqNum(first), &plaintexts);
        plant(&mut stream, &places);
        let order = if any_order { ArrivalOrder::Any } else { ArrivalOrder::Sequence };
        let engine = match counts {
            true => Toy::new(KEY, engine_can).that_tells_numbers(),
            false => Toy::new(KEY, engine_can),
        };
        let mut context = Context::new(engine, stream.first, order);

        // Per byte: was it shown transformed?
        let mut shown = vec![false; stream.wire.len()];
        let mut corrupted = vec![false; stream.wire.len()];
        let mut pending: Vec<(usize, SeqNum, bool, u64)> = Vec::new();
        let mut asked = 0;
        for (now, arrival) in arrivals(stream.wire.len(), &sizes, &fates).into_iter().enumerate() {
            pending.retain(|&(at, guess, confirmed, index)| {
                if at <= now {
                    context.answer(guess, confirmed, index);
                }
                at > now
            });
            let mut payload = stream.wire[arrival.from..arrival.to].to_vec();
            let mut expected = stream.opened[arrival.from..arrival.to].to_vec();
            let mut damage = None;
            if arrival.corrupt.is_some() {
                // A bit of a message's body: framing is not protected, and is the same for host and NIC.
                let at = payload.len() / 2;
                let stream_at = arrival.from + at;
                let message = stream.starts.partition_point(|start| *start <= stream_at) - 1;
                let body = stream.starts[message] + toy::HEADER_LEN;
                if stream_at >= body {
                    payload[at] ^= 0x40;
                    expected[at] ^= 0x40;
                    damage = Some(stream_at);
                }
            }
            let mut output = vec![0; payload.len()];
            let verdict = context.receive(stream.seq(arrival.from), &payload, &mut output);
            if verdict == Verdict::Offloaded {
                prop_assert_eq!(&output, &expected, "{}..{}", arrival.from, arrival.to);
                for byte in &mut shown[arrival.from..arrival.to] {
                    prop_assert!(!*byte, "shown twice");
                    *byte = true;
                }
                if let Some(at) = damage {
                    corrupted[at] = true;
                }
            }
            if let Some(guess) = context.due_request(now as u32) {
                context.request_sent(now as u32);
                let truth = stream.index_at(guess);
                let (delay, confirmed, index) = match replies[asked % replies.len()] {
                    Reply::Truth { delay } => (delay, truth.is_some(), truth.unwrap_or(0)),
                    Reply::Lie { delay, index } => (delay, true, index.into()),
                    Reply::Denial { delay } => (delay, false, 0),
                    Reply::Silence => (255, false, 0),
                };
                pending.push((now + usize::from(delay), guess, confirmed, index));
                asked += 1;
            }
        }
        for (index, bounds) in stream.starts.windows(2).enumerate() {
            let (start, end) = (bounds[0], bounds[1]);
            if shown[start..end].iter().all(|byte| *byte) {
                let authentic = toy::seal(KEY, index as u64, &plaintexts[index]);
                prop_assert_eq!(&stream.wire[start..end], &authentic[..], "message {}", index);
                prop_assert!(!corrupted[start..end].iter().any(|byte| *byte), "message {}", index);
            }
        }

        // Liveness: from now on nothing is lost and answers are true.
        let tail: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n; 500]).collect();
        let mut all = plaintexts.clone();
        let from = stream.wire.len();
        all.extend(tail);
        let stream = Stream { wire: stream.wire.clone(), ..Stream::new(SeqNum(first), &all) };
        let whole = Stream::new(SeqNum(first), &all);
        let mut offloaded = false;
        for start in (from..whole.wire.len()).step_by(900) {
            let end = (start + 900).min(whole.wire.len());
            offloaded = whole.receive(&mut context, start, end) == Verdict::Offloaded;
            if let Some(guess) = context.due_request(u32::MAX / 2) {
                context.request_sent(u32::MAX / 2);
                let index = stream.index_at(guess);
                context.answer(guess, index.is_some(), index.unwrap_or(0));
            }
        }
        prop_assert!(offloaded, "{:?}", context.phase);
    }
}
