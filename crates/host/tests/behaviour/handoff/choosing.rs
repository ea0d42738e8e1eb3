//! Policies choose by themselves.

use std::time::Duration;

use super::rig::holder;
use crate::pair::{CLIENT, Connected as _, PORT, Pair, SERVER, hosts_with, v4};
use host::handoff::policy::Selection;
use host::{Handoff, Holder, ListenOptions};
use testkit::pattern;

fn pair(selection: Selection, limit: u32) -> Pair {
    hosts_with(|at, node| {
        node.nic.toe.hard_limit = limit;
        if at == SERVER {
            node.stack.handoff = Handoff::new(selection);
        }
    })
}

#[test]
fn first_come_first_served_hands_off_as_long_as_there_is_room() {
    let mut pair = pair(Selection::Fcfs, 2);
    let sockets: Vec<_> = (0..4).map(|_| pair.connected(v4)).collect();
    pair.run_for(Duration::from_millis(10));
    let mut held = Vec::new();
    for (client, server) in &sockets {
        held.push(holder(&mut pair, SERVER, *server) == Some(Holder::Nic));
        let data = pattern(50_000);
        assert!(pair.transfer(SERVER, *server, *client, &data) == data);
    }
    assert_eq!(held, [true, true, false, false]);
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 2);
    // A place that is free again is for the next one.
    pair.abort(SERVER, sockets[0].1);
    pair.run_for(Duration::from_millis(10));
    let (_, next) = pair.connected(v4);
    pair.run_for(Duration::from_millis(10));
    assert_eq!(holder(&mut pair, SERVER, next), Some(Holder::Nic));
}

#[test]
fn a_command_ring_without_room_only_delays_handoffs() {
    const CONNECTIONS: u64 = 20;
    let mut pair = hosts_with(|at, node| {
        if at == SERVER {
            node.stack.handoff = Handoff::new(Selection::Fcfs);
            node.function.command_entries = 4;
        }
    });
    let address = (v4(SERVER), PORT).into();
    let options = ListenOptions::default();
    let listener = pair.stack(SERVER).listen(address, options);
    listener.expect("the port is free");
    let now = pair.now();
    for _ in 0..CONNECTIONS {
        let connected = pair.stack(CLIENT).connect(now, address);
        connected.expect("a port to connect from is free");
    }
    let done = pair.run_until(Duration::from_secs(5), |pair| {
        pair.counter(SERVER, "HandoffAccepted") == CONNECTIONS
    });
    assert!(done, "{}", pair.counter(SERVER, "HandoffAccepted"));
    assert_eq!(pair.counter(SERVER, "HandoffWithheld"), 0);
}

#[test]
fn a_threshold_counts_enqueues() {
    let mut pair = pair(Selection::Threshold(3), 100);
    let (client, server) = pair.connected(v4);
    for sends in 1..=4 {
        assert!(pair.transfer(SERVER, server, client, b"response") == b"response");
        pair.run_for(Duration::from_millis(5));
        let is_held = holder(&mut pair, SERVER, server) == Some(Holder::Nic);
        assert_eq!(is_held, sends >= 3, "after {sends} sends");
    }
}

#[test]
fn each_port_may_have_a_policy_of_its_own() {
    let mut pair = hosts_with(|at, node| {
        if at == SERVER {
            node.stack.handoff.per_port = vec![(PORT, Selection::Fcfs)];
        } else {
            node.stack.handoff.selection = Selection::Off;
        }
    });
    let (client, server) = pair.connected(v4);
    pair.run_for(Duration::from_millis(10));
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Nic));
    assert_eq!(holder(&mut pair, CLIENT, client), Some(Holder::Host));
}

#[test]
fn what_predicts_sends_of_a_busy_connection_hands_it_off() {
    let mut pair = pair(Selection::Predict, 100);
    let (client, server) = pair.connected(v4);
    let data = pattern(3_000_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    assert!(pair.counter(SERVER, "HandoffAccepted") > 0);
}
