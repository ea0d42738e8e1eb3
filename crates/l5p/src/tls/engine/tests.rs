use proptest::collection::vec;
use proptest::prelude::*;
use wire::SeqNum;
use wire::tls::ContentType;

use crate::tls::fixture::{PAIRS, info, pair, ranges};
use crate::tls::{CryptoInfo, Direction, Engine, ICV_LEN, Writer};
use crate::{Integrity, Judgement, Layer5, Walker};

/// Frames records for the NIC, one after the other.
fn framed(info: &CryptoInfo, contents: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::new(info.clone());
    let mut stream = Vec::new();
    for content in contents {
        let layout = writer.record_layout(ContentType::APPLICATION_DATA, content.len());
        writer.commit(SeqNum(stream.len() as u32), content.len());
        stream.extend_from_slice(layout.header());
        stream.extend_from_slice(content);
        stream.extend_from_slice(layout.trailer());
    }
    stream
}

/// The same records, encrypted in software.
fn sealed(info: &CryptoInfo, contents: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::new(info.clone());
    let mut stream = Vec::new();
    for content in contents {
        let at = stream.len();
        stream.resize(at + writer.record_len(content.len()), 0);
        writer.seal_into(ContentType::APPLICATION_DATA, &[content], &mut stream[at..]);
    }
    stream
}

/// Sends a stream through an engine in the given pieces.
fn walk(
    info: &CryptoInfo,
    direction: Direction,
    stream: &[u8],
    cuts: &[u32],
) -> (Vec<u8>, Integrity, u64) {
    let mut engine = Engine::new(info, direction);
    let mut walker = Walker::new(info.sequence);
    let mut output = vec![0; stream.len()];
    let mut integrity = Integrity::Good;
    for range in ranges(stream.len(), cuts) {
        let walked = walker
            .advance(&mut engine, &stream[range.clone()], &mut output[range])
            .expect("headers where they must be");
        if walked.integrity == Integrity::Bad {
            integrity = Integrity::Bad;
        }
    }
    (output, integrity, walker.index())
}

#[test]
fn the_beginning_of_a_header_is_told_from_other_bytes() {
    for pair in PAIRS {
        let info = info(pair, 0);
        let engine = Engine::new(&info, Direction::Receive);
        let header = [23, 3, 3, 0x40, 0];
        for len in 0..header.len() {
            assert!(engine.may_begin(&header[..len]), "{pair:?}, {len}");
        }
        assert!(!engine.may_begin(&[23, 2]), "{pair:?}: SSL 2");
        assert!(!engine.may_begin(&[23, 3, 9]), "{pair:?}: no version");
        assert!(
            !engine.may_begin(&[23, 3, 3, 0xff]),
            "{pair:?}: longer than records are"
        );
        assert!(!engine.may_begin(&header), "{pair:?}: it is whole");
    }
}

fn contents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(
        prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..3000)],
        1..5,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_pieces_give_what_software_gives(
        pair in pair(),
        contents in contents(),
        cuts in vec(any::<u32>(), 0..24),
        back in vec(any::<u32>(), 0..24),
    ) {
        let info = info(pair, 3);
        let plain = framed(&info, &contents);
        let (wire, _, index) = walk(&info, Direction::Transmit, &plain, &cuts);
        prop_assert_eq!(&wire, &sealed(&info, &contents));
        prop_assert_eq!(index, info.sequence + contents.len() as u64);
        let (received, integrity, _) = walk(&info, Direction::Receive, &wire, &back);
        prop_assert_eq!(integrity, Integrity::Good);
        // All but the check values, which a receiver leaves as they came.
        for content in &contents {
            if content.len() > 40 {
                prop_assert!(received.windows(content.len()).any(|w| w == &content[..]));
            }
        }
    }

    #[test]
    fn a_changed_byte_is_noticed(
        pair in pair(),
        content in vec(any::<u8>(), 0..2000),
        at in any::<usize>(),
        bit in 0..8u32,
        cuts in vec(any::<u32>(), 0..5),
    ) {
        let info = info(pair, 3);
        let mut wire = sealed(&info, &[content]);
        let at = 5 + at % (wire.len() - 5);
        wire[at] ^= 1 << bit;
        let (_, integrity, _) = walk(&info, Direction::Receive, &wire, &cuts);
        prop_assert_eq!(integrity, Integrity::Bad);
    }

    /// A replay up to the same place has the same digest, however it is cut; other bytes have
    /// another one.
    #[test]
    fn a_digest_tells_a_faithful_replay(
        pair in pair(),
        content in vec(any::<u8>(), 1..2000),
        stop in any::<usize>(),
        cuts in vec(any::<u32>(), 0..5),
        changed in any::<usize>(),
    ) {
        let info = info(pair, 3);
        let layout = Writer::new(info.clone())
            .record_layout(ContentType::APPLICATION_DATA, content.len());
        let body = layout.header().len();
        let plain = framed(&info, std::slice::from_ref(&content));
        let stop = body + 1 + stop % (plain.len() - body);
        let digest = |stream: &[u8], cuts: &[u32]| {
            let mut engine = Engine::new(&info, Direction::Transmit);
            let mut walker = Walker::new(info.sequence);
            for range in ranges(stop.min(plain.len() - 1), cuts) {
                walker.absorb(&mut engine, &stream[range]).expect("a header");
            }
            let digest = engine.digest(walker.offset());
            let mut rest = stream[walker.offset() as usize..].to_vec();
            let input = rest.clone();
            walker.advance(&mut engine, &input, &mut rest).expect("its rest");
            (digest, rest[rest.len() - ICV_LEN.min(rest.len())..].to_vec())
        };
        let first = digest(&plain, &[]);
        prop_assert_eq!(&first, &digest(&plain, &cuts));
        let mut other = plain.clone();
        let changed = body + changed % (content.len().min(stop - body));
        other[changed] ^= 1;
        prop_assert_ne!(first.0, digest(&other, &cuts).0);
    }

    #[test]
    fn judging_never_panics_and_keeps_its_mind(pair in pair(), bytes in vec(any::<u8>(), 0..9)) {
        let engine = Engine::new(&info(pair, 1), Direction::Receive);
        let whole = engine.judge(&bytes);
        for n in 0..bytes.len() {
            match engine.judge(&bytes[..n]) {
                Judgement::NotAHeader => prop_assert_eq!(whole, Judgement::NotAHeader),
                Judgement::TooShort => prop_assert!(n < 5),
                Judgement::Message { .. } => prop_assert!(n >= 5),
            }
        }
    }

    #[test]
    fn arbitrary_streams_never_panic(
        pair in pair(),
        mut bytes in vec(any::<u8>(), 0..600),
        headers in vec((0..600usize, 0..600u16), 0..8),
        transmit in any::<bool>(),
    ) {
        for (at, length) in headers {
            if let Some(header) = bytes.get_mut(at..at + 5) {
                header[..3].copy_from_slice(&[23, 3, 3]);
                header[3..].copy_from_slice(&length.to_be_bytes());
            }
        }
        let direction = if transmit { Direction::Transmit } else { Direction::Receive };
        let mut engine = Engine::new(&info(pair, 1), direction);
        let mut walker = Walker::new(0);
        let mut output = vec![0; bytes.len()];
        let _ = walker.advance(&mut engine, &bytes, &mut output);
    }
}

