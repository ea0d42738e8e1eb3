//! Requests' content, which backends may take slowly.

use std::time::Duration;

use bytes::Bytes;

use super::{PREFACE, active, counters, rig, rig_of, secure};
use crate::lb::tests::rig::secure::client_of;
use crate::lb::tests::rig::streams::Streams;
use crate::lb::tests::rig::{Manner, Rig, content};

/// An upload of messages of 21 bytes, each a frame, waits for a backend that is full.
#[test]
fn an_upload_in_small_frames_is_no_flood() {
    let backend = "{ address = \"10.0.0.2:8081\", max-connections = 1 }";
    let pool = format!("backends = [{backend}]\nqueue-time = \"50s\"");
    let mut rig = Rig::new(&secure("", &pool, &[]), &[(8081, Manner::Silent)]);
    let head = |method: u8, flags: u8, stream: u8| {
        let head = [0, 0, 6, 1, flags, 0, 0, 0, stream];
        [&head[..], &[method, 0x87, 0x84, 1, 1, b'h']].concat()
    };
    let frame = b"\x00\x00\x15\x00\x00\x00\x00\x00\x03a message of 21 bytes";
    let frames = frame.repeat(3000);
    let bytes = [PREFACE, &head(0x82, 5, 1), &head(0x83, 4, 3), &frames].concat();
    rig.client_of(client_of(b"h2"), bytes);
    rig.run_for(Duration::from_secs(3));
    let counters = counters(&rig);
    assert_eq!((counters.http2_floods, counters.connections_open), (0, 1));
    assert_eq!((active(&rig), counters.requests), (1, 2));
}

/// Windows are opened as the backend takes the content.
#[test]
fn what_a_backend_does_not_take_stays_with_the_client() {
    const UPLOAD: usize = 16 << 20;
    let mut rig = rig(Manner::Reluctant);
    let mut client = Streams::new(&mut rig, 1 << 20);
    let post = client.ask("POST", "/echo", &[], content(UPLOAD).into());
    client.run(&mut rig, Duration::from_secs(10));
    let left = client.unsent(post);
    assert!(left > UPLOAD / 2, "{left}");
    client.run(&mut rig, Duration::from_secs(10));
    let more = left - client.unsent(post);
    assert!(more < 100_000, "{more} more");
}

/// However many streams it is of: what no backend has taken, and what is kept to be sent again.
#[test]
fn what_backends_do_not_take_is_bounded() {
    const UPLOAD: usize = 4 << 20;
    let mut rig = rig(Manner::Reluctant);
    let mut client = Streams::new(&mut rig, 1 << 20);
    let content = Bytes::from(content(UPLOAD));
    let posts: Vec<usize> = (0..100)
        .map(|_| client.ask("POST", "/echo", &[], content.clone()))
        .collect();
    client.run(&mut rig, Duration::from_secs(20));
    let sent: usize = posts.iter().map(|&it| UPLOAD - client.unsent(it)).sum();
    let taken = counters(&rig).bytes_in as usize;
    assert!(taken > 1 << 20, "{taken}");
    assert!(sent < taken + (1 << 20), "{sent} sent, {taken} taken");
}

/// Uploads that are small enough to be kept all together, and those that are not.
#[test]
fn many_uploads_at_a_time_are_answered() {
    for len in [3000, 60_000, 200_000] {
        let mut rig = rig(Manner::Serves);
        let mut client = Streams::new(&mut rig, 1 << 20);
        let bytes = Bytes::from(content(len));
        for _ in 0..100 {
            client.ask("POST", "/echo", &[], bytes.clone());
        }
        client.finish(&mut rig);
        for fetch in &client.fetches {
            assert_eq!((fetch.status, fetch.content.len()), (200, len));
        }
    }
}

/// A second pool at `/other` with one connection to a backend of this manner, and this `idle-time`.
fn beside(other: Manner, idle_time: &str) -> Rig {
    let backend = "{ address = \"10.0.0.2:8082\", max-connections = 1 }";
    let times = "queue = 20\nqueue-time = \"50s\"\nresponse-time = \"50s\"";
    let pool = format!(
        "[pools.other]\nbackends = [{backend}]\n{times}\nhealth = {{ check = \"none\" }}\n"
    );
    let routes = format!(
        "idle-time = \"{idle_time}\"\nroutes = [{{ path = \"/other\", pool = \"other\" }}]"
    );
    let config = secure(&routes, "", &[8081]) + &pool;
    Rig::new(&config, &[(8081, Manner::Serves), (8082, other)])
}

/// An upload of 200,000 bytes on a connection of which others have all of the window, and wait for their backend; its number.
fn without_window(idle_time: &str) -> (Rig, Streams, usize) {
    let mut rig = beside(Manner::Silent, idle_time);
    let mut client = Streams::new(&mut rig, 1 << 20);
    client.get("/other");
    for _ in 0..10 {
        client.ask("POST", "/other", &[], content(100_000).into());
    }
    client.run(&mut rig, Duration::from_secs(1));
    let upload = client.ask("POST", "/echo", &[], content(200_000).into());
    (rig, client, upload)
}

/// That others have the window is not its fault.
#[test]
fn an_upload_that_has_no_window_for_others_is_not_late() {
    let (mut rig, mut client, upload) = without_window("10s");
    client.run(&mut rig, Duration::from_secs(30));
    let unsent = client.unsent(upload);
    assert_eq!((client.fetches[upload].status, unsent), (0, 200_000));
    assert_eq!(counters(&rig).client_timeouts, 0);
    (0..upload).for_each(|other| client.give_up(other));
    client.fetches.drain(..upload);
    client.finish(&mut rig);
    let fetch = &client.fetches[0];
    assert_eq!((fetch.status, fetch.content.len()), (200, 200_000));
}

