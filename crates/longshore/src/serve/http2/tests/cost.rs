//! What a byte of HTTP/2 costs the server's host beside one of HTTP/1.1: a hundred files of 256 KiB at a time, over one connection.
//!
//! Each version is a test of its own, that instructions can be counted too:
//! `valgrind --tool=callgrind --toggle-collect='*server_turn*' BINARY --ignored serve::http2::tests::cost::http1`.

use std::time::{Duration, Instant};

use handshake::Options;
use host::{SocketId, Stack, read_cycles};
use port::impair::Impairment;

use super::raw::*;
use super::{options, rig_on, secured_for};
use crate::serve::files::FileSource;
use crate::serve::server::Server;
use crate::serve::tests::Rig;

const FILE: usize = 256 << 10;
const AT_A_TIME: usize = 100;
const ROUNDS: u64 = 8;

/// All that the server's host does at a time.
#[inline(never)]
fn server_turn(now: Instant, stack: &mut Stack, server: &mut Server) -> bool {
    stack.poll(now) | server.poll(now, stack) | stack.poll(now)
}

/// Runs until so many bytes have come; the cycles of the server's host.
fn run(rig: &mut Rig, id: SocketId, mut wanted: usize, buffer: &mut [u8]) -> u64 {
    let mut cycles = 0;
    while wanted > 0 {
        let now = rig.world.now();
        let start = read_cycles();
        let mut moved = server_turn(now, rig.world.stack(0), &mut rig.server);
        cycles += read_cycles() - start;
        let client = rig.world.stack(1);
        moved |= client.poll(now);
        while client.poll_event().is_some() {}
        while let Ok(len) = client.read(now, id, buffer) {
            assert!(len > 0, "the server has ended the connection");
            wanted = wanted.saturating_sub(len);
            moved = true;
        }
        moved |= client.poll(now) | rig.world.step_wires();
        match moved {
            true => rig.world.advance_to(now + Duration::from_micros(20)),
            false => assert!(rig.world.advance(), "nothing is under way"),
        }
    }
    cycles
}

/// A client that speaks this protocol alone.
fn connect(rig: &mut Rig, protocol: &[u8]) -> SocketId {
    let alpn = vec![protocol.to_vec()];
    secured_for(rig, Options { alpn, ..options() })
}

fn rig(name: &str) -> Rig {
    let link = (0, Impairment::default());
    let rig = rig_on(name, 0, FileSource::InPlace, link);
    std::fs::write(rig.folder.join("page"), vec![7; FILE]).unwrap();
    rig
}

/// Rounds of requests, whose responses' bytes are no fewer than this.
fn measure(name: &str, mut rig: Rig, id: SocketId, requests: impl Fn(u64) -> Vec<u8>) {
    let mut buffer = vec![0; 1 << 20];
    let mut cycles = 0;
    for round in 0..=ROUNDS {
        let now = rig.world.now();
        let requests = requests(round);
        let written = rig.world.stack(1).write(now, id, &requests);
        assert_eq!(written, Ok(requests.len()));
        let taken = run(&mut rig, id, AT_A_TIME * FILE, &mut buffer);
        rig.run_for(Duration::from_millis(10));
        while rig.read(id, 1 << 20).is_ok() {}
        // The first warms up.
        cycles += if round > 0 { taken } else { 0 };
    }
    let counters = rig.server.counters();
    assert_eq!(counters.responses_2xx, (ROUNDS + 1) * AT_A_TIME as u64);
    let bytes = ROUNDS * (AT_A_TIME * FILE) as u64;
    let each = cycles as f64 / bytes as f64;
    eprintln!("{name}: {each:.4} host cycles per byte");
}

#[test]
#[ignore = "measures"]
fn http1() {
    let mut rig = rig("cost-http1");
    let id = connect(&mut rig, b"http/1.1");
    let get = b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n";
    measure("HTTP/1.1", rig, id, |_| get.repeat(AT_A_TIME));
}

#[test]
#[ignore = "measures"]
fn http2() {
    let mut rig = rig("cost-http2");
    let id = connect(&mut rig, b"h2");
    let most = 0x3fff_ffff_u32.to_be_bytes();
    let settings = [&[0, 4][..], &most].concat();
    let hello = [
        PREFACE,
        &frame(SETTINGS, 0, 0, &settings),
        &frame(WINDOW_UPDATE, 0, 0, &most),
    ];
    let now = rig.world.now();
    let stack = rig.world.stack(1);
    stack.write(now, id, &hello.concat()).unwrap();
    rig.run_for(Duration::from_millis(10));
    while rig.read(id, 1 << 20).is_ok() {}
    measure("HTTP/2", rig, id, |round| {
        let first = round as u32 * 2 * AT_A_TIME as u32 + 1;
        let streams = (first..).step_by(2).take(AT_A_TIME);
        let gets = streams.map(|stream| get(stream, b"\x82\x87\x01\x01h\x04\x05/page"));
        gets.flatten().collect()
    });
}
