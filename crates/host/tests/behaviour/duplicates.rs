//! IPv6 addresses that another host on the link may have (RFC 4862 §5.4, RFC 4429).

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use crate::accel::rig;
use crate::pair::{CLIENT, Connected as _, PORT, Pair, SERVER, hosts_with, v4, v6};
use host::{Accel, CloseReason, Dad, Event, ListenOptions, SocketError};
use sim::Fate;
use testkit::network;
use wire::arp;
use wire::ethernet::MacAddr;
use wire::icmp::{ndp, v6 as icmp};
use wire::packet::{self, Class};

/// A host that has nothing to do with either.
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x77]);

fn pair(client: Dad, server: Dad) -> Pair {
    hosts_with(|at, node| node.stack.dad = [client, server][at])
}

fn own(at: usize) -> Ipv6Addr {
    match v6(at) {
        IpAddr::V6(v6) => v6,
        IpAddr::V4(_) => unreachable!("it is asked for an IPv6 address"),
    }
}

/// A message of discovery that the other host sends to all.
fn from_other(src: Ipv6Addr, message: ndp::Message) -> Vec<u8> {
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let group = MacAddr::of_group(all.into()).expect("a group");
    let message = icmp::Message::NeighborDiscovery(message);
    network::icmp_v6([(OTHER, src.into()), (group, all.into())], 255, &message)
}

/// The other host has the server's address.
fn advertisement() -> Vec<u8> {
    let message = ndp::Message::NeighborAdvertisement {
        target: own(SERVER),
        target_mac: Some(OTHER),
        router: false,
        solicited: false,
        replaces: true,
    };
    from_other(own(SERVER), message)
}

/// The other host tries the server's address, too.
fn probe() -> Vec<u8> {
    let message = ndp::Message::NeighborSolicitation {
        target: own(SERVER),
        source_mac: None,
    };
    from_other(Ipv6Addr::UNSPECIFIED, message)
}

/// The messages of discovery that a host sends.
fn watch(pair: &mut Pair, at: usize) -> Rc<RefCell<Vec<(IpAddr, ndp::Message)>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&seen);
    pair.decide(move |from, _, frame| {
        if let (true, Class::IcmpV6(ip)) = (from == at, packet::classify(frame))
            && let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst)
            && let Ok(icmp::Message::NeighborDiscovery(message)) =
                icmp::Message::parse(src, dst, ip.hop_limit, ip.payload(frame))
        {
            noted.borrow_mut().push((ip.src, message));
        }
        Fate::Pass
    });
    seen
}

/// RFC 4862 §5.4.2: a probe for each address, from no address.
#[test]
fn each_address_is_tried_once() {
    let mut pair = pair(Dad::Off, Dad::Optimistic);
    let seen = watch(&mut pair, SERVER);
    pair.run_for(Duration::from_secs(5));
    let seen = seen.borrow();
    let is_probe = |(src, message): &&(IpAddr, ndp::Message)| {
        src.is_unspecified()
            && matches!(
                message,
                ndp::Message::NeighborSolicitation {
                    source_mac: None,
                    ..
                }
            )
    };
    let probes: Vec<_> = seen.iter().filter(is_probe).collect();
    assert_eq!(probes.len(), 2, "its own, and the link-local one: {seen:?}");
    assert!(probes.iter().any(|(_, message)| {
        matches!(message, ndp::Message::NeighborSolicitation { target, .. } if *target == own(SERVER))
    }));
    assert_eq!(pair.counter(SERVER, "NeighbourDuplicates"), 0);
}

/// RFC 4429 §3.2: a server answers in the first second, but replaces no entry that a neighbour has for this address.
#[test]
fn an_address_is_used_while_it_is_tried() {
    let mut pair = pair(Dad::Off, Dad::Optimistic);
    let seen = watch(&mut pair, SERVER);
    let begin = pair.now();
    pair.connected(v6);
    assert!(pair.now() - begin < Duration::from_millis(100));
    let replaces = |(_, message): &(IpAddr, ndp::Message)| {
        matches!(
            message,
            ndp::Message::NeighborAdvertisement { replaces: true, .. }
        )
    };
    assert!(!seen.borrow().iter().any(replaces), "{seen:?}");
    assert!(!seen.borrow().is_empty());
}

