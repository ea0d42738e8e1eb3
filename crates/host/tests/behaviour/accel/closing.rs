//! Closes that the NIC finishes, and those that it refuses, or that cross with what the peer sends.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use wire::tcp::Flags;

use super::rig::{accept, assert_nothing_left, listen, open, pair, pair_with, read, request};
use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts_with, lossy, v4, v6};
use host::{Accel, CloseReason, Event, Holder, ListenOptions, SocketId, SpliceRefused};
use sim::Fate;
use testkit::pattern;

const TEARDOWN: Accel = Accel {
    teardown: true,
    ..Accel::NONE
};

/// A connection on which `len` bytes were received, and a response of as many written but not sent.
fn answered(pair: &mut Pair, len: usize) -> (SocketId, SocketId) {
    let listener = listen(pair, v4, ListenOptions::default());
    let client = open(pair, v4);
    request(pair, client, &pattern(len));
    let server = accept(pair, listener);
    assert!(read(pair, SERVER, server, Some(len)) == pattern(len));
    let now = pair.now();
    let written = pair.stack(SERVER).write(now, server, &pattern(len));
    assert_eq!(written, Ok(len));
    (client, server)
}

fn finish(pair: &mut Pair, client: SocketId, len: usize) {
    assert!(read(pair, CLIENT, client, None) == pattern(len));
    pair.close(CLIENT, client);
    assert_nothing_left(pair);
}

#[test]
fn a_full_control_block_is_handed_over_with_what_is_left_to_send() {
    for (len, sent_before) in [(64, false), (64, true), (14_000, false), (14_000, true)] {
        let mut pair = pair(TEARDOWN);
        let (client, server) = answered(&mut pair, len);
        if sent_before {
            // Sent, and not acknowledged.
            let now = pair.now();
            pair.stack(SERVER).poll(now);
        }
        pair.close(SERVER, server);
        finish(&mut pair, client, len);
        assert_eq!(
            pair.counter(SERVER, "AccelTeardowns"),
            1,
            "{len} {sent_before}"
        );
        assert_eq!(pair.counter(SERVER, "AccelTeardownsRefused"), 0);
    }
}

#[test]
fn more_than_the_initial_window_is_the_hosts_to_send() {
    let mut pair = pair(TEARDOWN);
    let (client, server) = answered(&mut pair, 30_000);
    pair.close(SERVER, server);
    finish(&mut pair, client, 30_000);
    assert_eq!(pair.counter(SERVER, "AccelTeardowns"), 0);
}

/// Whichever part refuses, nothing is lost.
#[test]
fn what_the_nic_refuses_the_host_finishes_without_losing_a_byte() {
    for accel in [TEARDOWN, Accel::ALL] {
        for loss in [0.0, 0.2] {
            let mut pair = pair_with(accel, |nic| nic.accel.packet_memory = 1000);
            let (client, server) = answered(&mut pair, 5_000);
            pair.decide(lossy(SERVER, loss, 0.1, 7));
            pair.close(SERVER, server);
            finish(&mut pair, client, 5_000);
            assert_eq!(pair.counter(SERVER, "AccelTeardowns"), 1);
            assert_eq!(pair.counter(SERVER, "AccelTeardownsRefused"), 1);
        }
    }
}

#[test]
fn loss_changes_nothing_that_is_read() {
    for accel in [TEARDOWN, Accel::ALL] {
        for seed in 1..12 {
            let mut pair = pair(accel);
            let (client, server) = answered(&mut pair, 9_000);
            pair.decide(lossy(SERVER, 0.3, 0.2, seed));
            pair.close(SERVER, server);
            finish(&mut pair, client, 9_000);
        }
    }
}

