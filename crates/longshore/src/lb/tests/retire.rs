//! A load balancer whose place another process takes: its clients end, each when it can be told, and what it knows goes on.

use std::time::Duration;

use host::Stack;

use super::rig::streams::Streams;
use super::rig::{Manner, Rig, config, content};
use crate::lb::shard::Balancing;
use crate::succession::Drains;

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";

fn retire(rig: &mut Rig, retires: bool) {
    let now = rig.world.now();
    rig.balancer.retire(now, rig.world.stack(0), retires);
}

fn open(rig: &Rig) -> u64 {
    let (_, counters) = rig.balancer.frontends().next().unwrap();
    counters.connections_open
}

/// Idle connections to backends.
fn idle(rig: &Rig) -> usize {
    let servers = rig.pools().flat_map(|pool| &pool.servers);
    servers.map(|server| server.idle()).sum()
}

#[test]
fn a_client_is_told_with_its_next_response_and_loses_no_request() {
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Serves)]);
    let [quick, busy, quiet] = [GET, "GET /n/3000000 HTTP/1.1\r\nHost: h\r\n\r\n", GET]
        .map(|request| rig.client(80, request));
    rig.answers(quick, 1);
    rig.answers(quiet, 1);
    rig.run(|rig| rig.clients[busy].input.len() > 1000);
    retire(&mut rig, true);

    rig.clients[quick].out.extend_from_slice(GET.as_bytes());
    let answers = rig.answers(quick, 2);
    let told: Vec<_> = answers.iter().map(|it| it.keep_alive).collect();
    assert_eq!(told, [true, false]);
    rig.run(|rig| rig.clients[quick].is_over());

    // The response that had begun said that its client may go on: so it may.
    assert_eq!(rig.answers(busy, 1)[0].content, content(3_000_000));
    rig.clients[busy].out.extend_from_slice(GET.as_bytes());
    let answers = rig.answers(busy, 2);
    assert_eq!((answers.len(), answers[1].keep_alive), (2, false));

    // One that asks for nothing is not waited for any longer than this.
    let since = rig.world.now();
    rig.run(|rig| rig.clients[quiet].is_over());
    assert!(rig.world.now() - since <= Duration::from_secs(5));
    rig.run_for(Duration::from_secs(3));
    assert_eq!((open(&rig), idle(&rig)), (0, 0));
}

#[test]
fn a_client_that_comes_at_the_last_moment_is_served_and_let_go() {
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Serves)]);
    let client = rig.client(80, "");
    rig.run_for(Duration::from_millis(10));
    retire(&mut rig, true);
    rig.clients[client].out.extend_from_slice(GET.as_bytes());
    let answers = rig.answers(client, 1);
    assert_eq!((answers[0].status, answers[0].keep_alive), (200, false));
}

#[test]
fn one_of_http_2_is_told_too_and_its_streams_are_answered() {
    let tls = config("tls = true", "", &[8081]).replace("10.0.0.1:80\"", "10.0.0.1:443\"");
    let mut rig = Rig::new(&tls, &[(8081, Manner::Serves)]);
    let mut client = Streams::new(&mut rig, 1 << 20);
    let fetches: Vec<_> = (0..10).map(|_| client.get("/n/300000")).collect();
    client.run(&mut rig, Duration::from_millis(5));
    retire(&mut rig, true);
    client.finish(&mut rig);
    for fetch in fetches {
        let fetch = &client.fetches[fetch];
        assert!(fetch.is_whole, "{:?}", fetch.error);
        assert_eq!(fetch.content, content(300_000));
    }
    client.run(&mut rig, Duration::from_secs(1));
    assert!(matches!(client.over, Some(Ok(()))), "{:?}", client.over);
    // One whose handshake is not done when it begins, and that asks for nothing.
    let mut late = Streams::new(&mut rig, 1 << 20);
    retire(&mut rig, true);
    late.run(&mut rig, Duration::from_secs(8));
    assert!(matches!(late.over, Some(Ok(()))), "{:?}", late.over);
    assert_eq!((open(&rig), idle(&rig)), (0, 0));
}

