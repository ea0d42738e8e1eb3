use proptest::prelude::*;

use super::super::fixture::{Framing, compressed, content, framing, gzip, response, zstd};
use super::*;
use crate::{Layer5, Walker};

const RING: ResultRing = ResultRing {
    buffer_len: 5000,
    buffers: 40,
};

/// Gives an engine packets; what it has made, and what its last note says.
fn run(engine: &mut Engine, packets: &[&[u8]]) -> (Vec<u8>, Option<Note>) {
    let mut walker = Walker::new(0);
    let (mut results, mut made, mut last) = (Results::default(), Vec::new(), None);
    for packet in packets {
        engine.exchange_results(&mut results);
        walker.absorb(engine, *packet).unwrap();
        if !engine.exchange_results(&mut results) {
            assert!(
                engine.take_note().is_none(),
                "a lost engine has nothing to say"
            );
            return (made, None);
        }
        for (placement, bytes) in results.pieces() {
            let (tag, at, room) = RING.place(made.len() as u64);
            assert_eq!((placement.tag, placement.at), (tag, at));
            assert!(bytes.len() <= room as usize);
            made.extend_from_slice(bytes);
        }
        results.clear();
        while let Some(note) = engine.take_note() {
            last = Some(note);
        }
    }
    (made, last)
}

fn engine() -> Engine {
    Engine::new(RING, Direction::Receive)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_packets_give_the_content(
        len in 0usize..300_000,
        seed in any::<u64>(),
        packet in 1usize..9000,
        is_zstd in any::<bool>(),
        framing in framing(),
    ) {
        let expected = content(len, seed);
        let (coding, compressed) = compressed(is_zstd, &expected);
        let stream = response(coding, framing, &compressed);
        let packets: Vec<&[u8]> = stream.chunks(packet).collect();
        let (made, last) = run(&mut engine(), &packets);
        prop_assert!(made == expected);
        let last = last.expect("a note");
        prop_assert_eq!((last.code, last.value), (code::WHOLE, len as u64));
    }
}

#[test]
fn what_is_missing_or_wrong_loses_the_response() {
    let expected = content(100_000, 3);
    let stream = response("gzip", Framing::Sized, &gzip(&expected));
    let is_lost = |stream: &[u8]| {
        let packets: Vec<&[u8]> = stream.chunks(1448).collect();
        run(&mut engine(), &packets).1.is_none()
    };
    assert!(!is_lost(&stream));
    let mut damaged = stream.clone();
    damaged[3000] ^= 1;
    damaged[3001] ^= 4;
    assert!(is_lost(&damaged));
    assert!(is_lost(&response("br", Framing::Sized, b"abc")));
    assert!(is_lost(&response("identity", Framing::Sized, b"abc")));
    assert!(is_lost(b"SSH-2.0-OpenSSH\r\n"));
    assert!(is_lost(
        b"HTTP/1.1 404 No\r\nContent-Encoding: gzip\r\n\r\nabc"
    ));
    // Of a bomb, one packet makes more than it may.
    assert!(is_lost(&response(
        "zstd",
        Framing::Sized,
        &zstd(&vec![0; 40 << 20])
    )));

    // A window is missing.
    let mut engine = engine();
    let mut results = Results::default();
    engine.exchange_results(&mut results);
    let mut walker = Walker::new(0);
    walker.absorb(&mut engine, &stream[..1000]).unwrap();
    assert!(engine.exchange_results(&mut results));
    let mut walker = Walker::new(2);
    walker.absorb(&mut engine, &stream[1000..2000]).unwrap();
    assert!(!engine.exchange_results(&mut results));
}

#[test]
fn behind_a_response_the_engine_needs_no_memory_and_says_nothing_more() {
    let stream = response("gzip", Framing::Sized, &gzip(&content(3000, 3)));
    let (first, rest) = stream.split_at(stream.len() - 5);
    let mut engine = engine();
    let (mut walker, mut results) = (Walker::new(0), Results::default());
    for (packet, decodes) in [(first, true), (rest, false), (b"HTTP/1.1", false)] {
        engine.exchange_results(&mut results);
        walker.absorb(&mut engine, packet).unwrap();
        assert!(engine.exchange_results(&mut results));
        let notes = std::iter::from_fn(|| engine.take_note()).count();
        assert_eq!(notes == 0, packet == b"HTTP/1.1");
        assert_eq!(engine.stream.is_decoding(), decodes);
    }
}

#[test]
fn what_follows_a_response_is_not_its_own() {
    let expected = content(3000, 3);
    let mut stream = response("gzip", Framing::Sized, &gzip(&expected));
    let len = stream.len() as u32;
    stream.extend(b"HTTP/1.1 200 OK\r\n\r\n");
    let (made, last) = run(&mut engine(), &[&stream]);
    assert!(made == expected);
    assert_eq!(last.unwrap().at, len);
}

/// What one packet ends with and the next one begins with at the same place says nothing: both notes are left out.
#[test]
fn packets_of_one_run_say_where_it_begins_and_ends_once() {
    let [begin, end, whole] = [code::BEGIN, code::END, code::WHOLE].map(|code| Note {
        at: 7,
        code,
        value: 0,
    });
    for last in [end, whole] {
        assert!(Engine::may_join(&last, &begin));
        let later = Note { at: 8, ..begin };
        assert!(!Engine::may_join(&last, &later));
    }
    assert!(!Engine::may_join(&begin, &begin));
    assert!(!Engine::may_join(&end, &end));
}
