use l5p::Layers;
use l5p::nvme::Parameters;
use proptest::prelude::*;
use wire::SeqNum;
use wire::nvme::Role;

use super::pdus::{Pdus, crc32c, parameters};
use super::rig::*;
use crate::ring::{ErrorCode, InnerRecover, SendFlags, Verify};

const MUTABLE: SendFlags = SendFlags::MUTABLE_SOURCE;
const PARAMETERS: fn() -> Parameters = || parameters(Role::Controller, false, true);

/// Two PDUs of 3,000 bytes of data, of which `sent` were sent.
fn after_sending(sent: u32) -> (Rig, Pdus, Stream) {
    let mut rig = Rig::plain();
    let pdus = Pdus::new(PARAMETERS(), &[(false, 3000), (false, 3000)]);
    let stream = pdus.stream(&rig, SeqNum(1000));
    rig.create_for(stream.start, &Layers::of(&pdus.parameters));
    let slices = stream.slices(&rig, stream.start, stream.start + sent, 900);
    rig.send(stream.start, 1448, Some(CONTEXT), MUTABLE, &slices);
    for (parsed, payload) in rig.segments() {
        stream.check(&parsed, &payload);
    }
    (rig, pdus, stream)
}

/// The same PDUs in three records, all sent.
fn after_sending_encrypted() -> (Rig, Pdus, Stream) {
    let mut rig = Rig::plain();
    let pdus = Pdus::new(PARAMETERS(), &[(false, 3000), (false, 3000)]);
    let sizes = [2000, 2000, 3000];
    let (stream, _) = pdus.stream_in_tls(&rig, SUITES[3], SeqNum(1000), &sizes);
    let l5 = &Layers::of(&stream.crypto).carrying(&pdus.parameters);
    rig.create_for(stream.start, l5);
    let slices = stream.slices(&rig, stream.start, stream.end(), 900);
    rig.send(stream.start, 1448, Some(CONTEXT), MUTABLE, &slices);
    for (parsed, payload) in rig.segments() {
        stream.check(&parsed, &payload);
    }
    (rig, pdus, stream)
}

fn codes(rig: &mut Rig) -> Vec<ErrorCode> {
    rig.errors().into_iter().map(|error| error.1).collect()
}

fn inner(pdus: &Pdus, index: usize, offset: u32) -> InnerRecover {
    let (pdu, _) = &pdus.ranges[index];
    InnerRecover {
        index: index as u64,
        len: pdu.end - pdu.start,
        offset,
    }
}

#[test]
fn the_digest_of_a_source_that_changed_is_that_of_what_is_read_now() {
    let (mut rig, pdus, stream) = after_sending(6000);
    rig.region.write(100, &[PLAIN ^ 1]);
    let pdu = stream.records[0];
    let resume = pdu.start + pdu.len - 500;
    let prefix = stream.slices(&rig, pdu.start, resume, 900);
    rig.recover(&pdu, resume, &prefix, Verify::None);
    let again = stream.slices(&rig, resume, pdu.start + pdu.len, 900);
    rig.send(resume, 1448, Some(CONTEXT), MUTABLE, &again);
    let (_, payload) = rig.segments().remove(0);
    let mut now = pdus.expected[..pdu.len as usize].to_vec();
    now[100] = PLAIN ^ 1;
    let data = pdu.len as usize - 4 - 3000..pdu.len as usize - 4;
    let digest = crc32c(&now[data]).to_le_bytes();
    assert_eq!(payload[496..], digest);
    assert_ne!(
        payload[496..],
        pdus.expected[pdu.len as usize - 4..pdu.len as usize]
    );
    assert_eq!(rig.nic.counters().pcie_icv_writeback, 0);
}

#[test]
fn digests_need_no_proof() {
    let (mut rig, _, stream) = after_sending(6000);
    let pdu = stream.records[0];
    let whole = stream.slices(&rig, pdu.start, pdu.start + pdu.len, 900);
    rig.recover(&pdu, pdu.start, &whole, Verify::WholeMessage);
    rig.send(pdu.start, 1448, Some(CONTEXT), MUTABLE, &whole);
    assert_eq!(rig.frames(), []);
    assert_eq!(
        codes(&mut rig),
        [ErrorCode::Unsupported, ErrorCode::OutOfSequence]
    );
    rig.recover(&pdu, pdu.start, &[], Verify::None);
    rig.send(pdu.start, 1448, Some(CONTEXT), MUTABLE, &whole);
    assert_eq!(rig.segments().len(), 3);
}