/// RFC 4429 §3.2: who opens a connection asks for its neighbour when the address is its own.
#[test]
fn nobody_is_asked_from_an_address_that_is_tried() {
    let mut pair = pair(Dad::Optimistic, Dad::Off);
    let seen = watch(&mut pair, CLIENT);
    let begin = pair.now();
    pair.connected(v6);
    let took = pair.now() - begin;
    assert!(
        took >= Duration::from_millis(900) && took < Duration::from_millis(1100),
        "{took:?}"
    );
    let tells = |(src, message): &(IpAddr, ndp::Message)| {
        *src == v6(CLIENT) && matches!(message, ndp::Message::NeighborSolicitation { .. })
    };
    assert_eq!(seen.borrow().iter().filter(|it| tells(it)).count(), 1);
}

/// RFC 4861 §4.3, §7.2.4: one that probes whether this host is still there need not say who it is itself.
#[test]
fn a_probe_of_a_neighbour_is_answered_where_it_came_from() {
    let mut pair = pair(Dad::Off, Dad::Off);
    pair.run_for(Duration::from_secs(15));
    let seen = watch(&mut pair, SERVER);
    let other = wire::ipv6::link_local(OTHER);
    let message = icmp::Message::NeighborDiscovery(ndp::Message::NeighborSolicitation {
        target: own(SERVER),
        source_mac: None,
    });
    let ends = [(OTHER, other.into()), (Pair::mac(SERVER), v6(SERVER))];
    let frame = network::icmp_v6(ends, 255, &message);
    pair.deliver(SERVER, &frame);
    pair.run_for(Duration::from_millis(5));
    let answers = |(_, message): &&(IpAddr, ndp::Message)| matches!(message, ndp::Message::NeighborAdvertisement { solicited: true, target, .. } if *target == own(SERVER));
    assert_eq!(seen.borrow().iter().filter(answers).count(), 1, "{seen:?}");
}

/// RFC 5227 §2.4: neighbours are told whose an IPv4 address is, not more often than every ten seconds.
#[test]
fn an_ipv4_address_that_another_host_has_is_defended() {
    let mut pair = pair(Dad::Off, Dad::Off);
    let (IpAddr::V4(ours), told) = (v4(SERVER), Rc::new(Cell::new(0))) else {
        unreachable!("it is asked for an IPv4 address")
    };
    let noted = Rc::clone(&told);
    pair.decide(move |from, _, frame| {
        if let (true, Class::Arp { offset }) = (from == SERVER, packet::classify(frame))
            && let Ok(packet) = arp::Packet::parse(&frame[offset..])
        {
            assert_eq!((packet.sender_ip, packet.target_ip), (ours, ours));
            assert_eq!(packet.sender_mac, Pair::mac(SERVER));
            noted.set(noted.get() + 1);
        }
        Fate::Pass
    });
    let claim = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: OTHER,
        sender_ip: ours,
        target_mac: MacAddr::ZERO,
        target_ip: ours,
    };
    let claim = network::arp(MacAddr::BROADCAST, &claim);
    for (second, answers) in [(0, 1), (1, 1), (11, 2)] {
        pair.run_for(Duration::from_secs(second));
        pair.deliver(SERVER, &claim);
        pair.run_for(Duration::from_millis(5));
        assert_eq!(told.get(), answers);
    }
    assert_eq!(pair.counter(SERVER, "NeighbourDuplicates"), 3);
}

