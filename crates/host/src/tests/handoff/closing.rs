//! However a connection ends on the NIC, both applications see what they would have seen, and nothing is left.

use std::time::Duration;

use super::rig::{
    assert_all_given_back, assert_ends, await_closed, hand_off, holder, in_use, restore,
};
use crate::tests::pair::{CLIENT, Pair, SERVER, lossy, pattern, v4};
use crate::{CloseReason, Event, Holder, SocketError, SocketId};

/// A pair with a connection, its sockets, and the memory in use before it.
fn connected() -> (Pair, SocketId, SocketId, [[u32; 4]; 2]) {
    let mut pair = Pair::new();
    let before = [in_use(&mut pair, CLIENT), in_use(&mut pair, SERVER)];
    let (client, server) = pair.connect(v4);
    (pair, client, server, before)
}

/// Reads to the end of the stream.
fn read_all(pair: &mut Pair, at: usize, id: SocketId) -> Result<usize, SocketError> {
    let mut buffer = vec![0; 10_000];
    let mut read = 0;
    let mut end = None;
    pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now;
        loop {
            match pair.stack(at).read(now, id, &mut buffer) {
                Ok(0) => end = Some(Ok(read)),
                Ok(bytes) => {
                    read += bytes;
                    continue;
                }
                Err(SocketError::WouldBlock) => return false,
                Err(error) => end = Some(Err(error)),
            }
            return true;
        }
    });
    end.unwrap_or(Err(SocketError::WouldBlock))
}

#[test]
fn either_side_may_close_first() {
    for first in [CLIENT, SERVER] {
        for loss in [0.0, 0.2] {
            let (mut pair, client, server, before) = connected();
            hand_off(&mut pair, SERVER, server);
            pair.wire = lossy(SERVER, loss, 0.0, 5);
            let sockets = [client, server];
            let now = pair.now;
            let data = pattern(50_000);
            assert_eq!(
                pair.stack(first).write(now, sockets[first], &data),
                Ok(data.len())
            );
            pair.stack(first).close(now, sockets[first]).expect("open");
            let read = read_all(&mut pair, 1 - first, sockets[1 - first]);
            assert_eq!(read, Ok(data.len()), "{first} first");
            let now = pair.now;
            pair.stack(1 - first)
                .close(now, sockets[1 - first])
                .expect("open");
            assert_eq!(pair.counter(SERVER, "HandoffRestored"), 0);
            assert_all_given_back(&mut pair, before);
            assert_eq!(pair.counter(SERVER, "HandoffClosed"), 1);
        }
    }
}

#[test]
fn a_side_that_has_closed_its_direction_still_reads() {
    for first in [CLIENT, SERVER] {
        let (mut pair, client, server, before) = connected();
        hand_off(&mut pair, SERVER, server);
        let sockets = [client, server];
        let now = pair.now;
        pair.stack(first)
            .shutdown(now, sockets[first])
            .expect("open");
        assert_eq!(read_all(&mut pair, 1 - first, sockets[1 - first]), Ok(0));
        let data = pattern(300_000);
        let other = 1 - first;
        let read = pair.transfer(other, sockets[other], sockets[first], &data);
        assert!(read == data);
        let now = pair.now;
        pair.stack(other).close(now, sockets[other]).expect("open");
        assert_eq!(read_all(&mut pair, first, sockets[first]), Ok(0));
        let now = pair.now;
        pair.stack(first).close(now, sockets[first]).expect("open");
        assert_all_given_back(&mut pair, before);
    }
}

#[test]
fn the_end_of_time_wait_is_the_hosts_to_wait_for() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    let now = pair.now;
    pair.stack(SERVER).shutdown(now, server).expect("open");
    assert_eq!(read_all(&mut pair, CLIENT, client), Ok(0));
    let now = pair.now;
    pair.stack(CLIENT).close(now, client).expect("open");
    assert_eq!(read_all(&mut pair, SERVER, server), Ok(0));
    await_closed(&mut pair, SERVER, server, CloseReason::Graceful);
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 0);
    assert_eq!(pair.hosts[SERVER].stack.core.time_wait.len(), 1);
    let now = pair.now;
    pair.stack(SERVER)
        .close(now, server)
        .expect("its id is good");
    assert_all_given_back(&mut pair, before);
}

