//! Clients of HTTP/2: each stream is routed, balanced, tried again and bounded as a client of HTTP/1.1 is.

use std::time::Duration;

use bytes::Bytes;
use host::memory::MemoryLevel;
use port::impair::Impairment;
use sim::WorldConfig;

use super::rig::secure::client_of;
use super::rig::streams::Streams;
use super::rig::{Manner, Rig, config, content};
use crate::access_log::{AccessLog, Logging};
use crate::lb::counters::FrontendCounters;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// A frontend with TLS at port 443 and these backends, with more settings in it.
fn secure(frontend: &str, pool: &str, backends: &[u16]) -> String {
    let config = config(&format!("tls = true\n{frontend}"), pool, backends);
    config.replace("10.0.0.1:80\"", "10.0.0.1:443\"")
}

fn rig(manner: Manner) -> Rig {
    Rig::new(&secure("", "", &[8081]), &[(8081, manner)])
}

fn counters(rig: &Rig) -> FrontendCounters {
    *rig.balancer.frontends().next().unwrap().1
}

fn active(rig: &Rig) -> u32 {
    let servers = rig.pools().flat_map(|pool| &pool.servers);
    servers.map(|server| server.active).sum()
}

#[test]
fn streams_are_answered_at_the_same_time() {
    let lossy = Impairment {
        loss: 0.02,
        reorder: 0.02,
        ..Impairment::default()
    };
    for (window, impairment) in [(1 << 20, Impairment::default()), (30_000, lossy)] {
        let mut rig = Rig::on(
            &secure("", "", &[8081, 8082]),
            &[(8081, Manner::Serves), (8082, Manner::Serves)],
            impairment,
            1 << 20,
            host::Accel::ALL,
        );
        let mut client = Streams::new(&mut rig, window);
        for nth in 0..20 {
            client.get(&format!("/n/{}", nth * 10_000));
        }
        let chunked = client.get("/chunked/50000");
        let known = Bytes::from(content(99_000));
        let length = [("content-length", "99000")];
        let known = client.ask("POST", "/echo", &length, known);
        let unknown = client.ask("POST", "/echo", &[], content(150_000).into());
        let head = client.ask("HEAD", "/n/1000", &[], Bytes::new());
        client.finish(&mut rig);
        assert!(client.over.is_none(), "{:?}", client.over);
        for (nth, fetch) in client.fetches.iter().enumerate() {
            let why = (nth, &fetch.error);
            assert_eq!((fetch.status, fetch.is_whole), (200, true), "{why:?}");
            assert!(fetch.content == content(fetch.content.len()), "{nth}");
        }
        let len = |fetch: usize| client.fetches[fetch].content.len();
        assert!((0..20).all(|nth| len(nth) == nth * 10_000));
        let lens = [chunked, known, unknown, head].map(len);
        assert_eq!(lens, [50_000, 99_000, 150_000, 0]);
        let counters = counters(&rig);
        assert_eq!((counters.connections, counters.http2_connections), (1, 1));
        assert_eq!((counters.requests, counters.responses_2xx), (24, 24));
        let requests: Vec<u64> = rig
            .pools()
            .flat_map(|pool| &pool.servers)
            .map(|it| it.counters.requests)
            .collect();
        assert!(requests.iter().all(|it| *it >= 10), "{requests:?}");
        assert_eq!(active(&rig), 0);
        assert!(!rig.leak.was_there());
    }
}

#[test]
fn a_client_that_does_not_offer_it_gets_http_1() {
    let mut rig = rig(Manner::Serves);
    let request = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";
    let client = rig.client_of(client_of(b"http/1.1"), request);
    assert_eq!(rig.answers(client, 1)[0].content, content(10));
    assert_eq!(counters(&rig).http2_connections, 0);
}

