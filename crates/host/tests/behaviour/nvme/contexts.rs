//! What contexts of the NIC do, and what is done without them.

use super::rig::{Mode, Rig, STRIDE, c2h, response};
use crate::pair::{CLIENT, Connected as _, SERVER, hosts_with, lossy};
use host::nvme::{Digests, PduOffload};
use host::pdus::{DataDigest, PduData};
use host::{CloseReason, Offload};
use sim::Fate;
use testkit::pattern;

const OFFLOADED: Mode = Mode {
    digests: Digests::BOTH,
    offload: PduOffload::ALL,
    ..Mode::PLAIN
};

const STACKED: Mode = Mode {
    tls: Some(Offload::Both),
    ..OFFLOADED
};

/// Sends data in PDUs of `each` bytes, and reads it.
fn send(rig: &mut Rig, data: &[u8], each: usize) {
    rig.fill(SERVER, 0, data);
    for (n, part) in data.chunks(each).enumerate() {
        let (at, len) = ((n * each) as u32, part.len() as u32);
        let slices = rig.slices(SERVER, u64::from(at), len);
        rig.send(SERVER, &c2h(0, at, len), PduData::Slices(&slices));
    }
    rig.send(SERVER, &response(1), PduData::None);
    rig.run_until(|rig| rig.sides[CLIENT].log.headers.last() == Some(&response(1)));
    assert!(rig.memory(CLIENT, 0, data.len()) == data);
    assert_eq!(rig.pair.nic_counter(SERVER, "tx_errors"), 0);
    let ends = &rig.sides[CLIENT].log.ends;
    assert!(ends.iter().all(|end| *end == DataDigest::Good));
    assert_eq!(ends.len(), data.len().div_ceil(each));
}

#[test]
fn the_nic_makes_digests() {
    let mut rig = Rig::new(OFFLOADED);
    send(&mut rig, &pattern(1_000_000), 100_000);
    assert_eq!(rig.pair.counter(SERVER, "NvmeTcpTxPdusDevice"), 11);
    assert_eq!(rig.pair.nic_counter(SERVER, "tx_nvmeotcp_ooo"), 0);
    assert!(rig.pair.nic_counter(SERVER, "tx_nvmeotcp_digest_bytes") >= 1_000_000);
}

#[test]
fn the_nic_checks_digests_where_it_is_to_place_nothing() {
    for tls in [None, Some(Offload::Both)] {
        let mut rig = Rig::new(Mode {
            offload: PduOffload {
                receive_digest: true,
                ..PduOffload::NONE
            },
            tls,
            ..OFFLOADED
        });
        send(&mut rig, &pattern(1_000_000), 100_000);
        let count = |name| rig.pair.counter(CLIENT, name);
        assert_eq!(count("NvmeTcpRxBytesPlaced"), 0);
        let digests = ["NvmeTcpRxDigestsDevice", "NvmeTcpRxDigestsSw"].map(count);
        assert_eq!(digests, [10, 0], "{tls:?}");
    }
}

#[test]
fn the_nic_makes_digests_inside_of_records() {
    let mut rig = Rig::new(STACKED);
    send(&mut rig, &pattern(1_000_000), 100_000);
    assert_eq!(rig.pair.counter(SERVER, "NvmeTcpTxPdusDevice"), 11);
    assert_eq!(rig.pair.nic_counter(SERVER, "tx_nvmeotcp_ooo"), 0);
    assert!(rig.pair.nic_counter(SERVER, "tx_nvmeotcp_digest_bytes") >= 1_000_000);
    assert_eq!(rig.pair.counter(SERVER, "TlsTxRecordsFallback"), 0);
}

#[test]
fn records_of_pdus_are_made_again_after_loss() {
    for each in [5_000, 60_000] {
        let mut rig = Rig::new(STACKED);
        rig.pair.decide(lossy(SERVER, 0.03, 0.02, 11));
        send(&mut rig, &pattern(1_500_000), each);
        assert!(rig.pair.counter(SERVER, "DriverTxRecoveries") > 10);
        assert_eq!(rig.pair.counter(SERVER, "TlsTxRecordsFallback"), 0);
    }
}

#[test]
fn key_updates_go_between_pdus() {
    for loss in [0.0, 0.02] {
        let mut rig = Rig::new(STACKED);
        rig.pair.decide(lossy(SERVER, loss, loss, 7));
        let data = pattern(600_000);
        for round in 0..4 {
            let (now, id) = (rig.pair.now(), rig.sides[SERVER].id);
            rig.pair
                .stack(SERVER)
                .key_update(now, id, round % 2 == 0)
                .expect("TLS 1.3");
            send(&mut rig, &data[round * 1000..], 30_000);
            for side in &mut rig.sides {
                side.log.ends.clear();
                side.log.headers.clear();
            }
        }
        assert_eq!(rig.pair.counter(SERVER, "TlsTxRecordsFallback"), 0);
    }
}

