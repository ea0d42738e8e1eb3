//! Hosts' readers of content: decoded responses, and texts that are searched.

use std::io;
use std::sync::Arc;

use l5p::http::{Content, Sink};
use l5p::pattern::{Patterns, Scanner};
use l5p::{Direction, Layer5, ResultRing, Results, Walker, http, pattern};
use testkit::written;
use wire::SeqNum;

use crate::streams;

fn compare(name: &str, lines: &[String]) {
    written::compare(env!("CARGO_MANIFEST_DIR"), name, lines);
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    placed: u64,
}

impl Sink for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn write_placed(&mut self, len: u64) -> io::Result<()> {
        self.placed += len;
        Ok(())
    }
}

/// What the NIC says of the packets of a stream, of which it has missed one if there are so many.
fn notes<E: Layer5>(engine: &mut E, packets: &[&[u8]], missed: usize) -> Vec<Vec<l5p::Note>> {
    let mut walker = Walker::new(0);
    let mut results = Results::default();
    let mut all = Vec::new();
    for (n, packet) in packets.iter().enumerate() {
        engine.exchange_results(&mut results);
        let mut notes = Vec::new();
        if n >= missed || walker.absorb(engine, *packet).is_err() {
            all.push(notes);
            continue;
        }
        engine.exchange_results(&mut results);
        results.clear();
        while let Some(note) = engine.take_note() {
            notes.push(note);
        }
        all.push(notes);
    }
    all
}

#[test]
fn responses() {
    let ring = ResultRing {
        buffer_len: 5000,
        buffers: 30,
    };
    let mut lines = Vec::new();
    for (name, response) in streams::http() {
        let packets: Vec<&[u8]> = response.chunks(1000).collect();
        for (limit, missed) in [
            (None, 0),
            (Some(1 << 20), 0),
            (Some(1 << 20), 2),
            (Some(1 << 20), 99),
            (Some(20_000), 0),
            (Some(20_000), 99),
        ] {
            let said = notes(
                &mut http::Engine::new(ring, Direction::Receive),
                &packets,
                missed,
            );
            let mut content = Content::new(limit, (missed > 0).then_some(ring));
            let mut sink = Kept::default();
            let result = give(&mut content, &packets, &said, &mut sink);
            let state = (
                content.is_done(),
                content.is_behind(),
                content.is_by_nic(),
                content.taken(),
                content.made(),
                content.take_made_by(),
            );
            let head = content.head().map(|head| {
                (
                    head.coding(),
                    head.is_success(),
                    head.is_redirect(),
                    head.is_identity(),
                )
            });
            let kept = (
                sink.bytes.len(),
                written::sum(&sink.bytes) as u32,
                sink.placed,
            );
            lines.push(format!("{name} {limit:?} {missed}: {result}"));
            lines.push(format!("  {head:?} {state:?} {kept:?}"));
        }
    }
    compare("readers_of_responses", &lines);
}

fn give(
    content: &mut Content,
    packets: &[&[u8]],
    notes: &[Vec<l5p::Note>],
    sink: &mut Kept,
) -> String {
    let mut at = SeqNum(u32::MAX - 1500);
    for (packet, notes) in packets.iter().zip(notes) {
        content.note(at, packet.len() as u32, notes);
        let mut rest = *packet;
        while !rest.is_empty() {
            while content.is_behind() {
                if let Err(error) = content.catch_up(sink) {
                    return error.to_string();
                }
            }
            match content.take(at, rest, rest.len() as u32, sink) {
                Ok(0) if content.is_done() => return format!("{} are left", rest.len()),
                Ok(taken) => {
                    at += taken as u32;
                    rest = &rest[taken..];
                }
                Err(error) => return error.to_string(),
            }
        }
    }
    while content.is_behind() {
        if let Err(error) = content.catch_up(sink) {
            return error.to_string();
        }
    }
    match content.handle_end() {
        Ok(()) => "whole".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn searches() {
    let patterns = Arc::new(Patterns::parse(streams::PATTERNS, 1 << 20).expect("patterns"));
    let text = streams::text(30_000);
    let mut lines = Vec::new();
    for (size, missed) in [(300, 0), (300, 9), (1448, 99), (40, 700), (7, 4000)] {
        let packets: Vec<&[u8]> = text.chunks(size).collect();
        let mut engine = pattern::Engine::new(Arc::clone(&patterns), Direction::Receive);
        let said = notes(&mut engine, &packets, missed);
        let mut scanner = Scanner::new(Arc::clone(&patterns));
        let mut at = SeqNum(u32::MAX - 1500);
        let mut matches = Vec::new();
        let mut scanned = Vec::new();
        for (n, (packet, notes)) in packets.iter().zip(&said).enumerate() {
            // What the NIC says of every ninth packet is lost.
            if n % 9 != 4 {
                scanner.note(at, packet.len() as u32, notes);
            }
            let known = if n % 5 == 3 { 1 } else { packet.len() as u32 };
            scanned.push(scanner.take(at, packet, known, &mut matches));
            at += packet.len() as u32;
        }
        let found: Vec<String> = matches.iter().map(|found| format!("{found:?}")).collect();
        let total: usize = scanned.iter().sum();
        lines.push(format!(
            "{size} {missed}: {total} scanned of {}, {:?}",
            scanner.position(),
            &scanned[..12.min(scanned.len())]
        ));
        lines.extend(written::shorten(found, 8));
    }
    for wrong in [
        "",
        "/(/",
        "/a*/",
        "/",
        "a\n\n#x\nb",
        "/[ab]{1000}c/",
        "\\x41\\n",
        "/^a/",
        "\\q",
    ] {
        let parsed = Patterns::parse(wrong, 10_000);
        lines.push(match parsed {
            Ok(patterns) => {
                let texts: Vec<_> = (0..patterns.count() as u32)
                    .map(|n| (patterns.text(n).map(str::to_owned), patterns.line(n)))
                    .collect();
                format!("{wrong:?}: {texts:?} {}", patterns.tables_len())
            }
            Err(error) => format!("{wrong:?}: {error}"),
        });
    }
    let lines: Vec<String> = lines
        .iter()
        .flat_map(|line| line.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    compare("readers_of_texts", &lines);
}
