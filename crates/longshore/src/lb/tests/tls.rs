//! Frontends with TLS: clients get what they would get without it, and the wire has no content in clear.

use std::time::Duration;

use handshake::Certificate;
use host::Accel;
use port::impair::Impairment;

use super::rig::secure::{by_hand, certificates, client_of, client_that_trusts};
use super::rig::{Manner, Peer, Rig, answers, config, content};
use crate::lb::counters::FrontendCounters;

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";

/// A frontend with TLS at port 443, with more settings in it.
fn secure(frontend: &str, pool: &str) -> String {
    let config = config(&format!("tls = true\n{frontend}"), pool, &[8081]);
    config.replace("10.0.0.1:80\"", "10.0.0.1:443\"")
}

fn bytes(frontend: &str) -> String {
    secure(&format!("mode = \"tcp\"\n{frontend}"), "")
}

fn counters(rig: &Rig) -> FrontendCounters {
    *rig.balancer.frontends().next().unwrap().1
}

#[test]
fn pipelined_requests_are_answered_in_order_and_nothing_of_them_is_seen_on_the_wire() {
    let lossy = Impairment {
        loss: 0.02,
        reorder: 0.02,
        ..Impairment::default()
    };
    for (seed, impairment) in [(1, Impairment::default()), (7, lossy), (1000, lossy)] {
        let mut rig = Rig::on(
            &secure("", ""),
            &[(8081, Manner::Serves)],
            impairment,
            if seed == 7 { 700 } else { 1 << 20 },
            Accel::ALL,
        );
        let mut requests = b"GET /n/300000 HTTP/1.1\r\nHost: h\r\n\r\n".to_vec();
        requests.extend_from_slice(b"GET /chunked/5000 HTTP/1.1\r\nHost: h\r\n\r\n");
        let post = format!(
            "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
            99_000
        );
        requests.extend_from_slice(post.as_bytes());
        requests.extend_from_slice(&content(99_000));
        requests
            .extend_from_slice(b"GET /n/400000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let client = rig.secure_client(requests);
        let got = rig.answers(client, 4);
        let lens: Vec<_> = got.iter().map(|answer| answer.content.len()).collect();
        assert_eq!(lens, [300_000, 5000, 99_000, 400_000]);
        assert!(got.iter().all(|it| it.content == content(it.content.len())));
        rig.run(|rig| rig.clients[client].is_over());
        assert!(!rig.clients[client].is_broken, "the end is close_notify");
        assert!(!rig.leak.was_there());
        let counters = counters(&rig);
        assert_eq!((counters.handshakes, counters.handshake_failures), (1, 0));
        assert_eq!((counters.splices, counters.splices_refused), (0, 0));
        let mut counters = rig.world.stack_ref(0).counters();
        let by_nic = counters.find(|(name, _)| *name == "TlsTxRecordsDevice");
        assert!(
            by_nic.is_some_and(|(_, records)| records > 10),
            "{by_nic:?}"
        );
    }
}

#[test]
fn what_the_wire_shows_without_tls_is_found() {
    let plain = config("", "", &[8081]).replace("10.0.0.1:80\"", "10.0.0.1:443\"");
    let mut rig = Rig::new(&plain, &[(8081, Manner::Serves)]);
    let client = rig.client(443, GET);
    rig.answers(client, 1);
    assert!(rig.leak.was_there());
}

#[test]
fn a_client_in_clear_gets_no_response_and_its_place_is_free_at_once() {
    for first in [GET, "\x16\x01\x03\x01\x02\x00", "\u{1}"] {
        let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::Serves)]);
        let began = rig.world.now();
        let client = rig.client(443, first);
        rig.run(|rig| rig.clients[client].is_over());
        assert!(rig.world.now() - began < Duration::from_secs(1));
        assert!(rig.clients[client].input.is_empty());
        let counters = counters(&rig);
        assert_eq!((counters.handshakes, counters.handshake_failures), (0, 1));
        assert_eq!((counters.requests, counters.connections_open), (0, 0));
    }
}

