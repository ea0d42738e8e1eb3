//! The NIC is reset in the middle of everything.

use std::sync::Arc;
use std::time::Duration;

use handshake::Options;

use super::rig::{assert_all_given_back, exchange, hand_off, holder, in_use, splicing};
use crate::accel::rig as accel;
use crate::pair::{CLIENT, Connected as _, SERVER, hosts, lossy, region, slice, v4};
use host::{Accel, CloseReason, Event, Holder, ListenOptions, Offload, SpliceEnd, SpliceOptions};
use sim::Fate;
use testkit::pattern;

#[test]
fn the_host_goes_on_from_what_it_was_told_last() {
    for (seed, loss) in [(1, 0.0), (2, 0.01), (3, 0.03)] {
        let mut pair = hosts();
        let before = [in_use(&mut pair, CLIENT), in_use(&mut pair, SERVER)];
        let (client, server) = pair.connected(v4);
        pair.decide(lossy(SERVER, loss, loss, seed));
        let data = pattern(3_000_000);
        exchange(
            &mut pair,
            (client, server),
            [&data, &data],
            7,
            |pair, turn| {
                if turn > 40 {
                    return;
                }
                if turn % 2 == 0 {
                    pair.reset_nic(SERVER);
                } else {
                    let now = pair.now();
                    let _ = pair.stack(SERVER).hand_off(now, server);
                }
            },
        );
        assert!(pair.counter(SERVER, "NicResets") > 3);
        assert!(pair.counter(SERVER, "HandoffRecovered") > 3);
        pair.close(SERVER, server);
        pair.close(CLIENT, client);
        assert_all_given_back(&mut pair, before);
    }
}

/// The peer's NIC has answered the SYN, and hands the connection up with its first bytes: no answer comes before them.
#[test]
fn who_has_said_nothing_yet_is_heard() {
    let mut pair = accel::pair(Accel::ALL);
    let defer = ListenOptions {
        defer: true,
        ..ListenOptions::default()
    };
    let listener = accel::listen(&mut pair, v4, defer);
    let client = accel::open(&mut pair, v4);
    pair.run_for(Duration::from_millis(10));
    hand_off(&mut pair, CLIENT, client);
    pair.reset_nic(CLIENT);
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.counter(CLIENT, "HandoffRecovered"), 1);
    accel::request(&mut pair, client, b"here I am");
    let server = accel::accept(&mut pair, listener);
    let read = accel::read(&mut pair, SERVER, server, Some(9));
    assert_eq!(read, b"here I am");
}

#[test]
fn software_does_what_contexts_did() {
    let mut pair = hosts();
    let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
    let data = pattern(1_500_000);
    hand_off(&mut pair, SERVER, server);
    exchange(
        &mut pair,
        (client, server),
        [&data, &data],
        20,
        |pair, turn| {
            if turn == 1 {
                pair.reset_nic(SERVER);
            }
        },
    );
    assert_eq!(pair.counter(SERVER, "NicResets"), 1);
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Host));
    assert!(pair.counter(SERVER, "TlsTxRecordsSw") > 0);
}

/// The NIC has sent the record, and of that the host does not know: the same nonce on other bytes would reveal both.
#[test]
fn memory_that_has_changed_is_not_encrypted_again() {
    for has_changed in [false, true] {
        let mut pair = hosts();
        let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
        hand_off(&mut pair, SERVER, server);
        let data = pattern(10_000);
        let memory = region(&data);
        let id = pair.register(SERVER, Arc::clone(&memory), "file");
        pair.decide(|from, _, frame| match from == SERVER && frame.len() > 500 {
            true => Fate::Drop,
            false => Fate::Pass,
        });
        let now = pair.now();
        let slices = [slice(id, 0, 10_000)];
        let sent = pair.stack(SERVER).send_slices(now, server, &slices);
        assert_eq!(sent, Ok(10_000));
        pair.run_for(Duration::from_millis(5));
        assert!(pair.nic_counter(SERVER, "toe_tx_segments") > 0);
        if has_changed {
            assert!(memory.write(0, &[0xee; 16]));
        }
        pair.reset_nic(SERVER);
        pair.decide(|_, _, _| Fate::Pass);
        pair.run_for(Duration::from_secs(5));
        let mut buffer = vec![0; 20_000];
        let now = pair.now();
        let read = pair.stack(CLIENT).read(now, client, &mut buffer);
        if has_changed {
            assert!(read.is_err(), "{read:?}");
            assert_eq!(pair.ended(SERVER), Some(CloseReason::NicReset));
        } else {
            assert_eq!(read, Ok(10_000));
            assert!(buffer[..10_000] == data);
        }
    }
}

