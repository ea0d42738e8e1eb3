use proptest::prelude::*;

use super::*;
use crate::crypto::Algorithm;
use crate::tls::fixture::{PAIRS, info};
use crate::tls::{ContentType, CryptoInfo, Version, Writer};
use crate::{Integrity, Layer5};

fn record(pair: (Version, Algorithm), sequence: u64, content: &[u8]) -> Vec<u8> {
    let keys = CryptoInfo {
        sequence,
        ..info(pair, 7)
    };
    let mut writer = Writer::new(keys);
    let mut record = vec![0; writer.record_len(content.len())];
    let len = writer.seal_into(ContentType::APPLICATION_DATA, &[content], &mut record);
    record.truncate(len);
    record
}

/// What an engine shows of a record in order.
fn opened(engine: &mut Engine, sequence: u64, record: &[u8]) -> Vec<u8> {
    let mut output = record.to_vec();
    engine.start(sequence, &record[..5]);
    engine.transform(5, (&record[5..]).into(), (&mut output[5..]).into());
    assert_eq!(engine.finish(), Integrity::Good);
    assert_eq!(engine.residue(), 0);
    output
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn late_ranges_in_any_order_give_the_same_plaintext_and_check(
        which in 0usize..PAIRS.len(),
        content in prop::collection::vec(any::<u8>(), 0..3000),
        sequence in 0..u64::MAX,
        first in 0usize..40,
        cuts in prop::collection::vec(0usize..3100, 1..8),
        late in any::<u8>(),
        damaged in prop::option::of(any::<prop::sample::Index>()),
        swap in any::<u64>(),
    ) {
        let pair = PAIRS[which];
        let wire = record(pair, sequence, &content);
        let mut engine = Engine::new(&info(pair, 7), Direction::Receive);
        let plain = opened(&mut engine, sequence, &wire);
        let body = engine.framing.body();
        let begin = (body + first).min(wire.len());
        let mut bounds: Vec<usize> = cuts.iter().map(|cut| (*cut).clamp(begin, wire.len())).collect();
        bounds.extend([begin, wire.len()]);
        bounds.sort_unstable();

        let mut received = wire.clone();
        let damaged = damaged.map(|index| begin + index.index(wire.len() - body)).filter(|at| *at < wire.len());
        if let Some(at) = damaged {
            received[at] ^= 0x10;
        }

        engine.start(sequence, &received[..5]);
        let mut shown = received.clone();
        engine.transform(5, (&received[5..begin]).into(), (&mut shown[5..begin]).into());
        let message = engine.message(begin as u32, wire.len() as u32);
        if pair.1 == Algorithm::ChaCha20Poly1305 {
            prop_assert!(message.is_none());
            return Ok(());
        }
        let icv_begun = begin > wire.len() - ICV_LEN;
        let Some(message) = message else {
            prop_assert!(icv_begun);
            return Ok(());
        };
        let mut holes = Vec::new();
        for (n, range) in bounds.windows(2).enumerate() {
            let range = range[0]..range[1];
            if late >> n & 1 != 0 {
                let zeros = vec![0; range.len()];
                engine.transform(range.start as u32, (&zeros).into(), (&mut vec![0; range.len()]).into());
                holes.push(range);
            } else {
                engine.transform(range.start as u32, (&received[range.clone()]).into(), (&mut shown[range]).into());
            }
        }
        engine.finish();
        let mut sum = engine.residue();
        let turn = if holes.is_empty() { 0 } else { swap as usize % holes.len() };
        holes.rotate_left(turn);
        // Another record is in progress meanwhile.
        engine.start(sequence.wrapping_add(1), &wire[..5]);
        engine.transform(5, (&wire[5..begin]).into(), (&mut vec![0; begin - 5]).into());
        for range in holes {
            let (input, output) = (&received[range.clone()], &mut shown[range.clone()]);
            sum ^= engine.transform_aside(&message, wire.len() as u32, range.start as u32, input, output.into());
        }
        prop_assert_eq!(sum == 0, damaged.is_none());
        let mut expected = plain;
        if let Some(at) = damaged {
            expected[at] ^= 0x10;
        }
        prop_assert_eq!(shown, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_encrypted_again_by_itself_is_what_it_was(
        which in 0usize..PAIRS.len(),
        content in prop::collection::vec(any::<u8>(), 1..5000),
        sequence in 0..u64::MAX - 1,
        (from, count) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        progress in any::<prop::sample::Index>(),
    ) {
        let pair = PAIRS[which];
        let keys = CryptoInfo { sequence, ..info(pair, 7) };
        let wire = record(pair, sequence, &content);
        let framer = Writer::new(keys.clone());
        let layout = framer.record_layout(ContentType::APPLICATION_DATA, content.len());
        let framed = [layout.header(), &content, layout.trailer()].concat();
        prop_assert_eq!(framed.len(), wire.len());

        // Another record is in the middle of being encrypted.
        let mut engine = Engine::new(&keys, Direction::Transmit);
        let next = record(pair, sequence + 1, &content);
        let mut output = framed.clone();
        let stop = 5 + progress.index(framed.len() - 5);
        engine.start(sequence, &framed[..5]);
        engine.transform(5, (&framed[5..stop]).into(), (&mut output[5..stop]).into());

        let from = from.index(framed.len());
        let to = from + 1 + count.index(framed.len() - from);
        let mut again = vec![0; to - from];
        let (index, len) = (sequence, framed.len() as u32);
        let done = engine.encrypt_aside(index, len, from as u32, framed[from..to].into(), again[..].as_mut().into());
        prop_assert_eq!(done, keys.is_seekable() && to <= framed.len() - 16);
        if done {
            prop_assert_eq!(&again[..], &wire[from..to]);
        }
        let done = engine.encrypt_aside(index + 1, len, 5, framed[5..framed.len() - 16].into(), (&mut output.clone()[5..framed.len() - 16]).into());
        prop_assert_eq!(done, keys.is_seekable());
        engine.transform(stop as u32, (&framed[stop..]).into(), (&mut output[stop..]).into());
        prop_assert_eq!(&output, &wire);
        prop_assert_ne!(next, wire);
    }
}