#[test]
fn one_byte_at_a_time_is_enough() {
    for pair in PAIRS {
        let info = info(pair, 9);
        let contents = [vec![], vec![1; 70], vec![2; 1], vec![3; 257]];
        let plain = framed(&info, &contents);
        let cuts: Vec<u32> = (0..plain.len() as u32).collect();
        let (wire, ..) = walk(&info, Direction::Transmit, &plain, &cuts);
        assert_eq!(wire, sealed(&info, &contents));
        let (_, integrity, _) = walk(&info, Direction::Receive, &wire, &cuts);
        assert_eq!(integrity, Integrity::Good);
    }
}

#[test]
fn the_magic_pattern_is_kept_per_version() {
    let judge = |pair, bytes: &[u8]| Engine::new(&info(pair, 1), Direction::Receive).judge(bytes);
    let message = |len| Judgement::Message { len };
    let (gcm12, chacha12, gcm13) = (PAIRS[0], PAIRS[2], PAIRS[3]);
    assert_eq!(judge(gcm13, &[23, 3, 3, 0, 17]), message(22));
    assert_eq!(judge(gcm13, &[23, 3, 3, 0, 16]), Judgement::NotAHeader);
    assert_eq!(judge(gcm13, &[23, 3, 3, 0x40, 17]), message(16406));
    assert_eq!(judge(gcm13, &[23, 3, 3, 0x40, 18]), Judgement::NotAHeader);
    assert_eq!(judge(gcm13, &[22, 3, 3, 0, 17]), Judgement::NotAHeader);
    assert_eq!(judge(gcm13, &[20]), Judgement::NotAHeader);
    assert_eq!(judge(gcm13, &[23, 3]), Judgement::TooShort);
    assert_eq!(judge(gcm13, &[23, 3, 1]), Judgement::NotAHeader);
    assert_eq!(judge(gcm13, &[23, 3, 3, 0x41]), Judgement::NotAHeader);
    assert_eq!(judge(gcm12, &[21, 3, 3, 0, 24]), message(29));
    assert_eq!(judge(gcm12, &[21, 3, 3, 0, 23]), Judgement::NotAHeader);
    assert_eq!(judge(gcm12, &[23, 3, 3, 0x40, 24]), message(16413));
    assert_eq!(judge(gcm12, &[23, 3, 3, 0x40, 25]), Judgement::NotAHeader);
    assert_eq!(judge(gcm12, &[25]), Judgement::NotAHeader);
    assert_eq!(judge(chacha12, &[23, 3, 3, 0, 16]), message(21));
}

#[test]
fn a_context_fits_into_one_kibibyte() {
    for pair in PAIRS {
        let info = info(pair, 1);
        // An allocator may give a few bytes more than were asked for, where what is left would be no block.
        let engines: [_; 8] = std::array::from_fn(|_| Engine::new(&info, Direction::Transmit));
        let heap = engines.iter().map(|engine| engine.cipher.heap_bytes());
        let heap = heap.min().unwrap();
        let bytes = size_of::<Engine>() + size_of::<Walker<<Engine as Layer5>::Header>>() + heap;
        assert!(bytes <= 1024, "{pair:?}: {bytes} bytes");
        // What is left to the NIC, which adds 160 bytes.
        assert!(heap <= 864, "{pair:?}: {heap} bytes");
    }
}

#[test]
fn content_lies_where_the_writer_puts_it() {
    for pair in PAIRS {
        let info = info(pair, 1);
        let engine = Engine::new(&info, Direction::Transmit);
        for len in [0, 1, 100, 16_384] {
            let layout =
                Writer::new(info.clone()).record_layout(ContentType::APPLICATION_DATA, len);
            let start = layout.header().len() as u32;
            let end = start + len as u32;
            let record = end + layout.trailer().len() as u32;
            assert_eq!(engine.content(record), Some(start..end));
        }
        assert!(engine.content(3).unwrap().is_empty());
    }
}