#[test]
fn requests_are_tried_again_from_the_ports_that_are_left() {
    let servers = [(8081, Manner::Dies), (8082, Manner::Serves)];
    let mut rig = Rig::new(&config("", "", &[8081, 8082]), &servers);
    let clients: Vec<_> = (0..20).map(|_| rig.client(80, "")).collect();
    rig.run_for(Duration::from_millis(10));
    let ports = Stack::ports_of_predecessor(vec![80]);
    let stack = rig.world.stack(0);
    stack.set_outgoing_ports(Some(ports.clone()));
    retire(&mut rig, true);
    for &client in &clients {
        rig.clients[client].out.extend_from_slice(GET.as_bytes());
    }
    rig.run(|rig| {
        let stack = rig.world.stack_ref(0);
        let to_backends = stack.sockets().filter(|it| it.remote.port() >= 8081);
        let mut outgoing = to_backends.filter(|it| it.remote.port() <= 8082);
        assert!(outgoing.all(|it| ports.has(it.local.port())));
        open(rig) == 0
    });
    for client in clients {
        assert_eq!(rig.answers(client, 1)[0].port, 8082);
    }
}

#[test]
fn it_makes_no_checks_and_goes_on_with_them_when_it_has_its_place_back() {
    let health = "health = { path = \"/n/1\", interval = \"100ms\" }";
    let mut rig = Rig::new(&config("", health, &[8081]), &[(8081, Manner::Serves)]);
    rig.run_for(Duration::from_secs(1));
    let checks = |rig: &Rig| rig.balancer.pools()[0].servers[0].counters.checks;
    assert!(checks(&rig) > 5);
    retire(&mut rig, true);
    let before = checks(&rig);
    rig.run_for(Duration::from_secs(5));
    assert_eq!(checks(&rig), before);
    assert_eq!(rig.world.stack(0).socket_count(), 0);
    retire(&mut rig, false);
    rig.run_for(Duration::from_secs(1));
    assert!(checks(&rig) > before + 5);
    let client = rig.client(80, GET);
    assert!(rig.answers(client, 1)[0].keep_alive);
}

#[test]
fn a_check_under_way_comes_to_its_end() {
    let health = "health = { path = \"/n/1\", interval = \"100ms\" }";
    let mut rig = Rig::new(&config("", health, &[8081]), &[(8081, Manner::Serves)]);
    let checks = |rig: &Rig| rig.balancer.pools()[0].servers[0].counters.checks;
    rig.run(|rig| checks(rig) > 0);
    assert!(rig.world.stack(0).socket_count() > 0);
    retire(&mut rig, true);
    assert!(rig.world.stack(0).socket_count() > 0, "it is not reset");
    rig.run_for(Duration::from_secs(5));
    assert_eq!(checks(&rig), 1);
    assert_eq!(rig.world.stack(0).socket_count(), 0);
}

/// Its last check has failed, and none follows that could find it better.
#[test]
fn the_only_backend_is_asked_though_it_was_down() {
    let health =
        "panic-threshold = 0\nhealth = { path = \"/n/1\", interval = \"100ms\", fall = 1 }";
    let servers = [(8081, Manner::FailsChecks)];
    let mut rig = Rig::new(&config("", health, &[8081]), &servers);
    rig.run_for(Duration::from_secs(1));
    let refused = rig.client(80, GET);
    assert_eq!(rig.answers(refused, 1)[0].status, 503);
    retire(&mut rig, true);
    let client = rig.client(80, GET);
    rig.run_for(Duration::from_millis(10));
    assert_eq!(rig.answers(client, 1)[0].status, 200);
}

#[test]
fn what_is_left_is_reset_at_the_end_of_its_time() {
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Silent)]);
    let client = rig.client(80, GET);
    rig.run_for(Duration::from_millis(10));
    retire(&mut rig, true);
    let now = rig.world.now();
    rig.balancer.abort_all(now, rig.world.stack(0));
    rig.run(|rig| rig.clients[client].is_over());
    assert!(rig.clients[client].is_broken);
    rig.run_for(Duration::from_millis(10));
    assert_eq!(rig.world.stack(0).socket_count(), 0);
}

