//! What the load balancer's own stack lacks is no fault of the servers.

use std::time::Duration;

use sim::WorldConfig;

use super::rig::{Manner, Rig, config};

const GET: &str = "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n";
const CONNECTS: &str = "health = { interval = \"100ms\", time-out = \"1s\", fall = 1 }";
const ASKS: &str =
    "health = { path = \"/n/1\", interval = \"100ms\", time-out = \"1s\", fall = 1 }";

fn up(rig: &Rig) -> Vec<bool> {
    let servers = rig.balancer.pools()[0].servers.iter();
    servers.map(|server| server.health.is_up()).collect()
}

#[test]
fn checks_for_which_there_is_no_socket_have_no_result() {
    let mut settings = WorldConfig::default();
    settings.nodes[0].stack.max_sockets = 8;
    let servers = [(8081, Manner::Silent), (8082, Manner::Silent)];
    let mut rig = Rig::in_world(
        &config("", CONNECTS, &[8081, 8082]),
        &servers,
        settings,
        1 << 20,
    );
    rig.run_for(Duration::from_secs(1));
    let clients: Vec<_> = (0..8).map(|_| rig.client(80, GET)).collect();
    rig.run_for(Duration::from_secs(2));
    assert_eq!(up(&rig), [true, true]);
    let pool = &rig.balancer.pools()[0];
    let starved = |count: fn(&crate::lb::counters::ServerCounters) -> u64| -> u64 {
        pool.servers
            .iter()
            .map(|server| count(&server.counters))
            .sum()
    };
    assert!(starved(|counters| counters.checks_starved) > 0);
    assert_eq!(starved(|counters| counters.check_failures), 0);
    drop(clients);
}

#[test]
fn servers_are_not_taken_down_while_clients_that_read_nothing_hold_the_memory() {
    let mut settings = WorldConfig::default();
    // Little beside the buffers to receive into.
    settings.nodes[0].stack.memory = 25 << 20;
    let servers = [(8081, Manner::Serves), (8082, Manner::Serves)];
    let mut rig = Rig::in_world(
        &config("", ASKS, &[8081, 8082]),
        &servers,
        settings,
        1 << 20,
    );
    for _ in 0..40 {
        let client = rig.client(80, "GET /n/1000000 HTTP/1.1\r\nHost: h\r\n\r\n");
        rig.clients[client].pace = Some(1);
    }
    for _ in 0..20 {
        rig.run_for(Duration::from_secs(1));
        assert_eq!(up(&rig), [true, true]);
    }
}