#[test]
fn a_frontend_without_it_does_not_agree_to_it() {
    let config = secure("http2 = false", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
    let client = rig.client_of(client_of(b"h2"), PREFACE);
    rig.run(|rig| rig.clients[client].is_over());
    assert_eq!(counters(&rig).http2_connections, 0);
}

#[test]
fn a_stream_that_is_reset_frees_its_backend_and_the_others_go_on() {
    let mut rig = rig(Manner::Silent);
    let mut client = Streams::new(&mut rig, 1 << 20);
    let gone: Vec<usize> = (0..5).map(|_| client.get("/n/10")).collect();
    client.run(&mut rig, Duration::from_millis(100));
    assert_eq!(active(&rig), 5);
    gone.iter().for_each(|&fetch| client.give_up(fetch));
    client.fetches.clear();
    client.run(&mut rig, Duration::from_millis(100));
    assert_eq!(active(&rig), 0);
    assert_eq!(counters(&rig).http2_resets, 5);
    rig.behave(8081, Manner::Serves);
    client.get("/n/300000");
    client.finish(&mut rig);
    assert_eq!(client.fetches[0].content, content(300_000));
    assert!(client.over.is_none());
}

#[test]
fn a_client_that_leaves_frees_the_backends_of_all_its_streams() {
    let mut rig = rig(Manner::Silent);
    let mut client = Streams::new(&mut rig, 1 << 20);
    (0..50).for_each(|_| assert!(client.get("/n/10") < 50));
    client.run(&mut rig, Duration::from_millis(100));
    assert_eq!(active(&rig), 50);
    rig.reset(client.client);
    rig.run_for(Duration::from_millis(100));
    assert_eq!(active(&rig), 0);
    assert_eq!(counters(&rig).connections_open, 0);
}

#[test]
fn backends_that_fail_are_the_streams_failures_and_not_the_connections() {
    let servers = [(8081, Manner::Dies), (8082, Manner::Serves)];
    let pool = "health = { check = \"none\" }";
    let mut rig = Rig::new(&secure("", pool, &[8081, 8082]), &servers);
    let mut client = Streams::new(&mut rig, 1 << 20);
    let gets: Vec<usize> = (0..10).map(|_| client.get("/n/1000")).collect();
    client.finish(&mut rig);
    // GET is tried again.
    for get in gets {
        let fetch = &client.fetches[get];
        assert_eq!((fetch.status, fetch.is_whole), (200, true), "{get}");
    }
    rig.behave(8082, Manner::DiesMidway);
    client.fetches.clear();
    let cut = client.get("/n/5000000");
    client.finish(&mut rig);
    let fetch = &client.fetches[cut];
    assert!(!fetch.is_whole && fetch.error.is_some());
    rig.behave(8082, Manner::Serves);
    let after = client.get("/n/1000");
    client.finish(&mut rig);
    assert_eq!(client.fetches[after].status, 200);
    assert!(client.over.is_none());
    assert_eq!(counters(&rig).connections, 1);
}

#[test]
fn interim_responses_and_refusals_reach_the_client() {
    let mut rig = rig(Manner::Continues);
    let mut client = Streams::new(&mut rig, 1 << 20);
    let post = client.ask(
        "POST",
        "/echo",
        &[("expect", "100-continue")],
        content(5000).into(),
    );
    let other = client.ask("POST", "/echo", &[("host", "other")], content(10).into());
    let tunnel = client.ask("CONNECT", "", &[], Bytes::new());
    client.finish(&mut rig);
    let status = |fetch: usize| client.fetches[fetch].status;
    assert_eq!([status(post), status(other)], [200, 400]);
    assert_eq!(client.fetches[post].content, content(5000));
    assert!([501, 0].contains(&status(tunnel)));
}

/// Also what has no session that would log it.
#[test]
fn a_tunnel_that_is_refused_is_in_the_access_log() {
    let mut rig = rig(Manner::Serves);
    let path = std::env::temp_dir().join(format!("longshore-lb-{}-log", std::process::id()));
    let logging = Logging {
        access_log: Some(path.clone()),
        ..Logging::default()
    };
    rig.balancer.parts.access_log = AccessLog::open(&logging).unwrap();
    // HPACK: a method and an authority.
    let fields = b"\x02\x07CONNECT\x01\x05h:443";
    let head = [0, 0, fields.len() as u8, 1, 5, 0, 0, 0, 1];
    rig.client_of(client_of(b"h2"), [PREFACE, &head, fields].concat());
    rig.run_for(Duration::from_secs(3));
    let log = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(log.contains("\"CONNECT h:443 HTTP/2.0\" 501 0 "), "{log}");
    assert_eq!(counters(&rig).requests_refused, 1);
}

/// A client that opens no window holds its backend no longer than one of HTTP/1.1 that reads nothing.
#[test]
fn a_stream_whose_window_stays_closed_is_reset_after_idle_time() {
    let config = secure("idle-time = \"10s\"", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
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
    let config = secure("idle-time = \"10s\"", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
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
    let config = secure("idle-time = \"10s\"", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
    let mut client = Streams::new(&mut rig, 16 << 20);
    client.run(&mut rig, Duration::from_millis(100));
    // A byte of it a second opens no window of TCP.
    rig.clients[client.client].pace = Some(1);
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
    let config = secure("idle-time = \"10s\"", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
    let mut client = Streams::new(&mut rig, 16 << 20);
    client.run(&mut rig, Duration::from_millis(100));
    rig.clients[client.client].pace = Some(10_000);
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
    let config = secure(
        "request-head-time = \"5s\"\nidle-time = \"30s\"",
        "",
        &[8081],
    );
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
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
    let config = secure("request-head-time = \"5s\"", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
    let mut client = Streams::new(&mut rig, 16 << 20);
    client.run(&mut rig, Duration::from_millis(100));
    rig.clients[client.client].pace = Some(100);
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
    let config = secure("idle-time = \"10s\"", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
    let mut client = Streams::new(&mut rig, 16 << 20);
    client.run(&mut rig, Duration::from_millis(100));
    rig.clients[client.client].pace = Some(100_000);
    client.get("/n/9000000");
    client.run(&mut rig, Duration::from_secs(1));
    rig.behave(8081, Manner::Stalls);
    client.get("/n/10");
    client.run(&mut rig, Duration::from_secs(8));
    assert_eq!(active(&rig), 2);
    client.run(&mut rig, Duration::from_secs(4));
    assert_eq!(active(&rig), 1);
    assert_eq!(counters(&rig).client_timeouts, 1);
    rig.clients[client.client].pace = None;
    client.finish(&mut rig);
    assert!(client.fetches[0].content == content(9_000_000));
    assert!(client.fetches[1].error.is_some());
}

/// A client may reset a stream whose last frame waits behind others: it is no stream under way any more.
#[test]
fn a_stream_that_is_reset_behind_its_last_frame_is_forgotten() {
    let config = secure("idle-time = \"10s\"", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
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

#[test]
fn a_client_that_asks_for_nothing_is_sent_away_after_idle_time() {
    let config = secure("idle-time = \"10s\"", "", &[8081]);
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
    let mut client = Streams::new(&mut rig, 1 << 20);
    client.get("/n/1000");
    client.finish(&mut rig);
    client.run(&mut rig, Duration::from_secs(9));
    assert!(client.over.is_none());
    client.run(&mut rig, Duration::from_secs(2));
    assert!(matches!(client.over, Some(Ok(()))), "{:?}", client.over);
    client.run(&mut rig, Duration::from_secs(5));
    assert_eq!(counters(&rig).connections_open, 0);
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

/// One response of a backend's, taken whole, is what the reserves go by; a refusal is none.
#[test]
fn without_memory_streams_are_refused_but_for_those_of_clients_that_have_taken_a_response() {
    let mut settings = WorldConfig::default();
    settings.nodes[0].stack.memory = 32 << 20;
    let config = secure("", "", &[8081]);
    let mut rig = Rig::in_world(&config, &[(8081, Manner::Serves)], settings, 1 << 20);
    let mut kept = Streams::new(&mut rig, 1 << 20);
    let mut new = Streams::new(&mut rig, 1 << 20);
    kept.get("/n/10");
    kept.finish(&mut rig);
    new.run(&mut rig, Duration::from_millis(10));
    rig.hold_memory(MemoryLevel::Exhausted);
    rig.run_for(Duration::from_secs(6));
    for (client, wanted) in [(&mut kept, [200; 2]), (&mut new, [503; 2])] {
        for status in wanted {
            let get = client.get("/n/10");
            client.finish(&mut rig);
            assert_eq!(client.fetches[get].status, status);
        }
    }
    assert_eq!(counters(&rig).requests_shed, 2);
}

/// However many streams a client does not read from.
#[test]
fn what_waits_for_a_client_is_bounded() {
    let mut rig = rig(Manner::Serves);
    let mut client = Streams::new(&mut rig, 0);
    let gets: Vec<usize> = (0..100).map(|_| client.get("/n/300000")).collect();
    client.run(&mut rig, Duration::from_secs(3));
    assert!(gets.iter().all(|&get| client.fetches[get].status == 200));
    let taken = counters(&rig).bytes_out;
    assert!(taken < 2 << 20, "{taken}");
    assert_eq!(active(&rig), 100);
}

/// CVE-2023-44487, CVE-2019-9512 and VU#421644.
#[test]
fn floods_end_the_connection_and_leave_nothing() {
    let get = |stream: u32| {
        let mut frame = b"\x00\x00\x06\x01\x05".to_vec();
        frame.extend(stream.to_be_bytes());
        frame.extend(b"\x82\x87\x84\x01\x01h");
        frame
    };
    let reset = |stream: u32| {
        let mut frame = b"\x00\x00\x04\x03\x00".to_vec();
        frame.extend(stream.to_be_bytes());
        frame.extend(8_u32.to_be_bytes());
        frame
    };
    let streams = (1..1000).step_by(2);
    let resets: Vec<u8> = streams
        .flat_map(|stream| [get(stream), reset(stream)].concat())
        .collect();
    let pings = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00longlong".repeat(5000);
    let mut fields = b"\x00\x00\x06\x01\x01\x00\x00\x00\x01\x82\x87\x84\x01\x01h".to_vec();
    fields.extend(b"\x00\x00\x05\x09\x00\x00\x00\x00\x01\x00\x01a\x01b".repeat(100_000));
    for (name, flood) in [("resets", resets), ("pings", pings), ("fields", fields)] {
        let mut rig = rig(Manner::Serves);
        let bytes = [PREFACE, &flood].concat();
        let client = rig.client_of(client_of(b"h2"), bytes);
        rig.run(|rig| rig.clients[client].is_over());
        rig.run_for(Duration::from_secs(40));
        assert_eq!(
            (active(&rig), counters(&rig).connections_open),
            (0, 0),
            "{name}"
        );
        assert!(counters(&rig).requests < 200, "{name}");
    }
}

#[test]
fn when_the_load_balancer_ends_streams_under_way_are_answered() {
    let mut rig = rig(Manner::Serves);
    let mut client = Streams::new(&mut rig, 50_000);
    let get = client.get("/n/3000000");
    client.run(&mut rig, Duration::from_millis(20));
    assert!(!client.fetches[get].is_whole);
    let now = rig.world.now();
    rig.balancer.stop(now, rig.world.stack(0));
    client.finish(&mut rig);
    assert_eq!(client.fetches[get].content, content(3_000_000));
    client.run(&mut rig, Duration::from_secs(5));
    assert!(client.over.is_some());
    assert_eq!(counters(&rig).connections_open, 0);
}
