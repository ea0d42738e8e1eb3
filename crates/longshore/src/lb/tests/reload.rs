//! A load balancer that is given another configuration while clients are served.

use std::time::Duration;

use host::Accel;
use port::impair::Impairment;
use sim::WorldConfig;

use super::rig::{Manner, Rig, config, content};
use crate::lb::pool::Pool;
use crate::lb::server::Server;

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";
const SERVERS: [(u16, Manner); 3] = [
    (8081, Manner::Serves),
    (8082, Manner::Serves),
    (8083, Manner::Serves),
];

fn server(rig: &Rig, port: u16) -> &Server {
    let mut servers = rig.balancer.pools().iter().flat_map(|pool| &pool.servers);
    let found = servers.find(|it| it.config.address.port() == port && !it.has_left());
    found.expect("it is there")
}

fn names(rig: &Rig) -> Vec<&str> {
    let pools = rig.balancer.pools().iter().filter(|it| !it.has_left());
    pools.map(|pool| pool.config.name.as_str()).collect()
}

#[test]
fn requests_go_to_the_servers_and_by_the_weights_that_there_are_now() {
    let mut rig = Rig::new(&config("", "", &[8081, 8082]), &SERVERS);
    assert_eq!(rig.who_answers(4), [8081, 8081, 8082, 8082]);
    assert!(rig.reload(&config("", "", &[8083, 8082])).is_empty());
    assert_eq!(rig.who_answers(4), [8082, 8082, 8083, 8083]);
    let weights = "backends = [{ address = \"10.0.0.2:8082\", weight = 3 }, \"10.0.0.2:8083\"]";
    rig.reload(&config("", weights, &[]));
    assert_eq!(rig.who_answers(4), [8082, 8082, 8082, 8083]);
}

#[test]
fn what_is_under_way_on_a_removed_server_ends_there_and_the_next_request_does_not_go_there() {
    let mut rig = Rig::new(&config("", "", &[8081]), &SERVERS);
    let large = "GET /n/3000000 HTTP/1.1\r\nHost: h\r\n\r\n";
    let client = rig.client(80, large);
    rig.run(|rig| rig.clients[client].input.len() > 1000);
    rig.reload(&config("", "", &[8082]));
    assert_eq!(server(&rig, 8081).active, 1);
    rig.clients[client].out.extend_from_slice(GET.as_bytes());
    let answers = rig.answers(client, 2);
    assert_eq!(answers[0].content, content(3_000_000));
    assert_eq!((answers[0].port, answers[1].port), (8081, 8082));
    let removed = &rig.balancer.pools()[0].servers[0];
    assert!(removed.has_left() && removed.idle() == 0);
    // Another one has its place.
    rig.reload(&config("", "", &[8082, 8083]));
    assert_eq!(rig.balancer.pools()[0].servers.len(), 2);
    assert_eq!(rig.who_answers(2), [8082, 8083]);
}

#[test]
fn servers_that_stay_keep_what_they_are_known_for() {
    let checked = "health = { path = \"/n/1\", interval = \"100ms\", fall = 1 }\nretries = 4";
    let servers = [(8081, Manner::FailsChecks), (8082, Manner::Serves)];
    let mut rig = Rig::new(&config("", checked, &[8081, 8082]), &servers);
    rig.run_for(Duration::from_secs(1));
    rig.who_answers(3);
    let state = |rig: &Rig, port| {
        let server = server(rig, port);
        let counters = server.counters;
        (
            server.health.is_up(),
            server.idle(),
            counters.requests,
            counters.connections,
        )
    };
    let before = [state(&rig, 8081), state(&rig, 8082)];
    assert_eq!(before[0], (false, 0, 0, 0));
    assert_eq!(before[1], (true, 1, 3, 1));
    let fault = server(&rig, 8081).fault.clone();
    rig.reload(&config("", &checked.replace('4', "5"), &[8082, 8081, 8083]));
    assert_eq!([state(&rig, 8081), state(&rig, 8082)], before);
    assert_eq!(server(&rig, 8081).fault, fault);
    assert_eq!(rig.balancer.pools()[0].config.retries, 5);
}

