use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::pattern::fixture::pattern;
use crate::pattern::{Engine, TABLES, WINDOW};
use crate::{Direction, Layer5, Walker};

/// Sets of patterns: strings only, expressions only, and both.
const SETS: [&str; 3] = [
    "abc\nbc\ncab\naaaa",
    "/ab+c/\n/[ab]c[ab]{2}/\n/a.{2}b/",
    "abc\n/c[^a]b/\n\"b\\n\"\n/bca|acb/i",
];

/// What happens to a packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The NIC scans it.
    Scanned,
    /// The NIC scans it, and its notes do not come.
    NotesLost,
    /// The NIC does not see it before the next window begins.
    Missed,
    /// The NIC is told that it is missing.
    Skipped,
    /// The NIC has seen other bytes in its place.
    Forged,
    /// TCP has its first byte already, so that its notes are not used.
    Trimmed,
}

/// A NIC with one context.
struct Nic {
    engine: Engine,
    walker: Walker<[u8; 1]>,
    /// Where the first window begins.
    base: usize,
    in_step: bool,
}

impl Nic {
    fn new(patterns: &Arc<Patterns>, base: usize) -> Nic {
        Nic {
            engine: Engine::new(patterns.clone(), Direction::Receive),
            walker: Walker::new(0),
            base,
            in_step: false,
        }
    }

    fn scan(&mut self, bytes: &[u8]) -> Vec<Note> {
        self.walker
            .advance(&mut self.engine, bytes, &mut vec![0; bytes.len()])
            .expect("no header");
        self.notes()
    }

    fn notes(&mut self) -> Vec<Note> {
        std::iter::from_fn(|| self.engine.take_note()).collect()
    }

    /// The notes on the packet with these bytes of the stream.
    fn receive(&mut self, stream: &[u8], at: Range<usize>, fate: Fate) -> Vec<Note> {
        let bytes = &stream[at.clone()];
        if fate == Fate::Missed {
            self.in_step = false;
            return Vec::new();
        }
        if !self.in_step {
            let window = at.start.saturating_sub(self.base).div_ceil(WINDOW as usize);
            let next = self.base + window * WINDOW as usize;
            if !at.contains(&next) {
                return Vec::new();
            }
            self.in_step = true;
            self.walker = Walker::new(window as u64);
            let notes = self.scan(&bytes[next - at.start..]);
            return if next == at.start { notes } else { Vec::new() };
        }
        match fate {
            Fate::Scanned | Fate::Trimmed => return self.scan(bytes),
            Fate::NotesLost | Fate::Missed => drop(self.scan(bytes)),
            Fate::Forged => drop(self.scan(&vec![b'a'; bytes.len()])),
            Fate::Skipped => {
                let in_window = self.walker.to_next_header().unwrap_or(0) as usize;
                if 0 < in_window && bytes.len() < in_window {
                    self.walker
                        .pass_missing(&mut self.engine, bytes.len() as u32);
                    self.notes();
                } else {
                    self.in_step = false;
                }
            }
        }
        Vec::new()
    }
}

/// Sequence numbers wrap soon.
const START: u32 = u32::MAX - 20_000;

fn in_software(patterns: &Arc<Patterns>, stream: &[u8]) -> Vec<Match> {
    let mut matches = Vec::new();
    let mut scanner = Scanner::new(patterns.clone());
    let (at, len) = (SeqNum(0), stream.len());
    assert_eq!(scanner.take(at, stream, len as u32, &mut matches), len);
    matches
}

/// What is found of a stream whose packets have these lengths and fates, and how many bytes software has scanned.
fn with_nic(
    patterns: &Arc<Patterns>,
    stream: &[u8],
    base: usize,
    packets: &[(usize, Fate)],
) -> (Vec<Match>, usize) {
    let mut nic = Nic::new(patterns, base);
    let mut scanner = Scanner::new(patterns.clone());
    let mut matches = Vec::new();
    let mut scanned = 0;
    let mut at = 0;
    for (len, fate) in packets.iter().cycle() {
        if at == stream.len() {
            break;
        }
        let packet = at..stream.len().min(at + len);
        at = packet.end;
        let notes = nic.receive(stream, packet.clone(), *fate);
        let bytes = &stream[packet.clone()];
        let seq = |at: usize| SeqNum(START) + at as u32;
        if *fate != Fate::Trimmed {
            scanner.note(seq(packet.start), bytes.len() as u32, &notes);
        }
        // The application reads as much as it likes.
        let (first, rest) = bytes.split_at(bytes.len() * (len % 4) / 3 % (bytes.len() + 1));
        let known = bytes.len() as u32;
        scanned += scanner.take(seq(packet.start), first, known, &mut matches);
        let (from, known) = (seq(packet.start + first.len()), rest.len() as u32);
        scanned += scanner.take(from, rest, known, &mut matches);
        assert_eq!(scanner.position(), at as u64);
    }
    (matches, scanned)
}

fn patterns(text: &str) -> Arc<Patterns> {
    Arc::new(Patterns::parse(text, TABLES).expect("good patterns"))
}

