//! Clients that take what they are sent slowly, or not at all, and backends that stall.

use std::time::Duration;

use super::{PREFACE, active, counters, rig_of};
use crate::lb::tests::rig::secure::client_of;
use crate::lb::tests::rig::streams::Streams;
use crate::lb::tests::rig::{Manner, Rig, content};

const IDLE: &str = "idle-time = \"10s\"";

/// A frontend with these settings, and a client with large windows that from now on takes so many bytes a second.
fn paced(frontend: &str, pace: usize) -> (Rig, Streams) {
    let mut rig = rig_of(frontend, Manner::Serves);
    let mut client = Streams::new(&mut rig, 16 << 20);
    client.run(&mut rig, Duration::from_millis(100));
    rig.clients[client.client].pace = Some(pace);
    (rig, client)
}

/// A client that opens no window holds its backend no longer than one of HTTP/1.1 that reads nothing.
#[test]
fn a_stream_whose_window_stays_closed_is_reset_after_idle_time() {
    let mut rig = rig_of(IDLE, Manner::Serves);
    let mut client = Streams::new(&mut rig, 0);
    let get = client.get("/n/3000000");
    client.run(&mut rig, Duration::from_secs(8));
    assert_eq!(active(&rig), 1);
    client.run(&mut rig, Duration::from_secs(4));
    assert_eq!(active(&rig), 0);
    assert!(client.fetches[get].error.is_some());
}

/// Nor does it keep a response that is whole here, and waits for the window alone.
#[test]
fn a_response_that_waits_for_a_window_alone_is_dropped_after_idle_time() {
    let mut rig = rig_of(IDLE, Manner::Serves);
    let mut client = Streams::new(&mut rig, 0);
    let get = client.get("/n/50000");
    client.run(&mut rig, Duration::from_secs(8));
    assert_eq!(active(&rig), 0);
    assert!(client.fetches[get].error.is_none());
    client.run(&mut rig, Duration::from_secs(25));
    assert!(client.fetches[get].error.is_some());
    assert_eq!(counters(&rig).http2_resets, 1);
}

/// A client that takes nothing at all is gone after that time, and all that waits for it.
#[test]
fn a_connection_whose_client_takes_nothing_ends_after_idle_time() {
    // A byte of it a second opens no window of TCP.
    let (mut rig, mut client) = paced(IDLE, 1);
    client.get("/n/9000000");
    client.run(&mut rig, Duration::from_secs(8));
    assert_eq!(counters(&rig).connections_open, 1);
    client.run(&mut rig, Duration::from_secs(7));
    assert_eq!(counters(&rig).connections_open, 0);
    assert_eq!((active(&rig), counters(&rig).slow_readers), (0, 0));
}

/// While a slow client takes what others of its streams have sent, none stands still.
#[test]
fn streams_that_wait_for_their_turn_are_not_cut_off() {
    let (mut rig, mut client) = paced(IDLE, 10_000);
    let gets: Vec<usize> = (0..16).map(|_| client.get("/n/300000")).collect();
    client.run(&mut rig, Duration::from_secs(80));
    assert_eq!(counters(&rig).client_timeouts, 0);
    rig.clients[client.client].pace = None;
    client.finish(&mut rig);
    assert!(
        gets.iter()
            .all(|&get| client.fetches[get].content == content(300_000))
    );
}

/// It is heard all the same: what it has begun has its time, and the others of its thread go on.
#[test]
fn a_client_that_reads_nothing_in_the_middle_of_a_frame_holds_up_no_other() {
    let settings = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x7f\xff\xff\xff";
    let window = b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\x00\x00\x00";
    let path = b"/n/9000000";
    let mut get = vec![0, 0, 5 + path.len() as u8, 1, 5, 0, 0, 0, 1];
    get.extend(b"\x82\x87\x04");
    get.push(path.len() as u8);
    get.extend(path);
    get.extend(b"\x41");
    // The authority: one byte.
    get.extend(b"\x01h");
    get[2] = (get.len() - 9) as u8;
    let preface = &PREFACE[..24];
    let bytes = [preface, settings, window, &get, b"\x00"].concat();
    let times = "request-head-time = \"5s\"\nidle-time = \"30s\"";
    let mut rig = rig_of(times, Manner::Serves);
    let mute = rig.client_of(client_of(b"h2"), bytes);
    rig.clients[mute].pace = Some(10);
    rig.run_for(Duration::from_secs(4));
    assert_eq!(counters(&rig).responses_2xx, 1, "it is asked for");
    assert_eq!((active(&rig), counters(&rig).client_timeouts), (1, 0));
    rig.run_for(Duration::from_secs(3));
    assert_eq!((active(&rig), counters(&rig).client_timeouts), (0, 1));
    let mut other = Streams::new(&mut rig, 1 << 20);
    let fetch = other.get("/n/1000");
    other.finish(&mut rig);
    assert_eq!(other.fetches[fetch].content, content(1000));
    assert_eq!(counters(&rig).connections_open, 1);
}