#[test]
fn checks_are_made_by_the_settings_that_there_are_now() {
    let with = |check: &str| config("", &format!("health = {{ {check} }}"), &[8081]);
    let mut rig = Rig::new(
        &with("path = \"/n/1\", interval = \"100ms\", fall = 1, rise = 1"),
        &[(8081, Manner::FailsChecks)],
    );
    rig.run_for(Duration::from_secs(1));
    assert!(!server(&rig, 8081).health.is_up());
    rig.reload(&with(
        "path = \"/n/1\", interval = \"100ms\", fall = 1, rise = 1, status = [404]",
    ));
    assert!(!server(&rig, 8081).health.is_up());
    rig.run_for(Duration::from_secs(1));
    assert!(server(&rig, 8081).health.is_up());
    rig.reload(&with("path = \"/n/1\", interval = \"100ms\", fall = 3"));
    rig.run_for(Duration::from_millis(50));
    assert!(
        server(&rig, 8081).health.is_up(),
        "one failure is not three"
    );
    rig.run_for(Duration::from_secs(1));
    assert!(!server(&rig, 8081).health.is_up());
    rig.reload(&with("check = \"none\""));
    let unchecked = server(&rig, 8081);
    assert!(unchecked.health.is_up() && unchecked.fault.is_none());
    let checks = unchecked.counters.checks;
    rig.run_for(Duration::from_secs(5));
    assert_eq!(server(&rig, 8081).counters.checks, checks);
}

#[test]
fn a_removed_server_is_not_checked_and_a_check_under_way_is_given_up() {
    let checked = "health = { path = \"/n/1\", interval = \"100ms\", time-out = \"30s\" }";
    let servers = [(8081, Manner::Silent), (8082, Manner::Serves)];
    let mut rig = Rig::new(&config("", checked, &[8081, 8082]), &servers);
    rig.run_for(Duration::from_secs(1));
    let sockets = |rig: &Rig| {
        let sockets = rig.world.stack_ref(0).sockets();
        sockets
            .filter(|it| it.id.is_some() && it.remote.port() == 8081)
            .count()
    };
    assert_eq!(sockets(&rig), 1);
    rig.reload(&config("", checked, &[8082]));
    rig.run_for(Duration::from_secs(60));
    assert_eq!(sockets(&rig), 0);
    let removed = &rig.balancer.pools()[0].servers[0];
    assert_eq!(
        (removed.counters.checks, removed.counters.went_down),
        (1, 0)
    );
}

