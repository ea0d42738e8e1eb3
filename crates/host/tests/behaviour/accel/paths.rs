//! What routers have told of paths, for connections that the NIC has set up.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::rig::{accept, assert_nothing_left, listen, open, pair, read, request};
use crate::pair::{CLIENT, Pair, SERVER, v4};
use host::{Accel, Event, Holder, ListenOptions, ListenerId, SocketId};
use sim::Fate;
use testkit::{network, pattern};
use wire::icmp::v4::{Message, Unreachable};
use wire::{ethernet, ipv4};

/// IP packets that the path takes.
const MTU: u16 = 600;

/// The next connection of the listener, whose request has come.
fn next(pair: &mut Pair, listener: ListenerId) -> (SocketId, SocketId) {
    let client = open(pair, v4);
    request(pair, client, b"request");
    let server = accept(pair, listener);
    assert!(pair.run_until(Duration::from_millis(20), |pair| {
        pair.events(SERVER).contains(&Event::Readable(server))
    }));
    let info = pair.stack(SERVER).info(server).expect("a socket");
    assert_eq!(info.holder, Holder::HostQuasi);
    read(pair, SERVER, server, Some(7));
    (client, server)
}

/// Writes and closes; the client must get it all. Answers the largest packet on the way.
fn answer(pair: &mut Pair, sockets: (SocketId, SocketId), response: &[u8]) -> usize {
    let (client, server) = sockets;
    let largest = Rc::new(Cell::new(0));
    let seen = Rc::clone(&largest);
    pair.decide(move |from, _, frame| {
        let bytes = frame.len() - ethernet::HEADER_LEN;
        seen.set(seen.get().max(if from == SERVER { bytes } else { 0 }));
        Fate::Pass
    });
    assert_eq!(pair.write(SERVER, server, response), response.len());
    pair.close(SERVER, server);
    assert_eq!(read(pair, CLIENT, client, None), response);
    pair.close(CLIENT, client);
    pair.run_for(Duration::from_millis(50));
    largest.get()
}

/// Writes a response, of which a router drops the first large packet; gives what that quotes of it.
fn lose_large(pair: &mut Pair, server: SocketId, response: &[u8], closes: bool) -> Vec<u8> {
    let dropped = Rc::new(Cell::new(None));
    let seen = Rc::clone(&dropped);
    pair.decide(move |from, _, frame| {
        if from == SERVER && frame.len() > usize::from(MTU) + ethernet::HEADER_LEN {
            let quoted = ipv4::HEADER_LEN + 8;
            let original = frame[ethernet::HEADER_LEN..][..quoted].to_vec();
            seen.set(Some(original));
            return Fate::Drop;
        }
        Fate::Pass
    });
    pair.write(SERVER, server, response);
    if closes {
        pair.close(SERVER, server);
    }
    pair.run_for(Duration::from_millis(1));
    dropped.take().expect("a packet was too large")
}

/// The router tells.
fn tell(pair: &mut Pair, original: &[u8]) {
    let reason = Unreachable::FragmentationNeeded { mtu: MTU };
    let error = Message::Unreachable { reason, original };
    let ends = [CLIENT, SERVER].map(|at| (Pair::mac(at), v4(at)));
    pair.deliver(SERVER, &network::icmp(ends, &error));
}

/// A router drops the server's first large packet, and tells.
fn learn(pair: &mut Pair, (client, server): (SocketId, SocketId)) {
    let response = pattern(20_000);
    let original = lose_large(pair, server, &response, false);
    tell(pair, &original);
    assert_eq!(read(pair, CLIENT, client, Some(20_000)), response);
    assert_eq!(pair.counter(SERVER, "IcmpInPktTooBigs"), 1);
    pair.close(SERVER, server);
    pair.close(CLIENT, client);
    pair.run_for(Duration::from_millis(50));
}

/// RFC 8201 §5.2: a path MTU holds for the response of the next connection, sent by the NIC or by the host with a full control block.
#[test]
fn the_next_connection_knows_what_the_path_takes() {
    let mut pair = pair(Accel::ALL);
    let listener = listen(&mut pair, v4, ListenOptions::default());
    let sockets = next(&mut pair, listener);
    learn(&mut pair, sockets);
    let promoted = pair.counter(SERVER, "AccelQuasiPromoted");
    assert_eq!(promoted, 1);

    let sockets = next(&mut pair, listener);
    let largest = answer(&mut pair, sockets, &pattern(20_000));
    assert_eq!(largest, usize::from(MTU), "from the host");
    assert_eq!(pair.counter(SERVER, "AccelQuasiPromoted"), 2);

    let sockets = next(&mut pair, listener);
    let largest = answer(&mut pair, sockets, &pattern(2_000));
    assert_eq!(largest, usize::from(MTU), "from the NIC");
    assert_eq!(pair.counter(SERVER, "AccelQuasiPromoted"), 2);
    assert_nothing_left(&mut pair);
}

/// RFC 5927 §4.1: what is told of a connection that the host has forgotten counts as well, from one who has seen it.
#[test]
fn what_the_path_of_a_response_takes_that_the_nic_sends_is_known_to_the_next_connection() {
    let mut pair = pair(Accel::ALL);
    let listener = listen(&mut pair, v4, ListenOptions::default());
    let (client, server) = next(&mut pair, listener);
    let response = pattern(5_000);
    let original = lose_large(&mut pair, server, &response, true);
    let mut forged = original.clone();
    forged[ipv4::HEADER_LEN + 4] ^= 0x40;
    tell(&mut pair, &forged);
    pair.run_for(Duration::from_millis(1));
    assert_eq!(pair.counter(SERVER, "IcmpInPktTooBigs"), 0);
    tell(&mut pair, &original);
    assert_eq!(read(&mut pair, CLIENT, client, None), response);
    assert_eq!(pair.counter(SERVER, "IcmpInPktTooBigs"), 1);
    pair.close(CLIENT, client);
    pair.run_for(Duration::from_millis(50));

    let sockets = next(&mut pair, listener);
    let largest = answer(&mut pair, sockets, &pattern(2_000));
    assert_eq!(largest, usize::from(MTU));
    assert_eq!(pair.counter(SERVER, "AccelQuasiPromoted"), 0);
    assert_nothing_left(&mut pair);
}
