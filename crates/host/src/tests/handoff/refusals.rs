//! What is not handed off, and why.

use std::net::SocketAddr;
use std::time::Duration;

use super::rig::{hand_off, holder, splicing};
use crate::tests::accel::rig as accel;
use crate::tests::pair::{CLIENT, PORT, Pair, SERVER, pattern, v4};
use crate::{
    Accel, HandoffRefused, Holder, ListenOptions, SocketError, SpliceOptions, SpliceRefused,
};

#[test]
fn the_host_says_why_it_does_not_even_ask() {
    let mut pair = Pair::new();
    let now = pair.now;
    let address = SocketAddr::new(v4(SERVER), PORT);
    let early = pair.stack(CLIENT).connect(now, address).expect("a route");
    let refused = pair.stack(CLIENT).hand_off(now, early);
    assert_eq!(refused, Err(HandoffRefused::Setup));
    pair.stack(CLIENT).abort(now, early).expect("open");
    let refused = pair.stack(CLIENT).hand_off(now, early);
    assert_eq!(refused, Err(HandoffRefused::NotFound));
    pair.run_for(Duration::from_secs(1));

    let (client, server) = pair.connect(v4);
    hand_off(&mut pair, SERVER, server);
    let now = pair.now;
    let refused = pair.stack(SERVER).hand_off(now, server);
    assert_eq!(refused, Err(HandoffRefused::HandedOff));
    pair.stack(CLIENT).shutdown(now, client).expect("open");
    let refused = pair.stack(CLIENT).hand_off(now, client);
    assert_eq!(refused, Err(HandoffRefused::Closing));
    pair.stack(CLIENT).close(now, client).expect("open");
    let restored = pair.stack(CLIENT).restore(now, early);
    assert_eq!(restored, Err(SocketError::NotFound));
}

#[test]
fn a_host_without_places_on_the_nic_asks_for_none() {
    let mut pair = Pair::with(|_, (_, function)| function.toe_connections = 0);
    let (_, server) = pair.connect(v4);
    let now = pair.now;
    let refused = pair.stack(SERVER).hand_off(now, server);
    assert_eq!(refused, Err(HandoffRefused::Unsupported));

    let mut pair = Pair::with(|_, (_, function)| function.toe_connections = 1);
    let (_, first) = pair.connect(v4);
    let (_, second) = pair.connect(v4);
    hand_off(&mut pair, SERVER, first);
    let now = pair.now;
    let refused = pair.stack(SERVER).hand_off(now, second);
    assert_eq!(refused, Err(HandoffRefused::Full));
    // The place is free when the first one has left it.
    pair.stack(SERVER).abort(now, first).expect("open");
    pair.run_for(Duration::from_millis(10));
    hand_off(&mut pair, SERVER, second);
}

#[test]
fn what_the_nic_refuses_the_host_runs_on() {
    let mut pair = Pair::with_nics(|_, _| {}, |_, nic| nic.toe.hard_limit = 0);
    let (client, server) = pair.connect(v4);
    let now = pair.now;
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
    let now = pair.now;
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::HostQuasi));
    let refused = pair.stack(SERVER).hand_off(now, server);
    assert_eq!(refused, Err(HandoffRefused::Setup));
}

#[test]
fn a_splice_takes_its_connections_back_first() {
    let mut pair = splicing();
    let (client_a, a) = pair.connect(v4);
    let (client_b, b) = pair.connect(v4);
    hand_off(&mut pair, SERVER, a);
    hand_off(&mut pair, SERVER, b);
    let now = pair.now;
    let options = SpliceOptions::default();
    let splice = pair.stack(SERVER).splice(now, a, b, options);
    let splice = splice.expect("both are at rest");
    let spliced = crate::Event::Spliced(splice);
    let done = pair.run_until(Duration::from_secs(2), |pair| {
        pair.hosts[SERVER].events.contains(&spliced)
    });
    assert!(done, "{:?}", pair.hosts[SERVER].events);
    let refused = pair.stack(SERVER).hand_off(now, a);
    assert_eq!(refused, Err(HandoffRefused::Spliced));
    let now = pair.now;
    pair.stack(CLIENT)
        .write(now, client_a, b"over")
        .expect("room");
    let mut buffer = [0; 10];
    let done = pair.run_until(Duration::from_secs(1), |pair| {
        let now = pair.now;
        pair.stack(CLIENT).read(now, client_b, &mut buffer) == Ok(4)
    });
    assert!(done && &buffer[..4] == b"over");
}

#[test]
fn what_comes_before_a_splice_is_relayed_by_the_host() {
    let mut pair = splicing();
    let (client_a, a) = pair.connect(v4);
    let (_, b) = pair.connect(v4);
    hand_off(&mut pair, SERVER, a);
    let now = pair.now;
    // It is on its way when the splice is asked for.
    pair.stack(CLIENT)
        .write(now, client_a, b"early")
        .expect("room");
    pair.step();
    let now = pair.now;
    let options = SpliceOptions::default();
    let splice = pair
        .stack(SERVER)
        .splice(now, a, b, options)
        .expect("at rest");
    let mut end = None;
    let done = pair.run_until(Duration::from_secs(2), |pair| {
        end = pair.hosts[SERVER]
            .events
            .iter()
            .find_map(|event| match event {
                crate::Event::SpliceRefused(handle, reason) if *handle == splice => {
                    Some(Some(*reason))
                }
                crate::Event::Spliced(handle) if *handle == splice => Some(None),
                _ => None,
            });
        end.is_some()
    });
    assert!(done, "{:?}", pair.hosts[SERVER].events);
    if let Some(Some(reason)) = end {
        assert_eq!(reason, SpliceRefused::Unread(a));
        let mut buffer = [0; 10];
        let now = pair.now;
        assert_eq!(pair.stack(SERVER).read(now, a, &mut buffer), Ok(5));
    }
}
