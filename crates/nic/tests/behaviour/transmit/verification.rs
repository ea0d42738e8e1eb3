use testkit::bare::CONTEXT;
use testkit::fixtures::SUITES;
use wire::SeqNum;

use super::stream::*;
use super::*;
use nic::ring::{ErrorCode, SendFlags, Verify};

const MUTABLE: SendFlags = SendFlags::MUTABLE_SOURCE;

/// A record of 4,000 bytes, of which `sent` were sent, and one after it.
fn after_sending(suite: usize, sent: u32) -> (Rig, Stream) {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[suite], SeqNum(1000), &[4000, 4000]);
    rig.create(stream.start, &Layers::of(&stream.crypto));
    let slices = stream.slices(&rig, stream.start, stream.start + sent, 900);
    rig.send(stream.start, 1448, Some(CONTEXT), MUTABLE, &slices);
    stream.check_segments(&mut rig);
    (rig, stream)
}

fn change(rig: &Rig, offset: u64) {
    rig.host.memory.write(offset, &[PLAIN ^ 1]);
}

#[test]
fn the_integrity_value_is_written_back_where_its_dummy_was() {
    for suite in 0..SUITES.len() {
        let (rig, stream) = after_sending(suite, stream_len(suite));
        let record = stream.records[0];
        let end = record.len as usize;
        let stored = rig.host.memory.read(end as u64 - 16, 16);
        assert_eq!(stored, stream.expected[end - 16..end]);
        assert_eq!(rig.nic.counters().pcie_icv_writeback, 16);
    }
}

/// Bytes of the first record.
fn stream_len(suite: usize) -> u32 {
    let rig = plain();
    Stream::new(&rig, SUITES[suite], SeqNum(0), &[4000]).len()
}

#[test]
fn a_changed_record_is_not_sent_again() {
    for suite in 0..SUITES.len() {
        let len = stream_len(suite);
        for resume in [0, 1448, len - 10] {
            let (mut rig, stream) = after_sending(suite, len + 100);
            let record = stream.records[0];
            // What is sent again is itself unchanged; another byte of the record is not.
            change(&rig, 20);
            let resume = record.start + resume;
            let whole = stream.slices(&rig, record.start, record.start + len, 900);
            rig.recover(&record, resume, &whole, Verify::WholeMessage);
            let again = stream.slices(&rig, resume, record.start + len, 900);
            rig.send(resume, 1448, Some(CONTEXT), MUTABLE, &again);
            assert_eq!(rig.frames(), [], "nothing leaves");
            assert_eq!(
                rig.host.codes(),
                [ErrorCode::SourceChanged, ErrorCode::OutOfSequence]
            );
            assert_eq!(rig.nic.counters().named("tx_tls_source_changed"), 1);
        }
    }
}

#[test]
fn a_changed_interrupted_record_is_neither_sent_again_nor_gone_on_with() {
    for suite in 0..SUITES.len() {
        for sent in [100, 1448, 4000] {
            for resume in [0, 50, sent] {
                let (mut rig, stream) = after_sending(suite, sent);
                let record = stream.records[0];
                change(&rig, 40);
                let resume = record.start + resume;
                let prefix = stream.slices(&rig, record.start, record.start + sent, 900);
                rig.recover(&record, resume, &prefix, Verify::Frontier);
                let again = stream.slices(&rig, resume, record.start + sent + 20, 900);
                rig.send(resume, 1448, Some(CONTEXT), MUTABLE, &again);
                assert_eq!(rig.frames(), []);
                assert_eq!(
                    rig.host.codes(),
                    [ErrorCode::SourceChanged, ErrorCode::OutOfSequence]
                );
            }
        }
    }
}

#[test]
fn what_is_sent_again_is_what_was_verified_even_if_the_source_changes_in_between() {
    let (mut rig, stream) = after_sending(3, 4022);
    let record = stream.records[0];
    let whole = stream.whole(&rig, &record);
    rig.recover(&record, record.start, &whole, Verify::WholeMessage);
    assert_eq!(rig.frames(), []);
    change(&rig, 30);
    rig.send(record.start, 1448, Some(CONTEXT), MUTABLE, &whole);
    assert_eq!(stream.check_segments(&mut rig), 3);
    let counters = rig.nic.counters();
    assert_eq!(counters.pcie_payload_tx, 4022, "read once to send");
    assert_eq!(counters.pcie_recovery, 4022, "and once to verify");
}

#[test]
fn an_unverified_repetition_is_refused() {
    let (mut rig, stream) = after_sending(3, 4022);
    let record = stream.records[0];
    let whole = stream.whole(&rig, &record);
    rig.recover(&record, record.start, &[], Verify::None);
    rig.send(record.start, 1448, Some(CONTEXT), MUTABLE, &whole);
    assert_eq!(rig.frames(), []);
    assert_eq!(rig.host.codes()[0], ErrorCode::Unverified);
}

#[test]
fn a_frontier_that_the_device_does_not_know_is_refused() {
    let (mut rig, stream) = after_sending(3, 1448);
    let record = stream.records[0];
    for prefix in [1447, 1449] {
        let prefix = stream.slices(&rig, record.start, record.start + prefix, 900);
        rig.recover(&record, record.start, &prefix, Verify::Frontier);
    }
    rig.recover(
        &stream.records[1],
        stream.records[1].start,
        &[],
        Verify::Frontier,
    );
    assert_eq!(rig.frames(), []);
    assert!(
        rig.host
            .errors()
            .iter()
            .all(|e| e.1 == ErrorCode::BadMessage)
    );
}

#[test]
fn a_record_whose_pages_are_lost_is_not_sent() {
    use std::sync::atomic::Ordering;
    let (mut rig, stream) = after_sending(3, 1448);
    rig.host
        .memory
        .region
        .faulted
        .store(true, Ordering::Release);
    let next = stream.start + 1448;
    let slices = stream.slices(&rig, next, next + 1000, 900);
    rig.send(next, 1448, Some(CONTEXT), MUTABLE, &slices);
    rig.send(next, 1448, None, SendFlags::NONE, &slices);
    assert_eq!(rig.frames(), []);
    assert_eq!(rig.host.codes(), [ErrorCode::SourceFaulted; 2]);
}
