//! Speed of the pattern engine in packets, by kind and number of patterns, and the host's cost for what the NIC has scanned:
//! `cargo run --release -p longshore-l5p --example pattern_speed`.
//!
//! `-- --short` measures each for a few milliseconds. It counts the thread's processor time, so that other load on the machine matters little.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use l5p::pattern::{Engine, Patterns, Scanner, TABLES, WINDOW};
use l5p::{Direction, Layer5, Note, Walker};
use rustix::time::{ClockId, clock_gettime};
use wire::SeqNum;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(200);
/// With `--short`.
const SHORT_ROUND: Duration = Duration::from_millis(1);
const PACKET: usize = 1448;

const EXPRESSIONS: [&str; 4] = [
    "/cmd=[a-z]+;/i",
    "/(?:select|insert|update)[ +]+[a-z_]+/i",
    "/[0-9]{3}-[0-9]{2}-[0-9]{4}/",
    r"/\x90{8}/",
];

fn main() {
    let stream = stream();
    println!(
        "{:32} {:>12} {:>9} {:>14} {:>16}",
        "patterns", "tables", "GB/s", "host, ns/pkt", "software scans"
    );
    for (name, text) in [
        ("10 strings", strings(10)),
        ("1,000 strings", strings(1000)),
        ("5,000 strings", strings(5000)),
        ("1 expression", EXPRESSIONS[0].to_owned()),
        ("4 expressions", EXPRESSIONS.join("\n")),
        (
            "1,000 strings, 4 expressions",
            format!("{}\n{}", strings(1000), EXPRESSIONS.join("\n")),
        ),
    ] {
        let patterns = Arc::new(Patterns::parse(&text, TABLES).expect("good patterns"));
        let tables = format!("{} KiB", patterns.tables_len() >> 10);
        let speed = engine_speed(&patterns, &stream);
        let (host, software) = host_cost(&patterns, &stream);
        println!(
            "{name:32} {tables:>12} {speed:9.2} {host:14.0} {:>15.3}%",
            software * 100.0
        );
    }
}

/// Words that are not in the stream, with beginnings that are.
fn strings(count: u32) -> String {
    let mut random = 1u32;
    let word = |_| {
        let letters = (0..8).map(|_| char::from(b'a' + (next(&mut random) % 26) as u8));
        format!("{}.example\n", letters.collect::<String>())
    };
    (0..count).map(word).collect()
}

/// 16 windows of words, numbers and line ends.
fn stream() -> Vec<u8> {
    let mut random = 7u32;
    let mut stream = Vec::new();
    while stream.len() < 16 * WINDOW as usize {
        for _ in 0..1 + next(&mut random) % 9 {
            let set = b"etaoinshrdlucmfwypvbgkqjxz0123456789";
            let skewed = next(&mut random) % 36 * (next(&mut random) % 36) / 36;
            stream.push(set[skewed as usize]);
        }
        stream.push(if next(&mut random).is_multiple_of(12) {
            b'\n'
        } else {
            b' '
        });
    }
    stream.truncate(16 * WINDOW as usize);
    stream
}

fn next(random: &mut u32) -> u32 {
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    *random >> 4
}

/// Gigabytes per second.
fn engine_speed(patterns: &Arc<Patterns>, stream: &[u8]) -> f64 {
    let mut engine = Engine::new(patterns.clone(), Direction::Receive);
    let mut walker = Walker::new(0);
    let mut output = vec![0; PACKET];
    let nanoseconds = time(|| {
        for packet in stream.chunks(PACKET) {
            scan(&mut walker, &mut engine, packet, &mut output, &mut |note| {
                black_box(note);
            });
        }
    });
    stream.len() as f64 / nanoseconds
}

/// Nanoseconds per packet that the NIC has scanned, and the part of the bytes that software scans.
fn host_cost(patterns: &Arc<Patterns>, stream: &[u8]) -> (f64, f64) {
    let mut engine = Engine::new(patterns.clone(), Direction::Receive);
    let mut walker = Walker::new(0);
    let mut output = vec![0; PACKET];
    let packets: Vec<(&[u8], Vec<Note>)> = stream
        .chunks(PACKET)
        .map(|packet| {
            let mut notes = Vec::new();
            scan(&mut walker, &mut engine, packet, &mut output, &mut |note| {
                notes.push(note);
            });
            (packet, notes)
        })
        .collect();
    let mut scanner = Scanner::new(patterns.clone());
    let mut matches = Vec::new();
    let (mut software, mut calls) = (0, 0);
    let mut at = SeqNum(0);
    let nanoseconds = time(|| {
        for (packet, notes) in &packets {
            matches.clear();
            let len = packet.len() as u32;
            scanner.note(at, len, notes);
            software += scanner.take(at, packet, len, &mut matches);
            at += len;
        }
        calls += 1;
    });
    let all = calls * stream.len();
    (
        nanoseconds / packets.len() as f64,
        software as f64 / all as f64,
    )
}

fn scan(
    walker: &mut Walker<[u8; 1]>,
    engine: &mut Engine,
    packet: &[u8],
    output: &mut [u8],
    take: &mut impl FnMut(Note),
) {
    let walked = walker.advance(engine, packet, &mut output[..packet.len()]);
    let _ = black_box(walked.expect("no header"));
    while let Some(note) = engine.take_note() {
        take(note);
    }
}

/// Median over the rounds of the nanoseconds that one call takes.
fn time(mut call: impl FnMut()) -> f64 {
    let short = std::env::args().any(|argument| argument == "--short");
    let round = if short { SHORT_ROUND } else { ROUND };
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = processor_time();
            let mut calls = 0u32;
            loop {
                call();
                calls += 1;
                let elapsed = processor_time() - begin;
                if elapsed >= round {
                    return elapsed.as_nanos() as f64 / f64::from(calls);
                }
            }
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