#[test]
fn a_handshake_has_its_time() {
    let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::Serves)]);
    let silent = rig.client(443, "\x16\x03");
    let began = rig.world.now();
    rig.run(|rig| rig.clients[silent].is_over());
    let took = rig.world.now() - began;
    assert!(
        (Duration::from_secs(14)..Duration::from_secs(17)).contains(&took),
        "{took:?}"
    );
    let counters = counters(&rig);
    assert_eq!(
        (counters.client_timeouts, counters.connections_open),
        (1, 0)
    );
}

#[test]
fn those_in_a_handshake_are_let_go_at_the_end() {
    let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::Serves)]);
    let silent = rig.client(443, "\x16\x03");
    rig.run(|rig| counters(rig).connections_open == 1);
    let now = rig.world.now();
    rig.balancer.stop(now, rig.world.stack(0));
    rig.run(|rig| rig.clients[silent].is_over());
    assert_eq!(counters(&rig).connections_open, 0);
}

#[test]
fn a_response_that_breaks_off_has_no_close_notify() {
    let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::DiesMidway)]);
    let client = rig.secure_client("GET /n/5000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.run(|rig| rig.clients[client].is_over());
    assert!(rig.clients[client].is_broken);
    assert!(answers(&rig.clients[client].input).is_empty());
    assert!(!rig.leak.was_there());
}

#[test]
fn a_client_that_ends_its_direction_gets_its_response() {
    let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::Serves)]);
    let client = rig.secure_client("GET /n/400000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.clients[client].ends = true;
    assert_eq!(rig.answers(client, 1)[0].content, content(400_000));
    rig.run(|rig| rig.clients[client].is_over());
    assert!(!rig.clients[client].is_broken);
    assert_eq!(counters(&rig).client_aborts, 0);
}

#[test]
fn an_upgrade_becomes_a_tunnel_with_two_directions_that_end_apart() {
    let mut rig = Rig::on(
        &secure("", ""),
        &[(8081, Manner::Upgrades)],
        Impairment::default(),
        1 << 20,
        Accel::ALL,
    );
    let upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    let client = rig.secure_client(upgrade);
    rig.run(|rig| rig.clients[client].input.ends_with(b"\r\n\r\n"));
    let head = rig.clients[client].input.len();
    assert!(rig.clients[client].input.starts_with(b"HTTP/1.1 101 "));
    rig.clients[client].out.extend_from_slice(&content(500_000));
    rig.clients[client].ends = true;
    rig.run(|rig| rig.clients[client].is_over());
    assert!(!rig.clients[client].is_broken);
    assert!(rig.clients[client].input[head..] == content(500_000));
    assert!(!rig.leak.was_there());
    assert_eq!((counters(&rig).tunnels, counters(&rig).splices), (1, 0));
}

#[test]
fn bytes_are_relayed_both_ways_and_never_spliced() {
    let mut rig = Rig::on(
        &bytes(""),
        &[(8081, Manner::Echoes)],
        Impairment::default(),
        1 << 20,
        Accel::ALL,
    );
    let client = rig.secure_client("");
    let mut wanted = 0;
    for round in 1..20 {
        let message = content(round * 5000);
        wanted += message.len();
        rig.clients[client].out.extend_from_slice(&message);
        rig.run(|rig| rig.clients[client].input.len() == wanted);
    }
    rig.clients[client].ends = true;
    rig.run(|rig| rig.clients[client].is_over());
    assert!(!rig.clients[client].is_broken);
    assert!(!rig.leak.was_there());
    assert_eq!(
        (counters(&rig).splices, counters(&rig).splices_refused),
        (0, 0)
    );
    rig.run_for(Duration::from_secs(30));
    assert_eq!(counters(&rig).connections_open, 0);
}

