use proptest::prelude::*;

use super::super::engine::Engine;
use super::super::fixture::{Framing, compressed, content, framing, gzip, response};
use super::*;
use crate::{Direction, Layer5, Results, Walker};

/// A packet: where it begins, its payload, the notes on it, and what has become of it.
struct Packet<'a> {
    at: usize,
    bytes: &'a [u8],
    notes: Vec<Note>,
    made: Vec<u8>,
}

const RING: ResultRing = ResultRing {
    buffer_len: 1 << 16,
    buffers: 1000,
};

/// What an engine says of the packets of a stream.
fn packets(stream: &[u8], len: usize) -> Vec<Packet<'_>> {
    let mut engine = Engine::new(RING, Direction::Receive);
    let (mut walker, mut results) = (Walker::new(0), Results::default());
    let cut = stream.chunks(len).enumerate();
    cut.map(|(n, bytes)| {
        engine.exchange_results(&mut results);
        walker.absorb(&mut engine, bytes).unwrap();
        engine.exchange_results(&mut results);
        let made = results.pieces().flat_map(|(_, bytes)| bytes.to_vec());
        let made = made.collect();
        results.clear();
        Packet {
            at: n * len,
            bytes,
            notes: std::iter::from_fn(|| engine.take_note()).collect(),
            made,
        }
    })
    .collect()
}

/// A host's buffers and output.
#[derive(Default)]
struct Output {
    placed: Vec<u8>,
    used: usize,
    written: Vec<u8>,
}

impl Sink for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written.extend_from_slice(bytes);
        Ok(())
    }

    fn write_placed(&mut self, len: u64) -> io::Result<()> {
        let len = len as usize;
        let placed = &self.placed[self.used..self.used + len];
        self.written.extend_from_slice(placed);
        self.used += len;
        Ok(())
    }
}

