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
    let drain = |rig: &mut Rig, drains| {
        let (now, address) = (rig.world.now(), "10.0.0.2:8082".parse().unwrap());
        let balancer = &mut rig.balancer;
        assert!(balancer.drain(now, rig.world.stack(0), "app", address, drains));
    };
    drain(&mut rig, true);
    let first = rig.client(80, LONG);
    rig.run(|rig| has_begun(rig, first));
    let others = waiting(&mut rig, 4);
    drain(&mut rig, false);
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
