//! Requests that wait for a backend which has as many connections as it may have.

use std::time::Duration;

use super::rig::{Manner, Rig, config};

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";
const LONG: &str = "GET /n/3000000 HTTP/1.1\r\nHost: h\r\n\r\n";

/// A load balancer before so many servers that take one request at a time.
fn rig(servers: u16) -> Rig {
    let backends = (0..servers).map(|at| {
        let port = 8081 + at;
        format!("{{ address = \"10.0.0.2:{port}\", max-connections = 1 }}")
    });
    let backends = backends.collect::<Vec<_>>().join(", ");
    let pool = format!("backends = [{backends}]\nqueue-time = \"20s\"");
    let servers: Vec<_> = (0..servers).map(|at| (8081 + at, Manner::Serves)).collect();
    Rig::new(&config("", &pool, &[]), &servers)
}

fn drain(rig: &mut Rig, port: u16, drains: bool) {
    let (now, address) = (rig.world.now(), format!("10.0.0.2:{port}"));
    let (balancer, stack) = (&mut rig.balancer, rig.world.stack(0));
    assert!(balancer.drain(now, stack, "app", address.parse().unwrap(), drains));
}

fn has_begun(rig: &Rig, client: usize) -> bool {
    !rig.clients[client].input.is_empty()
}

/// Clients of which each begins to wait after the one before.
fn waiting(rig: &mut Rig, count: usize) -> Vec<usize> {
    (0..count)
        .map(|_| {
            let client = rig.client(80, LONG);
            let waiting = rig.balancer.pools()[0].waiting();
            rig.run(|rig| rig.balancer.pools()[0].waiting() == waiting + 1);
            client
        })
        .collect()
}

#[test]
fn a_client_with_more_requests_does_not_overtake_those_that_wait() {
    let mut rig = rig(1);
    let many = rig.client(80, LONG.to_owned() + &GET.repeat(20));
    rig.run(|rig| has_begun(rig, many));
    let one = rig.client(80, GET);
    rig.answers(one, 1);
    assert_eq!(super::rig::answers(&rig.clients[many].input).len(), 1);
    assert_eq!(rig.answers(many, 21).len(), 21);
}

#[test]
fn those_that_wait_keep_their_order_when_a_backend_comes_back_that_has_not_room_for_all() {
    let mut rig = rig(2);
    drain(&mut rig, 8082, true);
    let first = rig.client(80, LONG);
    rig.run(|rig| has_begun(rig, first));
    let others = waiting(&mut rig, 4);
    drain(&mut rig, 8082, false);
    let mut order = Vec::new();
    rig.run(|rig| {
        for client in &others {
            if has_begun(rig, *client) && !order.contains(client) {
                order.push(*client);
            }
        }
        order.len() == others.len()
    });
    assert_eq!(order, others);
}

#[test]
fn a_client_that_goes_away_leaves_the_queue() {
    for resets in [false, true] {
        let pool = "backends = [{ address = \"10.0.0.2:8081\", max-connections = 1 }]";
        let mut rig = Rig::new(&config("", pool, &[]), &[(8081, Manner::Silent)]);
        let first = rig.client(80, GET);
        rig.run(|rig| rig.balancer.pools()[0].servers[0].active == 1);
        let gone = waiting(&mut rig, 1)[0];
        match resets {
            true => rig.reset(gone),
            false => rig.clients[gone].ends = true,
        }
        rig.run_for(Duration::from_secs(1));
        assert_eq!(rig.balancer.pools()[0].waiting(), 0, "resets: {resets}");
        assert!(!rig.clients[first].is_over());
        let (_, counters) = rig.balancer.frontends().next().unwrap();
        assert_eq!(counters.client_aborts, 1);
    }
}

#[test]
fn who_has_left_takes_no_place_of_those_behind() {
    let mut rig = rig(1);
    let first = rig.client(80, LONG);
    rig.run(|rig| has_begun(rig, first));
    let others = waiting(&mut rig, 3);
    rig.reset(others[1]);
    assert_eq!(rig.answers(others[2], 1)[0].status, 200);
    assert_eq!(rig.answers(others[0], 1)[0].status, 200);
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.balancer.pools()[0].servers[0].active, 0);
    let next = rig.client(80, GET);
    assert_eq!(rig.answers(next, 1)[0].status, 200);
}

/// A TCP frontend before servers that take one connection at a time.
fn bytes(servers: &[u16], pool: &str) -> String {
    let web = config("mode = \"tcp\"", pool, servers);
    servers.iter().fold(web, |web, port| {
        let address = format!("\"10.0.0.2:{port}\"");
        web.replace(
            &address,
            &format!("{{ address = {address}, max-connections = 1 }}"),
        )
    })
}

fn end(rig: &mut Rig, client: usize) {
    rig.clients[client].ends = true;
    rig.run(|rig| rig.clients[client].is_over());
}

/// The server echoes.
fn is_served(rig: &mut Rig, client: usize) -> bool {
    rig.run(|rig| has_begun(rig, client) || rig.clients[client].is_over());
    has_begun(rig, client)
}

#[test]
fn a_tcp_client_that_waited_too_long_leaves_the_queue_once() {
    let config = bytes(&[8081], "queue-time = \"1s\"");
    let mut rig = Rig::new(&config, &[(8081, Manner::Echoes)]);
    let first = rig.client(80, "a");
    assert!(is_served(&mut rig, first));
    for late in waiting(&mut rig, 3) {
        rig.run(|rig| rig.clients[late].is_broken);
    }
    assert_eq!(rig.balancer.pools()[0].counters.queue_timeouts, 3);
    let others = waiting(&mut rig, 2);
    for client in [first, others[0], others[1]] {
        assert!(is_served(&mut rig, client));
        end(&mut rig, client);
    }
}

#[test]
fn a_called_tcp_client_for_which_no_server_is_left_leaves_the_queue_once() {
    let config = bytes(&[8081, 8082], "");
    let servers = [(8081, Manner::Echoes), (8082, Manner::Echoes)];
    let mut rig = Rig::new(&config, &servers);
    drain(&mut rig, 8082, true);
    let first = rig.client(80, "a");
    assert!(is_served(&mut rig, first));
    let called = waiting(&mut rig, 1)[0];
    drain(&mut rig, 8082, false);
    drain(&mut rig, 8081, true);
    drain(&mut rig, 8082, true);
    rig.run(|rig| rig.clients[called].is_broken);
    drain(&mut rig, 8081, false);
    let next = waiting(&mut rig, 1)[0];
    end(&mut rig, first);
    assert!(is_served(&mut rig, next));
}
