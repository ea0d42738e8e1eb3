//! A load balancer of several workers, over which clients are spread.

use std::time::Duration;

use sim::WorldConfig;

use super::rig::{Manner, Rig, config};
use crate::lb::server::Server;

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";
const WORKERS: u16 = 3;

fn rig(pool: &str, servers: &[(u16, Manner)]) -> Rig {
    let ports: Vec<u16> = servers.iter().map(|(port, _)| *port).collect();
    let settings = WorldConfig {
        workers: WORKERS,
        ..WorldConfig::default()
    };
    Rig::in_world(&config("", pool, &ports), servers, settings, 1 << 20)
}

/// What each worker has of the server of this port.
fn each(rig: &Rig, port: u16) -> Vec<&Server> {
    let servers = rig.pools().flat_map(|pool| &pool.servers);
    servers
        .filter(|server| server.config.address.port() == port && !server.has_left())
        .collect()
}

#[test]
fn clients_are_spread_over_all() {
    let mut rig = rig("", &[(8081, Manner::Serves)]);
    assert_eq!(rig.who_answers(60), [8081; 60]);
    let of_each: Vec<_> = each(&rig, 8081)
        .iter()
        .map(|server| server.counters.requests)
        .collect();
    assert_eq!(of_each.iter().sum::<u64>(), 60);
    assert!(of_each.iter().all(|&requests| requests > 5), "{of_each:?}");
}

#[test]
fn one_worker_checks_and_all_know_what_it_finds() {
    let health = "health = { path = \"/n/1\", interval = \"100ms\", fall = 1 }";
    let servers = [(8081, Manner::FailsChecks), (8082, Manner::Serves)];
    let mut rig = rig(health, &servers);
    rig.run_for(Duration::from_secs(1));
    assert!(each(&rig, 8081).iter().all(|it| !it.health.is_up()));
    let checks: Vec<_> = each(&rig, 8081)
        .iter()
        .map(|it| it.counters.checks)
        .collect();
    assert!(checks[0] > 5 && checks[1..] == [0, 0], "{checks:?}");
    assert_eq!(rig.who_answers(12), [8082; 12]);

    rig.behave(8081, Manner::Serves);
    rig.run_for(Duration::from_secs(1));
    assert!(each(&rig, 8081).iter().all(|it| it.health.is_up()));
    assert!(rig.who_answers(12).contains(&8081));
}

#[test]
fn a_server_that_a_reload_brings_is_checked_for_all() {
    let health = "health = { path = \"/n/1\", interval = \"100ms\", fall = 1 }";
    let servers = [(8081, Manner::Serves), (8082, Manner::FailsChecks)];
    let mut rig = rig(health, &servers);
    rig.reload(&config("", health, &[8081]));
    rig.run_for(Duration::from_secs(1));
    assert!(each(&rig, 8082).is_empty());
    rig.reload(&config("", health, &[8082, 8081]));
    rig.run_for(Duration::from_secs(1));
    let back = each(&rig, 8082);
    assert_eq!(back.len(), usize::from(WORKERS));
    assert!(back.iter().all(|it| !it.health.is_up()));
}

#[test]
fn all_together_keep_to_a_servers_limit() {
    let limited = "backends = [{ address = \"10.0.0.2:8081\", max-connections = 4 }]";
    let mut rig = rig(limited, &[(8081, Manner::Silent)]);
    for _ in 0..40 {
        rig.client(80, GET);
    }
    rig.run_for(Duration::from_secs(1));
    let active: Vec<_> = each(&rig, 8081).iter().map(|it| it.active).collect();
    assert_eq!(active, [2, 1, 1]);
    assert_eq!(rig.pools().map(|pool| pool.waiting()).sum::<usize>(), 36);
}
