use l5p::Layers;
use l5p::nvme::Parameters;
use testkit::bare::{CONTEXT, MEMORY, Message};
use testkit::fixtures::SUITES;
use testkit::pdus::{PduStream, crc32c};
use wire::SeqNum;
use wire::nvme::Role;

use super::pdus::{parameters, pdus, send_bare, send_in_tls};
use super::stream::*;
use super::*;
use nic::ring::{ErrorCode, InnerRecover, SendFlags, Verify};

const MUTABLE: SendFlags = SendFlags::MUTABLE_SOURCE;
const PARAMETERS: fn() -> Parameters = || parameters(Role::Controller, false, true);

fn two() -> PduStream {
    pdus(&PARAMETERS(), &[(false, 3000), (false, 3000)])
}

/// Two PDUs of 3,000 bytes of data, of which `sent` were sent.
fn after_sending(sent: u32) -> (Rig, PduStream, Stream) {
    let (mut rig, pdus) = (plain(), two());
    let stream = send_bare(&pdus, &mut rig, SeqNum(1000));
    let slices = stream.slices(&rig, stream.start, stream.start + sent, 900);
    rig.send(stream.start, 1448, Some(CONTEXT), MUTABLE, &slices);
    stream.check_segments(&mut rig);
    (rig, pdus, stream)
}

/// The same PDUs in three records, all sent.
fn after_sending_encrypted() -> (Rig, PduStream, Stream) {
    let (mut rig, pdus) = (plain(), two());
    let sizes = [2000, 2000, 3000];
    let (stream, _) = send_in_tls(&pdus, &mut rig, SUITES[3], SeqNum(1000), &sizes);
    let slices = stream.slices(&rig, stream.start, stream.end(), 900);
    rig.send(stream.start, 1448, Some(CONTEXT), MUTABLE, &slices);
    stream.check_segments(&mut rig);
    (rig, pdus, stream)
}

fn inner(pdus: &PduStream, index: usize, offset: u32) -> InnerRecover {
    InnerRecover {
        index: index as u64,
        len: pdus.pdus[index].all.len() as u32,
        offset,
    }
}

#[test]
fn the_digest_of_a_source_that_changed_is_that_of_what_is_read_now() {
    let (mut rig, pdus, stream) = after_sending(6000);
    rig.host.memory.region.write(100, &[PLAIN ^ 1]);
    let pdu = stream.records[0];
    let resume = pdu.start + pdu.len - 500;
    let prefix = stream.slices(&rig, pdu.start, resume, 900);
    rig.recover(&pdu, resume, &prefix, Verify::None);
    let again = stream.slices(&rig, resume, pdu.start + pdu.len, 900);
    rig.send(resume, 1448, Some(CONTEXT), MUTABLE, &again);
    let (_, payload) = rig.segments().remove(0);
    let mut now = pdus.wire[..pdu.len as usize].to_vec();
    now[100] = PLAIN ^ 1;
    let data = pdu.len as usize - 4 - 3000..pdu.len as usize - 4;
    let digest = crc32c(&now[data]);
    assert_eq!(payload[496..], digest);
    assert_ne!(
        payload[496..],
        pdus.wire[pdu.len as usize - 4..pdu.len as usize]
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
        rig.host.codes(),
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
        rig.host.memory.region.write(at, &[PLAIN ^ 1]);
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
            rig.host.codes(),
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
    assert_eq!(rig.host.codes(), [ErrorCode::BadParameters]);

    let (mut rig, pdus, stream) = after_sending_encrypted();
    let record = stream.records[1];
    rig.recover(&record, record.start, &[], Verify::None);
    let recover = |rig: &mut Rig, prefix: &[_], inner| {
        rig.recover_layers(&record, record.start, prefix, Verify::None, Some(inner));
    };
    let offset = inner(&pdus, 0, 2000);
    let prefix = [rig.slice(5, 2000)];
    let wrong_len = InnerRecover {
        len: offset.len + 4,
        ..offset
    };
    recover(&mut rig, &prefix, wrong_len);
    let not_a_pdu = [rig.slice(9, 2000)];
    recover(&mut rig, &not_a_pdu, offset);
    assert_eq!(rig.frames(), []);
    assert_eq!(
        rig.host.codes(),
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
    stream.check_segments(&mut rig);
    assert_eq!(rig.host.errors(), []);
}

#[test]
fn a_recovery_of_an_endless_pdu_reads_nothing() {
    let mut rig = plain();
    let parameters = Parameters {
        max_pdu: u32::MAX,
        ..PARAMETERS()
    };
    rig.create(SeqNum(0), &Layers::of(&parameters));
    let pdu = Message {
        start: SeqNum(0),
        len: u32::MAX,
        index: 0,
    };
    let prefix = [rig.slice(0, MEMORY as u32); 8];
    rig.recover(&pdu, SeqNum(8 * MEMORY as u32), &prefix, Verify::None);
    assert_eq!(rig.frames(), []);
    assert_eq!(rig.host.codes(), [ErrorCode::BadLength]);
    assert_eq!(rig.nic.counters().pcie_recovery, 0);
}

#[test]
fn content_that_is_no_pdu_does_not_leave() {
    for encrypted in [false, true] {
        let (mut rig, _, stream) = match encrypted {
            false => after_sending(1448),
            true => {
                let mut rig = plain();
                let (pdus, start, sizes) = (two(), SeqNum(1000), [1500, 5000]);
                let (stream, _) = send_in_tls(&pdus, &mut rig, SUITES[3], start, &sizes);
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
        rig.host.memory.region.write(header, b"HTTP/1.1 200 OK");
        let next = stream.start + 1448;
        let slices = stream.slices(&rig, next, stream.end(), 900);
        rig.send(next, 0, Some(CONTEXT), SendFlags::NONE, &slices[..1]);
        rig.segments();
        let next = next + slices[0].len;
        rig.send(next, 1448, Some(CONTEXT), SendFlags::NONE, &slices[1..]);
        rig.segments();
        assert_eq!(rig.host.codes(), [ErrorCode::NotAHeader]);
        let counters = rig.nic.counters();
        rig.send(next, 1448, Some(CONTEXT), SendFlags::NONE, &slices[1..]);
        assert_eq!(rig.frames(), []);
        assert_eq!(rig.host.codes(), [ErrorCode::OutOfSequence]);
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
        slots in slots(prop_oneof![Just(1u8), Just(3), Just(5), 0u8..=9]),
        sent in 0u32..6000,
    ) {
        let (mut rig, pdus) = (plain(), two());
        let stream = match encrypted {
            false => send_bare(&pdus, &mut rig, SeqNum(0)),
            true => send_in_tls(&pdus, &mut rig, SUITES[3], SeqNum(0), &[500, 3000]).0,
        };
        let slices = stream.slices(&rig, stream.start, stream.start + sent, 400);
        rig.send(stream.start, 1448, Some(CONTEXT), SendFlags::NONE, &slices);
        let header = rig.header(SeqNum(sent), wire::tcp::Flags::PSH);
        post_slots(&mut rig, &slots, &header, 16);
        let bypassed = slots.iter().any(bypasses);
        for (frame, _) in rig.frames() {
            if encrypted && !bypassed {
                prop_assert!(!frame.windows(24).any(|window| window == [PLAIN; 24]));
            }
        }
        let send = &mut rig.host.queues[0].send;
        prop_assert!(send.completed() == send.posted() || rig.host.errors().len() >= 64);
    }
}
