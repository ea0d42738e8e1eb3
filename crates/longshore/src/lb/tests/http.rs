//! HTTP as it should go.

use std::time::Duration;

use host::Accel;
use port::impair::Impairment;
use proptest::prelude::*;
use sim::WorldConfig;

use super::rig::{Manner, Rig, content};

const CONFIG: &str = r#"
[frontends.web]
listen = ["10.0.0.1:80"]
pool = "app"

[pools.app]
backends = ["10.0.0.2:8081", "10.0.0.2:8082"]
health = { check = "none" }
"#;
const SERVERS: [(u16, Manner); 2] = [(8081, Manner::Serves), (8082, Manner::Serves)];

#[derive(Clone, Debug)]
enum Exchange {
    Length(usize),
    Chunked(usize),
    Echo(usize),
    EchoChunks(usize),
}

impl Exchange {
    fn request(&self) -> Vec<u8> {
        let host = "Host: h\r\n";
        match self {
            Exchange::Length(len) => format!("GET /n/{len} HTTP/1.1\r\n{host}\r\n").into_bytes(),
            Exchange::Chunked(len) => {
                format!("GET /chunked/{len} HTTP/1.1\r\n{host}\r\n").into_bytes()
            }
            Exchange::Echo(len) => {
                let head = format!("POST /echo HTTP/1.1\r\n{host}Content-Length: {len}\r\n\r\n");
                [head.as_bytes(), &content(*len)].concat()
            }
            Exchange::EchoChunks(len) => {
                let head =
                    format!("PUT /echo HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n");
                let mut request = head.into_bytes();
                for part in content(*len).chunks(100) {
                    request.extend_from_slice(format!("{:X};x=y\r\n", part.len()).as_bytes());
                    request.extend_from_slice(part);
                    request.extend_from_slice(b"\r\n");
                }
                request.extend_from_slice(b"0\r\nT: x\r\n\r\n");
                request
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Exchange::Length(len)
            | Exchange::Chunked(len)
            | Exchange::Echo(len)
            | Exchange::EchoChunks(len) => *len,
        }
    }
}

fn asked() -> impl Strategy<Value = Exchange> {
    let len = prop_oneof![0usize..3000, 0usize..150_000];
    (0..4, len).prop_map(|(kind, len)| match kind {
        0 => Exchange::Length(len),
        1 => Exchange::Chunked(len),
        2 => Exchange::Echo(len),
        _ => Exchange::EchoChunks(len),
    })
}

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("LONGSHORE_CASES").ok();
    ProptestConfig::with_cases(
        cases
            .and_then(|cases| cases.parse().ok())
            .unwrap_or(default),
    )
}

proptest! {
    #![proptest_config(cases(24))]

    /// Requests that come all at once are answered in order and whole, whatever the links do and however they are cut.
    #[test]
    fn pipelined_requests_are_answered_in_order_and_whole(
        asked in prop::collection::vec(asked(), 1..6),
        segment in prop_oneof![1usize..50, Just(1 << 20)],
        loss in prop_oneof![Just(0.0), Just(0.02)],
        splice in any::<bool>(),
        workers in 1u16..4,
    ) {
        let segment = segment.max(asked.iter().map(Exchange::len).sum::<usize>() / 2000);
        let links = Impairment { loss, reorder: loss, ..Impairment::default() };
        let mut settings = WorldConfig { links: vec![links; 2], workers, ..WorldConfig::default() };
        settings.nodes[0].stack.accel = Accel { splice, ..Accel::NONE };
        let mut rig = Rig::in_world(CONFIG, &SERVERS, settings, segment);
        let out: Vec<u8> = asked.iter().flat_map(Exchange::request).collect();
        let client = rig.client(80, out);
        let answers = rig.answers(client, asked.len());
        prop_assert_eq!(answers.len(), asked.len());
        for (asked, answer) in asked.iter().zip(&answers) {
            prop_assert_eq!(answer.status, 200);
            prop_assert_eq!(&answer.content, &content(asked.len()));
            prop_assert!(answer.keep_alive);
        }
    }
}

fn counter(rig: &Rig, name: &str) -> u64 {
    let pools = rig.balancer.pools().iter().flat_map(|pool| &pool.servers);
    let all = pools.flat_map(|server| server.counters.iter());
    all.filter(|(other, _)| *other == name)
        .map(|(_, value)| value)
        .sum()
}

