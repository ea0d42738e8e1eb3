//! How connections end while content is under way: whatever the client has got of a response is what the file has.

use std::time::Duration;

use super::raw::*;
use super::{numbers, rig};
use crate::serve::tests::Rig;

const FILE: usize = 1_000_000;
const STREAMS: [u32; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// Windows that let the server send all of it.
fn hello() -> Vec<u8> {
    let most = 0x3fff_ffff_u32.to_be_bytes();
    let settings = frame(SETTINGS, 0, 0, &[&[0, 4][..], &most].concat());
    let window = frame(WINDOW_UPDATE, 0, 0, &most);
    [PREFACE, &settings, &window].concat()
}

/// A client that has asked for a file eight times, and takes so little that frames wait for the socket.
fn stalled(name: &str) -> (Rig, Raw) {
    let mut rig = rig(name);
    std::fs::write(rig.folder.join("file"), numbers(FILE)).unwrap();
    let mut raw = Raw::open(&mut rig, &hello());
    let gets = STREAMS.map(|stream| get(stream, GET_FILE)).concat();
    let now = rig.world.now();
    let written = rig.world.stack(1).write(now, raw.id, &gets);
    assert_eq!(written, Ok(gets.len()));
    rig.run_for(Duration::from_millis(500));
    assert_eq!(rig.server.counters().requests, STREAMS.len() as u64);
    assert_eq!(raw.ended.take(), None);
    (rig, raw)
}

/// Takes what comes: no stream has other bytes than the file.
fn take_all(name: &str, rig: &mut Rig, raw: &mut Raw) {
    for _ in 0..200 {
        raw.run(rig, Duration::from_millis(10));
    }
    let file = numbers(FILE);
    assert!(!raw.content.is_empty(), "{name}");
    for (stream, content) in &raw.content {
        let is_prefix = file.starts_with(content);
        assert!(is_prefix, "{name}: {} bytes of {stream}", content.len());
    }
}

#[test]
fn what_has_come_when_the_server_ends_is_what_the_file_has() {
    let name = "ends-server";
    let (mut rig, mut raw) = stalled(name);
    let now = rig.world.now();
    rig.server.leave(now, rig.world.stack(0));
    take_all(name, &mut rig, &mut raw);
    assert!(raw.first(GOAWAY).is_some());
    assert_eq!(raw.ended, Some(false));
    assert!(raw.content.values().any(|content| content.len() < FILE));
}

#[test]
fn what_has_come_when_the_client_ends_is_what_the_file_has() {
    let name = "ends-client";
    let (mut rig, mut raw) = stalled(name);
    let now = rig.world.now();
    rig.world.stack(1).shutdown(now, raw.id).unwrap();
    take_all(name, &mut rig, &mut raw);
    assert!(raw.ended.is_some());
}

#[test]
fn what_has_come_when_the_client_breaks_the_protocol_is_what_the_file_has() {
    let name = "ends-error";
    let (mut rig, mut raw) = stalled(name);
    raw.send(&mut rig, &frame(WINDOW_UPDATE, 0, 0, &[0; 4]));
    take_all(name, &mut rig, &mut raw);
    assert!(raw.first(GOAWAY).is_some());
}

/// The client may ignore what comes of a stream that it has reset, but it is the file's, and the other streams go on.
#[test]
fn what_comes_of_streams_that_were_reset_is_what_the_file_has() {
    let name = "ends-streams";
    let (mut rig, mut raw) = stalled(name);
    let reset = |stream: &u32| frame(RST_STREAM, 0, *stream, &[0, 0, 0, 8]);
    let resets: Vec<u8> = STREAMS[..7].iter().flat_map(reset).collect();
    raw.send(&mut rig, &resets);
    take_all(name, &mut rig, &mut raw);
    assert_eq!(raw.content[&15].len(), FILE);
    let counters = rig.server.counters();
    assert_eq!((counters.http2_resets, counters.connections_open), (7, 1));
    assert_eq!(raw.ended, None);
}
