//! TCP without TLS.

use std::time::Duration;

use crate::pair::{
    CLIENT, Connected as _, SERVER, hosts, hosts_with, lossy, region, slice, v4, v6,
};
use host::{CloseReason, Event, SocketError};
use testkit::pattern;

#[test]
fn bytes_arrive_over_ipv4_and_ipv6() {
    for ip in [v4, v6] {
        let mut pair = hosts();
        let (client, server) = pair.connected(ip);
        let data = pattern(3_000_000);
        assert!(pair.transfer(CLIENT, client, server, &data) == data);
        assert!(pair.transfer(SERVER, server, client, &data) == data);
    }
}

#[test]
fn bytes_arrive_in_spite_of_loss_and_reordering() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    pair.decide(lossy(CLIENT, 0.03, 0.03, 5));
    let data = pattern(2_000_000);
    assert!(pair.transfer(CLIENT, client, server, &data) == data);
    assert!(pair.counter(CLIENT, "TcpRetransSegs") > 0);
}

#[test]
fn both_sides_close_in_order_and_the_sockets_go() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let now = pair.now();
    pair.write(CLIENT, client, b"last words");
    pair.shutdown(CLIENT, client);
    assert_eq!(
        pair.stack(CLIENT).write(now, client, b"more"),
        Err(SocketError::SendClosed)
    );
    pair.run_for(Duration::from_millis(10));
    let mut buffer = [0; 100];
    let now = pair.now();
    assert_eq!(pair.stack(SERVER).read(now, server, &mut buffer), Ok(10));
    assert_eq!(pair.stack(SERVER).read(now, server, &mut buffer), Ok(0));
    pair.close(SERVER, server);
    assert_eq!(
        pair.stack(SERVER).read(now, server, &mut buffer),
        Err(SocketError::NotFound)
    );
    pair.run_for(Duration::from_millis(10));
    let now = pair.now();
    assert_eq!(pair.stack(CLIENT).read(now, client, &mut buffer), Ok(0));
    pair.close(CLIENT, client);
    pair.run_for(Duration::from_secs(90));
    for at in [CLIENT, SERVER] {
        let listening = usize::from(at == SERVER);
        assert_eq!(pair.stack(at).sockets().count(), listening);
    }
}

#[test]
fn an_abort_resets_the_peer() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    pair.abort(CLIENT, client);
    pair.run_for(Duration::from_millis(10));
    assert_eq!(pair.counter(CLIENT, "TcpOutRsts"), 1);
    assert!(
        pair.events(SERVER)
            .contains(&Event::Closed(server, CloseReason::Reset))
    );
    let now = pair.now();
    assert_eq!(
        pair.stack(SERVER).write(now, server, b"x"),
        Err(SocketError::Closed(CloseReason::Reset))
    );
    assert_eq!(
        pair.stack(CLIENT).write(now, client, b"x"),
        Err(SocketError::NotFound)
    );
}

#[test]
fn a_port_that_nobody_listens_on_refuses() {
    let mut pair = hosts();
    let now = pair.now();
    let client = pair
        .stack(CLIENT)
        .connect(now, (v4(SERVER), 9).into())
        .expect("a route");
    pair.run_for(Duration::from_secs(5));
    assert!(
        pair.events(CLIENT)
            .contains(&Event::Closed(client, CloseReason::Refused))
    );
}

#[test]
fn a_neighbour_that_does_not_exist_is_unreachable() {
    let mut pair = hosts();
    let now = pair.now();
    let client = pair
        .stack(CLIENT)
        .connect(now, "10.0.0.77:80".parse().expect("an address"))
        .expect("a route");
    pair.run_for(Duration::from_secs(10));
    assert!(
        pair.events(CLIENT)
            .contains(&Event::Closed(client, CloseReason::Unreachable))
    );
    assert_eq!(pair.counter(CLIENT, "TcpAttemptFails"), 1);
    let elsewhere = "192.0.2.1:80".parse().expect("an address");
    let now = pair.now();
    assert!(matches!(
        pair.stack(CLIENT).connect(now, elsewhere),
        Err(SocketError::NoRoute(_))
    ));
}

#[test]
fn a_small_ring_holds_senders_back_and_loses_nothing() {
    let mut pair = hosts_with(|_, node| node.function.send_entries = 8);
    let sockets: Vec<_> = (0..8).map(|_| pair.connected(v4)).collect();
    let data = pattern(300_000);
    for (client, server) in &sockets {
        assert!(pair.transfer(CLIENT, *client, *server, &data) == data);
    }
    let (client, server) = sockets[0];
    let region = region(&data);
    let id = pair.register(CLIENT, region, "test");
    // Slices so small that a segment takes many descriptors.
    let slices: Vec<_> = (0..3000).map(|at| slice(id, 100 * at, 99)).collect();
    let wanted: Vec<u8> = slices
        .iter()
        .flat_map(|s| &data[s.offset as usize..][..s.len as usize])
        .copied()
        .collect();
    let now = pair.now();
    assert_eq!(
        pair.stack(CLIENT).send_slices(now, client, &slices),
        Ok(wanted.len())
    );
    let mut received = Vec::new();
    assert!(pair.run_until(Duration::from_secs(60), |pair| {
        pair.read(SERVER, server, &mut received);
        received.len() >= wanted.len()
    }));
    assert!(received == wanted);
    assert!(pair.counter(CLIENT, "DriverTxRingFull") > 0);
}

#[test]
fn received_chunks_are_the_bytes_in_place() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let data = pattern(500_000);
    let (mut written, mut received) = (0, Vec::new());
    assert!(pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now();
        written += pair.write(CLIENT, client, &data[written..]);
        while let Ok(Some(chunk)) = pair.stack(SERVER).read_chunk(now, server) {
            received.extend_from_slice(&chunk);
        }
        received.len() == data.len()
    }));
    assert!(received == data);
}

#[test]
fn a_reader_that_sleeps_closes_the_window_and_reopens_it() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let data = pattern(12_000_000);
    let mut written = 0;
    for _ in 0..200 {
        let now = pair.now();
        while let Ok(bytes) = pair.stack(CLIENT).write(now, client, &data[written..]) {
            written += bytes;
            if written == data.len() {
                break;
            }
        }
        pair.run_for(Duration::from_millis(10));
    }
    assert!(written < data.len(), "the window must have closed");
    let mut received = Vec::new();
    assert!(pair.run_until(Duration::from_secs(60), |pair| {
        written += pair.write(CLIENT, client, &data[written..]);
        pair.read(SERVER, server, &mut received);
        received.len() >= data.len()
    }));
    assert!(received == data);
}

#[test]
fn who_does_not_read_cannot_take_all_memory_from_others() {
    let mut pair = hosts_with(|_, node| {
        node.stack.memory = 5 << 20;
        node.function.small_entries = 64;
        node.function.large_entries = 16;
    });
    let (hoarder, unread) = pair.connected(v4);
    let (client, server) = pair.connected(v4);
    let data = pattern(8_000_000);
    let mut written = 0;
    for _ in 0..100 {
        written += pair.write(CLIENT, hoarder, &data[written..]);
        pair.run_for(Duration::from_millis(5));
    }
    let small = pattern(100_000);
    assert!(pair.transfer(CLIENT, client, server, &small) == small);
    // And what was held back arrives once it is read.
    let mut received = Vec::new();
    assert!(pair.run_until(Duration::from_secs(300), |pair| {
        written += pair.write(CLIENT, hoarder, &data[written..]);
        pair.read(SERVER, unread, &mut received);
        received.len() >= data.len()
    }));
    assert!(received == data);
}