#[test]
fn what_may_pass_no_further_proxy_is_answered_here() {
    let mut rig = Rig::new(CONFIG, &SERVERS);
    let mut out = b"OPTIONS * HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n".to_vec();
    out.extend(Exchange::Length(10).request());
    let client = rig.client(80, out);
    let answers = rig.answers(client, 2);
    let of_server: Vec<bool> = answers.iter().map(|answer| answer.port != 0).collect();
    assert_eq!(of_server, [false, true]);
    assert!(answers.iter().all(|answer| answer.status == 200));
}

/// Bytes that go to servers when a request with these trailers comes in such pieces, and another one behind it.
fn sent_with(trailers: &str, segment: usize) -> u64 {
    let links = Impairment::default();
    let mut rig = Rig::on(CONFIG, &SERVERS, links, segment, Accel::NONE);
    let head =
        "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n";
    let mut out = [head, trailers, "\r\n"].concat().into_bytes();
    out.extend(Exchange::Length(10).request());
    let client = rig.client(80, out);
    let answers = rig.answers(client, 2);
    assert_eq!(answers[0].content, b"abc");
    assert_eq!(answers[1].content, content(10));
    counter(&rig, "bytes_out")
}

#[test]
fn a_request_goes_on_without_trailers_that_belong_into_its_head() {
    for segment in [1, 7, 1 << 20] {
        let all = "Content-Length: 5\r\nT: x\r\nHost: other\r\n";
        assert_eq!(sent_with(all, segment), sent_with("T: x\r\n", segment));
    }
}

#[test]
fn connections_to_servers_are_used_again() {
    let mut rig = Rig::new(CONFIG, &SERVERS);
    for _ in 0..10 {
        let client = rig.client(80, Exchange::Length(10).request());
        assert_eq!(rig.answers(client, 1)[0].status, 200);
    }
    assert_eq!(counter(&rig, "connections"), 2);
    assert_eq!(counter(&rig, "connections_reused"), 8);
    rig.run_for(Duration::from_secs(40));
    let client = rig.client(80, Exchange::Length(10).request());
    assert_eq!(rig.answers(client, 1)[0].status, 200);
    assert_eq!(counter(&rig, "connections"), 3, "idle ones were closed");
}

#[test]
fn what_must_not_be_sent_twice_gets_a_connection_of_its_own() {
    let mut rig = Rig::new(CONFIG, &SERVERS);
    for _ in 0..4 {
        let client = rig.client(80, Exchange::Echo(10).request());
        assert_eq!(rig.answers(client, 1)[0].status, 200);
    }
    assert_eq!(counter(&rig, "connections"), 4);
}

#[test]
fn connections_are_used_again_as_reuse_says_also_those_of_one_client() {
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";
    let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let backends = "\"10.0.0.2:8081\", \"10.0.0.2:8082\"";
    for (reuse, request, connections) in [
        ("safe", get, 1),
        ("safe", post, 2),
        ("always", post, 1),
        ("never", get, 2),
    ] {
        let backend = "{ address = \"10.0.0.2:8081\", proxy = \"v1\" }";
        let config = CONFIG.replace(backends, backend) + &format!("reuse = \"{reuse}\"\n");
        let mut rig = Rig::new(&config, &[(8081, Manner::Introduced)]);
        let client = rig.client(80, request.repeat(2));
        assert_eq!(rig.answers(client, 2).len(), 2);
        assert_eq!(
            counter(&rig, "connections"),
            connections,
            "{reuse} {request}"
        );
    }
    let config = CONFIG.to_owned() + "reuse = \"never\"\n";
    let mut rig = Rig::new(&config, &SERVERS);
    let client = rig.client(80, Exchange::Length(10).request());
    rig.answers(client, 1);
    assert_eq!(rig.balancer.pools()[0].servers[0].idle(), 0);
}

#[test]
fn a_response_without_a_length_ends_with_the_connection() {
    for splice in [false, true] {
        let accel = Accel {
            splice,
            ..Accel::NONE
        };
        let mut rig = Rig::on(CONFIG, &SERVERS, Impairment::default(), 1 << 20, accel);
        let client = rig.client(80, "GET /close/100000 HTTP/1.1\r\nHost: h\r\n\r\n");
        rig.run(|rig| rig.clients[client].is_over());
        let answers = super::rig::answers(&rig.clients[client].input);
        assert!(!rig.clients[client].is_broken);
        assert_eq!(answers[0].content, content(100_000));
        assert!(!answers[0].keep_alive);
    }
}