/// A table for two, and ten that close at once: some are the NIC's, the others the host's.
#[test]
fn a_full_table_leaves_the_rest_to_the_host() {
    let mut pair = pair_with(Accel::ALL, |nic| nic.accel.closing = 2);
    // The NIC would make room for others by letting the oldest in TIME-WAIT go: here the peers do not finish.
    let listener = listen(
        &mut pair,
        v6,
        ListenOptions {
            defer: true,
            ..ListenOptions::default()
        },
    );
    let clients: Vec<SocketId> = (0..10).map(|_| open(&mut pair, v6)).collect();
    for client in &clients {
        request(&mut pair, *client, b"request");
    }
    let servers: Vec<SocketId> = (0..10).map(|_| accept(&mut pair, listener)).collect();
    for server in servers {
        assert_eq!(read(&mut pair, SERVER, server, Some(7)), b"request");
        pair.write(SERVER, server, b"answer");
        pair.close(SERVER, server);
    }
    for client in &clients {
        assert_eq!(read(&mut pair, CLIENT, *client, None), b"answer");
    }
    let asked = pair.counter(SERVER, "AccelTeardowns");
    let refused = pair.counter(SERVER, "AccelTeardownsRefused");
    let withheld = pair.counter(SERVER, "AccelTeardownsWithheld");
    assert!(asked > refused, "{asked} asked, {refused} refused");
    assert!(refused + withheld > 0);
    for client in clients {
        pair.close(CLIENT, client);
    }
    assert_nothing_left(&mut pair);
}

/// Gives the server's NIC what the client has to send, between what the server's host has posted and what the NIC works off.
fn cross(pair: &mut Pair, server: SocketId) {
    let now = pair.now();
    let mut frames = Vec::new();
    let mut frame = vec![0; 1 << 17];
    pair.stack(CLIENT).poll(now);
    while let Some((len, _)) = pair.nic(CLIENT).poll_transmit(now, &mut frame) {
        frames.push(frame[..len].to_vec());
    }
    pair.close(SERVER, server);
    pair.stack(SERVER).poll(now);
    assert!(pair.stack(SERVER).has_pending_teardowns());
    for frame in frames {
        pair.deliver(SERVER, &frame);
    }
}

#[test]
fn what_comes_between_the_hand_over_and_its_completion_is_put_back() {
    for (accel, refuse) in [
        (TEARDOWN, false),
        (Accel::ALL, false),
        (TEARDOWN, true),
        (Accel::ALL, true),
    ] {
        // The peer's FIN.
        let limit = if refuse { 1000 } else { 1 << 20 };
        let mut pair = pair_with(accel, |nic| nic.accel.packet_memory = limit);
        let (client, server) = answered(&mut pair, 5000);
        pair.shutdown(CLIENT, client);
        cross(&mut pair, server);
        finish(&mut pair, client, 5000);
        assert!(pair.counter(SERVER, "AccelReinjected") >= 1);

        // More data, which nobody will read.
        let mut pair = pair_with(accel, |nic| nic.accel.packet_memory = limit);
        let (client, server) = answered(&mut pair, 5000);
        pair.write(CLIENT, client, b"more");
        cross(&mut pair, server);
        let reset = Event::Closed(client, CloseReason::Reset);
        assert!(pair.run_until(Duration::from_secs(5), |pair| {
            pair.events(CLIENT).contains(&reset)
        }));
        pair.close(CLIENT, client);
        assert_nothing_left(&mut pair);
    }
}

/// Who ends a program waits for this, lest what the NIC has still to send is lost.
#[test]
fn what_was_handed_over_is_unfinished_until_the_peer_has_it() {
    let mut pair = pair(TEARDOWN);
    let (client, server) = answered(&mut pair, 5000);
    pair.close(SERVER, server);
    assert!(pair.stack(SERVER).has_pending_teardowns());
    pair.decide(|_, _, _| Fate::Drop);
    pair.run_for(Duration::from_secs(1));
    assert!(!pair.stack(SERVER).has_pending_teardowns());
    assert_eq!(pair.nic(SERVER).unfinished_teardowns(), 1);
    pair.decide(|_, _, _| Fate::Pass);
    finish(&mut pair, client, 5000);
    assert_eq!(pair.nic(SERVER).unfinished_teardowns(), 0);
}