/// What it sends goes on, and what it resets frees its backend.
#[test]
fn a_client_that_reads_nothing_is_heard() {
    let (mut rig, mut client) = paced("request-head-time = \"5s\"", 100);
    client.get("/n/9000000");
    client.run(&mut rig, Duration::from_secs(2));
    rig.behave(8081, Manner::Silent);
    let (before, len) = (counters(&rig).bytes_in, 3_000_000);
    let post = client.ask("POST", "/echo", &[], content(len).into());
    client.run(&mut rig, Duration::from_millis(100));
    assert_eq!(active(&rig), 2);
    client.run(&mut rig, Duration::from_secs(9));
    let taken = counters(&rig).bytes_in - before;
    // A window for more of it waits behind the response.
    assert!((60_000..70_000).contains(&taken), "{taken}");
    client.give_up(post);
    client.fetches.remove(post);
    client.run(&mut rig, Duration::from_millis(100));
    assert_eq!(active(&rig), 1);
    assert_eq!(counters(&rig).client_timeouts, 0);
    rig.clients[client.client].pace = None;
    client.finish(&mut rig);
    assert!(client.fetches[0].content == content(9_000_000));
}

/// A backend is as long idle as HTTP/1.1's is, whatever else the client takes.
#[test]
fn a_backend_that_stalls_is_given_up_while_other_streams_go_on() {
    let (mut rig, mut client) = paced(IDLE, 100_000);
    client.get("/n/9000000");
    client.run(&mut rig, Duration::from_secs(1));
    rig.behave(8081, Manner::Stalls(3));
    client.get("/n/10");
    client.run(&mut rig, Duration::from_secs(8));
    assert_eq!(active(&rig), 2);
    client.run(&mut rig, Duration::from_secs(4));
    assert_eq!(active(&rig), 1);
    let timeouts = rig.balancer.pools()[0].servers[0]
        .counters
        .response_timeouts;
    assert_eq!((timeouts, counters(&rig).client_timeouts), (1, 0));
    rig.clients[client.client].pace = None;
    client.finish(&mut rig);
    assert!(client.fetches[0].content == content(9_000_000));
    assert!(client.fetches[1].error.is_some());
}

/// A client may reset a stream whose last frame waits behind others: it is no stream under way any more.
#[test]
fn a_stream_that_is_reset_behind_its_last_frame_is_forgotten() {
    let mut rig = rig_of(IDLE, Manner::Serves);
    let mut client = Streams::new(&mut rig, 1 << 20);
    rig.clients[client.client].pace = Some(100);
    let gets: Vec<usize> = (0..50).map(|_| client.get("/n/18000")).collect();
    client.run(&mut rig, Duration::from_secs(3));
    assert_eq!(active(&rig), 0, "the backend has answered all");
    gets.iter().for_each(|&get| client.give_up(get));
    client.fetches.clear();
    client.run(&mut rig, Duration::from_secs(1));
    rig.clients[client.client].pace = None;
    client.run(&mut rig, Duration::from_secs(2));
    assert!(counters(&rig).http2_resets > 0);
    let get = client.get("/n/1000");
    client.finish(&mut rig);
    assert_eq!(client.fetches[get].content, content(1000));
    client.run(&mut rig, Duration::from_secs(15));
    assert_eq!(counters(&rig).connections_open, 0, "it is idle");
}

/// However many streams a client does not read from.
#[test]
fn what_waits_for_a_client_is_bounded() {
    let mut rig = rig_of("", Manner::Serves);
    let mut client = Streams::new(&mut rig, 0);
    let gets: Vec<usize> = (0..100).map(|_| client.get("/n/300000")).collect();
    client.run(&mut rig, Duration::from_secs(3));
    assert!(gets.iter().all(|&get| client.fetches[get].status == 200));
    let taken = counters(&rig).bytes_out;
    assert!(taken < 2 << 20, "{taken}");
    assert_eq!(active(&rig), 100);
}

/// Streams whose backends have said something long ago, and say nothing more, hold no memory for what they may say.
#[test]
fn streams_that_wait_hold_little_memory() {
    let mut rig = rig_of("", Manner::Stalls(60_000));
    let mut client = Streams::new(&mut rig, 16 << 20);
    for _ in 0..100 {
        client.get("/");
        client.run(&mut rig, Duration::from_millis(20));
    }
    let came: usize = client.fetches.iter().map(|it| it.content.len()).sum();
    assert_eq!((came, active(&rig)), (6_000_000, 100));
    let memory = rig.balancer.http2_memory();
    assert!(memory < 400_000, "{memory} bytes");
}
