//! What is not handed off, and why.

use std::net::SocketAddr;
use std::time::Duration;

use super::rig::{hand_off, holder, splicing};
use crate::accel::rig as accel;
use crate::pair::{CLIENT, Connected as _, PORT, SERVER, hosts, hosts_with, v4};
use host::{
    Accel, HandoffRefused, Holder, ListenOptions, SocketError, SpliceOptions, SpliceRefused,
};
use testkit::pattern;

#[test]
fn the_host_says_why_it_does_not_even_ask() {
    let mut pair = hosts();
    let now = pair.now();
    let address = SocketAddr::new(v4(SERVER), PORT);
    let early = pair.stack(CLIENT).connect(now, address).expect("a route");
    let refused = pair.stack(CLIENT).hand_off(now, early);
    assert_eq!(refused, Err(HandoffRefused::Setup));
    pair.abort(CLIENT, early);
    let refused = pair.stack(CLIENT).hand_off(now, early);
    assert_eq!(refused, Err(HandoffRefused::NotFound));
    pair.run_for(Duration::from_secs(1));

    let (client, server) = pair.connected(v4);
    hand_off(&mut pair, SERVER, server);
    let now = pair.now();
    let refused = pair.stack(SERVER).hand_off(now, server);
    assert_eq!(refused, Err(HandoffRefused::HandedOff));
    pair.shutdown(CLIENT, client);
    let refused = pair.stack(CLIENT).hand_off(now, client);
    assert_eq!(refused, Err(HandoffRefused::Closing));
    pair.close(CLIENT, client);
    let restored = pair.stack(CLIENT).restore(now, early);
    assert_eq!(restored, Err(SocketError::NotFound));
}

#[test]
fn a_host_without_places_on_the_nic_asks_for_none() {
    let mut pair = hosts_with(|_, node| node.function.toe_connections = 0);
    let (_, server) = pair.connected(v4);
    let now = pair.now();
    let refused = pair.stack(SERVER).hand_off(now, server);
    assert_eq!(refused, Err(HandoffRefused::Unsupported));

    let mut pair = hosts_with(|_, node| node.function.toe_connections = 1);
    let (_, first) = pair.connected(v4);
    let (_, second) = pair.connected(v4);
    hand_off(&mut pair, SERVER, first);
    let now = pair.now();
    let refused = pair.stack(SERVER).hand_off(now, second);
    assert_eq!(refused, Err(HandoffRefused::Full));
    // The place is free when the first one has left it.
    pair.abort(SERVER, first);
    pair.run_for(Duration::from_millis(10));
    hand_off(&mut pair, SERVER, second);
}

#[test]
fn what_the_nic_refuses_the_host_runs_on() {
    let mut pair = hosts_with(|_, node| node.nic.toe.hard_limit = 0);
    let (client, server) = pair.connected(v4);
    let now = pair.now();
    assert_eq!(pair.stack(SERVER).hand_off(now, server), Ok(()));
    let data = pattern(500_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    assert!(pair.transfer(CLIENT, client, server, &data) == data);
    assert_eq!(pair.counter(SERVER, "HandoffRefused"), 1);
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Host));
}

#[test]
fn a_quasi_control_block_is_not_handed_off() {
    let mut pair = accel::pair(Accel::ALL);
    let listener = accel::listen(&mut pair, v4, ListenOptions::default());
    let client = accel::open(&mut pair, v4);
    accel::request(&mut pair, client, b"GET");
    let server = accel::accept(&mut pair, listener);
    let now = pair.now();
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::HostQuasi));
    let refused = pair.stack(SERVER).hand_off(now, server);
    assert_eq!(refused, Err(HandoffRefused::Setup));
}

#[test]
fn a_splice_takes_its_connections_back_first() {
    let mut pair = splicing();
    let (client_a, a) = pair.connected(v4);
    let (client_b, b) = pair.connected(v4);
    hand_off(&mut pair, SERVER, a);
    hand_off(&mut pair, SERVER, b);
    let now = pair.now();
    let options = SpliceOptions::default();
    let splice = pair.stack(SERVER).splice(now, a, b, options);
    let splice = splice.expect("both are at rest");
    let spliced = host::Event::Spliced(splice);
    let done = pair.run_until(Duration::from_secs(2), |pair| {
        pair.events(SERVER).contains(&spliced)
    });
    assert!(done, "{:?}", pair.events(SERVER));
    let refused = pair.stack(SERVER).hand_off(now, a);
    assert_eq!(refused, Err(HandoffRefused::Spliced));
    pair.write(CLIENT, client_a, b"over");
    let mut buffer = [0; 10];
    let done = pair.run_until(Duration::from_secs(1), |pair| {
        let now = pair.now();
        pair.stack(CLIENT).read(now, client_b, &mut buffer) == Ok(4)
    });
    assert!(done && &buffer[..4] == b"over");
}

#[test]
fn what_comes_before_a_splice_is_relayed_by_the_host() {
    let mut pair = splicing();
    let (client_a, a) = pair.connected(v4);
    let (_, b) = pair.connected(v4);
    hand_off(&mut pair, SERVER, a);
    // It is on its way when the splice is asked for.
    pair.write(CLIENT, client_a, b"early");
    pair.step();
    let now = pair.now();
    let options = SpliceOptions::default();
    let splice = pair
        .stack(SERVER)
        .splice(now, a, b, options)
        .expect("at rest");
    let mut end = None;
    let done = pair.run_until(Duration::from_secs(2), |pair| {
        end = pair.events(SERVER).iter().find_map(|event| match event {
            host::Event::SpliceRefused(handle, reason) if *handle == splice => Some(Some(*reason)),
            host::Event::Spliced(handle) if *handle == splice => Some(None),
            _ => None,
        });
        end.is_some()
    });
    assert!(done, "{:?}", pair.events(SERVER));
    if let Some(Some(reason)) = end {
        assert_eq!(reason, SpliceRefused::Unread(a));
        let mut buffer = [0; 10];
        let now = pair.now();
        assert_eq!(pair.stack(SERVER).read(now, a, &mut buffer), Ok(5));
    }
}