/// Mostly nothing, with some of what is looked for, here and there and at the ends of windows.
fn sparse_stream() -> impl Strategy<Value = Vec<u8>> {
    let len = 2 * WINDOW as usize..4 * WINDOW as usize;
    let fragment = vec(select(&b"aabbcc\n"[..]), 1..12);
    let anywhere = vec((any::<Index>(), fragment.clone()), 0..30);
    let at_ends = vec((1..4usize, 0..12usize, fragment), 0..4);
    (len, anywhere, at_ends).prop_map(|(len, anywhere, at_ends)| {
        let mut stream = vec![b'.'; len];
        let mut put = |at: usize, fragment: &[u8]| {
            for (byte, new) in stream.iter_mut().skip(at).zip(fragment) {
                *byte = *new;
            }
        };
        for (at, fragment) in &anywhere {
            put(at.index(len), fragment);
        }
        for (window, before, fragment) in &at_ends {
            put(window * WINDOW as usize - before, fragment);
        }
        stream
    })
}

fn packets() -> impl Strategy<Value = Vec<(usize, Fate)>> {
    let len = prop_oneof![4 => 1..1500usize, 1 => 1..40_000usize];
    let fate = prop_oneof![
        12 => Just(Fate::Scanned),
        1 => Just(Fate::NotesLost),
        1 => Just(Fate::Missed),
        1 => Just(Fate::Skipped),
        1 => Just(Fate::Forged),
        1 => Just(Fate::Trimmed),
    ];
    vec((len, fate), 1..40)
}

proptest! {
    #[test]
    fn whatever_the_nic_scans_the_matches_are_those_of_software(
        lines in vec(pattern(), 1..5),
        stream in sparse_stream(),
        base in prop_oneof![Just(0), 0..20_000usize],
        packets in packets(),
    ) {
        let patterns = patterns(&lines.join("\n"));
        let (matches, _) = with_nic(&patterns, &stream, base, &packets);
        prop_assert_eq!(matches, in_software(&patterns, &stream));
    }

    #[test]
    fn so_they_are_where_matches_abound(
        lines in vec(pattern(), 1..5),
        stream in vec(select(&b"abc\n"[..]), 0..3000),
        base in 0..100usize,
        packets in vec((1..12usize, select(vec![Fate::Scanned, Fate::Scanned, Fate::Forged, Fate::Trimmed])), 1..20),
    ) {
        let patterns = patterns(&lines.join("\n"));
        let (matches, _) = with_nic(&patterns, &stream, base, &packets);
        prop_assert_eq!(matches, in_software(&patterns, &stream));
    }

    #[test]
    fn any_notes_do_no_harm(
        notes in vec((0..6u32, 0..4u32, prop_oneof![0..4u64, any::<u64>()]), 0..6),
        bytes in vec(any::<u8>(), 0..8),
    ) {
        let patterns = patterns(SETS[2]);
        let notes: Vec<Note> = notes.into_iter().map(|(at, code, value)| Note { at, code, value }).collect();
        let mut scanner = Scanner::new(patterns.clone());
        let (start, len) = (SeqNum(START), bytes.len() as u32);
        scanner.note(start, len, &notes);
        scanner.take(start, &bytes, len, &mut Vec::new());
        scanner.take(start + len, b"abc", 3, &mut Vec::new());
        prop_assert_eq!(scanner.position(), bytes.len() as u64 + 3);
    }
}

#[test]
fn what_the_nic_has_scanned_software_does_not_scan_again() {
    for set in SETS {
        let patterns = patterns(set);
        let stream: Vec<u8> = b"..abca.b.cabb....".repeat(6000);
        let (matches, scanned) = with_nic(&patterns, &stream, 0, &[(40, Fate::Scanned)]);
        assert_eq!(matches, in_software(&patterns, &stream));
        let windows = stream.len() / WINDOW as usize;
        assert!(
            scanned <= 8 * windows,
            "{scanned} bytes in {windows} windows of {set}"
        );
    }
}

#[test]
fn an_expression_that_waits_for_its_end_is_found_across_windows() {
    let patterns = patterns("/a.*b/");
    let mut stream = vec![b'.'; 3 * WINDOW as usize];
    stream[10] = b'a';
    *stream.last_mut().expect("bytes") = b'b';
    let (matches, scanned) = with_nic(&patterns, &stream, 0, &[(1448, Fate::Scanned)]);
    assert_eq!(
        matches,
        [Match {
            end: stream.len() as u64,
            pattern: 0
        }]
    );
    assert!(scanned <= 2 * WINDOW as usize);
}

#[test]
fn a_forged_packet_hides_nothing() {
    let patterns = patterns("evil");
    let stream = b"..evil..".repeat(100);
    let packets = [(4, Fate::Forged), (4, Fate::Scanned), (8, Fate::Scanned)];
    let (matches, _) = with_nic(&patterns, &stream, 0, &packets);
    assert_eq!(matches.len(), 100);
}

#[test]
fn a_run_that_goes_beyond_what_is_certain_to_come_is_not_used() {
    // As where a record was padded, which the NIC has taken for content.
    let patterns = patterns("abc");
    let mut engine = Engine::new(patterns.clone(), Direction::Receive);
    let mut walker = Walker::new(0);
    walker
        .absorb(&mut engine, &b"xab\0\0"[..])
        .expect("no header");
    let notes: Vec<Note> = std::iter::from_fn(|| engine.take_note()).collect();
    let (start, mut matches) = (SeqNum(START), Vec::new());
    let mut scanner = Scanner::new(patterns);
    scanner.note(start, 5, &notes);
    assert_eq!(scanner.take(start, b"xab", 3, &mut matches), 3);
    scanner.take(start + 30, b"c", 1, &mut matches);
    assert_eq!(matches, [Match { end: 4, pattern: 0 }]);
}