#[test]
fn backends_are_known_to_the_one_that_follows() {
    let health = "health = { path = \"/n/1\", interval = \"100ms\", fall = 1 }\nretries = 0";
    let servers = [
        (8081, Manner::FailsChecks),
        (8082, Manner::Serves),
        (8083, Manner::Serves),
    ];
    let backends = [8081, 8082, 8083];
    let mut old = Rig::new(&config("", health, &backends), &servers);
    old.run_for(Duration::from_secs(1));
    let (now, drained) = (old.world.now(), "10.0.0.2:8083".parse().unwrap());
    let stack = old.world.stack(0);
    assert!(old.balancer.drain(now, stack, "app", drained, true));
    let states = serde_json::to_string(&old.balancer.backends()).unwrap();

    // Its settings name one backend less, and another one.
    let mut new = Rig::new(&config("", health, &[8081, 8083, 8084]), &servers);
    new.balancer
        .inherit(&serde_json::from_str::<Vec<_>>(&states).unwrap());
    let usable: Vec<_> = new.balancer.pools()[0]
        .servers
        .iter()
        .map(|it| it.is_usable(false))
        .collect();
    assert_eq!(usable, [false, false, true]);

    // That a backend was not known to be down proves nothing: its first failed check counts, as after any start.
    let dead = [(8081, Manner::Serves), (8082, Manner::FailsChecks)];
    let three = health.replace("fall = 1", "fall = 3");
    let mut new = Rig::new(&config("", &three, &[8081, 8082]), &dead);
    new.balancer.inherit(&[]);
    new.run_for(Duration::from_millis(150));
    let is_up = |at: usize| new.balancer.pools()[0].servers[at].health.is_up();
    assert_eq!((is_up(0), is_up(1)), (true, false));

    // A pool whose backends are not checked takes none for down.
    let mut unchecked = Rig::new(&config("", "", &backends), &servers);
    unchecked.balancer.inherit(&old.balancer.backends());
    let servers = &unchecked.balancer.pools()[0].servers;
    assert!(servers.iter().all(|it| it.health.is_up()));
}

#[test]
fn what_is_known_of_many_backends_is_told_in_pieces() {
    const BACKENDS: usize = 15_000;
    let address = |nth: usize| format!("10.1.{}.{}:80", nth / 250, nth % 250 + 1);
    let backends: Vec<_> = (0..BACKENDS)
        .map(|nth| format!("{:?}", address(nth)))
        .collect();
    let pool = format!("backends = [{}]", backends.join(", "));
    let mut old = Rig::new(&config("", &pool, &[]), &[]);
    let now = old.world.now();
    for nth in 0..BACKENDS {
        let (stack, backend) = (old.world.stack(0), address(nth).parse().unwrap());
        assert!(old.balancer.drain(now, stack, "app", backend, true));
    }
    let news = Balancing::new(old.balancer, 0, 1).news();
    let longest = news.iter().map(|it| it.to_string().len()).max();
    assert!(longest < Some(1 << 19), "{longest:?}");
    let mut new = Rig::new(&config("", &pool, &[]), &[]);
    for piece in news {
        new.balancer
            .inherit(&serde_json::from_value::<Vec<_>>(piece).unwrap());
    }
    let servers = &new.balancer.pools()[0].servers;
    assert!(servers.iter().all(|it| it.is_draining));
}

#[test]
fn a_client_of_http_2_that_was_idle_for_long_has_its_time_from_then_on() {
    let tls = config("tls = true", "", &[8081]).replace("10.0.0.1:80\"", "10.0.0.1:443\"");
    let mut rig = Rig::new(&tls, &[(8081, Manner::Serves)]);
    let mut client = Streams::new(&mut rig, 1 << 20);
    client.get("/n/10");
    client.finish(&mut rig);
    client.run(&mut rig, Duration::from_secs(20));
    retire(&mut rig, true);
    // It has not heard of that yet.
    let late = client.get("/n/300000");
    client.finish(&mut rig);
    assert!(
        client.fetches[late].is_whole,
        "{:?}",
        client.fetches[late].error
    );
}
