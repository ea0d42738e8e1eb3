//! Two processes with one address: the connections that each opens while the former one still has some.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::pair::{CLIENT, Pair, SERVER, hosts, v4, v6};
use host::{SocketError, Stack};
use port::{Foreign, Ports};
use wire::FlowKey;
use wire::packet::Steering;

/// Opens so many connections to this port of the server; gives their flows.
fn open(pair: &mut Pair, count: usize, port: u16) -> HashSet<FlowKey> {
    let now = pair.now();
    let stack = pair.stack(CLIENT);
    let flows = (0..count).map(|nth| {
        let ip = [v4, v6][nth % 2](SERVER);
        let id = stack.connect(now, SocketAddr::new(ip, port)).unwrap();
        let info = stack.info(id).unwrap();
        FlowKey::new(info.local, info.remote)
    });
    flows.collect()
}

/// What the former process leaves to the other one, which listens at these ports.
fn give(old: &mut Pair, new: &mut Pair, listened: Vec<u16>) -> (Ports, Arc<Foreign>) {
    let ports = Stack::ports_of_predecessor(listened);
    let flows = vec![old.stack(CLIENT).flows().collect()];
    let steering = Steering::new(&[7; 16], 1);
    let foreign = Arc::new(Foreign::new(flows, ports.clone(), steering));
    old.stack(CLIENT).set_outgoing_ports(Some(ports.clone()));
    new.stack(CLIENT).set_foreign(Some(Arc::clone(&foreign)));
    (ports, foreign)
}

#[test]
fn no_connection_is_opened_by_both_and_each_frame_is_known_to_be_ones() {
    // With one secret they would choose the same ports.
    let (mut old, mut new) = (hosts(), hosts());
    let before = open(&mut old, 400, 80);
    assert_eq!(before, open(&mut hosts(), 400, 80));
    let (ports, foreign) = give(&mut old, &mut new, vec![443, 60_000, 60_001]);
    let (mut ofs, mut ours) = (before.clone(), HashSet::new());
    for _ in 0..20 {
        ofs.extend(open(&mut old, 20, 80));
        ours.extend(open(&mut new, 20, 80));
    }
    assert_eq!((ofs.len(), ours.len()), (800, 400));
    assert!(ofs.is_disjoint(&ours));
    let later = ofs.difference(&before);
    assert!(later.clone().all(|flow| ports.has(flow.src.1)));
    let is_old = |flow: &FlowKey| foreign.worker(&flow.reversed()).is_some();
    assert!(ofs.iter().all(is_old));
    assert!(!ours.iter().any(is_old));

    // It takes its place back, or is gone: all ports are free again.
    old.stack(CLIENT).set_outgoing_ports(None);
    new.stack(CLIENT).set_foreign(None);
    for pair in [&mut old, &mut new] {
        let flows = open(pair, 400, 81);
        assert!(flows.iter().any(|flow| ports.has(flow.src.1)));
        assert!(flows.iter().any(|flow| !ports.has(flow.src.1)));
    }
}

#[test]
fn ports_that_are_left_come_to_an_end_and_those_listened_at_are_none_of_them() {
    let (mut old, mut new) = (hosts(), hosts());
    // All but three of them are listened at.
    let few = 65_533..=65_535;
    let listened = (0..=65_535).filter(|port| !few.contains(port)).collect();
    give(&mut old, &mut new, listened);
    let flows = open(&mut old, 6, 80);
    assert!(flows.iter().all(|flow| few.contains(&flow.src.1)));
    let (now, remote) = (old.now(), SocketAddr::new(v4(SERVER), 80));
    let refused = old.stack(CLIENT).connect(now, remote);
    assert_eq!(refused, Err(SocketError::NoPort(remote)));
    // Another peer has them all.
    assert_eq!(open(&mut old, 6, 81).len(), 6);
}