#[test]
fn an_address_of_another_host_is_not_used() {
    for (message, dad) in [
        (advertisement(), Dad::Optimistic),
        (probe(), Dad::Optimistic),
        (advertisement(), Dad::Wait),
        (probe(), Dad::Wait),
    ] {
        let mut pair = pair(Dad::Off, dad);
        pair.run_for(Duration::from_millis(100));
        pair.deliver(SERVER, &message);
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.counter(SERVER, "NeighbourDuplicates"), 1);
        let listen = |pair: &mut Pair, ip| {
            let stack = pair.stack(SERVER);
            stack.listen((ip, PORT).into(), ListenOptions::default())
        };
        let address = SocketError::AddressNotLocal(v6(SERVER));
        assert_eq!(listen(&mut pair, v6(SERVER)), Err(address));
        listen(&mut pair, v4(SERVER)).expect("the other family is not concerned");
        // Nobody finds it there.
        let now = pair.now();
        let client = pair.stack(CLIENT).connect(now, (v6(SERVER), PORT).into());
        let client = client.expect("a route");
        pair.run_for(Duration::from_secs(10));
        let unreachable = Event::Closed(client, CloseReason::Unreachable);
        assert!(pair.events(CLIENT).contains(&unreachable));
    }
}

/// RFC 4862 §5.4.5: what was begun from there ends, and the host that has the address hears nothing of it.
#[test]
fn connections_of_an_address_that_is_lost_end_by_name() {
    let mut pair = pair(Dad::Off, Dad::Optimistic);
    let (_, server) = pair.connected(v6);
    let sent = Rc::new(Cell::new(0));
    let seen = Rc::clone(&sent);
    pair.deliver(SERVER, &advertisement());
    pair.decide(move |from, _, frame| {
        let is_tcp = matches!(packet::classify(frame), Class::Tcp(_));
        seen.set(seen.get() + u32::from(from == SERVER && is_tcp));
        Fate::Pass
    });
    pair.run_for(Duration::from_secs(2));
    let reason = CloseReason::DuplicateAddress(v6(SERVER));
    assert!(pair.events(SERVER).contains(&Event::Closed(server, reason)));
    assert_eq!(sent.get(), 0, "nothing is sent from there");
}

/// A server that asks its NIC for all of `accel` while it tries its address.
fn accelerated(accel: Accel) -> Pair {
    hosts_with(|at, node| {
        if at == SERVER {
            node.stack.dad = Dad::Optimistic;
            node.stack.accel = accel;
        } else {
            node.stack.dad = Dad::Off;
        }
    })
}

/// TCP segments that the server sends from the address that is lost, from now on.
fn segments_from_lost(pair: &mut Pair) -> Rc<Cell<u32>> {
    let sent = Rc::new(Cell::new(0));
    let seen = Rc::clone(&sent);
    pair.decide(move |_, _, frame| {
        let class = packet::classify(frame);
        let is_from_there = matches!(class, Class::Tcp(parsed) if parsed.flow.src.0 == v6(SERVER));
        seen.set(seen.get() + u32::from(is_from_there));
        Fate::Pass
    });
    sent
}

/// Whether the application has them or not: the NIC has set them up, and the host has quasi control blocks.
#[test]
fn connections_that_the_nic_has_set_up_end_with_their_address() {
    let mut pair = accelerated(Accel::ALL);
    let listener = rig::listen(&mut pair, v6, ListenOptions::default());
    let clients = [(); 3].map(|()| rig::open(&mut pair, v6));
    for client in clients {
        rig::request(&mut pair, client, b"request");
    }
    let accepted = [(); 2].map(|()| rig::accept(&mut pair, listener));
    assert_eq!(pair.counter(SERVER, "AccelCurrQuasi"), 3);
    pair.deliver(SERVER, &advertisement());
    pair.run_for(Duration::from_millis(1));
    let sent = segments_from_lost(&mut pair);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(sent.get(), 0, "nothing is sent from there");
    assert_eq!(pair.counter(SERVER, "AccelCurrQuasi"), 0);
    assert_eq!(pair.stack(SERVER).accept(listener), None);
    for server in accepted {
        let reason = CloseReason::DuplicateAddress(v6(SERVER));
        assert!(pair.events(SERVER).contains(&Event::Closed(server, reason)));
        pair.close(SERVER, server);
    }
    pair.run_for(Duration::from_secs(1));
    pair.assert_no_sockets(SERVER);
}

