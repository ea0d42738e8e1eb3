//! The groups of a host, as the link is told of them (RFC 3810, RFC 3590).

use std::cell::RefCell;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts_with, v6};
use host::Dad;
use sim::Fate;
use testkit::network;
use wire::ethernet::MacAddr;
use wire::icmp::mld::{self, Query, RecordKind};
use wire::icmp::v6::Message;
use wire::packet::{self, Class};
use wire::{ethernet, ipv4, ipv6};

/// One that asks for groups.
const QUERIER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x77]);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What a host sends of groups and of its addresses, with when it was, in seconds.
#[derive(Debug, PartialEq)]
enum Sent {
    /// A report of these kinds, about the group of its address.
    Report(IpAddr, Vec<u8>),
    /// One of version 1, of this type.
    Old(IpAddr, u8),
    Probe,
}

fn group() -> Ipv6Addr {
    match v6(SERVER) {
        IpAddr::V6(own) => ipv6::solicited_node(own),
        IpAddr::V4(_) => unreachable!("it is asked for an IPv6 address"),
    }
}

fn pair(dad: Dad) -> (Pair, Rc<RefCell<Vec<Sent>>>) {
    let mut pair = hosts_with(|at, node| {
        node.stack.mld = at == SERVER;
        node.stack.dad = [Dad::Off, dad][at];
    });
    let sent = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&sent);
    pair.decide(move |from, _, frame| {
        if from == SERVER
            && let Class::IcmpV6(ip) = packet::classify(frame)
        {
            noted.borrow_mut().extend(read(frame, &ip));
        }
        Fate::Pass
    });
    (pair, sent)
}

fn read(frame: &[u8], ip: &packet::IpPacket) -> Option<Sent> {
    let message = ip.payload(frame);
    match message[0] {
        135 if ip.src.is_unspecified() => return Some(Sent::Probe),
        131 | 132 | 143 => {}
        _ => return None,
    }
    // RFC 3810 §5.
    assert_eq!(ip.hop_limit, 1);
    assert!(ipv6::has_router_alert(&frame[ip.l3_offset..]));
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else {
        unreachable!("it is IPv6")
    };
    assert!(Message::parse(src, dst, 1, message).is_ok(), "its checksum");
    let mac = MacAddr::of_group(ip.dst).expect("a group");
    assert_eq!(frame[..6], mac.0);
    if message[0] == 143 {
        assert_eq!(dst, mld::ALL_ROUTERS);
        let records = message[8..].chunks(20);
        assert!(records.clone().all(|it| it[4..] == group().octets()));
        return Some(Sent::Report(ip.src, records.map(|it| it[0]).collect()));
    }
    assert_eq!(message[8..], group().octets());
    Some(Sent::Old(ip.src, message[0]))
}

/// A query, with this hop limit, and a router alert or none.
fn query(query: Query, hop_limit: u8, alerts: bool) -> Vec<u8> {
    let (src, message) = (ipv6::link_local(QUERIER), Message::ListenerQuery(query));
    let dst = match query.group.is_unspecified() {
        true => ALL_NODES,
        false => query.group,
    };
    let mac = MacAddr::of_group(dst.into()).expect("a group");
    let ends = [(QUERIER, src.into()), (mac, dst.into())];
    if !alerts {
        return network::icmp_v6(ends, hop_limit, &message);
    }
    let len = ipv6::ROUTER_ALERT_LEN + message.len();
    let mut frame = network::ipv6(ends, ipv6::HOP_BY_HOP, len, |payload| {
        let at = ipv6::emit_router_alert(ipv4::protocol::ICMPV6, payload);
        message.emit(src, dst, &mut payload[at..]);
    });
    frame[ethernet::HEADER_LEN + 7] = hop_limit;
    frame
}

fn all_within(milliseconds: u32, is_old: bool) -> Query {
    Query {
        group: Ipv6Addr::UNSPECIFIED,
        max_response: milliseconds,
        is_old,
    }
}