/// Reads a stream in pieces, with the notes on packets before number `lost`.
fn read(
    packets: &[Packet<'_>],
    lost: usize,
    piece: usize,
    limit: u64,
) -> Result<(Vec<u8>, MadeBy), ContentError> {
    let base = SeqNum(u32::MAX - 5000);
    let mut content = Content::new(Some(limit), Some(RING));
    let (mut output, mut by) = (Output::default(), MadeBy::default());
    for packet in packets {
        if packet.at / packets[0].bytes.len() < lost {
            output.placed.extend_from_slice(&packet.made);
            content.note(
                base + packet.at as u32,
                packet.bytes.len() as u32,
                &packet.notes,
            );
        }
        let mut at = packet.at;
        let end = packet.at + packet.bytes.len();
        while at < end && !content.is_done() {
            let rest = &packet.bytes[at - packet.at..];
            let had_head = content.head().is_some();
            let bytes = &rest[..piece.min(rest.len())];
            let known = rest.len() as u32;
            let used = content.take(base + at as u32, bytes, known, &mut output)?;
            let has_new_head = content.head().is_some() != had_head;
            let is_behind = content.is_behind();
            assert!(used == bytes.len() || content.is_done() || has_new_head || is_behind);
            assert!(
                output.written.is_empty() || had_head,
                "the head comes first"
            );
            at += used;
            while content.is_behind() {
                content.catch_up(&mut output)?;
            }
        }
        let some = content.take_made_by();
        by.nic += some.nic;
        by.software += some.software;
        by.fallbacks += some.fallbacks;
    }
    if !content.is_done() {
        content.handle_end()?;
        while content.is_behind() {
            content.catch_up(&mut output)?;
        }
    }
    assert_eq!(content.made(), output.written.len() as u64);
    Ok((output.written, by))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_nic_has_done_the_content_is_the_same(
        len in 0usize..300_000,
        seed in any::<u64>(),
        packet in 1usize..9000,
        piece in 1usize..9000,
        lost in any::<prop::sample::Index>(),
        is_zstd in any::<bool>(),
        framing in framing(),
    ) {
        let expected = content(len, seed);
        let (coding, compressed) = compressed(is_zstd, &expected);
        let stream = response(coding, framing, &compressed);
        let packets = packets(&stream, packet);
        let lost = lost.index(packets.len() + 1);
        let (made, by) = read(&packets, lost, piece, len as u64).unwrap();
        prop_assert!(made == expected);
        if lost == packets.len() {
            let all_by_nic = MadeBy { nic: len as u64, ..MadeBy::default() };
            prop_assert_eq!(by, all_by_nic);
        }
    }
}

#[test]
fn what_is_cut_short_damaged_or_too_much_is_told_as_by_software() {
    let expected = content(100_000, 7);
    let whole = gzip(&expected);
    let cut = response("gzip", Framing::Sized, &whole[..whole.len() - 3]);
    let mut damaged = whole.clone();
    damaged[20_000] ^= 0x55;
    let damaged = response("gzip", Framing::Chunked(9000), &damaged);
    let bomb = response("gzip", Framing::Sized, &gzip(&vec![0; 8 << 20]));
    let unended = &response("gzip", Framing::Sized, &whole)[..20_000];
    for (stream, text) in [
        (&cut[..], "cut short"),
        (&damaged, "damaged"),
        (&bomb, "more than 1000000 bytes"),
        (unended, "ended before the whole answer"),
        (&response("br", Framing::Sized, b"x"), "\"br\""),
    ] {
        let packets = packets(stream, 1448);
        for lost in [0, packets.len()] {
            let read = read(&packets, lost, 5000, 1_000_000);
            let error = read.map(|(made, _)| made.len()).unwrap_err();
            assert!(error.to_string().contains(text), "{error}: {text}");
        }
    }
}

#[test]
fn what_is_not_coded_is_given_as_it_is() {
    let plain = response("identity", Framing::Chunked(7), b"hello, hello");
    let (made, by) = read(&packets(&plain, 9), 99, 5, 12).unwrap();
    assert_eq!(made, b"hello, hello");
    assert_eq!(by, MadeBy::default());
    assert!(read(&packets(&plain, 9), 99, 5, 11).is_err());
}

proptest! {
    /// Notes that no engine has made are survived, and nothing is asked for that is not in the buffers.
    #[test]
    fn any_notes_are_survived(
        notes in prop::collection::vec((0u32..3000, 0u32..4, prop_oneof![0u64..20_000, any::<u64>()]), 0..12),
    ) {
        struct Careful(u64);
        impl Sink for Careful {
            fn write(&mut self, _: &[u8]) -> io::Result<()> {
                Ok(())
            }
            fn write_placed(&mut self, len: u64) -> io::Result<()> {
                assert!(len <= self.0);
                Ok(())
            }
        }
        let ring = ResultRing { buffer_len: 100, buffers: 9 };
        let stream = response("gzip", Framing::Sized, &gzip(&content(9000, 4)));
        let mut reader = Content::new(Some(1 << 20), Some(ring));
        let notes: Vec<Note> = notes.into_iter().map(|(at, code, value)| Note { at, code, value }).collect();
        for (n, bytes) in stream.chunks(1448).enumerate() {
            let at = SeqNum(0) + (n * 1448) as u32;
            reader.note(at, bytes.len() as u32, &notes);
            let _ = reader.take(at, bytes, bytes.len() as u32, &mut Careful(ring.bytes()));
        }
    }
}

#[test]
fn software_catches_up_in_steps() {
    let expected = content(3_000_000, 5);
    let stream = response("gzip", Framing::Sized, &gzip(&expected));
    let base = SeqNum(77);
    let mut content = Content::new(Some(1 << 30), Some(RING));
    let mut output = Output::default();
    let packets = packets(&stream, 9000);
    let lost = packets.len() - 2;
    let mut steps = 0;
    for (number, packet) in packets.iter().enumerate() {
        let (at, len) = (base + packet.at as u32, packet.bytes.len() as u32);
        if number < lost {
            output.placed.extend_from_slice(&packet.made);
            content.note(at, len, &packet.notes);
        }
        let mut used = 0;
        while used < packet.bytes.len() {
            let rest = &packet.bytes[used..];
            let taken = content.take(at + used as u32, rest, rest.len() as u32, &mut output);
            used += taken.unwrap();
            while content.is_behind() {
                assert!(!content.is_done());
                content.catch_up(&mut output).unwrap();
                steps += 1;
            }
        }
    }
    assert!(content.is_done() && output.written == expected);
    assert_eq!(steps, (stream.len() - 2 * 9000) / STEP + 1);
}
