//! Neighbours that go away, and a table that has no room for them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::pair::{CLIENT, Connected as _, SERVER, hosts_with, v4};
use host::{CloseReason, Event};
use sim::Fate;

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