/// Software encrypts once too many contexts wait for acknowledgments. It must make the digests too, although the NIC did when the PDU was begun.
#[test]
fn digests_are_made_under_keys_that_have_no_context() {
    let mut rig = Rig::new(STACKED);
    let data = pattern(200_000);
    rig.fill(SERVER, 0, &data);
    rig.pair.decide(
        |from, _, frame| match from == SERVER && frame.len() > 1000 {
            true => Fate::Drop,
            false => Fate::Pass,
        },
    );
    for n in 0..10 {
        let (now, id) = (rig.pair.now(), rig.sides[CLIENT].id);
        let updated = rig.pair.stack(CLIENT).key_update(now, id, true);
        updated.expect("TLS 1.3");
        rig.run_until(|rig| rig.pair.counter(SERVER, "TlsRxRekeyReceived") > u64::from(n));
        let slices = rig.slices(SERVER, u64::from(n) * 20_000, 20_000);
        let pdu = c2h(0, n * 20_000, 20_000);
        rig.send_unread(SERVER, &pdu, PduData::Slices(&slices));
    }
    assert!(rig.pair.counter(SERVER, "TlsTxRecordsSw") > 10);
    rig.pair.decide(|_, _, _| Fate::Pass);
    rig.run_until(|rig| rig.sides[CLIENT].log.ends.len() == 10);
    assert!(rig.memory(CLIENT, 0, data.len()) == data);
    assert_eq!(rig.sides[CLIENT].log.ends, [DataDigest::Good; 10]);
}

#[test]
fn the_middle_of_a_pdu_is_sent_again_without_a_recovery() {
    let mut rig = Rig::new(OFFLOADED);
    let mut frames = 0;
    rig.pair.decide(move |from, _, frame| {
        frames += u32::from(from == SERVER && frame.len() > 1000);
        match from == SERVER && frames == 20 && frame.len() > 1000 {
            true => Fate::Drop,
            false => Fate::Pass,
        }
    });
    send(&mut rig, &pattern(200_000), 200_000);
    assert_eq!(rig.pair.counter(SERVER, "TcpRetransSegs"), 1);
    assert_eq!(rig.pair.counter(SERVER, "DriverTxOutOfSequence"), 1);
    assert_eq!(rig.pair.counter(SERVER, "DriverTxRecoveries"), 0);
}

#[test]
fn a_digest_is_made_again_after_loss() {
    for (seed, each) in [(12, 600), (13, 70_000), (14, 250_000)] {
        let mut rig = Rig::new(OFFLOADED);
        rig.pair.decide(lossy(SERVER, 0.05, 0.05, seed));
        send(&mut rig, &pattern(1_000_000), each);
    }
    let mut rig = Rig::new(OFFLOADED);
    rig.pair.decide(lossy(SERVER, 0.05, 0.02, 11));
    send(&mut rig, &pattern(1_500_000), 5_000);
    assert!(rig.pair.counter(SERVER, "DriverTxRecoveries") > 10);
    assert_eq!(rig.pair.counter(SERVER, "NvmeTcpTxPdusFallback"), 0);
}

#[test]
fn software_makes_digests_where_the_nic_has_no_room() {
    let pair = hosts_with(|_, node| node.function.contexts = 0);
    let mut rig = Rig::on(pair, OFFLOADED);
    send(&mut rig, &pattern(300_000), 30_000);
    assert_eq!(rig.pair.counter(SERVER, "NvmeTcpTxPdusDevice"), 0);
    assert!(rig.pair.counter(SERVER, "NvmeTcpContextRefused") > 0);
}

#[test]
fn a_digest_of_memory_that_has_changed_is_not_sent_under_the_same_counter() {
    // The digest has a record of its own, and that a packet of its own.
    let record = 11 * 1448 - 22;
    let pair = hosts_with(|_, node| node.stack.record_bytes = record);
    let mut rig = Rig::on(pair, STACKED);
    let len = usize::from(record) - 28;
    rig.fill(SERVER, 0, &pattern(len));
    let mut is_lost = false;
    rig.pair.decide(move |from, _, frame| {
        let is_last = (80..120).contains(&frame.len());
        match from == SERVER && is_last && !std::mem::replace(&mut is_lost, true) {
            true => Fate::Drop,
            false => Fate::Pass,
        }
    });
    let slices = rig.slices(SERVER, 0, len as u32);
    rig.send_unread(SERVER, &c2h(0, 0, len as u32), PduData::Slices(&slices));
    for _ in 0..3 {
        rig.pair.step();
    }
    rig.fill(SERVER, 100, b"something else");
    let mut ended = None;
    rig.pair
        .run_until(std::time::Duration::from_secs(5), |pair| {
            ended = pair.ended(SERVER);
            ended.is_some()
        });
    let Some(CloseReason::SourceChanged { .. }) = ended else {
        panic!("{ended:?}");
    };
}

#[test]
fn data_of_any_length_may_be_copied() {
    let data = pattern(300_000);
    let plain = Mode {
        digests: Digests::BOTH,
        ..Mode::PLAIN
    };
    let software = Mode {
        tls: Some(Offload::None),
        ..plain
    };
    for mode in [plain, OFFLOADED, software, STACKED] {
        let mut rig = Rig::new(mode);
        for len in [1, 17_375, 17_376, 17_377, 70_000, 300_000] {
            let pdu = c2h(1, 0, len as u32);
            rig.send(SERVER, &pdu, PduData::Bytes(&data[..len]));
            rig.run_until(|rig| rig.sides[CLIENT].log.ends.pop() == Some(DataDigest::Good));
            assert!(rig.memory(CLIENT, STRIDE, len) == data[..len], "{len}");
        }
    }
}
