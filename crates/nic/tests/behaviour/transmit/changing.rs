//! Sources that the host writes to while the device reads them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use l5p::Layer5;
use l5p::tls::{Direction, Engine};
use l5p::{Integrity, Walker};
use testkit::bare::{CONTEXT, Message};
use testkit::fixtures::SUITES;
use testkit::pdus::{PduStream, crc32c};
use wire::SeqNum;
use wire::nvme::Role;

use super::pdus::{parameters, pdus, send_bare, send_in_tls};
use super::stream::*;
use super::*;
use nic::ring::{Region, SendFlags};

const DATA: u32 = 12_000;

/// Sends a stream while a thread writes to these ranges of the region. Gives what left.
fn sent_while_changing(rig: &mut Rig, stream: &Stream, ranges: &[Range<u64>]) -> Vec<u8> {
    for record in &stream.records {
        let slices = stream.slices(rig, record.start, record.start + record.len, 16_384);
        rig.send(record.start, 1448, Some(CONTEXT), SendFlags::NONE, &slices);
    }
    let region = rig.host.memory.region.clone();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| change(&region, ranges, &stop));
        let frames = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rig.segments()));
        stop.store(true, Ordering::Relaxed);
        let frames = frames.expect("segments");
        frames
            .into_iter()
            .flat_map(|(_, payload)| payload)
            .collect()
    })
}

fn change(region: &Region, ranges: &[Range<u64>], stop: &AtomicBool) {
    for value in (0..=u8::MAX).cycle() {
        for range in ranges {
            let bytes = [value; DATA as usize];
            assert!(region.write(range.start, &bytes[..(range.end - range.start) as usize]));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
}

/// The PDUs' data, in the stream of PDUs.
fn data(pdus: &PduStream) -> impl Iterator<Item = Range<usize>> {
    pdus.pdus.iter().map(|pdu| pdu.data.clone())
}

fn eight() -> PduStream {
    pdus(
        &parameters(Role::Controller, false, true),
        &[(false, DATA); 8],
    )
}

/// Every digest must be of the data before it.
fn check(pdus: &PduStream, sent: &[u8]) {
    assert_eq!(sent.len(), pdus.framed.len());
    for pdu in &pdus.pdus {
        assert_eq!(sent[pdu.digest.clone()], crc32c(&sent[pdu.data.clone()]));
    }
}

#[test]
fn a_digest_is_of_what_is_sent_also_while_the_source_changes() {
    let (mut rig, pdus) = (plain(), eight());
    let stream = send_bare(&pdus, &mut rig, SeqNum(1000));
    let ranges: Vec<_> = data(&pdus)
        .map(|data| data.start as u64..data.end as u64)
        .collect();
    check(&pdus, &sent_while_changing(&mut rig, &stream, &ranges));
}

#[test]
fn a_digest_in_a_record_is_of_the_data_in_it_also_while_the_source_changes() {
    for suite in [SUITES[3], SUITES[5]] {
        let (mut rig, pdus) = (plain(), eight());
        let (stream, contents) = send_in_tls(&pdus, &mut rig, suite, SeqNum(1000), &[]);
        let mut ranges = Vec::new();
        for (record, content) in stream.records.iter().zip(&contents) {
            let at = u64::from(stream.offset(record.start)) + 5;
            for data in data(&pdus) {
                let (from, to) = (data.start.max(content.start), data.end.min(content.end));
                if from < to {
                    let place = |byte: usize| at + (byte - content.start) as u64;
                    ranges.push(place(from)..place(to));
                }
            }
        }
        let sent = sent_while_changing(&mut rig, &stream, &ranges);

        let mut engine = Engine::new(&stream.crypto, Direction::Receive);
        let mut plaintext = vec![0; sent.len()];
        let walked = Walker::new(stream.crypto.sequence)
            .advance(&mut engine, &sent, &mut plaintext)
            .expect("records");
        assert_eq!(walked.integrity, Integrity::Good);
        let content = |record: &Message| {
            let at = stream.offset(record.start);
            let content = engine.content(record.len).unwrap();
            plaintext[(at + content.start) as usize..(at + content.end) as usize].to_vec()
        };
        let inner: Vec<u8> = stream.records.iter().flat_map(content).collect();
        check(&pdus, &inner);
    }
}
