//! Connections with contexts can be handed off and restored like any others.

use std::time::Duration;

use handshake::Options;
use l5p::tls::{Algorithm, Version};

use super::rig::{exchange, hand_off, holder};
use crate::nvme::rig::{Mode, Rig};
use crate::nvme::transfers;
use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts, lossy, options, region, slice};
use crate::zero_copy::send_all;
use host::{Holder, Offload, SocketId};
use testkit::pattern;

const MODES: [Offload; 4] = [Offload::None, Offload::Tx, Offload::Rx, Offload::Both];

/// Hands a connection off, or takes it back.
fn toggle(pair: &mut Pair, at: usize, id: SocketId) {
    let now = pair.now();
    if holder(pair, at, id) == Some(Holder::Nic) {
        assert_eq!(pair.stack(at).restore(now, id), Ok(true));
    } else {
        let _ = pair.stack(at).hand_off(now, id);
    }
}

#[test]
fn tls_works_in_every_mode() {
    let data = pattern(600_000);
    for (version, algorithm) in [
        (Version::Tls13, Algorithm::Aes128Gcm),
        (Version::Tls12, Algorithm::ChaCha20Poly1305),
    ] {
        for mode in MODES {
            let mut pair = hosts();
            let (client, server) = pair.secured(&options(version, algorithm), [mode; 2]);
            hand_off(&mut pair, CLIENT, client);
            hand_off(&mut pair, SERVER, server);
            exchange(
                &mut pair,
                (client, server),
                [&data, &data],
                1 << 30,
                |_, _| {},
            );
            for at in [CLIENT, SERVER] {
                assert_eq!(pair.counter(at, "DriverErrors"), 0, "{mode:?}");
                assert_eq!(pair.counter(at, "HandoffCurr"), 1, "{mode:?}");
                if mode.receive() {
                    assert_eq!(pair.counter(at, "TlsRxRecordsPartial"), 0);
                    assert!(pair.counter(at, "TlsRxRecordsFull") > 30);
                }
                if mode.transmit() {
                    assert_eq!(pair.counter(at, "TlsTxRecordsSw"), 0);
                }
            }
        }
    }
}

#[test]
fn tls_with_loss_and_moves_changes_nothing_that_is_read() {
    let data = pattern(1_500_000);
    for (seed, mode) in MODES.into_iter().enumerate() {
        for lossy_side in [CLIENT, SERVER] {
            let mut pair = hosts();
            let (client, server) = pair.secured(&Options::default(), [mode; 2]);
            pair.decide(lossy(lossy_side, 0.02, 0.02, seed as u64 + 31));
            let ids = [client, server];
            exchange(
                &mut pair,
                (client, server),
                [&data, &data],
                53,
                |pair, turn| {
                    let at = turn as usize % 2;
                    toggle(pair, at, ids[at]);
                },
            );
            for at in [CLIENT, SERVER] {
                assert!(pair.counter(at, "HandoffAccepted") > 3, "{mode:?}");
                assert_eq!(pair.counter(at, "DriverErrors"), 0, "{mode:?}");
            }
        }
    }
}

#[test]
fn the_nic_asks_where_a_context_is_to_go_on() {
    let mut pair = hosts();
    let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
    hand_off(&mut pair, SERVER, server);
    pair.decide(lossy(SERVER, 0.03, 0.0, 11));
    let data = pattern(3_000_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    assert!(pair.counter(SERVER, "HandoffRecoveries") > 10);
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Nic));
    assert_eq!(pair.counter(SERVER, "TlsTxRecordsFallback"), 0);
}

#[test]
fn memory_that_others_may_change_is_proved_on_the_nic_too() {
    let mut pair = hosts();
    let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
    hand_off(&mut pair, SERVER, server);
    pair.decide(lossy(SERVER, 0.02, 0.02, 17));
    let data = pattern(1_200_000);
    let id = pair.register(SERVER, region(&data), "file");
    let slice = slice(id, 0, data.len() as u32);
    assert!(send_all(&mut pair, server, client, &[slice]) == data);
    assert!(pair.counter(SERVER, "HandoffRecoveries") > 5);
    assert_eq!(pair.counter(SERVER, "TlsSourceChanged"), 0);
}

#[test]
fn records_of_a_file_wait_for_room_on_the_nic() {
    let mut pair = hosts();
    let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
    hand_off(&mut pair, SERVER, server);
    let data = pattern(4_000_000);
    let id = pair.register(SERVER, region(&data), "file");
    let slice = slice(id, 0, data.len() as u32);
    assert!(send_all(&mut pair, server, client, &[slice]) == data);
    assert_eq!(pair.counter(SERVER, "DriverErrors"), 0);
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Nic));
}

#[test]
fn a_session_may_begin_and_change_its_keys_on_a_connection_that_the_nic_runs() {
    let (version, algorithm) = (Version::Tls13, Algorithm::Aes128Gcm);
    let mut pair = hosts();
    let (client, server) = pair.secured(&options(version, algorithm), [Offload::Both; 2]);
    hand_off(&mut pair, CLIENT, client);
    hand_off(&mut pair, SERVER, server);
    pair.decide(lossy(SERVER, 0.01, 0.01, 3));
    let data = pattern(400_000);
    for round in 0..4 {
        let now = pair.now();
        pair.stack(SERVER)
            .key_update(now, server, round % 2 == 0)
            .expect("TLS 1.3");
        assert!(pair.transfer(SERVER, server, client, &data) == data);
        let now = pair.now();
        pair.stack(CLIENT)
            .key_update(now, client, true)
            .expect("TLS 1.3");
        assert!(pair.transfer(CLIENT, client, server, &data[..10_000]) == data[..10_000]);
    }
    assert!(pair.counter(SERVER, "TlsTxRekeyOk") >= 4);
}

#[test]
fn pdus_come_to_their_place_in_every_mode() {
    let data = pattern(600_000);
    for mode in transfers::modes() {
        let mut rig = Rig::new(mode);
        for at in [CLIENT, SERVER] {
            let id = rig.sides[at].id;
            hand_off(&mut rig.pair, at, id);
        }
        transfers::exchange(&mut rig, &data, mode);
        for at in [CLIENT, SERVER] {
            assert_eq!(rig.pair.counter(at, "DriverErrors"), 0, "{mode:?}");
        }
    }
}

#[test]
fn pdus_with_loss_and_moves_come_to_their_place() {
    let data = pattern(900_000);
    for (seed, mode) in transfers::modes().enumerate() {
        let mut rig = Rig::new(mode);
        rig.pair
            .decide(lossy(seed % 2, 0.02, 0.02, seed as u64 + 5));
        rig.disturb = Some(disturb);
        transfers::exchange(&mut rig, &data, Mode { ..mode });
        assert!(rig.pair.counter(SERVER, "HandoffAccepted") > 1, "{mode:?}");
        rig.disturb = None;
        rig.pair.run_for(Duration::from_millis(100));
    }
}

fn disturb(pair: &mut Pair, ids: [SocketId; 2], turn: u32) {
    if turn.is_multiple_of(13) {
        let at = turn as usize / 13 % 2;
        toggle(pair, at, ids[at]);
    }
}
