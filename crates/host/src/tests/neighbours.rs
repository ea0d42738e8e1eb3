//! Neighbours that go away, and a table that has no room for them.

use std::time::Duration;

use super::pair::{CLIENT, Fate, Pair, SERVER, v4};
use crate::{CloseReason, Event};

/// A connection whose neighbour is gone times out as TCP has it, also if nothing of it was ever posted since.
#[test]
fn connections_to_a_neighbour_that_has_gone_end() {
    let mut pair = Pair::with(|_, (config, _)| config.tcp.retries = 5);
    let (_, first) = pair.connect(v4);
    let (_, held) = pair.connect(v4);
    let (_, let_go) = pair.connect(v4);
    pair.wire = Box::new(|_, _| Fate::Drop);
    pair.run_for(Duration::from_secs(40));
    let now = pair.now;
    pair.stack(SERVER)
        .write(now, first, b"hello?")
        .expect("room");
    // Long enough for the entry to go.
    pair.run_for(Duration::from_secs(30));
    let now = pair.now;
    pair.stack(SERVER)
        .write(now, held, b"hello?")
        .expect("room");
    pair.stack(SERVER).close(now, let_go).expect("open");
    pair.run_for(Duration::from_secs(300));
    assert!(pair.stack(SERVER).info(let_go).is_none(), "it is gone");
    assert!(
        pair.hosts[SERVER]
            .events
            .contains(&Event::Closed(held, CloseReason::TimedOut))
    );
}

/// Who finds no room in the neighbour table tries again.
#[test]
fn a_full_neighbour_table_delays_a_connection_and_no_more() {
    let mut pair = Pair::with(|at, (config, _)| {
        if at == CLIENT {
            config.max_neighbours = 1;
        }
    });
    pair.stack(SERVER)
        .listen((v4(SERVER), 80).into(), crate::ListenOptions::default())
        .expect("free");
    let now = pair.now;
    let nobody = "10.0.0.77:80".parse().expect("an address");
    pair.stack(CLIENT).connect(now, nobody).expect("a route");
    let client = pair
        .stack(CLIENT)
        .connect(now, (v4(SERVER), 80).into())
        .expect("a route");
    pair.run_for(Duration::from_secs(30));
    assert!(
        pair.hosts[CLIENT]
            .events
            .contains(&Event::Connected(client))
    );
}
