//! How fast the parts on every packet's path are: `cargo run --release -p longshore-wire --example speed`.
//!
//! `-- --short` runs each for a few milliseconds only.

use std::hint::black_box;
use std::time::Instant;

use wire::checksum::Sum;
use wire::ethernet::MacAddr;
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{Ecn, FlowKey, SeqNum};

fn main() {
    let short = std::env::args().any(|argument| argument == "--short");
    let share = if short { 512 } else { 1 };
    for len in [64, 1460, 65_536] {
        let (source, mut target) = (vec![0x5a; len], vec![0; len]);
        let rounds = (1 << 30) / len / share;
        let seconds = time(rounds, || Sum::of(black_box(&source)).finish());
        println!(
            "checksum of {len} bytes: {:.1} GB/s",
            len as f64 / seconds / 1e9
        );
        let seconds = time(rounds, || {
            Sum::of_copied(black_box(&source), &mut target).finish()
        });
        println!(
            "copy and checksum of {len} bytes: {:.1} GB/s",
            len as f64 / seconds / 1e9
        );
    }
    for (name, src, dst) in [
        ("IPv4", "10.0.0.1:4000", "10.0.0.2:443"),
        ("IPv6", "[fd00::1]:4000", "[fd00::2]:443"),
    ] {
        let flow = FlowKey::new(src.parse().expect("valid"), dst.parse().expect("valid"));
        let options = Options {
            timestamps: Some(Timestamps { val: 1, echo: 2 }),
            ..Options::default()
        };
        let header = Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq: SeqNum(7),
            ack: SeqNum(9),
            flags: Flags::ACK,
            window: 512,
            options,
            ecn: Ecn::NotEct,
        };
        let mut frame = [0; MAX_TCP_HEADERS_LEN + 1448];
        let mac = MacAddr::BROADCAST;
        let emit = |frame: &mut [u8]| {
            packet::emit_tcp_headers(frame, mac, mac, black_box(&flow), &header, 1448, 64)
        };
        let seconds = time((1 << 24) / share, || emit(&mut frame));
        println!(
            "headers of TCP over {name} written: {:.1} ns",
            seconds * 1e9
        );
        let seconds = time((1 << 24) / share, || {
            let parsed = packet::parse(black_box(&frame)).expect("a TCP segment");
            black_box(&parsed).payload_len
        });
        println!("headers of TCP over {name} parsed: {:.1} ns", seconds * 1e9);
    }
}

/// Seconds of one call: the best of several runs, since the machine may have other things to do.
fn time<T>(rounds: usize, mut call: impl FnMut() -> T) -> f64 {
    const RUNS: usize = 50;
    let rounds = (rounds / RUNS).max(1);
    let run = |_| {
        let start = Instant::now();
        for _ in 0..rounds {
            black_box(call());
        }
        start.elapsed().as_secs_f64() / rounds as f64
    };
    (0..RUNS).map(run).fold(f64::INFINITY, f64::min)
}
