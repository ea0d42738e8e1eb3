//! Keys that change, and records after the end.

use std::time::Duration;

use handshake::{Options, Trust, client_config};
use l5p::tls::Alert;
use rustls::pki_types::ServerName;
use testkit::pattern;

use super::contexts::hand_off;
use super::memory::hoard;
use super::pair::{CLIENT, Pair, SERVER};
use crate::socket::Socket;
use crate::{Event, Offload, SocketError, SocketId, TlsRole};

fn socket(pair: &mut Pair, at: usize, id: SocketId) -> &mut Socket {
    let sockets = &mut pair.stack(at).transport_mut().sockets;
    sockets.get_mut(id).expect("an open socket")
}

/// Bytes that are queued and not acknowledged.
fn queued(pair: &mut Pair, at: usize, id: SocketId) -> u32 {
    let socket = socket(pair, at, id);
    socket.tcp.snd_una().distance_to(socket.send.end())
}

/// Contexts of the NIC that are in use.
fn contexts(pair: &mut Pair, at: usize) -> usize {
    let driver = &mut pair.stack(at).transport_mut().device.driver;
    driver.contexts_mut().iter_mut().count()
}

fn read_all(pair: &mut Pair, at: usize, id: SocketId, received: &mut Vec<u8>) {
    let (now, mut buffer) = (pair.now, [0; 5000]);
    while let Ok(bytes @ 1..) = pair.stack(at).read(now, id, &mut buffer) {
        received.extend_from_slice(&buffer[..bytes]);
    }
}

/// The client sends a byte and asks for new keys of the server's, which reads that.
fn ask_for_keys(pair: &mut Pair, client: SocketId, server: SocketId) {
    let now = pair.now;
    assert_eq!(pair.stack(CLIENT).write(now, client, b"?"), Ok(1));
    let updated = pair.stack(CLIENT).key_update(now, client, true);
    updated.expect("TLS 1.3");
    let updates = pair.counter(SERVER, "TlsRxRekeyReceived");
    let mut received = Vec::new();
    let came = pair.run_until(Duration::from_secs(60), |pair| {
        read_all(pair, SERVER, server, &mut received);
        pair.counter(SERVER, "TlsRxRekeyReceived") > updates
    });
    assert!(came && received == b"?", "{:?}", pair.hosts[SERVER].events);
}

// RFC 8446 §4.6.3: the answer comes before the next application data, and one answer serves several requests.
#[test]
fn a_peer_that_asks_for_keys_and_reads_nothing_uses_up_nothing() {
    let mut pair = Pair::with(|at, (stack, _)| {
        if at == CLIENT {
            (stack.tcp.rcv_buf, stack.tcp.rcv_buf_max) = (64 << 10, 64 << 10);
        }
    });
    let (client, server) = pair.secure();
    let mut sent = pattern(200_000);
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).write(now, server, &sent), Ok(sent.len()));
    pair.run_for(Duration::from_millis(100));
    let before = queued(&mut pair, SERVER, server);
    assert!(
        before > 100_000,
        "the window is closed: {before} are queued"
    );
    for _ in 0..1000 {
        ask_for_keys(&mut pair, client, server);
    }
    assert!(queued(&mut pair, SERVER, server) <= before);
    assert!(contexts(&mut pair, SERVER) < 16);
    assert_eq!(pair.counter(SERVER, "TlsTxRekeyOk"), 0);

    for _ in 0..40 {
        ask_for_keys(&mut pair, client, server);
        let now = pair.now;
        assert_eq!(pair.stack(SERVER).write(now, server, b"!"), Ok(1));
        sent.push(b'!');
    }
    assert_eq!(pair.counter(SERVER, "TlsTxRekeyOk"), 40);
    assert!(contexts(&mut pair, SERVER) < 16);
    let in_software = pair.counter(SERVER, "TlsTxRecordsSw");
    assert!(in_software > 30, "{in_software} records");

    let mut received = Vec::new();
    pair.run_until(Duration::from_secs(60), |pair| {
        read_all(pair, CLIENT, client, &mut received);
        received.len() >= sent.len()
    });
    assert!(received == sent);
    // Former contexts are gone: the NIC encrypts again.
    pair.run_for(Duration::from_millis(100));
    let in_software = pair.counter(SERVER, "TlsTxRecordsSw");
    assert!(pair.transfer(SERVER, server, client, &sent) == sent);
    assert_eq!(pair.counter(SERVER, "TlsTxRecordsSw"), in_software);
}