#[test]
fn a_server_that_comes_back_before_it_has_left_goes_on() {
    let mut rig = Rig::new(&config("", "", &[8081]), &SERVERS);
    let client = rig.client(80, "GET /n/3000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.run(|rig| rig.clients[client].input.len() > 1000);
    rig.reload(&config("", "", &[8082]));
    rig.reload(&config("", "", &[8081, 8082]));
    assert_eq!(server(&rig, 8081).counters.requests, 1);
    assert_eq!(rig.who_answers(2), [8081, 8082]);
    assert_eq!(rig.answers(client, 1)[0].content, content(3_000_000));
}

#[test]
fn who_waits_is_served_by_a_server_that_is_new_or_may_have_more() {
    let one = |most: u32| {
        format!("backends = [{{ address = \"10.0.0.2:8081\", max-connections = {most} }}]")
    };
    for other in [one(4), one(1).replace(']', ", \"10.0.0.2:8082\"]")] {
        let mut rig = Rig::new(&config("", &one(1), &[]), &SERVERS);
        let first = rig.client(80, "GET /n/30000000 HTTP/1.1\r\nHost: h\r\n\r\n");
        rig.run(|rig| rig.clients[first].input.len() > 1000);
        let second = rig.client(80, GET);
        rig.run(|rig| rig.balancer.pools()[0].waiting() == 1);
        rig.reload(&config("", &other, &[]));
        assert!(
            rig.balancer
                .poll_timeout()
                .is_some_and(|due| due <= rig.world.now())
        );
        assert_eq!(rig.answers(second, 1)[0].status, 200);
        assert!(super::rig::answers(&rig.clients[first].input).is_empty());
    }
}

const TWO_POOLS: &str = r#"
[frontends.web]
listen = ["10.0.0.1:80"]
pool = "new"
[pools.new]
backends = ["10.0.0.2:8082"]
health = { check = "none" }
"#;

#[test]
fn a_removed_pool_serves_what_it_has_been_asked_for_and_is_gone_then() {
    let old = "backends = [{ address = \"10.0.0.2:8081\", max-connections = 1 }]";
    let mut rig = Rig::new(&config("", old, &[]), &SERVERS);
    let first = rig.client(80, "GET /n/3000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.run(|rig| rig.clients[first].input.len() > 1000);
    let second = rig.client(80, GET);
    rig.run(|rig| rig.balancer.pools()[0].waiting() == 1);
    assert!(rig.reload(TWO_POOLS).is_empty());
    assert_eq!(names(&rig), ["app", "new"]);
    let third = rig.client(80, GET);
    for (client, port) in [(first, 8081), (second, 8081), (third, 8082)] {
        assert_eq!(rig.answers(client, 1)[0].port, port);
    }
    rig.run_for(Duration::from_secs(3));
    assert_eq!(names(&rig), ["new"]);
    assert!(rig.balancer.pools().iter().any(Pool::has_left));
    // A pool of the same name is another one, in its place.
    rig.reload(&config("", "", &[8083]));
    rig.run_for(Duration::from_secs(3));
    assert_eq!(names(&rig), ["app"]);
    assert_eq!(rig.balancer.pools().len(), 2);
    assert_eq!(rig.who_answers(2), [8083, 8083]);
}

#[test]
fn a_splice_goes_on_whose_server_was_removed() {
    let bytes = |port: u16| {
        format!(
            "[frontends.bytes]\nmode = \"tcp\"\nlisten = [\"10.0.0.1:80\"]\npool = \"app\"\n[pools.app]\n\
            backends = [\"10.0.0.2:{port}\"]\nhealth = {{ check = \"none\" }}\n"
        )
    };
    for splice in [false, true] {
        let accel = Accel {
            splice,
            ..Accel::NONE
        };
        let servers = [(8081, Manner::Echoes), (8082, Manner::Echoes)];
        let mut rig = Rig::on(
            &bytes(8081),
            &servers,
            Impairment::default(),
            1 << 20,
            accel,
        );
        let client = rig.client(80, "");
        let mut wanted = 0;
        for round in 1..40 {
            let message = content(round * 371);
            wanted += message.len();
            rig.clients[client].out.extend_from_slice(&message);
            rig.run(|rig| rig.clients[client].input.len() == wanted);
            if round == 20 {
                rig.reload(&bytes(8082));
            }
        }
        let (_, counters) = rig.balancer.frontends().next().unwrap();
        assert_eq!(
            (counters.splices, counters.connections_open),
            (splice.into(), 1)
        );
        assert_eq!(
            (server(&rig, 8081).active, server(&rig, 8082).active),
            (1, 0)
        );
        rig.clients[client].ends = true;
        rig.run(|rig| rig.clients[client].is_over());
        assert!(!rig.clients[client].is_broken);
        rig.run_for(Duration::from_secs(90));
        assert!(rig.balancer.pools()[0].servers[0].has_left());
    }
}

#[test]
fn what_needs_a_restart_is_named_and_stays_as_it_was_and_the_rest_counts() {
    let mut rig = Rig::new(&config("max-head = 4096", "", &[8081]), &SERVERS);
    let other = config("max-head = 8192\nrequest-head-time = \"1s\"", "", &[8081]);
    let other = other.replace("10.0.0.1:80", "10.0.0.1:81");
    let more = "[frontends.more]\nlisten = [\"10.0.0.1:82\"]\npool = \"app\"\n";
    let restart = rig.reload(&format!("{more}{other}"));
    assert_eq!(restart, ["frontends.more", "frontends.web.listen"]);
    let (web, _) = rig.balancer.frontends().next().unwrap();
    assert_eq!(web.max_head, 8192);
    assert_eq!(web.listen, ["10.0.0.1:80".parse().unwrap()]);
    let slow = rig.client(80, "GET / HT");
    assert_eq!(rig.answers(slow, 1)[0].status, 408);

    let bytes = "[frontends.web]\nmode = \"tcp\"\nlisten = [\"10.0.0.1:80\"]\npool = \"new\"\n";
    let bytes = format!("{bytes}{}", TWO_POOLS.split_once("\"new\"\n").unwrap().1);
    assert_eq!(rig.reload(&bytes), ["frontends.web.mode"]);
    rig.run_for(Duration::from_secs(3));
    // It has requests for a pool that the file has no more.
    assert_eq!(names(&rig), ["app", "new"]);
    assert_eq!(rig.who_answers(2), [8081, 8081]);
    assert!(rig.reload(&config("", "", &[8081])).is_empty());
    rig.run_for(Duration::from_secs(3));
    assert_eq!(names(&rig), ["app"]);
}

#[test]
fn more_clients_are_accepted_when_more_may_be() {
    let mut rig = Rig::new(&config("max-connections = 1", "", &[8081]), &SERVERS);
    let first = rig.client(80, GET);
    rig.answers(first, 1);
    let second = rig.client(80, GET);
    rig.run_for(Duration::from_secs(1));
    assert!(rig.clients[second].input.is_empty());
    rig.reload(&config("max-connections = 2", "", &[8081]));
    assert_eq!(rig.answers(second, 1)[0].status, 200);
}

#[test]
fn idle_connections_beyond_what_may_be_are_closed() {
    let mut rig = Rig::new(&config("", "", &[8081]), &SERVERS);
    let clients: Vec<_> = (0..4).map(|_| rig.client(80, GET)).collect();
    for client in clients {
        rig.answers(client, 1);
    }
    assert!(server(&rig, 8081).idle() > 1);
    rig.reload(&config("", "idle-connections = 1", &[8081]));
    assert_eq!(server(&rig, 8081).idle(), 1);
    rig.reload(&config("", "reuse = \"never\"", &[8081]));
    assert_eq!(server(&rig, 8081).idle(), 0);
}

/// No client sees anything of reloads that take servers and give them back all the time, whatever the links lose.
#[test]
fn no_client_notices_reloads() {
    for seed in 0..8 {
        let lossy = Impairment {
            loss: if seed % 2 == 0 { 0.0 } else { 0.02 },
            ..Impairment::default()
        };
        let settings = WorldConfig {
            links: vec![lossy; 2],
            workers: 1 + seed as u16 % 3,
            ..WorldConfig::default()
        };
        let servers = config("", "", &[8081, 8082]);
        let mut rig = Rig::in_world(&servers, &SERVERS, settings, 1 << 20);
        let requests = "GET /n/70000 HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10);
        let clients: Vec<_> = (0..10).map(|_| rig.client(80, requests.as_str())).collect();
        let sets: [&[u16]; 4] = [&[8083], &[8081, 8083], &[8082], &[8083, 8082, 8081]];
        for round in 0..40 {
            rig.run_for(Duration::from_millis(3 + seed));
            assert!(
                rig.reload(&config("", "", sets[(round + seed as usize) % 4]))
                    .is_empty()
            );
        }
        for client in clients {
            let answers = rig.answers(client, 10);
            assert_eq!(answers.len(), 10, "seed {seed}");
            assert!(answers.iter().all(|it| it.content == content(70_000)));
        }
        for pool in rig.pools() {
            assert!(pool.servers.len() <= 3, "{}", pool.servers.len());
            assert!(pool.servers.iter().all(|server| server.active == 0));
        }
    }
}

#[test]
fn a_check_of_a_removed_pool_is_given_up_before_another_has_its_place() {
    let slow = "health = { path = \"/n/1\", interval = \"100ms\", time-out = \"30s\" }";
    let servers = [
        (8081, Manner::Serves),
        (8082, Manner::Stalls(3)),
        (8083, Manner::Serves),
    ];
    let mut rig = Rig::new(&config("", slow, &[8081, 8082]), &servers);
    rig.run_for(Duration::from_secs(1));
    let other = |pool: &str, ports: &[u16]| config("", slow, ports).replace("app", pool);
    rig.reload(&other("next", &[8083]));
    rig.reload(&other("last", &[8083]));
    assert_eq!(names(&rig), ["last"]);
    assert!(rig.balancer.pools().len() <= 2, "places are used again");
    rig.run_for(Duration::from_secs(60));
    assert!(server(&rig, 8083).health.is_up());
    assert_eq!(rig.who_answers(2), [8083, 8083]);
}

#[test]
fn a_server_that_comes_back_when_it_has_left_is_a_new_one() {
    let mut rig = Rig::new(&config("", "", &[8081, 8082]), &SERVERS);
    rig.who_answers(2);
    let address = server(&rig, 8082).config.address;
    let now = rig.world.now();
    assert!(
        rig.balancer
            .drain(now, rig.world.stack(0), "app", address, true)
    );
    rig.reload(&config("", "", &[8081]));
    rig.reload(&config("", "", &[8081, 8082]));
    assert_eq!(rig.who_answers(2), [8081, 8082]);
    assert_eq!(server(&rig, 8082).counters.requests, 1);
}

#[test]
fn who_came_when_a_header_was_wanted_gives_it_whatever_is_wanted_now() {
    let with = |accepts: bool| config(&format!("accept-proxy = {accepts}"), "", &[8081]);
    let mut rig = Rig::new(&with(true), &SERVERS);
    let client = rig.client(80, "PROXY TCP4 192.0.2.1 ");
    rig.run_for(Duration::from_millis(100));
    assert!(rig.reload(&with(false)).is_empty());
    let rest = format!("10.0.0.1 4000 80\r\n{GET}");
    rig.clients[client].out.extend_from_slice(rest.as_bytes());
    assert_eq!(rig.answers(client, 1)[0].status, 200);
    assert_eq!(rig.who_answers(1), [8081]);
}

/// A connection that began without the name of its client is for no other once names are wanted.
#[test]
fn connections_without_a_name_are_not_used_again_once_servers_want_names() {
    let named = "backends = [{ address = \"10.0.0.2:8081\", proxy = \"v1\" }]";
    let mut rig = Rig::new(&config("", "", &[8081]), &[(8081, Manner::Serves)]);
    let client = rig.client(80, "GET /n/3000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.run(|rig| server(rig, 8081).active == 1);
    rig.reload(&config("", named, &[]));
    assert_eq!(rig.answers(client, 1)[0].content, content(3_000_000));
    rig.run(|rig| server(rig, 8081).active == 0);
    assert_eq!(server(&rig, 8081).idle(), 0);
    rig.behave(8081, Manner::Introduced);
    let client = rig.client(80, GET);
    let answer = rig.answers(client, 1).remove(0);
    let source = rig.source(client).to_string();
    assert!(answer.content.starts_with(source.as_bytes()));
}

/// A check that has begun without a PROXY header says nothing of a server that wants one.
#[test]
fn a_check_that_began_before_names_were_wanted_counts_no_more() {
    let checks = "health = { path = \"/n/1\", interval = \"10s\", time-out = \"5s\" }";
    let named = "backends = [{ address = \"10.0.0.2:8081\", proxy = \"v1\" }]";
    let named = format!("{named}\n{checks}");
    let mut rig = Rig::new(&config("", checks, &[8081]), &[(8081, Manner::Silent)]);
    rig.run_for(Duration::from_secs(1));
    rig.reload(&config("", &named, &[]));
    // The first one would fail meanwhile.
    rig.run_for(Duration::from_millis(4500));
    let counters = server(&rig, 8081).counters;
    assert_eq!((counters.checks, counters.check_failures), (2, 0));
}
