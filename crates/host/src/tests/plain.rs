//! TCP without TLS.

use std::time::Duration;

use super::pair::{CLIENT, Pair, SERVER, lossy, pattern, v4, v6};
use crate::{CloseReason, Event, SocketError};

#[test]
fn bytes_arrive_over_ipv4_and_ipv6() {
    for ip in [v4, v6] {
        let mut pair = Pair::new();
        let (client, server) = pair.connect(ip);
        let data = pattern(3_000_000);
        assert!(pair.transfer(CLIENT, client, server, &data) == data);
        assert!(pair.transfer(SERVER, server, client, &data) == data);
    }
}

#[test]
fn bytes_arrive_in_spite_of_loss_and_reordering() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(v4);
    pair.wire = lossy(CLIENT, 0.03, 0.03, 5);
    let data = pattern(2_000_000);
    assert!(pair.transfer(CLIENT, client, server, &data) == data);
    assert!(pair.counter(CLIENT, "TcpRetransSegs") > 0);
}

#[test]
fn both_sides_close_in_order_and_the_sockets_go() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(v4);
    let now = pair.now;
    pair.stack(CLIENT)
        .write(now, client, b"last words")
        .expect("room");
    pair.stack(CLIENT).shutdown(now, client).expect("open");
    assert_eq!(
        pair.stack(CLIENT).write(now, client, b"more"),
        Err(SocketError::SendClosed)
    );
    pair.run_for(Duration::from_millis(10));
    let mut buffer = [0; 100];
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).read(now, server, &mut buffer), Ok(10));
    assert_eq!(pair.stack(SERVER).read(now, server, &mut buffer), Ok(0));
    pair.stack(SERVER).close(now, server).expect("open");
    assert_eq!(
        pair.stack(SERVER).read(now, server, &mut buffer),
        Err(SocketError::NotFound)
    );
    pair.run_for(Duration::from_millis(10));
    let now = pair.now;
    assert_eq!(pair.stack(CLIENT).read(now, client, &mut buffer), Ok(0));
    pair.stack(CLIENT).close(now, client).expect("open");
    pair.run_for(Duration::from_secs(90));
    for at in [CLIENT, SERVER] {
        let listening = usize::from(at == SERVER);
        assert_eq!(pair.hosts[at].stack.sockets().count(), listening);
    }
}

#[test]
fn an_abort_resets_the_peer() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(v4);
    let now = pair.now;
    pair.stack(CLIENT).abort(now, client).expect("open");
    pair.run_for(Duration::from_millis(10));
    assert_eq!(pair.counter(CLIENT, "TcpOutRsts"), 1);
    assert!(
        pair.hosts[SERVER]
            .events
            .contains(&Event::Closed(server, CloseReason::Reset))
    );
    let now = pair.now;
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
    let mut pair = Pair::new();
    let now = pair.now;
    let client = pair
        .stack(CLIENT)
        .connect(now, (v4(SERVER), 9).into())
        .expect("a route");
    pair.run_for(Duration::from_secs(5));
    assert!(
        pair.hosts[CLIENT]
            .events
            .contains(&Event::Closed(client, CloseReason::Refused))
    );
}

#[test]
fn a_neighbour_that_does_not_exist_is_unreachable() {
    let mut pair = Pair::new();
    let now = pair.now;
    let client = pair
        .stack(CLIENT)
        .connect(now, "10.0.0.77:80".parse().expect("an address"))
        .expect("a route");
    pair.run_for(Duration::from_secs(10));
    assert!(
        pair.hosts[CLIENT]
            .events
            .contains(&Event::Closed(client, CloseReason::Unreachable))
    );
    let elsewhere = "192.0.2.1:80".parse().expect("an address");
    let now = pair.now;
    assert!(matches!(
        pair.stack(CLIENT).connect(now, elsewhere),
        Err(SocketError::NoRoute(_))
    ));
}

#[test]
fn many_connections_carry_their_own_bytes() {
    let mut pair = Pair::new();
    let sockets: Vec<_> = (0..300).map(|_| pair.connect(v4)).collect();
    for (at, (client, server)) in sockets.iter().enumerate() {
        let data = pattern(1000 + 37 * at);
        assert!(pair.transfer(CLIENT, *client, *server, &data) == data);
    }
    // All idle: nothing is due but what neighbours and memory need.
    pair.run_for(Duration::from_secs(120));
    assert_eq!(pair.hosts[CLIENT].stack.core.timers.next(), None);
}