/// The NIC relays no more for it, the other connection is the host's again, and nothing is left of either.
#[test]
fn a_splice_ends_with_the_address_of_one_of_its_connections() {
    let mut pair = accelerated(Accel {
        splice: true,
        ..Accel::NONE
    });
    let any = |_: usize| IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let local = |at: usize| IpAddr::V6(wire::ipv6::link_local(Pair::mac(at)));
    let listener = rig::listen(&mut pair, any, ListenOptions::default());
    let first = rig::open(&mut pair, v6);
    let lost = rig::accept(&mut pair, listener);
    let second = rig::open(&mut pair, local);
    let kept = rig::accept(&mut pair, listener);
    let now = pair.now();
    let splice = pair
        .stack(SERVER)
        .splice(now, lost, kept, Default::default())
        .expect("two connections");
    rig::request(&mut pair, first, b"relayed");
    assert_eq!(rig::read(&mut pair, CLIENT, second, Some(7)), b"relayed");
    assert!(pair.events(SERVER).contains(&Event::Spliced(splice)));

    pair.deliver(SERVER, &advertisement());
    pair.run_for(Duration::from_millis(1));
    let sent = segments_from_lost(&mut pair);
    pair.write(CLIENT, first, b"to nobody");
    pair.run_for(Duration::from_secs(2));
    assert_eq!(sent.get(), 0, "nothing is sent from there");
    let reason = CloseReason::DuplicateAddress(v6(SERVER));
    let events = pair.events(SERVER);
    assert!(events.contains(&Event::Closed(lost, reason)), "{events:?}");
    pair.write(SERVER, kept, b"alone");
    assert_eq!(rig::read(&mut pair, CLIENT, second, Some(5)), b"alone");
    for server in [lost, kept] {
        pair.close(SERVER, server);
    }
    pair.close(CLIENT, second);
    pair.run_for(Duration::from_secs(200));
    pair.assert_no_sockets(SERVER);
}

/// What comes later is no matter of this (RFC 4862 §5.4 is about addresses before they are assigned).
#[test]
fn an_address_that_is_ours_is_not_given_up() {
    let mut pair = pair(Dad::Off, Dad::Optimistic);
    pair.run_for(Duration::from_secs(2));
    pair.deliver(SERVER, &advertisement());
    pair.run_for(Duration::from_secs(1));
    pair.connected(v6);
    assert_eq!(pair.counter(SERVER, "NeighbourDuplicates"), 0);
}

/// An address that waits is listened at and connected from; no packet leaves or is taken before its time.
#[test]
fn an_address_that_waits_is_used_a_second_later() {
    for (client, server) in [(Dad::Off, Dad::Wait), (Dad::Wait, Dad::Off)] {
        let mut pair = pair(client, server);
        let early = Rc::new(Cell::new(0));
        let seen = Rc::clone(&early);
        let waits = if client == Dad::Wait { CLIENT } else { SERVER };
        pair.decide(move |from, _, frame| {
            let class = packet::classify(frame);
            let is_from_there = match class {
                Class::Tcp(parsed) => parsed.flow.src.0 == v6(waits),
                Class::IcmpV6(ip) => ip.src == v6(waits),
                _ => false,
            };
            seen.set(seen.get() + u32::from(from == waits && is_from_there));
            Fate::Pass
        });
        let stack = pair.stack(SERVER);
        stack
            .listen((v6(SERVER), PORT).into(), ListenOptions::default())
            .expect("it is to be its own");
        let now = pair.now();
        let client = pair.stack(CLIENT).connect(now, (v6(SERVER), PORT).into());
        let client = client.expect("a route");
        pair.run_for(Duration::from_millis(990));
        assert_eq!(early.get(), 0);
        pair.run_for(Duration::from_secs(5));
        assert!(pair.events(CLIENT).contains(&Event::Connected(client)));
    }
}