/// The end of TCP without the end of TLS is no end: what the client has sent may be cut off.
#[test]
fn a_tunnel_that_is_cut_off_is_reset_on_the_other_side() {
    let mut rig = Rig::new(&bytes(""), &[(8081, Manner::Silent)]);
    let client = rig.client(443, "");
    let mut handshake = by_hand();
    while !handshake.is_done() {
        while let Some(output) = handshake.poll_output() {
            rig.clients[client].out.extend_from_slice(&output);
        }
        if !handshake.is_done() {
            rig.run(|rig| !rig.clients[client].input.is_empty());
            let input = std::mem::take(&mut rig.clients[client].input);
            handshake.feed(&input).unwrap();
        }
    }
    while let Some(output) = handshake.poll_output() {
        rig.clients[client].out.extend_from_slice(&output);
    }
    rig.run(|rig| rig.server(8081).is_some());
    rig.clients[client].ends = true;
    rig.run(|rig| rig.server(8081).is_some_and(Peer::is_over));
    assert!(rig.server(8081).is_some_and(|server| server.is_broken));
    let counters = counters(&rig);
    assert_eq!((counters.handshakes, counters.connections_open), (1, 0));
}

#[test]
fn requests_that_could_be_smuggled_are_refused_as_without_tls() {
    let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::Serves)]);
    for request in [
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\nHost: h\r\n\r\n",
    ] {
        let client = rig.secure_client(format!("{request}{GET}"));
        rig.run(|rig| rig.clients[client].is_over());
        let answers = answers(&rig.clients[client].input);
        assert_eq!(answers.len(), 1, "{request:?}");
        assert_eq!((answers[0].status, answers[0].keep_alive), (400, false));
    }
}

/// A PROXY header of version 2 whose sender speaks for nobody, as its own health checks do.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

/// The handshake begins where the PROXY header ends, however they come.
#[test]
fn a_proxy_header_comes_before_the_handshake() {
    let mut binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
    binary.extend_from_slice(&[192, 0, 2, 7, 192, 0, 2, 1]);
    binary.extend_from_slice(&[4000_u16.to_be_bytes(), 443_u16.to_be_bytes()].concat());
    for (header, source, segment) in [
        (
            &b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n"[..],
            "192.0.2.7:4000",
            1 << 20,
        ),
        (b"PROXY UNKNOWN\r\n", "", 1 << 20),
        (&binary, "192.0.2.7:4000", 1 << 20),
        (&binary, "192.0.2.7:4000", 1),
        (LOCAL, "", 1),
    ] {
        let pool = "backends = [{ address = \"10.0.0.2:8081\", proxy = \"v1\" }]";
        let mut rig = Rig::on(
            &secure("accept-proxy = true", pool),
            &[(8081, Manner::Introduced)],
            Impairment::default(),
            segment,
            Accel::NONE,
        );
        let client = rig.secure_client(GET);
        rig.clients[client].introduction = header.to_vec();
        let answer = rig.answers(client, 1).remove(0);
        let told = String::from_utf8(answer.content).unwrap();
        let own = rig.source(client).to_string();
        let source = if source.is_empty() { &own } else { source };
        assert!(told.starts_with(source), "{told}");
    }
}

#[test]
fn other_certificates_are_shown_to_clients_that_come_then() {
    let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::Serves)]);
    let held = rig.certificates.clone().unwrap();
    let [first, second] = [certificates(&["h"]), certificates(&["other", "h"])];
    let trusts = |shown: &[Certificate]| client_that_trusts(shown.last().unwrap());
    // Each has tickets of its own: one that is resumed is shown no certificate.
    let [first_alone, late_alone] = [trusts(&first), trusts(&first)];
    let second_alone = trusts(&second);
    held.replace(first).unwrap();
    let large = "GET /n/3000000 HTTP/1.1\r\nHost: h\r\n\r\n";
    let client = rig.client_of(first_alone, large);
    rig.run(|rig| rig.clients[client].input.len() > 1000);
    held.replace(second).unwrap();
    assert!(rig.reload(&secure("max-head = 8192", "")).is_empty());
    let next = rig.client_of(second_alone, GET);
    assert_eq!(rig.answers(next, 1)[0].status, 200);
    let late = rig.client_of(late_alone, GET);
    assert!(rig.answers(late, 1).is_empty());
    assert_eq!(rig.answers(client, 1)[0].content, content(3_000_000));
    let plain = secure("", "").replace("tls = true\n", "");
    assert_eq!(rig.reload(&plain), ["frontends.web.tls"]);
    let next = rig.secure_client(GET);
    assert_eq!(rig.answers(next, 1)[0].status, 200);
    assert!(!rig.leak.was_there());
}

