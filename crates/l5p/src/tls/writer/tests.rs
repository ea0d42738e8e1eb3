use proptest::collection::vec;
use proptest::prelude::*;
use wire::SeqNum;
use wire::tls::ContentType;

use super::{MAX_PADDING_BLOCK, Writer};
use crate::MsgState;
use crate::tls::fixture::{PAIRS, info, pair, pair_of_tls13, ranges};
use crate::tls::{Algorithm, Version};

const DATA: ContentType = ContentType::APPLICATION_DATA;

/// Frames and commits one record at `start`; returns its bytes.
fn frame(writer: &mut Writer, start: SeqNum, content: &[u8]) -> (MsgState, Vec<u8>) {
    let layout = writer.record_layout(DATA, content.len());
    let record = writer.commit(start, content.len());
    let bytes = [layout.header(), content, layout.trailer()].concat();
    assert_eq!(bytes.len() as u32, record.len);
    (record, bytes)
}

fn seal(writer: &mut Writer, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; writer.record_len(content.len())];
    let len = writer.seal_into(DATA, &[content], &mut bytes);
    assert_eq!(len, bytes.len());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_of_a_committed_record_finds_it(
        pair in pair(),
        start in any::<u32>(),
        lens in vec(0..200usize, 1..20),
        gap in 0..3u32,
        acknowledged in any::<u32>(),
    ) {
        let mut writer = Writer::new(info(pair, 2));
        let mut next = SeqNum(start);
        let mut records = Vec::new();
        for len in &lens {
            let record = writer.commit(next, *len);
            next = next + record.len + gap;
            records.push(record);
        }
        let total = SeqNum(start).distance_to(next);
        let una = SeqNum(start) + acknowledged % (total + 1);
        writer.acknowledged(una);
        for offset in 0..total {
            let tcpsn = SeqNum(start) + offset;
            let expected = records
                .iter()
                .find(|r| tcpsn.is_within(r.start, r.len) && (r.start + r.len).after(una));
            prop_assert_eq!(writer.message_state(tcpsn), expected.copied());
        }
        prop_assert_eq!(writer.message_state(SeqNum(start) - 1), None);
        prop_assert_eq!(writer.message_state(next), None);
        let inside = records.iter().find(|r| una.is_within(r.start, r.len));
        prop_assert_eq!(writer.release_point(una), inside.map_or(una, |r| r.start));
        for (i, record) in records.iter().enumerate() {
            prop_assert_eq!(record.index, 2000 + i as u64);
        }
    }

    #[test]
    fn the_fallback_gives_the_bytes_that_sealing_gives(
        pair in pair(),
        content in vec(any::<u8>(), 0..3000),
        cuts in vec(any::<u32>(), 0..6),
        prefix in any::<usize>(),
    ) {
        let mut writer = Writer::new(info(pair, 2));
        let (record, plain) = frame(&mut writer, SeqNum(77), &content);
        let expected = seal(&mut Writer::new(info(pair, 2)), &content);
        let pieces: Vec<&[u8]> = ranges(plain.len(), &cuts).into_iter().map(|r| &plain[r]).collect();
        let mut output = vec![0; plain.len()];
        prop_assert_eq!(writer.encrypt_framed(&record, &pieces, &mut output), plain.len());
        prop_assert_eq!(&output, &expected);
        let prefix = 5 + prefix % (plain.len() - 4);
        let mut output = vec![0; prefix];
        writer.encrypt_framed(&record, &[&plain[..prefix]], &mut output);
        prop_assert_eq!(&output[..], &expected[..prefix]);
    }

    #[test]
    fn records_of_old_epochs_stay_retransmittable(
        pair in pair_of_tls13(),
        epochs in vec(vec(0..60usize, 0..4), 1..6),
    ) {
        let mut writer = Writer::new(info(pair, 1));
        let mut next = SeqNum(u32::MAX - 100);
        let mut records = Vec::new();
        for (i, lens) in epochs.iter().enumerate() {
            if i > 0 {
                prop_assert_eq!(usize::from(writer.rekey(info(pair, 1 + i as u8))), i);
            }
            let mut sealer = Writer::new(info(pair, 1 + i as u8));
            for len in lens {
                let content = vec![i as u8; *len];
                let (record, plain) = frame(&mut writer, next, &content);
                prop_assert_eq!(usize::from(record.epoch), i);
                let keys = writer.crypto_info_of(&record).unwrap();
                prop_assert_eq!(keys.key, info(pair, 1 + i as u8).key);
                prop_assert_eq!(keys.sequence, record.index);
                next += record.len;
                records.push((record, plain, seal(&mut sealer, &content)));
            }
        }
        for n in 0..records.len() {
            for (record, plain, sealed) in &records[n..] {
                let mut output = vec![0; plain.len()];
                writer.encrypt_framed(record, &[plain], &mut output);
                prop_assert_eq!(&output, sealed);
            }
            let record = records[n].0;
            writer.acknowledged(record.start + (record.len - 1));
            prop_assert_eq!(writer.message_state(record.start), Some(record));
            writer.acknowledged(record.start + record.len);
            prop_assert_eq!(writer.message_state(record.start), None);
        }
        prop_assert_eq!(writer.epochs.len(), 1);
        prop_assert!(writer.is_empty());
    }

    #[test]
    fn padding_fills_blocks_and_never_exceeds_a_record(
        pair in pair_of_tls13(),
        len in 0..=16384usize,
        block in 1..=MAX_PADDING_BLOCK,
    ) {
        let mut writer = Writer::new(info(pair, 1));
        writer.set_padding(block);
        let layout = writer.record_layout(DATA, len);
        let inner = len + layout.trailer().len() - 16;
        prop_assert!(inner <= 16385);
        prop_assert!(inner.is_multiple_of(usize::from(block)) || inner == 16385);
        prop_assert_eq!(layout.trailer()[0], 23);
        prop_assert!(layout.trailer()[1..].iter().all(|b| *b == 0));
    }
}

