//! Neighbours that go away, and a table that has no room for them.

use std::cell::{Cell, RefCell};
use std::net::{Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts_with, v4};
use host::{CloseReason, Event};
use sim::Fate;
use testkit::network;
use wire::ethernet::{self, MacAddr};
use wire::icmp::ndp::{self, RouterAdvertisement};
use wire::icmp::v6;
use wire::packet::{self, Class};

/// A connection whose neighbour is gone times out as TCP has it, also if nothing of it was ever posted since.
#[test]
fn connections_to_a_neighbour_that_has_gone_end() {
    let mut pair = hosts_with(|_, node| node.stack.tcp.retries = 5);
    let (_, first) = pair.connected(v4);
    let (_, held) = pair.connected(v4);
    let (_, let_go) = pair.connected(v4);
    pair.decide(|_, _, _| Fate::Drop);
    pair.run_for(Duration::from_secs(40));
    pair.write(SERVER, first, b"hello?");
    // Long enough for the entry to go.
    pair.run_for(Duration::from_secs(30));
    pair.write(SERVER, held, b"hello?");
    pair.close(SERVER, let_go);
    pair.run_for(Duration::from_secs(300));
    assert!(pair.stack(SERVER).info(let_go).is_none(), "it is gone");
    assert!(
        pair.events(SERVER)
            .contains(&Event::Closed(held, CloseReason::TimedOut))
    );
}

/// A connection asks where its neighbour is when it has something to send, and not because it is looked after.
#[test]
fn reading_what_needs_no_answer_asks_for_no_neighbour() {
    let mut pair = hosts_with(|_, _| {});
    let (client, server) = pair.connected(v4);
    pair.write(SERVER, server, b"to be read later");
    // Long enough for what is known of the neighbour to go stale.
    pair.run_for(Duration::from_secs(40));
    let sent = Rc::new(Cell::new(0));
    let frames = sent.clone();
    pair.observe(move |_, _| frames.set(frames.get() + 1));
    let mut read = Vec::new();
    pair.read(CLIENT, client, &mut read);
    assert_eq!(read, b"to be read later");
    pair.run_for(Duration::from_secs(20));
    assert_eq!(sent.get(), 0);
    pair.write(CLIENT, client, b"now");
    pair.run_for(Duration::from_secs(20));
    assert!(sent.get() > 0);
}

/// Who finds no room in the neighbour table tries again.
#[test]
fn a_full_neighbour_table_delays_a_connection_and_no_more() {
    let mut pair = hosts_with(|at, node| {
        if at == CLIENT {
            node.stack.max_neighbours = 1;
        }
    });
    pair.stack(SERVER)
        .listen((v4(SERVER), 80).into(), host::ListenOptions::default())
        .expect("free");
    let now = pair.now();
    let nobody = "10.0.0.77:80".parse().expect("an address");
    pair.stack(CLIENT).connect(now, nobody).expect("a route");
    let client = pair
        .stack(CLIENT)
        .connect(now, (v4(SERVER), 80).into())
        .expect("a route");
    pair.run_for(Duration::from_secs(30));
    assert!(pair.events(CLIENT).contains(&Event::Connected(client)));
}

/// A router says for how many seconds it is one.
fn advertise(pair: &mut Pair, router: MacAddr, lifetime: u16) {
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let group = MacAddr::of_group(all.into()).expect("a group");
    let advertisement = RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other_configuration: false,
        router_lifetime: lifetime,
        reachable_time: 0,
        retransmit_timer: 0,
        options: ndp::Options {
            source_mac: Some(router),
            ..ndp::Options::default()
        },
    };
    let message = v6::Message::NeighborDiscovery(ndp::Message::RouterAdvertisement(advertisement));
    let own = wire::ipv6::link_local(router);
    let ends = [(router, own.into()), (group, all.into())];
    pair.deliver(CLIENT, &network::icmp_v6(ends, 255, &message));
    pair.run_for(Duration::from_millis(5));
}

/// RFC 4861 §6.3.4 to §6.3.6: also those that have begun through another one.
#[test]
fn connections_beyond_the_link_go_through_a_router_that_is_there() {
    let [first, second] = [1, 2].map(|n| MacAddr([2, 0, 0, 0, 0x77, n]));
    let mut pair = hosts_with(|_, _| {});
    let beyond: SocketAddr = "[2001:db8:77::1]:80".parse().expect("an address");
    let connects = |pair: &mut Pair| {
        let now = pair.now();
        pair.stack(CLIENT).connect(now, beyond).is_ok()
    };
    let hops = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&hops);
    pair.decide(move |from, _, frame| {
        if from == CLIENT && matches!(packet::classify(frame), Class::Tcp(_)) {
            noted.borrow_mut().extend(ethernet::destination(frame));
        }
        Fate::Pass
    });
    assert!(!connects(&mut pair), "no route");
    advertise(&mut pair, first, 1800);
    advertise(&mut pair, second, 1800);
    assert!(connects(&mut pair));
    pair.run_for(Duration::from_millis(5));
    assert_eq!(hops.take(), [first]);
    advertise(&mut pair, first, 0);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(hops.take(), [second], "the SYN once more");
    advertise(&mut pair, second, 30);
    assert!(connects(&mut pair));
    pair.run_for(Duration::from_secs(31));
    assert!(!connects(&mut pair), "its time is over");
}

/// RFC 4861 §7.3.3.
#[test]
fn a_router_that_does_not_answer_gives_way_to_another() {
    let [first, second] = [1, 2].map(|n| MacAddr([2, 0, 0, 0, 0x77, n]));
    let mut pair = hosts_with(|_, _| {});
    let beyond: SocketAddr = "[2001:db8:77::1]:80".parse().expect("an address");
    let last = Rc::new(Cell::new(None));
    let noted = Rc::clone(&last);
    pair.decide(move |from, _, frame| {
        if from == CLIENT && matches!(packet::classify(frame), Class::Tcp(_)) {
            noted.set(ethernet::destination(frame));
        }
        Fate::Pass
    });
    advertise(&mut pair, first, 1800);
    advertise(&mut pair, second, 1800);
    let now = pair.now();
    pair.stack(CLIENT).connect(now, beyond).expect("a route");
    pair.run_for(Duration::from_millis(5));
    assert_eq!(last.get(), Some(first));
    // Neither its SYNs nor the questions for the router are answered.
    pair.run_for(Duration::from_secs(40));
    assert_eq!(last.get(), Some(second));
}
