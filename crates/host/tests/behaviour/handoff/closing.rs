//! However a connection ends on the NIC, both applications see what they would have seen, and nothing is left.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::rig::{
    assert_all_given_back, assert_ends, await_closed, hand_off, holder, in_use, restore,
};
use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts, hosts_with, lossy, v4};
use crate::tls::flip;
use handshake::Options;
use host::{CloseReason, Event, Holder, Offload, SocketError, SocketId};
use sim::Fate;
use testkit::pattern;
use wire::tcp::Flags;

/// A pair with a connection, its sockets, and the memory in use before it.
fn connected() -> (Pair, SocketId, SocketId, [[u32; 4]; 2]) {
    let mut pair = hosts();
    let before = [in_use(&mut pair, CLIENT), in_use(&mut pair, SERVER)];
    let (client, server) = pair.connected(v4);
    (pair, client, server, before)
}

/// Reads to the end of the stream.
fn read_all(pair: &mut Pair, at: usize, id: SocketId) -> Result<usize, SocketError> {
    let mut buffer = vec![0; 10_000];
    let mut read = 0;
    let mut end = None;
    pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now();
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
            pair.decide(lossy(SERVER, loss, 0.0, 5));
            let sockets = [client, server];
            let data = pattern(50_000);
            assert_eq!(pair.write(first, sockets[first], &data), data.len());
            pair.close(first, sockets[first]);
            let read = read_all(&mut pair, 1 - first, sockets[1 - first]);
            assert_eq!(read, Ok(data.len()), "{first} first");
            pair.close(1 - first, sockets[1 - first]);
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
        pair.shutdown(first, sockets[first]);
        assert_eq!(read_all(&mut pair, 1 - first, sockets[1 - first]), Ok(0));
        let data = pattern(300_000);
        let other = 1 - first;
        let read = pair.transfer(other, sockets[other], sockets[first], &data);
        assert!(read == data);
        pair.close(other, sockets[other]);
        assert_eq!(read_all(&mut pair, first, sockets[first]), Ok(0));
        pair.close(first, sockets[first]);
        assert_all_given_back(&mut pair, before);
    }
}

#[test]
fn the_end_of_time_wait_is_the_hosts_to_wait_for() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    let fin = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&fin);
    pair.decide(move |from, _, frame| {
        let is_fin = |parsed: wire::packet::Parsed| parsed.tcp.flags.contains(Flags::FIN);
        if from == CLIENT && wire::packet::parse(frame).is_ok_and(is_fin) {
            seen.replace(frame.to_vec());
        }
        Fate::Pass
    });
    pair.shutdown(SERVER, server);
    assert_eq!(read_all(&mut pair, CLIENT, client), Ok(0));
    pair.close(CLIENT, client);
    assert_eq!(read_all(&mut pair, SERVER, server), Ok(0));
    await_closed(&mut pair, SERVER, server, CloseReason::Graceful);
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 0);
    // Its answer may have been lost: the peer's FIN is acknowledged once more.
    let sent = [
        pair.counter(SERVER, "TcpOutSegs"),
        pair.counter(SERVER, "TcpOutRsts"),
    ];
    pair.deliver(SERVER, &fin.take());
    pair.run_for(Duration::from_millis(1));
    let after = [
        pair.counter(SERVER, "TcpOutSegs"),
        pair.counter(SERVER, "TcpOutRsts"),
    ];
    assert_eq!(after, [sent[0] + 1, sent[1]]);
    pair.close(SERVER, server);
    assert_all_given_back(&mut pair, before);
}

#[test]
fn a_reset_of_the_peers_ends_it() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    pair.write(CLIENT, client, b"last words");
    pair.run_for(Duration::from_millis(5));
    pair.abort(CLIENT, client);
    await_closed(&mut pair, SERVER, server, CloseReason::Reset);
    // What came in order before may still be read.
    let mut buffer = [0; 100];
    let now = pair.now();
    assert_eq!(pair.stack(SERVER).read(now, server, &mut buffer), Ok(10));
    pair.close(SERVER, server);
    assert_all_given_back(&mut pair, before);
}