#[test]
fn headers_are_what_the_rfcs_say() {
    let header = |pair, len| Writer::new(info(pair, 0)).record_layout(ContentType::ALERT, len);
    let tls13 = header((Version::Tls13, Algorithm::Aes128Gcm), 2);
    assert_eq!(tls13.header(), [23, 3, 3, 0, 19]);
    assert_eq!(tls13.trailer()[0], 21);
    let chacha12 = header((Version::Tls12, Algorithm::ChaCha20Poly1305), 2);
    assert_eq!(chacha12.header(), [21, 3, 3, 0, 18]);
    let gcm12 = header((Version::Tls12, Algorithm::Aes256Gcm), 2);
    assert_eq!(gcm12.header()[..5], [21, 3, 3, 0, 26]);
    assert_eq!(gcm12.trailer().len(), 16);
}

#[test]
fn explicit_nonces_differ_from_record_to_record() {
    let mut writer = Writer::new(info(PAIRS[0], 5));
    let first = writer.record_layout(DATA, 0);
    assert_eq!(first.header(), writer.record_layout(DATA, 0).header());
    writer.commit(SeqNum(0), 0);
    let second = writer.record_layout(DATA, 0);
    assert_ne!(first.header()[5..], second.header()[5..]);
}

#[test]
fn the_next_keys_can_be_handed_to_a_context() {
    let mut writer = Writer::new(info(PAIRS[3], 5));
    writer.commit(SeqNum(0), 10);
    seal(&mut writer, b"x");
    let keys = writer.crypto_info();
    assert_eq!((keys.sequence, keys.key), (5002, info(PAIRS[3], 5).key));
}

#[test]
fn a_key_update_comes_due() {
    let mut keys = info(PAIRS[3], 1);
    keys.sequence = (1 << 24) - 1;
    let mut writer = Writer::new(keys);
    assert!(!writer.key_update_due());
    writer.commit(SeqNum(0), 1);
    assert!(writer.key_update_due());
}
