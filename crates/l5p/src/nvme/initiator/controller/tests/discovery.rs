use std::net::IpAddr;

use wire::nvme::log::{DiscoveryEntry, SecureChannel, SecurityType, SubsystemType};

use super::peer::subsystem;
use super::*;

fn entries(count: u16) -> Vec<DiscoveryEntry> {
    let entry = |n| DiscoveryEntry {
        subtype: SubsystemType::NVM,
        secure_channel: SecureChannel::NOT_REQUIRED,
        sq_flow_control_disable: true,
        portid: n,
        cntlid: 0xffff,
        asqsz: 32,
        eflags: 0,
        port: 4420,
        subnqn: subsystem(n),
        address: IpAddr::from([10, 9, 0, 1]),
        security: SecurityType::NONE,
    };
    (0..count).map(entry).collect()
}

fn discover(count: u16, changes: u32) -> Pair {
    let mut pair = Pair::new(Config::discovery(config().host, [9; 16]));
    pair.peer.log.1 = entries(count);
    pair.peer.log_changes = changes;
    pair.run();
    pair
}

#[test]
fn the_log_is_read_in_pieces() {
    for count in [0, 1, 4, 11] {
        let pair = discover(count, 0);
        assert!(pair.host.is_ready());
        assert_eq!(pair.host.discovery_log(), entries(count));
        assert!(pair.host.limits().io_queues == 0);
    }
}

#[test]
fn a_log_that_changes_meanwhile_is_read_again() {
    let pair = discover(11, 3);
    assert_eq!(pair.host.discovery_log(), entries(8));
}

#[test]
fn a_log_that_keeps_changing_is_given_up() {
    let mut pair = discover(200, 1000);
    assert!(pair.failure().to_string().contains("keeps changing"));
}

#[test]
fn a_log_that_becomes_shorter_than_where_it_is_read_is_read_again() {
    let mut pair = Pair::new(Config::discovery(config().host, [9; 16]));
    pair.peer.log.1 = entries(11);
    pair.peer.log_left = Some(1);
    pair.run();
    assert!(pair.host.is_ready());
    assert_eq!(pair.host.discovery_log(), entries(1));
}
