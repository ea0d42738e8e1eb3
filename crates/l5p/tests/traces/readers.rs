//! Hosts' readers of streams.

use std::fmt::Debug;

use l5p::pdus::{DataDigest, Event, Next, PduProtocol, Reader, Resync, Writer};
use l5p::tls::{self, ContentType, CryptoInfo, Output, Piece};
use l5p::{MsgState, iscsi, nbd};
use testkit::fixtures::{SUITES, crypto};
use testkit::{Dice, written};
use wire::SeqNum;

use crate::streams;

fn compare(name: &str, lines: &[String]) {
    written::compare(env!("CARGO_MANIFEST_DIR"), name, lines);
}

/// Reads a stream in pieces; some of the data is there already, some is not wanted, and of some the NIC has checked the digest.
fn read<P: PduProtocol>(framing: P, bytes: &[u8], seed: u64) -> Vec<String>
where
    P::Pdu: Debug,
{
    let mut reader = Reader::new(framing, SeqNum(u32::MAX - 2000));
    let mut dice = Dice::new(seed);
    let (mut rest, mut lines) = (bytes, Vec::new());
    while !rest.is_empty() {
        let checked = dice.rarely(3);
        let most = dice.of(&[1, 3, 20, 300, 2000]).min(rest.len());
        let mut data = String::new();
        let (len, event) = match reader.next() {
            Next::Frame => match reader.take(&rest[..most], checked) {
                Ok(taken) => taken,
                Err(error) => {
                    let header = written::bytes(reader.latest_header());
                    let answer = reader.framing().refusal(&error, reader.latest_header());
                    lines.push(format!("{error}: {header}, {answer:?}"));
                    break;
                }
            },
            Next::Data(range) => {
                let len = most.min(range.len());
                data = format!("data {range:?} ");
                let event = match dice.below(4) {
                    0 => reader.pass(len as u32, checked),
                    1 => reader.discard(&rest[..len]),
                    _ => {
                        let mut to = vec![0; len];
                        let event = reader.copy(&rest[..len], &mut to[..], checked);
                        assert!(to == rest[..len]);
                        event
                    }
                };
                (len, event)
            }
            Next::Waiting => panic!("no phase ends here"),
        };
        let place = (
            reader.position(),
            reader.is_at_boundary(),
            reader.data_len(),
        );
        if data.is_empty() && event.is_none() && len == 1 {
            rest = &rest[len..];
            continue;
        }
        let mut line = match &event {
            Some(Event::Header(pdu)) => format!("{pdu:?}"),
            other => format!("{other:?}"),
        };
        if let Some(Event::End(DataDigest::Unverified(from))) = event {
            let now = reader.latest().start.distance_to(SeqNum(u32::MAX - 2000));
            line += &format!(" {from:?} {now}");
        }
        line = format!(
            "{data}{len} {line} {place:?} {:?} {:?}",
            reader.latest(),
            reader.digest_was_vouched()
        );
        lines.push(line);
        rest = &rest[len..];
    }
    lines
}

#[test]
fn pdus() {
    let mut lines = Vec::new();
    for (name, parameters) in streams::nvme_parameters() {
        lines.push(format!("NVMe/TCP {name}"));
        let stream = streams::nvme(&parameters);
        for seed in 0..3 {
            let mut bytes = stream.wire.clone();
            bytes[400] ^= u8::from(seed == 2);
            bytes[stream.starts[4] + 9] ^= u8::from(seed == 1);
            lines.extend(written::shorten(
                read(parameters.framing(), &bytes, seed),
                3,
            ));
        }
    }
    for structured in [false, true] {
        lines.push(format!("NBD {structured}"));
        let framing = nbd::Framing {
            sender: nbd::Sender::Server,
            structured,
            max_data: 4096,
        };
        let mut bytes = streams::nbd(structured);
        lines.extend(written::shorten(read(framing, &bytes, 1), 6));
        bytes[0] ^= 1;
        lines.extend(read(framing, &bytes, 1));
    }
    for sender in [iscsi::Role::Target, iscsi::Role::Initiator] {
        for digests in [false, true] {
            lines.push(format!("iSCSI {sender:?} {digests}"));
            let parameters = streams::iscsi_parameters(sender, digests, digests);
            for seed in 0..3 {
                let mut bytes = streams::iscsi(&parameters);
                bytes[400] ^= u8::from(seed == 2);
                bytes[2] ^= u8::from(seed == 1);
                lines.extend(written::shorten(
                    read(parameters.framing(), &bytes, seed),
                    3,
                ));
            }
        }
    }
    compare("readers_of_pdus", &lines);
}