fn report(src: impl Into<IpAddr>, kind: RecordKind) -> Sent {
    Sent::Report(src.into(), vec![kind as u8])
}

/// RFC 4862 §5.4.2, RFC 3590 §4: a report goes before the first probe, without an address; once there is one, from it.
#[test]
fn a_group_is_told_of_twice_before_its_address_is_known_and_twice_after() {
    for dad in [Dad::Optimistic, Dad::Wait] {
        let (mut pair, sent) = pair(dad);
        pair.run_for(Duration::from_secs(10));
        let sent = sent.borrow();
        let early = report(Ipv6Addr::UNSPECIFIED, RecordKind::Joins);
        let late = report(ipv6::link_local(Pair::mac(SERVER)), RecordKind::Joins);
        assert_eq!(sent[..3], [early, Sent::Probe, Sent::Probe], "{dad:?}");
        let probes = |sent: &&Sent| **sent == Sent::Probe;
        assert_eq!(sent.iter().filter(probes).count(), 2);
        assert_eq!(sent.iter().filter(|it| **it == sent[0]).count(), 2);
        assert_eq!(sent.iter().filter(|it| **it == late).count(), 2);
        assert_eq!(sent.len(), 6, "{sent:?}");
    }
}

/// RFC 3810 §6.2.
#[test]
fn who_asks_for_groups_is_answered_in_time_and_once() {
    let (mut pair, sent) = pair(Dad::Off);
    pair.run_for(Duration::from_secs(2));
    sent.borrow_mut().clear();
    let answer = || report(ipv6::link_local(Pair::mac(SERVER)), RecordKind::TakesPart);
    let ours = Query {
        group: group(),
        ..all_within(1_000, false)
    };
    for asked in [all_within(1_000, false), ours] {
        pair.deliver(SERVER, &query(asked, 1, true));
        pair.deliver(SERVER, &query(asked, 1, true));
        pair.run_for(Duration::from_millis(1_001));
        assert_eq!(*sent.borrow(), [answer()], "{asked:?}");
        pair.run_for(Duration::from_secs(20));
        assert_eq!(sent.borrow_mut().drain(..).count(), 1);
    }
    let other = Query {
        group: ipv6::solicited_node(Ipv6Addr::LOCALHOST),
        ..ours
    };
    for (asked, hop_limit, alerts) in [
        (all_within(1_000, false), 2, true),
        (all_within(1_000, false), 1, false),
        (other, 1, true),
    ] {
        pair.deliver(SERVER, &query(asked, hop_limit, alerts));
        pair.run_for(Duration::from_secs(20));
        assert_eq!(*sent.borrow(), [], "{asked:?} {hop_limit} {alerts}");
    }
    pair.connected(v6);
    assert_eq!(pair.counter(CLIENT, "NeighbourFailed"), 0);
}

/// RFC 3810 §8.2.1: for as long as it is there.
#[test]
fn who_asks_in_version_1_is_answered_in_it() {
    let (mut pair, sent) = pair(Dad::Off);
    pair.run_for(Duration::from_secs(2));
    sent.borrow_mut().clear();
    let link_local = IpAddr::from(ipv6::link_local(Pair::mac(SERVER)));
    for is_old in [true, false] {
        pair.deliver(SERVER, &query(all_within(1_000, is_old), 1, true));
        pair.run_for(Duration::from_secs(2));
        let answers: Vec<Sent> = sent.borrow_mut().drain(..).collect();
        assert_eq!(answers, [Sent::Old(link_local, 131)]);
    }
    pair.run_for(Duration::from_secs(260));
    pair.deliver(SERVER, &query(all_within(1_000, false), 1, true));
    pair.run_for(Duration::from_secs(2));
    assert_eq!(*sent.borrow(), [report(link_local, RecordKind::TakesPart)]);
}