/// A load balancer that splices gets two requests, the second one in a segment of its own, or when the response to the
/// client's last one has begun. The first one is answered; the bytes that the servers get.
fn response_without_a_length(first: &str, second: &str, len: usize) -> u64 {
    let accel = Accel {
        splice: true,
        ..Accel::NONE
    };
    let mut rig = Rig::on(CONFIG, &SERVERS, Impairment::default(), first.len(), accel);
    let is_last = first.contains("close\r\n");
    let client = rig.client(80, first);
    rig.run(|rig| !is_last || !rig.clients[client].input.is_empty());
    rig.clients[client].out.extend_from_slice(second.as_bytes());
    rig.run(|rig| rig.clients[client].is_over());
    assert!(!rig.clients[client].is_broken);
    let answers = super::rig::answers(&rig.clients[client].input);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].content, content(len));
    let (_, counters) = rig.balancer.frontends().next().unwrap();
    assert_eq!(counters.tunnels, u64::from(is_last), "{first}{second}");
    counter(&rig, "bytes_out")
}

#[test]
fn what_comes_behind_a_request_whose_response_ends_the_connection_reaches_no_server() {
    let next = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";
    for len in [50_000, 1_000_000] {
        let first = format!("GET /close/{len} HTTP/1.1\r\nHost: h\r\n\r\n");
        let alone = response_without_a_length(&first, "", len);
        let followed = response_without_a_length(&first, next, len);
        assert_eq!(alone, followed);
    }
    let first = "GET /close/50000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let alone = response_without_a_length(first, "", 50_000);
    let followed = response_without_a_length(first, next, 50_000);
    assert_eq!(alone, followed);
}

#[test]
fn http_1_0_gets_no_chunks() {
    let mut rig = Rig::new(CONFIG, &SERVERS);
    let client = rig.client(80, "GET /chunked/1000 HTTP/1.0\r\n\r\n");
    rig.run(|rig| rig.clients[client].is_over());
    assert!(rig.clients[client].input.ends_with(&content(1000)));
    assert!(
        rig.clients[client]
            .input
            .windows(4)
            .filter(|w| w == b"\r\n\r\n")
            .count()
            == 1
    );
}

#[test]
fn a_persistent_connection_is_spliced_after_its_first_request_if_that_is_wished() {
    let config = CONFIG.replace(
        "pool = \"app\"",
        "pool = \"app\"\nsplice = \"after-first-request\"",
    );
    let accel = Accel {
        splice: true,
        ..Accel::NONE
    };
    let mut rig = Rig::on(&config, &SERVERS, Impairment::default(), 1 << 20, accel);
    let client = rig.client(80, Exchange::Length(10).request());
    for round in 1..10 {
        let answers = rig.answers(client, round);
        assert_eq!(answers[round - 1].content, content(round * 10));
        rig.run_for(Duration::from_millis(20));
        let next = Exchange::Length((round + 1) * 10).request();
        rig.clients[client].out.extend_from_slice(&next);
    }
    let (_, counters) = rig.balancer.frontends().next().unwrap();
    assert_eq!(
        (counters.requests, counters.splices, counters.tunnels),
        (1, 1, 1)
    );
    rig.clients[client].ends = true;
    rig.run(|rig| rig.clients[client].is_over());
    rig.run_for(Duration::from_secs(10));
    let (_, counters) = rig.balancer.frontends().next().unwrap();
    assert_eq!((counters.splices_ended, counters.connections_open), (1, 0));
}

#[test]
fn when_it_is_told_to_stop_it_lets_what_is_under_way_come_to_its_end() {
    let mut rig = Rig::new(CONFIG, &SERVERS);
    let idle = rig.client(80, Exchange::Length(10).request());
    rig.answers(idle, 1);
    let busy = rig.client(80, Exchange::Length(3_000_000).request());
    rig.run(|rig| rig.clients[busy].input.len() > 1000);
    let now = rig.world.now();
    rig.balancer.stop(now, rig.world.stack(0));
    rig.run(|rig| rig.clients[idle].is_over());
    rig.run(|rig| rig.clients[busy].is_over());
    assert_eq!(
        super::rig::answers(&rig.clients[busy].input)[0].content,
        content(3_000_000)
    );
    let late = rig.client(80, Exchange::Length(10).request());
    rig.run(|rig| rig.clients[late].is_over());
    rig.clients[busy].ends = true;
    rig.run(|rig| {
        rig.balancer
            .is_done(rig.world.now(), rig.world.stack_ref(0))
    });
}