#[test]
fn an_abort_resets_the_peer() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    pair.write(SERVER, server, &pattern(200_000));
    pair.abort(SERVER, server);
    assert_ends(&mut pair, (CLIENT, client, CloseReason::Reset), before);
}

#[test]
fn closing_with_something_unread_resets_the_peer() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    pair.write(CLIENT, client, b"unheard");
    pair.run_for(Duration::from_millis(5));
    pair.close(SERVER, server);
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
            let now = pair.now();
            let data = pattern(30_000);
            assert_eq!(pair.write(SERVER, server, &data), 30_000);
            if restoring {
                pair.stack(SERVER).restore(now, server).expect("open");
            } else {
                pair.stack(SERVER).hand_off(now, server).expect("open");
            }
            for _ in 0..steps {
                pair.nic(SERVER).flush(now);
                pair.stack(SERVER).poll(now);
                if steps > 7 {
                    pair.step();
                }
            }
            pair.close(SERVER, server);
            assert_eq!(read_all(&mut pair, CLIENT, client), Ok(30_000));
            pair.close(CLIENT, client);
            assert_all_given_back(&mut pair, before);
        }
    }
}

#[test]
fn a_connection_that_closes_can_be_restored() {
    let (mut pair, client, server, before) = connected();
    hand_off(&mut pair, SERVER, server);
    pair.write(SERVER, server, b"bye");
    pair.shutdown(SERVER, server);
    pair.run_for(Duration::from_millis(3));
    restore(&mut pair, SERVER, server);
    assert_eq!(read_all(&mut pair, CLIENT, client), Ok(3));
    pair.write(CLIENT, client, b"you too");
    pair.close(CLIENT, client);
    assert_eq!(read_all(&mut pair, SERVER, server), Ok(7));
    pair.close(SERVER, server);
    assert_all_given_back(&mut pair, before);
}

#[test]
fn a_peer_that_is_gone_is_given_up() {
    let (mut pair, _, server, _) = connected();
    hand_off(&mut pair, SERVER, server);
    pair.decide(|_, _, _| sim::Fate::Drop);
    pair.write(SERVER, server, b"hello?");
    let closed = Event::Closed(server, CloseReason::TimedOut);
    pair.run_for(Duration::from_secs(3600));
    let events = &pair.events(SERVER);
    assert!(events.contains(&closed), "{events:?}");
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Host));
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 0);
}

#[test]
fn an_orphan_on_the_nic_is_given_up_as_its_host_has_it() {
    let mut pair = hosts_with(|_, node| node.stack.tcp.orphan_timeout = Duration::from_secs(5));
    let (_, server) = pair.connected(v4);
    hand_off(&mut pair, SERVER, server);
    pair.decide(|_, _, _| Fate::Drop);
    pair.write(SERVER, server, b"hello?");
    pair.close(SERVER, server);
    pair.run_for(Duration::from_secs(4));
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 1);
    pair.run_for(Duration::from_secs(4));
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 0);
}

/// The host takes it back for that: the NIC's limits are those of a connection that somebody waits for.
#[test]
fn an_alert_that_is_not_acknowledged_is_waited_for_no_longer_than_an_orphan() {
    let mut pair = hosts();
    let (client, server) = pair.secured(&Options::default(), [Offload::None; 2]);
    hand_off(&mut pair, CLIENT, client);
    pair.decide(|from, _, frame| {
        if from == CLIENT {
            return Fate::Drop;
        }
        if frame.len() > 1000 {
            flip(frame, 200);
        }
        Fate::Pass
    });
    pair.write(SERVER, server, &pattern(5_000));
    let failed = read_all(&mut pair, CLIENT, client);
    let is_failure = |end| matches!(end, Err(SocketError::Closed(CloseReason::Tls { .. })));
    assert!(is_failure(failed));
    pair.decide(|_, _, _| Fate::Drop);
    pair.close(CLIENT, client);
    pair.run_for(Duration::from_secs(30));
    let mut left = pair.stack_ref(CLIENT).sockets();
    assert!(left.any(|socket| socket.id.is_some()), "it still tries");
    drop(left);
    pair.run_for(Duration::from_secs(35));
    pair.assert_no_sockets(CLIENT);
    assert_eq!(pair.nic_counter(CLIENT, "toe_connections"), 0);
}