#[test]
fn a_record_with_a_digest_of_data_that_changed_is_not_sent_again() {
    for change_at in [50, 2500] {
        let (mut rig, pdus, stream) = after_sending_encrypted();
        // The first record holds data of the PDU whose digest is in the second one.
        let at = match change_at < 2000 {
            true => 5 + change_at,
            false => 2022 + 5 + change_at - 2000,
        };
        rig.region.write(at, &[PLAIN ^ 1]);
        let record = stream.records[1];
        let mut prefix = vec![rig.slice(5, 2000)];
        prefix.extend(stream.slices(&rig, record.start, record.start + record.len, 900));
        let inner = inner(&pdus, 0, 2000);
        rig.recover_layers(
            &record,
            record.start,
            &prefix,
            Verify::WholeMessage,
            Some(inner),
        );
        rig.send(record.start, 1448, Some(CONTEXT), MUTABLE, &prefix[1..]);
        assert_eq!(rig.frames(), [], "nothing leaves");
        assert_eq!(
            codes(&mut rig),
            [ErrorCode::SourceChanged, ErrorCode::OutOfSequence]
        );
        assert_eq!(rig.nic.counters().named("tx_tls_source_changed"), 1);
    }
}

#[test]
fn recoveries_are_of_the_context_s_layers() {
    let (mut rig, pdus, stream) = after_sending(6000);
    let pdu = stream.records[0];
    let given = inner(&pdus, 0, 0);
    rig.recover_layers(&pdu, pdu.start, &[], Verify::None, Some(given));
    assert_eq!(rig.frames(), []);
    assert_eq!(codes(&mut rig), [ErrorCode::BadParameters]);

    let (mut rig, pdus, stream) = after_sending_encrypted();
    let record = stream.records[1];
    rig.recover(&record, record.start, &[], Verify::None);
    let offset = inner(&pdus, 0, 2000);
    let prefix = [rig.slice(5, 2000)];
    let wrong_len = InnerRecover {
        len: offset.len + 4,
        ..offset
    };
    rig.recover_layers(
        &record,
        record.start,
        &prefix,
        Verify::None,
        Some(wrong_len),
    );
    let not_a_pdu = [rig.slice(9, 2000)];
    rig.recover_layers(
        &record,
        record.start,
        &not_a_pdu,
        Verify::None,
        Some(offset),
    );
    assert_eq!(rig.frames(), []);
    assert_eq!(
        codes(&mut rig),
        [
            ErrorCode::BadParameters,
            ErrorCode::BadMessage,
            ErrorCode::NotAHeader
        ]
    );
    // The right one helps.
    rig.recover_layers(&record, record.start, &prefix, Verify::None, Some(offset));
    let again = stream.slices(&rig, record.start, record.start + 30, 900);
    rig.send(record.start, 1448, Some(CONTEXT), SendFlags::NONE, &again);
    for (parsed, payload) in rig.segments() {
        stream.check(&parsed, &payload);
    }
    assert_eq!(rig.errors(), []);
}

#[test]
fn a_recovery_of_an_endless_pdu_reads_nothing() {
    let mut rig = Rig::plain();
    let parameters = Parameters {
        max_pdu: u32::MAX,
        ..PARAMETERS()
    };
    rig.create_for(SeqNum(0), &Layers::of(&parameters));
    let pdu = Record {
        start: SeqNum(0),
        len: u32::MAX,
        index: 0,
    };
    let prefix = [rig.slice(0, MEMORY as u32); 8];
    rig.recover(&pdu, SeqNum(8 * MEMORY as u32), &prefix, Verify::None);
    assert_eq!(rig.frames(), []);
    assert_eq!(codes(&mut rig), [ErrorCode::BadLength]);
    assert_eq!(rig.nic.counters().pcie_recovery, 0);
}