#[test]
fn a_reset_of_the_peers_ends_it() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    let now = pair.now;
    pair.stack(CLIENT)
        .write(now, client, b"last words")
        .expect("room");
    pair.run_for(Duration::from_millis(5));
    let now = pair.now;
    pair.stack(CLIENT).abort(now, client).expect("open");
    await_closed(&mut pair, SERVER, server, CloseReason::Reset);
    // What came in order before may still be read.
    let mut buffer = [0; 100];
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).read(now, server, &mut buffer), Ok(10));
    pair.stack(SERVER)
        .close(now, server)
        .expect("its id is good");
    assert_all_given_back(&mut pair, before);
}

#[test]
fn an_abort_resets_the_peer() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    let now = pair.now;
    pair.stack(SERVER)
        .write(now, server, &pattern(200_000))
        .expect("room");
    pair.stack(SERVER).abort(now, server).expect("open");
    assert_ends(&mut pair, (CLIENT, client, CloseReason::Reset), before);
}

#[test]
fn closing_with_something_unread_resets_the_peer() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    let now = pair.now;
    pair.stack(CLIENT)
        .write(now, client, b"unheard")
        .expect("room");
    pair.run_for(Duration::from_millis(5));
    let now = pair.now;
    pair.stack(SERVER).close(now, server).expect("open");
    assert_ends(&mut pair, (CLIENT, client, CloseReason::Reset), before);
}

#[test]
fn what_is_closed_in_any_phase_of_a_handoff_ends_in_order() {
    for steps in 0..14 {
        for restoring in [false, true] {
            let (mut pair, client, server, before) = connected();
            if restoring {
                hand_off(&mut pair, SERVER, server);
            }
            let now = pair.now;
            let data = pattern(30_000);
            assert_eq!(pair.stack(SERVER).write(now, server, &data), Ok(30_000));
            if restoring {
                pair.stack(SERVER).restore(now, server).expect("open");
            } else {
                pair.stack(SERVER).hand_off(now, server).expect("open");
            }
            for _ in 0..steps {
                pair.hosts[SERVER].nic.flush(now);
                pair.hosts[SERVER].stack.poll(now);
                if steps > 7 {
                    pair.step();
                }
            }
            let now = pair.now;
            pair.stack(SERVER).close(now, server).expect("open");
            assert_eq!(read_all(&mut pair, CLIENT, client), Ok(30_000));
            let now = pair.now;
            pair.stack(CLIENT).close(now, client).expect("open");
            assert_all_given_back(&mut pair, before);
        }
    }
}

#[test]
fn a_connection_that_closes_can_be_restored() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    let now = pair.now;
    pair.stack(SERVER).write(now, server, b"bye").expect("room");
    pair.stack(SERVER).shutdown(now, server).expect("open");
    pair.run_for(Duration::from_millis(3));
    restore(&mut pair, SERVER, server);
    assert_eq!(read_all(&mut pair, CLIENT, client), Ok(3));
    let now = pair.now;
    pair.stack(CLIENT)
        .write(now, client, b"you too")
        .expect("room");
    pair.stack(CLIENT).close(now, client).expect("open");
    assert_eq!(read_all(&mut pair, SERVER, server), Ok(7));
    let now = pair.now;
    pair.stack(SERVER).close(now, server).expect("open");
    assert_all_given_back(&mut pair, before);
}

#[test]
fn a_peer_that_is_gone_is_given_up() {
    let (mut pair, _, server, _) = connected();
    hand_off(&mut pair, SERVER, server);
    pair.wire = Box::new(|_, _| crate::tests::pair::Fate::Drop);
    let now = pair.now;
    pair.stack(SERVER)
        .write(now, server, b"hello?")
        .expect("room");
    let closed = Event::Closed(server, CloseReason::TimedOut);
    pair.run_for(Duration::from_secs(3600));
    let events = &pair.hosts[SERVER].events;
    assert!(events.contains(&closed), "{events:?}");
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Host));
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 0);
}
