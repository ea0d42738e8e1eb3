//! Servers and clients that misbehave.

use std::time::Duration;

use host::Accel;
use port::impair::Impairment;

use super::rig::{Manner, Rig, config, content};

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";
const POST: &str = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";

fn status(rig: &mut Rig, request: &str) -> u16 {
    let client = rig.client(80, request);
    rig.answers(client, 1)
        .first()
        .map_or(0, |answer| answer.status)
}

#[test]
fn who_refuses_connections_is_passed_over_even_for_what_must_not_be_sent_twice() {
    let mut rig = Rig::new(&config("", "", &[8080, 8081]), &[(8081, Manner::Serves)]);
    for request in [GET, POST, GET, POST] {
        assert_eq!(status(&mut rig, request), 200);
    }
    let counters = rig.balancer.pools()[0].counters;
    assert!(counters.retries >= 2);
    assert_eq!(counters.redispatches, counters.retries);
}

#[test]
fn who_dies_before_the_response_is_passed_over_if_the_request_may_be_sent_twice() {
    let servers = [(8081, Manner::Dies), (8082, Manner::Serves)];
    let mut rig = Rig::new(&config("", "", &[8081, 8082]), &servers);
    for _ in 0..4 {
        assert_eq!(status(&mut rig, GET), 200);
    }
    let statuses = [status(&mut rig, POST), status(&mut rig, POST)];
    assert!(
        statuses.contains(&502) && statuses.contains(&200),
        "{statuses:?}"
    );
}

#[test]
fn a_large_request_is_not_sent_twice_when_a_part_of_it_is_gone() {
    let servers = [(8081, Manner::Dies), (8082, Manner::Dies)];
    let mut rig = Rig::new(&config("", "", &[8081, 8082]), &servers);
    let mut request = b"PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    request.extend_from_slice(&content(1_000_000));
    let client = rig.client(80, request);
    assert_eq!(rig.answers(client, 1)[0].status, 502);
}

#[test]
fn a_response_that_breaks_off_breaks_the_clients_connection() {
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::DiesMidway)]);
    let client = rig.client(80, "GET /n/5000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.run(|rig| rig.clients[client].is_over());
    assert!(rig.clients[client].is_broken);
    assert!(super::rig::answers(&rig.clients[client].input).is_empty());
}

#[test]
fn who_is_silent_for_too_long_gets_504() {
    let mut rig = Rig::new(
        &config("", "response-time = \"1s\"", &[8081]),
        &[(8081, Manner::Silent)],
    );
    let began = rig.world.now();
    assert_eq!(status(&mut rig, GET), 504);
    let took = rig.world.now() - began;
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(2)).contains(&took),
        "{took:?}"
    );
}

#[test]
fn who_does_not_answer_an_expectation_gets_504_and_who_sends_nothing_behind_it_408() {
    let times = "idle-time = \"2s\"";
    let post =
        "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    for (manner, expected) in [(Manner::Silent, 504), (Manner::Continues, 408)] {
        let mut rig = Rig::new(&config(times, "", &[8081]), &[(8081, manner)]);
        let client = rig.client(80, post);
        rig.run(|rig| rig.clients[client].is_over());
        let answers = super::rig::answers(&rig.clients[client].input);
        let last = answers.last().map(|answer| answer.status);
        assert_eq!(last, Some(expected));
    }
}

#[test]
fn who_is_silent_within_a_response_is_waited_for_as_long_as_an_idle_client_whoever_relays() {
    for splice in [false, true] {
        let accel = Accel {
            splice,
            ..Accel::NONE
        };
        let mut rig = Rig::on(
            &config("idle-time = \"3s\"", "", &[8081]),
            &[(8081, Manner::Stalls(3))],
            Impairment::default(),
            1 << 20,
            accel,
        );
        let client = rig.client(80, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let began = rig.world.now();
        rig.run(|rig| rig.clients[client].is_over());
        let took = rig.world.now() - began;
        assert!(
            (Duration::from_secs(3)..Duration::from_secs(5)).contains(&took),
            "{took:?}"
        );
        assert!(rig.clients[client].is_broken, "it is not the whole");
        let server = &rig.balancer.pools()[0].servers[0];
        let frontend = *rig.balancer.frontends().next().unwrap().1;
        let counted = (server.counters.response_timeouts, frontend.client_timeouts);
        assert_eq!(counted, (1, 0));
    }
}

#[test]
fn a_server_that_has_ended_an_idle_connection_gets_no_request_on_it_though_its_end_is_yet_to_be_told()
 {
    let mut rig = Rig::new(
        &config("", "reuse = \"always\"", &[8081]),
        &[(8081, Manner::Serves)],
    );
    let first = rig.client(80, POST);
    rig.answers(first, 1);
    rig.run(|rig| rig.balancer.pools()[0].servers[0].idle() == 1);
    let next = rig.client(80, "");
    rig.run_for(Duration::from_millis(100));
    // Both come before the load balancer looks: the request first.
    rig.clients[next].out = POST.into();
    rig.end_servers();
    rig.step_peers();
    assert_eq!(rig.answers(next, 1)[0].status, 200);
    let counters = rig.balancer.pools()[0].servers[0].counters;
    let counted = (counters.connections, counters.connections_reused);
    assert_eq!(counted, (2, 0));
}

#[test]
fn behind_a_refused_connect_nothing_is_a_request() {
    let config = config("", "", &[8081]).replace(
        "pool = \"app\"",
        "routes = [{ host = \"other\", pool = \"app\" }]",
    );
    let mut rig = Rig::new(&config, &[(8081, Manner::Serves)]);
    let connect = format!("CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n{GET}");
    let client = rig.client(80, connect);
    rig.run(|rig| rig.clients[client].is_over());
    let answers = super::rig::answers(&rig.clients[client].input);
    let told: Vec<_> = answers
        .iter()
        .map(|it| (it.status, it.keep_alive))
        .collect();
    assert_eq!(told, [(404, false)]);
}

#[test]
fn a_response_that_comes_before_the_whole_request_says_that_it_is_the_last() {
    for (content, keep_alive) in [("abc", true), ("ab", false)] {
        let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Hasty)]);
        let post = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n{content}");
        let client = rig.client(80, post);
        assert_eq!(rig.answers(client, 1)[0].keep_alive, keep_alive);
    }
}

