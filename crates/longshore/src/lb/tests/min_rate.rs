//! Clients that take what they are sent, or send what they ask, too slowly.

use std::time::Duration;

use host::Accel;
use port::impair::Impairment;

use super::rig::{Manner, Rig, config, content};

const RATE: &str = "min-rate = 240\nmin-rate-time = \"5s\"\nidle-time = \"2m\"";

fn rig(frontend: &str, manner: Manner, splice: bool) -> Rig {
    let accel = Accel {
        splice,
        ..Accel::NONE
    };
    let config = config(frontend, "", &[8081]);
    let servers = [(8081, manner)];
    Rig::on(&config, &servers, Impairment::default(), 1 << 20, accel)
}

/// A client that asks for so much and takes so many bytes a second.
fn client(rig: &mut Rig, len: usize, pace: usize) -> usize {
    let get = format!("GET /n/{len} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let client = rig.client(80, get);
    rig.clients[client].pace = Some(pace);
    client
}

fn counters(rig: &Rig) -> crate::lb::counters::FrontendCounters {
    *rig.balancer.frontends().next().unwrap().1
}

#[test]
fn who_takes_too_little_is_reset_and_the_backend_is_free() {
    for splice in [false, true] {
        let mut rig = rig(RATE, Manner::Serves, splice);
        let slow = client(&mut rig, 4_000_000, 100);
        rig.run(|rig| rig.balancer.pools()[0].servers[0].active == 1);
        let began = rig.world.now();
        rig.run(|rig| rig.balancer.pools()[0].servers[0].active == 0);
        let took = rig.world.now() - began;
        assert!((10..60).contains(&took.as_secs()), "{took:?}");
        rig.clients[slow].pace = None;
        rig.run(|rig| rig.clients[slow].is_over());
        assert!(rig.clients[slow].is_broken, "it is not the whole");
        let counters = counters(&rig);
        assert_eq!(counters.slow_readers, 1);
        let spliced = (counters.splices, counters.splices_ended);
        assert_eq!(spliced, if splice { (1, 1) } else { (0, 0) });
    }
}

#[test]
fn who_is_slow_but_not_too_slow_gets_all() {
    for splice in [false, true] {
        let mut rig = rig(RATE, Manner::Serves, splice);
        let client = client(&mut rig, 4_000_000, 50_000);
        let answer = rig.answers(client, 1).remove(0);
        assert_eq!(answer.content, content(4_000_000));
        let counters = counters(&rig);
        assert_eq!(counters.slow_readers, 0);
        assert_eq!(counters.splices > 0, splice);
    }
}

#[test]
fn a_client_for_which_nothing_waits_is_not_too_slow() {
    let mut rig = rig(RATE, Manner::Stalls(3), false);
    let client = client(&mut rig, 10, 1000);
    rig.run_for(Duration::from_secs(60));
    assert!(!rig.clients[client].is_over());
    assert_eq!(counters(&rig).slow_readers, 0);
}

/// A request of so much content, a part of which is sent each second until there is an end. How many seconds that takes.
fn upload(rig: &mut Rig, len: usize, part: usize) -> (usize, u32) {
    let post = format!("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n");
    let client = rig.client(80, post);
    let content = content(len);
    for (part, seconds) in content.chunks(part).zip(1..) {
        rig.clients[client].out.extend_from_slice(part);
        rig.run_for(Duration::from_secs(1));
        if !rig.clients[client].input.is_empty() {
            return (client, seconds);
        }
    }
    (client, u32::MAX)
}

#[test]
fn who_sends_a_request_too_slowly_is_told_so_and_the_backend_is_free() {
    let mut rig = rig(RATE, Manner::Serves, false);
    let (client, seconds) = upload(&mut rig, 100_000, 100);
    assert!((10..=11).contains(&seconds), "{seconds}");
    let answer = rig.answers(client, 1).remove(0);
    assert_eq!((answer.status, answer.keep_alive), (408, false));
    assert_eq!(rig.balancer.pools()[0].servers[0].active, 0);
    assert_eq!(counters(&rig).client_timeouts, 1);
}

#[test]
fn who_sends_a_request_slowly_but_not_too_slowly_gets_an_answer() {
    let mut rig = rig(RATE, Manner::Serves, false);
    let (client, _) = upload(&mut rig, 10_000, 300);
    let answer = rig.answers(client, 1).remove(0);
    assert_eq!(answer.content, content(10_000));
}

#[test]
fn a_client_whose_request_finds_no_room_at_the_server_is_not_too_slow() {
    let mut rig = rig(RATE, Manner::Reluctant, false);
    let (client, _) = upload(&mut rig, 4_000_000, 4_000_000);
    rig.run_for(Duration::from_secs(100));
    assert!(!rig.clients[client].is_over());
    assert_eq!(rig.balancer.pools()[0].servers[0].active, 1);
    assert_eq!(counters(&rig).client_timeouts, 0);
}

#[test]
fn any_rate_will_do_if_so_configured() {
    // It is not idle, though it leaves no room for so long.
    let any = "min-rate = 0\nmin-rate-time = \"5s\"\nidle-time = \"20s\"";
    let mut rig = rig(any, Manner::Serves, false);
    let client = client(&mut rig, 4_000_000, 100);
    rig.run_for(Duration::from_secs(200));
    assert_eq!(rig.balancer.pools()[0].servers[0].active, 1);
    assert_eq!(counters(&rig).slow_readers, 0);
    let taken = rig.clients[client].input.len();
    assert!((19_000..21_000).contains(&taken), "{taken}");
}