#[test]
fn a_connection_that_was_closing_closes() {
    let mut pair = hosts();
    let before = [in_use(&mut pair, CLIENT), in_use(&mut pair, SERVER)];
    let (client, server) = pair.connected(v4);
    hand_off(&mut pair, SERVER, server);
    let data = pattern(40_000);
    assert_eq!(pair.write(SERVER, server, &data), data.len());
    pair.close(SERVER, server);
    pair.step();
    pair.reset_nic(SERVER);
    let mut read = Vec::new();
    let mut buffer = vec![0; 10_000];
    let done = pair.run_until(Duration::from_secs(20), |pair| {
        let now = pair.now();
        loop {
            match pair.stack(CLIENT).read(now, client, &mut buffer) {
                Ok(0) => return true,
                Ok(bytes) => read.extend_from_slice(&buffer[..bytes]),
                Err(_) => return false,
            }
        }
    });
    assert!(done && read == data, "{}", read.len());
    pair.close(CLIENT, client);
    assert_all_given_back(&mut pair, before);
}

#[test]
fn of_what_was_spliced_the_application_is_told() {
    let mut pair = splicing();
    let (_, a) = pair.connected(v4);
    let (_, b) = pair.connected(v4);
    let now = pair.now();
    let options = SpliceOptions::default();
    let splice = pair
        .stack(SERVER)
        .splice(now, a, b, options)
        .expect("at rest");
    pair.run_for(Duration::from_millis(50));
    pair.reset_nic(SERVER);
    pair.run_for(Duration::from_millis(5));
    let told = pair.events(SERVER).iter().find_map(|event| match event {
        Event::SpliceEnded(handle, report) if *handle == splice => Some(report.reason),
        _ => None,
    });
    assert_eq!(told, Some(SpliceEnd::NicReset));
    let now = pair.now();
    let read = pair.stack(SERVER).read(now, a, &mut [0; 4]);
    assert_eq!(read, Err(host::SocketError::Closed(CloseReason::NicReset)));
}

/// Contexts, a connection on the NIC and one that it finishes, when their host is gone: the NIC does nothing for them any more, whatever
/// their peers send.
#[test]
fn of_a_host_that_dies_nothing_is_left_on_the_nic() {
    for turns in [0, 1, 3, 10, 50] {
        let mut pair = hosts();
        let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
        let (second, closing) = pair.connected(v4);
        hand_off(&mut pair, SERVER, server);
        hand_off(&mut pair, SERVER, closing);
        let (now, data) = (pair.now(), pattern(200_000));
        for (at, id) in [
            (CLIENT, client),
            (SERVER, server),
            (CLIENT, second),
            (SERVER, closing),
        ] {
            let _ = pair.stack(at).write(now, id, &data);
        }
        pair.close(SERVER, closing);
        for _ in 0..turns {
            pair.step();
        }
        let nic = &mut pair.nic(SERVER);
        let id = nic.functions().next().expect("it has one");
        assert!(nic.detach(id));
        pair.run_for(Duration::from_secs(5));
        let nic = &mut pair.nic(SERVER);
        assert_eq!(nic.functions().count(), 0);
        assert_eq!(nic.unfinished_teardowns(), 0);
        assert_eq!(nic.counters().toe_connections, 0);
        assert_eq!(nic.poll_timeout(), None, "nothing is to be done");
        assert!(nic.prepare_sleep());
    }
}