/// The response has begun before all of the request is there: what the client sends then is no reason to wait longer for the rest.
#[test]
fn who_answers_before_it_has_the_request_and_is_silent_then_has_idle_time() {
    let settings = ("idle-time = \"3s\"", "response-time = \"20s\"");
    let mut rig = Rig::new(
        &config(settings.0, settings.1, &[8081]),
        &[(8081, Manner::Stalls(3))],
    );
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nhalf";
    let client = rig.client(80, post);
    rig.run(|rig| !rig.clients[client].input.is_empty());
    rig.clients[client].out.extend_from_slice(b"rest");
    let began = rig.world.now();
    rig.run(|rig| rig.clients[client].is_over());
    let took = rig.world.now() - began;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(rig.clients[client].is_broken, "it is not the whole");
}

#[test]
fn sessions_that_have_ended_leave_nothing_behind() {
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Serves)]);
    for _ in 0..300 {
        let client = rig.client(80, GET);
        rig.answers(client, 1);
        rig.clients[client].ends = true;
        rig.run(|rig| rig.clients[client].is_over());
    }
    assert!(rig.balancer.wake_ups() < 100, "{}", rig.balancer.wake_ups());
}

#[test]
fn nobody_at_that_address_is_504_or_502_after_the_retries() {
    let pool = "backends = [\"10.0.0.77:80\"]\nconnect-time = \"500ms\"\nretries = 1";
    let mut rig = Rig::new(&config("", pool, &[]), &[]);
    let status = status(&mut rig, GET);
    assert!(matches!(status, 502 | 504), "{status}");
    assert_eq!(rig.balancer.pools()[0].counters.retries, 1);
}

#[test]
fn a_slow_client_gets_408_and_an_idle_one_is_let_go() {
    let times = "request-head-time = \"1s\"\nidle-time = \"3s\"";
    let mut rig = Rig::new(&config(times, "", &[8081]), &[(8081, Manner::Serves)]);
    assert_eq!(status(&mut rig, "GET / HT"), 408);
    let idle = rig.client(80, "");
    rig.run(|rig| rig.clients[idle].is_over());
    assert!(rig.clients[idle].input.is_empty());
}

const LAST: &str = "GET /n/400000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn a_client_that_takes_its_last_response_by_drops_is_not_waited_for_without_end() {
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Serves)]);
    let client = rig.client(80, LAST);
    rig.clients[client].pace = Some(500);
    rig.run_for(Duration::from_secs(60));
    let sockets = rig.world.stack(0).sockets();
    let left = sockets.filter(|socket| socket.id.is_some() && socket.local.port() == 80);
    assert_eq!(left.count(), 0);
}

#[test]
fn a_slow_client_gets_its_last_response_whole() {
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Serves)]);
    let client = rig.client(80, LAST);
    rig.clients[client].pace = Some(20_000);
    let answer = rig.answers(client, 1).remove(0);
    assert_eq!(answer.content, content(400_000));
}

