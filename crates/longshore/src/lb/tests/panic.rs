//! Pools of which too few servers are up.

use std::time::Duration;

use super::rig::{Manner, Rig, config};

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";

/// Servers of which these serve, and all fail their checks but the first `good`.
fn rig(pool: &str, ports: &[u16], good: &[u16]) -> Rig {
    let pool = format!("{pool}\nhealth = {{ path = \"/n/1\", interval = \"100ms\", fall = 1 }}");
    let servers = ports.iter().map(|port| {
        let manner = match good.contains(port) {
            true => Manner::Serves,
            false => Manner::FailsChecks,
        };
        (*port, manner)
    });
    let servers: Vec<_> = servers.collect();
    let mut rig = Rig::new(&config("", &pool, ports), &servers);
    rig.run_for(Duration::from_secs(1));
    rig
}

#[test]
fn requests_go_to_all_servers_while_none_is_up() {
    let mut rig = rig("", &[8081, 8082], &[]);
    assert_eq!(rig.who_answers(4), [8081, 8081, 8082, 8082]);
    let pool = &rig.balancer.pools()[0];
    assert!(pool.is_panicking);
    assert_eq!((pool.counters.panics, pool.counters.panic_requests), (1, 4));
    assert_eq!(pool.counters.no_server, 0);
}

#[test]
fn without_a_threshold_nothing_goes_to_servers_that_are_down() {
    let mut rig = rig("panic-threshold = 0", &[8081, 8082], &[]);
    assert_eq!(rig.who_answers(2), [0, 0]);
    let pool = &rig.balancer.pools()[0];
    assert_eq!((pool.counters.panics, pool.counters.no_server), (0, 2));
}

#[test]
fn the_threshold_is_a_share_of_the_servers() {
    for (threshold, wanted) in [(33, [8081, 8081, 8081]), (34, [8081, 8082, 8083])] {
        let pool = format!("panic-threshold = {threshold}");
        let mut rig = rig(&pool, &[8081, 8082, 8083], &[8081]);
        assert_eq!(rig.who_answers(3), wanted, "{threshold} %");
    }
}

#[test]
fn a_server_that_drains_gets_nothing_even_then() {
    let mut rig = rig("", &[8081, 8082], &[]);
    let (now, address) = (rig.world.now(), "10.0.0.2:8081".parse().unwrap());
    let balancer = &mut rig.balancer;
    assert!(balancer.drain(now, rig.world.stack(0), "app", address, true));
    assert_eq!(rig.who_answers(2), [8082, 8082]);
}

#[test]
fn the_panic_is_over_when_a_server_is_up_again() {
    let mut rig = rig("", &[8081, 8082], &[]);
    assert!(rig.balancer.pools()[0].is_panicking);
    rig.behave(8082, Manner::Serves);
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.who_answers(2), [8082, 8082]);
    let pool = &rig.balancer.pools()[0];
    assert_eq!((pool.is_panicking, pool.counters.panics), (false, 1));
}

/// Two requests that fail to connect would take it down; what the checks find decides.
#[test]
fn requests_that_can_not_connect_never_take_the_last_server_that_is_up() {
    let pool = "health = { interval = \"1h\", fall = 1 }\nretries = 0\npanic-threshold = 0";
    let mut rig = Rig::new(&config("", pool, &[8081, 8082]), &[]);
    for _ in 0..4 {
        let client = rig.client(80, GET);
        assert_eq!(rig.answers(client, 1)[0].status, 502);
    }
    let servers = &rig.balancer.pools()[0].servers;
    let up = servers.iter().filter(|server| server.health.is_up());
    assert_eq!(up.count(), 1);
}
