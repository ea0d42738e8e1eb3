//! Clients of HTTP/2: each stream is routed, balanced, tried again and bounded as a client of HTTP/1.1 is.

mod slow;
mod uploads;

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

/// One backend that does so, behind a frontend with these settings.
fn rig_of(frontend: &str, manner: Manner) -> Rig {
    Rig::new(&secure(frontend, "", &[8081]), &[(8081, manner)])
}

fn rig(manner: Manner) -> Rig {
    rig_of("", manner)
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
    let mut rig = rig_of("http2 = false", Manner::Serves);
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

#[test]
fn a_client_that_asks_for_nothing_is_sent_away_after_idle_time() {
    let mut rig = rig_of("idle-time = \"10s\"", Manner::Serves);
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

/// Memory is reserved for clients that have taken a whole response of a backend. A refusal is not such a response.
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

/// A head of 28,000 bytes takes thirty of a client that has said its fields once: it counts from when it comes.
#[test]
fn heads_that_come_together_are_bounded() {
    const FIELD: usize = 3900;
    let mut first = b"\x82\x87\x84\x01\x01h\x40\x01a\x7f".to_vec();
    first.extend([
        0x80 | ((FIELD - 127) & 0x7f) as u8,
        ((FIELD - 127) >> 7) as u8,
    ]);
    first.extend([b'v'; FIELD]);
    let again = [&b"\x82\x87\x84\x01\x01h"[..], &[0xbe; 7]].concat();
    let head = |stream: u32, fields: &[u8]| {
        let mut frame = (fields.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([1, 5]);
        frame.extend(stream.to_be_bytes());
        [&frame[..], fields].concat()
    };
    let mut bytes = [PREFACE, &head(1, &first)].concat();
    for nth in 1..64 {
        bytes.extend(head(2 * nth + 1, &again));
    }
    let mut rig = rig_of("max-head = 32768", Manner::Silent);
    rig.client_of(client_of(b"h2"), bytes);
    rig.run_for(Duration::from_secs(1));
    let counters = counters(&rig);
    let taken = counters.requests;
    assert!((35..45).contains(&taken), "{taken}");
    assert_eq!(taken + counters.http2_resets, 64);
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