#[test]
fn requests_wait_for_a_server_that_has_enough_to_do_and_not_for_ever() {
    let pool = "backends = [{ address = \"10.0.0.2:8081\", max-connections = 1 }]\nqueue = 2\nqueue-time = \"1s\"\n\
        response-time = \"20s\"";
    let mut rig = Rig::new(&config("", pool, &[]), &[(8081, Manner::Serves)]);
    let first = rig.client(80, "GET /n/20000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.run(|rig| rig.clients[first].input.len() > 1000);
    let others: Vec<_> = (0..4).map(|_| rig.client(80, GET)).collect();
    for client in &others {
        rig.answers(*client, 1);
    }
    assert_eq!(rig.answers(first, 1)[0].content.len(), 20_000_000);
    let got = |rig: &mut Rig| -> Vec<u16> {
        others
            .iter()
            .map(|client| rig.answers(*client, 1)[0].status)
            .collect()
    };
    let statuses = got(&mut rig);
    let refused = statuses.iter().filter(|status| **status == 503).count();
    assert!(refused >= 2, "{statuses:?}");
    assert_eq!(rig.balancer.pools()[0].counters.queue_overflows, 2);
    assert_eq!(rig.balancer.pools()[0].servers[0].active, 0);
}

#[test]
fn more_clients_than_may_be_wait_to_be_accepted() {
    let mut rig = Rig::new(
        &config("max-connections = 1", "", &[8081]),
        &[(8081, Manner::Serves)],
    );
    let first = rig.client(80, GET);
    rig.answers(first, 1);
    let second = rig.client(80, GET);
    rig.run_for(Duration::from_secs(1));
    assert!(rig.clients[second].input.is_empty());
    rig.clients[first].ends = true;
    assert_eq!(rig.answers(second, 1)[0].status, 200);
}

#[test]
fn health_checks_find_who_is_down_and_who_is_up() {
    let pool = "health = { path = \"/n/1\", interval = \"100ms\", fall = 2, rise = 2 }";
    let servers = [
        (8081, Manner::Serves),
        (8082, Manner::Dies),
        (8083, Manner::Silent),
    ];
    let mut rig = Rig::new(&config("", pool, &[8080, 8081, 8082, 8083]), &servers);
    rig.run_for(Duration::from_secs(3));
    let up: Vec<bool> = rig.balancer.pools()[0]
        .servers
        .iter()
        .map(|server| server.health.is_up())
        .collect();
    assert_eq!(up, [false, true, false, false]);
    let faults = rig.balancer.pools()[0].servers.iter();
    let faults = faults.map(|server| server.fault.as_ref().map(ToString::to_string));
    let faults: Vec<_> = faults.map(Option::unwrap_or_default).collect();
    let wanted = [
        "connection refused",
        "",
        "connection reset by peer",
        "no response within 100ms",
    ];
    assert_eq!(faults, wanted);
    for _ in 0..4 {
        assert_eq!(status(&mut rig, GET), 200);
    }
    assert_eq!(rig.balancer.pools()[0].counters.retries, 0);
}

#[test]
fn a_check_that_gets_another_status_names_it() {
    let pool = "health = { path = \"/n/1\", status = [204], interval = \"100ms\" }";
    let mut rig = Rig::new(&config("", pool, &[8081]), &[(8081, Manner::Serves)]);
    rig.run_for(Duration::from_secs(1));
    let fault = &rig.balancer.pools()[0].servers[0].fault;
    assert_eq!(fault.as_ref().unwrap().to_string(), "HTTP status 200");
}

#[test]
fn a_health_check_waits_for_the_final_response() {
    let pool = "health = { path = \"/n/1\", interval = \"100ms\", fall = 1 }";
    let mut rig = Rig::new(&config("", pool, &[8081]), &[(8081, Manner::Continues)]);
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.balancer.pools()[0].servers[0].counters.went_down, 0);
}

#[test]
fn a_drained_server_gets_nothing_new() {
    let servers = [(8081, Manner::Serves), (8082, Manner::Serves)];
    let mut rig = Rig::new(&config("", "", &[8081, 8082]), &servers);
    for _ in 0..2 {
        status(&mut rig, GET);
    }
    let now = rig.world.now();
    let address = "10.0.0.2:8081".parse().unwrap();
    assert!(
        rig.balancer
            .drain(now, rig.world.stack(0), "app", address, true)
    );
    assert!(
        !rig.balancer
            .drain(now, rig.world.stack(0), "no", address, true)
    );
    for _ in 0..4 {
        let client = rig.client(80, GET);
        assert_eq!(rig.answers(client, 1)[0].port, 8082);
    }
    assert_eq!(rig.balancer.pools()[0].servers[0].idle(), 0);
}

#[test]
fn refused_requests_end_the_connection_and_nothing_of_them_reaches_a_server() {
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Serves)]);
    for request in [
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\nHost: h\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc",
    ] {
        let smuggled = format!("{request}GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n");
        let client = rig.client(80, smuggled);
        rig.run(|rig| rig.clients[client].is_over());
        let answers = super::rig::answers(&rig.clients[client].input);
        assert_eq!(answers.len(), 1, "{request:?}");
        assert_eq!((answers[0].status, answers[0].keep_alive), (400, false));
    }
}
