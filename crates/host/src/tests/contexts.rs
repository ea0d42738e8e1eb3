//! Contexts that fail, and what they ask.

use std::time::Duration;

use testkit::network::icmp;
use testkit::pattern;
use wire::icmp::v4::{Echo, Message};

use super::pair::{CLIENT, Fate, Pair, SERVER, mac, v4};
use crate::{Holder, SocketId};

/// The server's NIC can do nothing more with its contexts.
pub fn fail_contexts(pair: &mut Pair) {
    let contexts = pair
        .stack(SERVER)
        .transport_mut()
        .device
        .driver
        .contexts_mut();
    contexts.iter_mut().for_each(|shadow| shadow.failed = true);
}

/// A ping from client to server, in a frame.
fn ping() -> Vec<u8> {
    let echo = Message::EchoRequest(Echo {
        identifier: 7,
        sequence: 3,
        data: b"flood",
    });
    let ends = [CLIENT, SERVER].map(|at| (mac(at), v4(at)));
    icmp(ends, &echo)
}

fn holder(pair: &mut Pair, server: SocketId) -> Option<Holder> {
    pair.stack(SERVER).info(server).map(|info| info.holder)
}

/// Hands the server's end off and waits until the NIC runs it.
pub fn hand_off(pair: &mut Pair, server: SocketId) {
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).hand_off(now, server), Ok(()));
    let done = pair.run_until(Duration::from_secs(5), |pair| {
        pair.counter(SERVER, "HandoffAccepted") == 1
    });
    assert!(done, "{:?}", pair.stack(SERVER).info(server));
    assert_eq!(holder(pair, server), Some(Holder::Nic));
}

/// Answers to a flood of pings keep the send ring busy: a record that waits for the NIC to have read it is not held up.
#[test]
fn a_flood_does_not_keep_software_from_encrypting() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure();
    let data = pattern(20_000);
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).write(now, server, &data), Ok(data.len()));
    fail_contexts(&mut pair);
    let ping = ping();
    let (mut received, mut buffer) = (Vec::new(), [0; 5000]);
    for _ in 0..2000 {
        pair.inject(SERVER, ping.clone());
        pair.step();
        pair.now += Duration::from_micros(20);
        let now = pair.now;
        while let Ok(bytes) = pair.stack(CLIENT).read(now, client, &mut buffer) {
            received.extend_from_slice(&buffer[..bytes]);
        }
    }
    assert!(received == data, "{} bytes", received.len());
}

#[test]
fn records_of_a_context_that_failed_are_encrypted_in_software() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure();
    let data = pattern(250_000);
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).write(now, server, &data), Ok(data.len()));
    // A part is out, the rest is framed for a context that then fails.
    for _ in 0..3 {
        pair.step();
    }
    let shadow = pair.hosts[SERVER]
        .stack
        .transport_mut()
        .device
        .driver
        .contexts_mut()
        .iter_mut()
        .find(|shadow| shadow.frontier != wire::SeqNum(0));
    shadow.expect("a context").failed = true;
    let rest = pair.transfer(SERVER, server, client, &[]);
    let mut received = rest;
    let mut buffer = vec![0; 100_000];
    assert!(pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now;
        while let Ok(bytes) = pair.stack(CLIENT).read(now, client, &mut buffer) {
            received.extend_from_slice(&buffer[..bytes]);
        }
        received.len() >= data.len()
    }));
    assert!(received == data);
    assert!(pair.counter(SERVER, "TlsTxRecordsFallback") > 0);
}

#[test]
fn a_resync_request_is_answered_also_when_nobody_reads() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure();
    let mut count = 0;
    pair.wire = Box::new(move |from, frame| {
        // One long hole, so that the receiver's context loses the record boundary.
        if from == SERVER && frame.len() > 1000 {
            count += 1;
            if (40..80).contains(&count) {
                return Fate::Drop;
            }
        }
        Fate::Pass
    });
    let data = pattern(200_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    let now = pair.now;
    pair.stack(SERVER).write(now, server, &data).expect("room");
    pair.run_for(Duration::from_secs(2));
    let asked = pair.counter(CLIENT, "TlsRxDeviceResync");
    let session = pair.hosts[CLIENT]
        .stack
        .transport_mut()
        .sockets
        .get(client)
        .and_then(|socket| socket.tls.session());
    assert!(
        asked == 0 || !session.expect("TLS").has_questions(),
        "{asked} asked"
    );
}

#[test]
fn a_context_that_failed_brings_the_connection_back() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure();
    hand_off(&mut pair, server);
    let data = pattern(300_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    fail_contexts(&mut pair);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    assert_eq!(holder(&mut pair, server), Some(Holder::Host));
    assert_eq!(pair.counter(SERVER, "HandoffRestored"), 1);
}