#[test]
fn data_waits_for_memory_of_the_key_update_that_goes_before_it() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure();
    ask_for_keys(&mut pair, client, server);
    let held = hoard(&mut pair);
    let now = pair.now;
    let written = pair.stack(SERVER).write(now, server, b"data");
    assert_eq!(written, Err(SocketError::WouldBlock));
    drop(held);
    pair.run_for(Duration::from_millis(50));
    assert!(pair.hosts[SERVER].events.contains(&Event::Writable(server)));
    assert!(pair.transfer(SERVER, server, client, b"data") == b"data");
    assert_eq!(pair.counter(CLIENT, "TlsRxRekeyReceived"), 1);
}

/// TCP must know of all that is in the send queue: else the NIC, which is given what is there, would not come to the FIN.
#[test]
fn nothing_follows_close_notify() {
    for on_nic in [false, true] {
        let mut pair = Pair::new();
        let (client, server) = pair.secure();
        if on_nic {
            hand_off(&mut pair, server);
        }
        let data = pattern(200_000);
        let now = pair.now;
        assert_eq!(pair.stack(SERVER).write(now, server, &data), Ok(data.len()));
        pair.stack(SERVER).shutdown(now, server).expect("open");
        ask_for_keys(&mut pair, client, server);
        let now = pair.now;
        let host = pair.stack(SERVER).transport_mut();
        let socket = host.sockets.get_mut(server).expect("open");
        let (session, _, mut out) = socket.parts(now, &mut host.device);
        let session = session.expect("TLS");
        // What a ClientHello is answered by in TLS 1.2.
        session.send_alert(Alert::NoRenegotiation, &mut out);
        session.rekey_transmit(false, &mut out).expect("no error");
        assert_eq!(socket.send.end(), socket.tcp.write_seq(), "{on_nic}");

        let mut received = Vec::new();
        let ended = pair.run_until(Duration::from_secs(60), |pair| {
            read_all(pair, CLIENT, client, &mut received);
            let now = pair.now;
            pair.stack(CLIENT).read(now, client, &mut [0; 9]) == Ok(0)
        });
        assert!(ended && received == data, "{on_nic}");
        let now = pair.now;
        pair.stack(CLIENT).shutdown(now, client).expect("open");
        let closed = pair.run_until(Duration::from_secs(60), |pair| {
            let now = pair.now;
            let _ = pair.stack(SERVER).read(now, server, &mut [0; 9]);
            let is_end = |event: &Event| matches!(event, Event::Closed(id, _) if *id == server);
            pair.hosts[SERVER].events.iter().any(is_end)
        });
        assert!(closed, "{on_nic}: {:?}", pair.hosts[SERVER].events);
    }
}

#[test]
fn a_handshake_sends_nothing_after_the_end_either() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let now = pair.now;
    let config = client_config(Trust::Anyone, &Options::default()).expect("a configuration");
    let name = ServerName::try_from("server.test").expect("a name");
    let stack = pair.stack(CLIENT);
    let started = stack.start_tls(now, client, TlsRole::Client { config, name }, Offload::Both);
    started.expect("connected");
    stack.shutdown(now, client).expect("open");
    pair.run_for(Duration::from_millis(50));
    let socket = socket(&mut pair, CLIENT, client);
    assert_eq!(socket.send.end(), socket.tcp.write_seq());
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).read(now, server, &mut [0; 9]), Ok(0));
}