#[test]
fn content_that_is_no_pdu_does_not_leave() {
    for encrypted in [false, true] {
        let (mut rig, _, stream) = match encrypted {
            false => after_sending(1448),
            true => {
                let mut rig = Rig::plain();
                let pdus = Pdus::new(PARAMETERS(), &[(false, 3000), (false, 3000)]);
                let (stream, _) = pdus.stream_in_tls(&rig, SUITES[3], SeqNum(1000), &[1500, 5000]);
                let l5 = &Layers::of(&stream.crypto).carrying(&pdus.parameters);
                rig.create_for(stream.start, l5);
                let slices = stream.slices(&rig, stream.start, stream.start + 1448, 900);
                rig.send(stream.start, 1448, Some(CONTEXT), MUTABLE, &slices);
                rig.segments();
                (rig, pdus, stream)
            }
        };
        // Whatever these are, they are not the header of the second PDU.
        let header = if encrypted {
            1522 + 5 + 3036 - 1500
        } else {
            3036
        };
        rig.region.write(header, b"HTTP/1.1 200 OK");
        let next = stream.start + 1448;
        let slices = stream.slices(&rig, next, stream.end(), 900);
        rig.send(next, 0, Some(CONTEXT), SendFlags::NONE, &slices[..1]);
        rig.segments();
        let next = next + slices[0].len;
        rig.send(next, 1448, Some(CONTEXT), SendFlags::NONE, &slices[1..]);
        rig.segments();
        assert_eq!(codes(&mut rig), [ErrorCode::NotAHeader]);
        let counters = rig.nic.counters();
        rig.send(next, 1448, Some(CONTEXT), SendFlags::NONE, &slices[1..]);
        assert_eq!(rig.frames(), []);
        assert_eq!(codes(&mut rig), [ErrorCode::OutOfSequence]);
        let now = rig.nic.counters();
        assert_eq!(
            now.named("tx_nvmeotcp_drop_no_sync_data")
                - counters.named("tx_nvmeotcp_drop_no_sync_data"),
            u64::from(!encrypted)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a host writes into its ring for contexts that digest PDUs: the device answers and goes on, and lets no
    /// plaintext of an encrypted flow out.
    #[test]
    fn any_descriptors_are_survived(
        encrypted in any::<bool>(),
        slots in prop::collection::vec(
            (
                prop_oneof![Just(1u8), Just(3), Just(5), 0u8..=9],
                any::<[u8; 7]>(),
                prop::collection::vec(prop_oneof![0u64..4, 0u64..5000, any::<u64>()], 23),
            ),
            1..40,
        ),
        sent in 0u32..6000,
    ) {
        let mut rig = Rig::plain();
        let pdus = Pdus::new(PARAMETERS(), &[(false, 3000), (false, 3000)]);
        let stream = match encrypted {
            false => {
                let stream = pdus.stream(&rig, SeqNum(0));
                rig.create_for(stream.start, &Layers::of(&pdus.parameters));
                stream
            }
            true => {
                let (stream, _) = pdus.stream_in_tls(&rig, SUITES[3], SeqNum(0), &[500, 3000]);
                let l5 = &Layers::of(&stream.crypto).carrying(&pdus.parameters);
                rig.create_for(stream.start, l5);
                stream
            }
        };
        let slices = stream.slices(&rig, stream.start, stream.start + sent, 400);
        rig.send(stream.start, 1448, Some(CONTEXT), SendFlags::NONE, &slices);
        let header = rig.header(SeqNum(sent), wire::tcp::Flags::PSH);
        for (opcode, [flags, header_len, slices, continuations, a, mss, b], rest) in &slots {
            let mut words = [0; 24];
            words[0] = u64::from_le_bytes([
                *opcode, flags % 16, header_len % 130, slices % 5, continuations % 5, *a, *mss, b % 4,
            ]);
            words[1..].copy_from_slice(rest);
            if *a % 2 == 0 {
                words[0] = words[0] & !0xff_0000 | (header.len() as u64) << 16;
                for (word, bytes) in words[8..].iter_mut().zip(header.chunks(8)) {
                    let mut padded = [0; 8];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    *word = u64::from_le_bytes(padded);
                }
                words[1] &= 0xffff_ffff_0000_0000;
            }
            rig.host.queues[0].send.post_raw(&words).unwrap();
        }
        let bypassed = slots.iter().any(|slot| slot.2[0] as u32 == u32::MAX);
        for (frame, _) in rig.frames() {
            if encrypted && !bypassed {
                prop_assert!(!frame.windows(24).any(|window| window == [PLAIN; 24]));
            }
        }
        let send = &mut rig.host.queues[0].send;
        prop_assert!(send.completed() == send.posted() || rig.errors().len() >= 64);
    }
}
