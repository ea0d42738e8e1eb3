//! TCP frontends: bytes both ways, by the host and by the NIC.

use std::time::Duration;

use host::Accel;
use port::impair::Impairment;

use super::rig::{Manner, Rig, content};

const CONFIG: &str = r#"
[frontends.bytes]
mode = "tcp"
listen = ["10.0.0.1:80"]
pool = "app"

[pools.app]
backends = ["10.0.0.2:8080", "10.0.0.2:8081"]
health = { check = "none" }
"#;

fn exchange(accel: Accel, impairment: Impairment) -> (Vec<u8>, u64) {
    let mut rig = Rig::on(
        CONFIG,
        &[(8081, Manner::Echoes)],
        impairment,
        1 << 20,
        accel,
    );
    let client = rig.client(80, "");
    let mut wanted = 0;
    for round in 1..20 {
        let message = content(round * 37);
        wanted += message.len();
        rig.clients[client].out.extend_from_slice(&message);
        rig.run(|rig| rig.clients[client].input.len() == wanted);
    }
    rig.clients[client].out.extend_from_slice(&content(300_000));
    rig.clients[client].ends = true;
    rig.run(|rig| rig.clients[client].is_over());
    assert!(!rig.clients[client].is_broken);
    rig.run_for(Duration::from_secs(30));
    let (_, counters) = rig.balancer.frontends().next().unwrap();
    assert_eq!(counters.connections_open, 0);
    let splices = counters.splices;
    (std::mem::take(&mut rig.clients[client].input), splices)
}

#[test]
fn the_same_bytes_pass_whoever_relays() {
    let lossy = Impairment {
        loss: 0.02,
        reorder: 0.02,
        ..Impairment::default()
    };
    let splice = Accel {
        splice: true,
        ..Accel::NONE
    };
    for impairment in [Impairment::default(), lossy] {
        let (by_host, none) = exchange(Accel::NONE, impairment);
        let (by_nic, one) = exchange(splice, impairment);
        let (by_all, another) = exchange(Accel::ALL, impairment);
        assert_eq!((none, one, another), (0, 1, 1));
        assert_eq!(
            by_host.len(),
            300_000 + (1..20).map(|round| round * 37).sum::<usize>()
        );
        assert!(by_host == by_nic && by_host == by_all);
    }
}

#[test]
fn a_client_that_is_gone_takes_the_servers_connection_with_it() {
    let mut rig = Rig::new(CONFIG, &[(8081, Manner::Echoes)]);
    let client = rig.client(80, "hello");
    rig.run(|rig| rig.clients[client].input.len() == 5);
    rig.clients[client].ends = true;
    rig.run(|rig| rig.clients[client].is_over());
    rig.run_for(Duration::from_secs(5));
    assert!(
        rig.balancer.pools()[0]
            .servers
            .iter()
            .all(|server| server.active == 0)
    );
}

#[test]
fn nobody_to_connect_to_is_a_reset() {
    let mut rig = Rig::new(CONFIG, &[]);
    let client = rig.client(80, "hello");
    rig.run(|rig| rig.clients[client].is_over());
    assert!(rig.clients[client].is_broken);
}