/// One that has a window is: nothing more of its request comes.
#[test]
fn an_upload_that_stops_is_late() {
    let mut rig = rig_of("idle-time = \"10s\"", Manner::Serves);
    let head = b"\x00\x00\x06\x01\x04\x00\x00\x00\x01\x83\x87\x84\x01\x01h";
    rig.client_of(client_of(b"h2"), [PREFACE, head].concat());
    rig.run_for(Duration::from_secs(9));
    assert_eq!((active(&rig), counters(&rig).client_timeouts), (1, 0));
    rig.run_for(Duration::from_secs(2));
    assert_eq!((active(&rig), counters(&rig).client_timeouts), (0, 1));
}

/// It waits ten times as long as one that has a window, and no longer.
#[test]
fn an_upload_that_has_no_window_for_long_is_given_up() {
    let (mut rig, mut client, upload) = without_window("2s");
    client.run(&mut rig, Duration::from_millis(19_500));
    assert_eq!(counters(&rig).client_timeouts, 0);
    client.run(&mut rig, Duration::from_secs(1));
    assert_eq!(counters(&rig).client_timeouts, 1);
    assert_eq!(client.fetches[upload].status, 408);
}

/// What comes behind a response that is whole, and that its client does not take, is read and dropped.
#[test]
fn content_behind_a_response_takes_no_window_of_others() {
    let mut rig = beside(Manner::Hasty, "60s");
    let mut client = Streams::new(&mut rig, 0);
    let bytes = Bytes::from(content(1 << 20));
    let posts: Vec<usize> = (0..10)
        .map(|_| client.ask("POST", "/other", &[], bytes.clone()))
        .collect();
    client.run(&mut rig, Duration::from_secs(3));
    assert_eq!(counters(&rig).responses_2xx, 10);
    let upload = client.ask("POST", "/echo", &[], content(200_000).into());
    client.run(&mut rig, Duration::from_secs(2));
    assert_eq!(client.unsent(upload), 0);
    assert!(posts.iter().all(|&post| client.unsent(post) == 0));
}

/// A client that closes the window with others for a moment of each second has no more time for one that it does not go on with.
#[test]
fn moments_without_a_window_count_as_they_are() {
    let mut rig = beside(Manner::Silent, "10s");
    let frame = |kind: u8, flags: u8, stream: u32, bytes: &[u8]| {
        let mut frame = (bytes.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        [&frame[..], bytes].concat()
    };
    let head = |path: &[u8]| {
        let path = [&[4, path.len() as u8], path].concat();
        [&b"\x83\x87"[..], &path, b"\x01\x01h"].concat()
    };
    let stopped = frame(1, 4, 1, &head(b"/echo"));
    let first = frame(1, 5, 3, &head(b"/other"));
    let client = rig.client_of(client_of(b"h2"), [PREFACE, &stopped, &first].concat());
    rig.run_for(Duration::from_millis(500));
    for second in 0..13_u32 {
        let streams = (0..8).map(|nth| 16 * second + 2 * nth + 5);
        for stream in streams.clone() {
            let mut out = frame(1, 4, stream, &head(b"/other"));
            for _ in 0..4 {
                out.extend(frame(0, 0, stream, &[7; 16 * 1024 - 1]));
            }
            rig.clients[client].out.extend(out);
        }
        rig.run_for(Duration::from_millis(100));
        for stream in streams {
            let reset = frame(3, 0, stream, &8_u32.to_be_bytes());
            rig.clients[client].out.extend(reset);
        }
        rig.run_for(Duration::from_millis(900));
    }
    let counters = counters(&rig);
    assert_eq!((counters.http2_floods, counters.connections_open), (0, 1));
    assert_eq!(counters.client_timeouts, 1);
}

/// Its connection ends before the load balancer looks again, and by then its rate is to be looked at.
#[test]
fn an_upload_ends_with_its_connection_when_its_rate_is_due() {
    let frontend = "min-rate-time = \"5s\"\nidle-time = \"2m\"";
    let mut rig = Rig::new(&secure(frontend, "", &[8081]), &[(8081, Manner::Serves)]);
    let post = b"\x00\x00\x06\x01\x04\x00\x00\x00\x01\x83\x87\x84\x01\x01h";
    let client = rig.client_of(client_of(b"h2"), [PREFACE, post].concat());
    rig.run(|rig| active(rig) == 1);
    rig.run_for(Duration::from_millis(4900));
    rig.reset(client);
    rig.step_peers();
    let due = rig.world.now() + Duration::from_millis(200);
    rig.world.advance_to(due);
    rig.run(|rig| counters(rig).connections_open == 0);
    assert_eq!(active(&rig), 0);
}

/// What their heads take is free again when streams are gone: these are more than 1 MiB.
#[test]
fn heads_of_streams_that_are_gone_do_not_count() {
    let mut rig = rig(Manner::Silent);
    let mut client = Streams::new(&mut rig, 1 << 20);
    let field = "v".repeat(10_000);
    for _ in 0..115 {
        let get = client.ask("GET", "/", &[("x", &field)], Bytes::new());
        client.run(&mut rig, Duration::from_millis(30));
        client.give_up(get);
        client.run(&mut rig, Duration::from_millis(30));
    }
    assert_eq!(counters(&rig).requests, 115);
}