#[test]
fn a_client_hands_its_closes_over_and_finds_other_ports() {
    let mut pair = hosts_with(|at, node| {
        if at == CLIENT {
            node.stack.accel = TEARDOWN;
        }
    });
    let listener = listen(&mut pair, v4, ListenOptions::default());
    let mut ports = Vec::new();
    for _ in 0..30 {
        let client = open(&mut pair, v4);
        request(&mut pair, client, b"request");
        let info = pair.stack(CLIENT).info(client).expect("a socket");
        assert!(!ports.contains(&info.local.port()));
        ports.push(info.local.port());
        let server = accept(&mut pair, listener);
        assert_eq!(read(&mut pair, SERVER, server, Some(7)), b"request");
        pair.close(CLIENT, client);
        assert_eq!(read(&mut pair, SERVER, server, None), b"");
        pair.close(SERVER, server);
    }
    assert_eq!(pair.counter(CLIENT, "AccelTeardowns"), 30);
    assert_nothing_left(&mut pair);
}

/// Whether a frame is a segment with all of these flags.
fn has_flags(frame: &[u8], flags: Flags) -> bool {
    wire::packet::parse(frame).is_ok_and(|parsed| parsed.tcp.flags.contains(flags))
}

/// The NIC has reset the connection, and the reset is lost: what the peer sends again is refused, not acknowledged.
#[test]
fn what_comes_for_a_connection_that_the_nic_has_reset_is_refused() {
    let mut pair = hosts_with(|at, node| {
        if at == CLIENT {
            node.stack.accel = TEARDOWN;
        }
    });
    let (client, server) = pair.connected(v4);
    pair.close(CLIENT, client);
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.counter(CLIENT, "AccelTeardowns"), 1);
    assert!(!pair.stack(CLIENT).has_pending_teardowns());
    let mut resets = 0;
    pair.decide(move |from, _, frame| {
        let is_reset = from == CLIENT && has_flags(frame, Flags::RST);
        resets += u32::from(is_reset);
        match (is_reset, resets) {
            (true, 1) => Fate::Drop,
            _ => Fate::Pass,
        }
    });
    let now = pair.now();
    let written = pair.stack(SERVER).write(now, server, b"nobody reads");
    assert_eq!(written, Ok(12));
    let reset = Event::Closed(server, CloseReason::Reset);
    assert!(pair.run_until(Duration::from_secs(20), |pair| {
        pair.events(SERVER).contains(&reset)
    }));
    assert_eq!(pair.nic_counter(CLIENT, "accel_closing_aborted"), 1);
}

#[test]
fn a_connection_on_its_way_is_not_to_be_spliced() {
    let mut pair = pair(Accel::ALL);
    let listener = listen(&mut pair, v4, ListenOptions::default());
    let clients = [open(&mut pair, v4), open(&mut pair, v4)];
    for client in clients {
        request(&mut pair, client, b"request");
    }
    let servers = clients.map(|_| accept(&mut pair, listener));
    for server in servers {
        assert_eq!(read(&mut pair, SERVER, server, Some(7)), b"request");
    }
    let fins = Rc::new(Cell::new(0));
    let seen = Rc::clone(&fins);
    pair.decide(move |from, _, frame| {
        let is_fin = from == SERVER && has_flags(frame, Flags::FIN);
        seen.set(seen.get() + u32::from(is_fin));
        Fate::Pass
    });
    let now = pair.now();
    let stack = pair.stack(SERVER);
    assert_eq!(stack.write(now, servers[0], b"response"), Ok(8));
    stack.close(now, servers[0]).expect("closes");
    stack.poll(now);
    assert!(stack.has_pending_teardowns());
    let spliced = stack.splice(now, servers[0], servers[1], Default::default());
    assert_eq!(spliced, Err(SpliceRefused::NotFound(servers[0])));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(fins.get(), 1, "one owner closes");
    pair.close(SERVER, servers[1]);
    for client in clients {
        pair.close(CLIENT, client);
    }
    assert_nothing_left(&mut pair);
}

/// Who is shown as the owner while the NIC has not said yes.
#[test]
fn a_connection_on_its_way_is_shown_as_the_nics() {
    let mut pair = pair(Accel::ALL);
    let (_, server) = answered(&mut pair, 10);
    let now = pair.now();
    pair.close(SERVER, server);
    pair.stack(SERVER).poll(now);
    let holders: Vec<Holder> = pair.stack(SERVER).sockets().map(|it| it.holder).collect();
    assert_eq!(
        holders,
        [Holder::Nic, Holder::Nic],
        "listener and connection"
    );
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.stack(SERVER).sockets().count(), 1);
}