#[test]
fn who_reads_nothing_in_tls_is_reset_as_others_are() {
    let slow = "min-rate = 1000\nmin-rate-time = \"5s\"";
    let mut rig = Rig::new(&secure(slow, ""), &[(8081, Manner::Serves)]);
    let client = rig.secure_client("GET /n/9000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.run(|rig| rig.clients[client].input.len() > 1000);
    rig.clients[client].pace = Some(0);
    rig.run(|rig| counters(rig).slow_readers == 1);
    assert_eq!(counters(&rig).connections_open, 0);
}

#[test]
fn a_failed_handshake_is_told_to_the_client() {
    let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::Serves)]);
    let client = rig.client_of(client_of(b"spdy/3"), GET);
    rig.run(|rig| rig.clients[client].is_over());
    assert!(rig.clients[client].was_alerted);
    let counters = counters(&rig);
    assert_eq!((counters.handshakes, counters.handshake_failures), (0, 1));
    assert_eq!((counters.client_aborts, counters.connections_open), (0, 0));
}

#[test]
fn a_proxy_that_looks_whether_we_are_there_fails_no_handshake() {
    let mut rig = Rig::new(
        &secure("accept-proxy = true", ""),
        &[(8081, Manner::Serves)],
    );
    let looks = rig.client(443, LOCAL);
    rig.clients[looks].ends = true;
    rig.run(|rig| rig.clients[looks].is_over());
    let before = counters(&rig);
    assert_eq!((before.handshake_failures, before.client_aborts), (0, 0));
    let named = b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 443\r\n";
    let fails = rig.client(443, &named[..]);
    rig.clients[fails].ends = true;
    rig.run(|rig| rig.clients[fails].is_over());
    assert_eq!(counters(&rig).handshake_failures, 1);
}

/// Content that ends early in TLS is no content, with the end of TLS too.
#[test]
fn a_request_that_breaks_off_gets_no_response() {
    for (framing, part) in [
        ("Content-Length: 9000", &b"abc"[..]),
        ("Transfer-Encoding: chunked", b"3\r\nabc\r\n"),
    ] {
        let mut rig = Rig::new(&secure("", ""), &[(8081, Manner::Serves)]);
        let post = format!("POST /echo HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n");
        let client = rig.secure_client([post.as_bytes(), part].concat());
        rig.run(|rig| rig.server(8081).is_some_and(|it| it.input.ends_with(part)));
        rig.clients[client].ends = true;
        rig.run(|rig| rig.clients[client].is_over());
        assert!(answers(&rig.clients[client].input).is_empty());
        rig.run(|rig| rig.server(8081).is_some_and(Peer::is_over));
        assert!(rig.server(8081).is_some_and(|server| server.is_broken));
        assert_eq!(counters(&rig).client_aborts, 1, "{framing}");
    }
}

#[test]
fn what_clients_send_in_tls_is_searched() {
    let folder = std::env::temp_dir().join(format!("longshore-lb-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("patterns");
    std::fs::write(&file, "evil.example\n").unwrap();
    let matching = format!(
        "match = {{ file = {:?}, action = \"close\" }}",
        file.display().to_string()
    );
    let mut rig = Rig::new(&secure(&matching, ""), &[(8081, Manner::Serves)]);
    std::fs::remove_dir_all(&folder).unwrap();
    let good = rig.secure_client(GET);
    assert_eq!(rig.answers(good, 1)[0].status, 200);
    let bad = rig.secure_client("GET /evil.example HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(rig.answers(bad, 1).is_empty());
    let counters = counters(&rig);
    assert_eq!((counters.match_closes, counters.handshakes), (1, 2));
    assert_eq!(counters.requests, 1);
}