#[test]
fn writers_and_questions() {
    let mut lines = Vec::new();
    let mut writer = Writer::new(7);
    let mut at = SeqNum(u32::MAX - 500);
    for len in [100, 100, 100, 50, 700, 1, 100] {
        lines.push(format!("{:?}", writer.push(at, len)));
        at += len;
    }
    let of = |writer: &Writer, at: SeqNum| {
        let message = writer
            .message_state(at)
            .map(|MsgState { start, index, .. }| (start.0, index));
        format!("{at:?}: {message:?} {:?}", writer.release_point(at))
    };
    for step in (0..1300).step_by(50) {
        let at = SeqNum(u32::MAX - 550) + step;
        lines.push(of(&writer, at));
        if step % 250 == 100 {
            writer.acknowledged(at);
            let left: Vec<_> = writer.pdus().map(|pdu| pdu.index).collect();
            lines.push(format!("{} {} {left:?}", writer.index(), writer.is_empty()));
        }
    }
    let mut resync = Resync::new(SeqNum(1000), 3);
    let answers = |resync: &mut Resync| {
        let all: Vec<String> = std::iter::from_fn(|| resync.poll_answer())
            .map(|answer| format!("{answer:?}"))
            .collect();
        all.join(" ")
    };
    for (asked, inner) in [(1100, None), (1000, None), (1150, Some(3)), (5000, None)] {
        resync.request(SeqNum(asked), inner);
        lines.push(format!("asked {asked}: {}", answers(&mut resync)));
    }
    for n in 0..40 {
        resync.note_pdu(SeqNum(1000 + 100 * n), 100, u64::from(3 + n));
        if n % 10 == 5 {
            resync.request(SeqNum(1000 + 100 * (n - 3)), None);
            resync.request(SeqNum(1050 + 100 * n), None);
            resync.request(SeqNum(1000 + 100 * (n + 2)), None);
        }
        lines.push(format!("noted {n}: {}", answers(&mut resync)));
    }
    compare("readers_writers_and_questions", &lines);
}

#[test]
fn records() {
    let mut lines = Vec::new();
    for suite in SUITES {
        let info = CryptoInfo {
            sequence: 40,
            ..crypto(suite)
        };
        let mut writer = tls::Writer::new(info.clone());
        let (mut reader, mut framer) = (
            tls::Reader::new(info.clone()),
            tls::Writer::new(info.clone()),
        );
        let mut at = SeqNum(u32::MAX - 3000);
        lines.push(format!("{suite:?}"));
        for (n, len) in [0usize, 1, 700, 5000, 16_384, 33].into_iter().enumerate() {
            if n == 3 {
                writer.set_padding(16);
                writer.set_max_plaintext(9000);
            }
            let len = len.min(writer.max_plaintext());
            let content = testkit::pattern_of(len, len as u32);
            let kind = if n == 5 {
                ContentType::ALERT
            } else {
                ContentType::APPLICATION_DATA
            };
            let layout = writer.record_layout(kind, len);
            let mut record = vec![0; writer.record_len(len)];
            let around = (
                written::bytes(layout.header()),
                layout.trailer().len(),
                layout.around().len(),
            );
            writer.seal_into(kind, &[&content[..]], &mut record);
            lines.push(format!(
                "{} {around:?} {}",
                record.len(),
                written::bytes(&record)
            ));
            let state = framer.commit(at, len);
            let left = (
                writer.records_left(),
                writer.sequence(),
                writer.epoch(),
                writer.key_update_due(),
            );
            lines.push(format!(
                "{state:?} {left:?} {:?}",
                framer.release_point(at + 1)
            ));
            lines.push(opened(&mut reader, &mut record, n));
            at += record.len() as u32;
            framer.acknowledged(at - 1);
        }
    }
    let lines: Vec<String> = lines
        .chunks(19)
        .flat_map(|suite| written::shorten(suite.to_vec(), 10))
        .collect();
    compare("readers_of_records", &lines);
}

/// Opens a record; some are damaged, some have been decrypted by a NIC in part.
fn opened(reader: &mut tls::Reader, record: &mut [u8], n: usize) -> String {
    let len = record.len();
    let next: Vec<_> = [0, 3, 4, 5, 9]
        .iter()
        .map(|have| reader.next_len(&record[..*have]))
        .collect();
    let (tag, place) = (reader.begin_context(), reader.content_range(len));
    if n == 5 {
        record[30] ^= 1;
    }
    let half = len / 2;
    let (front, back) = record.split_at_mut(half);
    let mut pieces = [
        Piece {
            data: front.into(),
            decrypted: None,
        },
        Piece {
            data: back.into(),
            decrypted: None,
        },
    ];
    let opened = match reader.open(&mut pieces, Output::InPlace) {
        Ok(opened) => format!("{opened:?}"),
        Err(error) => format!("{error}, {:?}", error.alert()),
    };
    let sum = written::sum(record);
    let state = (
        reader.record_index(),
        reader.epoch(),
        reader.agreed(),
        reader.type_offset(len),
    );
    format!("{next:?} {tag:?} {place:?} {opened} {sum:016x} {state:?}")
}