#[test]
fn a_request_that_has_come_when_the_end_is_asked_for_is_served() {
    let mut rig = Rig::new(CONFIG, &[(8081, Manner::Serves), (8082, Manner::Serves)]);
    let [client, idle] = [0, 1].map(|_| rig.client(80, ""));
    rig.run_for(Duration::from_millis(100));
    rig.clients[client].out = Exchange::Length(10).request();
    rig.step_peers();
    let now = rig.world.now();
    rig.balancer.stop(now, rig.world.stack(0));
    let answer = rig.answers(client, 1).remove(0);
    assert_eq!((answer.status, answer.keep_alive), (200, false));
    // One that asks for something now hears an end, and no reset.
    rig.clients[idle].out = Exchange::Length(10).request();
    rig.run(|rig| rig.clients[idle].is_over());
    assert!(rig.clients[idle].at_end && !rig.clients[idle].is_broken);
}

#[test]
fn interim_responses_pass_and_nobody_is_told_twice_to_continue() {
    let servers = [(8081, Manner::Continues), (8082, Manner::Continues)];
    let mut rig = Rig::new(CONFIG, &servers);
    let client = rig.client(80, Exchange::Echo(100).request());
    let answers = rig.answers(client, 3);
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [100, 103, 200]);
    assert_eq!(answers[2].content, content(100));
    let old = rig.client(80, "GET /n/5 HTTP/1.0\r\n\r\n");
    let answers = rig.answers(old, 1);
    assert_eq!((answers[0].status, answers.len()), (200, 1));
}

#[test]
fn an_upgrade_and_connect_become_tunnels() {
    for splice in [false, true] {
        for request in [
            "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ",
            "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\nearly ",
        ] {
            let servers = [(8081, Manner::Upgrades), (8082, Manner::Upgrades)];
            let accel = Accel {
                splice,
                ..Accel::NONE
            };
            let mut rig = Rig::on(CONFIG, &servers, Impairment::default(), 1 << 20, accel);
            let client = rig.client(80, request);
            let mut wanted = b"early ".to_vec();
            for _ in 0..5 {
                rig.run(|rig| rig.clients[client].input.ends_with(&wanted));
                rig.run_for(Duration::from_millis(20));
                rig.clients[client]
                    .out
                    .extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
                wanted.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
            }
            rig.run(|rig| rig.clients[client].input.ends_with(&wanted));
            let (_, counters) = rig.balancer.frontends().next().unwrap();
            assert_eq!((counters.requests, counters.tunnels), (1, 1));
            assert_eq!(counters.splices, u64::from(splice));
            rig.clients[client].ends = true;
            rig.run(|rig| rig.clients[client].at_end);
        }
    }
}

#[test]
fn servers_are_told_of_the_client_by_the_proxy_protocol_and_share_no_such_connection() {
    for version in ["v1", "v2"] {
        let config = CONFIG
            .replace(
                "\"10.0.0.2:8081\", \"10.0.0.2:8082\"",
                &format!("{{ address = \"10.0.0.2:8081\", proxy = \"{version}\" }}"),
            )
            .replace("pool = \"app\"", "pool = \"app\"\naccept-proxy = true");
        let mut rig = Rig::new(&config, &[(8081, Manner::Introduced)]);
        for name in ["192.0.2.1", "192.0.2.2"] {
            let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
            let client = rig.client(
                80,
                format!("PROXY TCP4 {name} 192.0.2.9 1000 80\r\n{get}{get}"),
            );
            let answers = rig.answers(client, 2);
            for answer in &answers {
                assert_eq!(
                    answer.content,
                    format!("{name}:1000 192.0.2.9:80").as_bytes()
                );
            }
        }
        assert_eq!(
            (
                counter(&rig, "connections"),
                counter(&rig, "connections_reused")
            ),
            (2, 2)
        );
        let stranger = rig.client(80, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        rig.run(|rig| rig.clients[stranger].is_over());
        assert!(rig.clients[stranger].is_broken);
    }
}