#[test]
fn a_small_ring_holds_senders_back_and_loses_nothing() {
    let mut pair = Pair::with(|_, (_, function)| function.send_entries = 8);
    let sockets: Vec<_> = (0..8).map(|_| pair.connect(v4)).collect();
    let data = pattern(300_000);
    for (client, server) in &sockets {
        assert!(pair.transfer(CLIENT, *client, *server, &data) == data);
    }
    let (client, server) = sockets[0];
    let region = super::pair::region(&data);
    let id = pair.stack(CLIENT).register(region, "test").expect("an id");
    // Slices so small that a segment takes many descriptors.
    let slices: Vec<_> = (0..3000)
        .map(|at| nic::ring::Slice {
            region: id,
            offset: 100 * at,
            len: 99,
        })
        .collect();
    let wanted: Vec<u8> = slices
        .iter()
        .flat_map(|s| &data[s.offset as usize..][..s.len as usize])
        .copied()
        .collect();
    let now = pair.now;
    assert_eq!(
        pair.stack(CLIENT).send_slices(now, client, &slices),
        Ok(wanted.len())
    );
    let mut received = Vec::new();
    let mut buffer = [0; 5000];
    assert!(pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now;
        while let Ok(bytes) = pair.stack(SERVER).read(now, server, &mut buffer) {
            received.extend_from_slice(&buffer[..bytes]);
        }
        received.len() >= wanted.len()
    }));
    assert!(received == wanted);
    assert!(pair.counter(CLIENT, "DriverTxRingFull") > 0);
}

#[test]
fn received_chunks_are_the_bytes_in_place() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(v4);
    let data = pattern(500_000);
    let (mut written, mut received) = (0, Vec::new());
    assert!(pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now;
        if let Ok(bytes) = pair.stack(CLIENT).write(now, client, &data[written..]) {
            written += bytes;
        }
        while let Ok(Some(chunk)) = pair.stack(SERVER).read_chunk(now, server) {
            received.extend_from_slice(&chunk);
        }
        received.len() == data.len()
    }));
    assert!(received == data);
}

#[test]
fn a_reader_that_sleeps_closes_the_window_and_reopens_it() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(v4);
    let data = pattern(12_000_000);
    let mut written = 0;
    for _ in 0..200 {
        let now = pair.now;
        while let Ok(bytes) = pair.stack(CLIENT).write(now, client, &data[written..]) {
            written += bytes;
            if written == data.len() {
                break;
            }
        }
        pair.run_for(Duration::from_millis(10));
    }
    assert!(written < data.len(), "the window must have closed");
    let (mut received, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    assert!(pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now;
        if let Ok(bytes) = pair.stack(CLIENT).write(now, client, &data[written..]) {
            written += bytes;
        }
        while let Ok(bytes) = pair.stack(SERVER).read(now, server, &mut buffer) {
            received.extend_from_slice(&buffer[..bytes]);
        }
        received.len() >= data.len()
    }));
    assert!(received == data);
}

#[test]
fn a_socket_takes_little_memory() {
    assert!(
        size_of::<crate::socket::Socket>() <= 1400,
        "{}",
        size_of::<crate::socket::Socket>()
    );
    assert!(
        size_of::<crate::tls::Session>() <= 1200,
        "{}",
        size_of::<crate::tls::Session>()
    );
}

#[test]
fn who_does_not_read_cannot_take_all_memory_from_others() {
    let mut pair = Pair::with(|_, (config, function)| {
        config.arena = crate::memory::ArenaLayout {
            header: 256,
            packet: 256,
            record: 32,
            large: 48,
        };
        function.small_entries = 64;
        function.large_entries = 16;
    });
    let (hoarder, unread) = pair.connect(v4);
    let (client, server) = pair.connect(v4);
    let data = pattern(8_000_000);
    let mut written = 0;
    for _ in 0..100 {
        let now = pair.now;
        if let Ok(bytes) = pair.stack(CLIENT).write(now, hoarder, &data[written..]) {
            written += bytes;
        }
        pair.run_for(Duration::from_millis(5));
    }
    let small = pattern(100_000);
    assert!(pair.transfer(CLIENT, client, server, &small) == small);
    // And what was held back arrives once it is read.
    let (mut received, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    assert!(pair.run_until(Duration::from_secs(300), |pair| {
        let now = pair.now;
        if let Ok(bytes) = pair.stack(CLIENT).write(now, hoarder, &data[written..]) {
            written += bytes;
        }
        while let Ok(bytes) = pair.stack(SERVER).read(now, unread, &mut buffer) {
            received.extend_from_slice(&buffer[..bytes]);
        }
        received.len() >= data.len()
    }));
    assert!(received == data);
}
