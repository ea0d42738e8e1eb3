//! Any text is a set of patterns or is refused. Whatever the NIC scans of a stream, the scanner finds what software finds.

use std::sync::Arc;

use l5p::pattern::{Engine, Match, Patterns, Scanner, WINDOW};
use l5p::{Direction, Layer5, Note, Walker};
use wire::SeqNum;

/// Bytes that the tables may have: a set that needs more takes too long here.
const TABLES: usize = 1 << 16;

/// Bytes: the length of the text, of the packets, which packets' notes come, and which packets the NIC sees otherwise; then the text;
/// the rest is what the stream has at its beginning and around the end of its first window.
pub fn run(data: &[u8]) {
    let [text, packet, noted, forged, rest @ ..] = data else {
        return;
    };
    let (text, content) = rest.split_at(usize::from(*text).min(rest.len()));
    let text = String::from_utf8_lossy(text);
    let patterns = match Patterns::parse(&text, TABLES) {
        Ok(patterns) => Arc::new(patterns),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut stream = content.to_vec();
    stream.resize((WINDOW as usize).saturating_sub(content.len() / 2), b'.');
    stream.extend_from_slice(content);

    let software = scan(&patterns, &stream, stream.len(), |_| None);
    let mut nic = Nic::new(&patterns);
    let packet = usize::from(*packet) * 8 + 1;
    let with_nic = scan(&patterns, &stream, packet, |bytes| {
        nic.receive(bytes, *noted, *forged)
    });
    assert_eq!(software, with_nic);
    let is_known = |found: &Match| (found.pattern as usize) < patterns.count();
    assert!(software.iter().all(is_known) && software.is_sorted());
}

/// What a scanner finds of a stream in packets, on each of which there are notes or none.
fn scan(
    patterns: &Arc<Patterns>,
    stream: &[u8],
    packet: usize,
    mut notes: impl FnMut(&[u8]) -> Option<Vec<Note>>,
) -> Vec<Match> {
    let mut scanner = Scanner::new(patterns.clone());
    let mut matches = Vec::new();
    let mut at = SeqNum(u32::MAX - 5000);
    for bytes in stream.chunks(packet.max(1)) {
        let notes = notes(bytes).unwrap_or_default();
        let len = bytes.len() as u32;
        scanner.note(at, len, &notes);
        scanner.take(at, bytes, len, &mut matches);
        at += len;
    }
    matches
}

struct Nic {
    engine: Engine,
    walker: Walker<[u8; 1]>,
    packets: usize,
}

impl Nic {
    fn new(patterns: &Arc<Patterns>) -> Nic {
        Nic {
            engine: Engine::new(patterns.clone(), Direction::Receive),
            walker: Walker::new(0),
            packets: 0,
        }
    }

    /// The notes on a packet, if they come. What bit `n` of the choices says is so for every eighth packet from the `n`th on.
    fn receive(&mut self, bytes: &[u8], noted: u8, forged: u8) -> Option<Vec<Note>> {
        let is = |choice: u8| choice >> (self.packets % 8) & 1 != 0;
        let (is_noted, is_forged) = (is(noted), is(forged));
        self.packets += 1;
        let mut seen = bytes.to_vec();
        if is_forged {
            seen.reverse();
        }
        let mut passed = vec![0; seen.len()];
        self.walker
            .advance(&mut self.engine, &seen, &mut passed)
            .expect("windows have no header");
        assert_eq!(passed, seen);
        let notes: Vec<Note> = std::iter::from_fn(|| self.engine.take_note()).collect();
        (is_noted && !is_forged).then_some(notes)
    }
}
