//! Streams of NVMe/TCP PDUs that are sent.

use std::ops::Range;

use l5p::Layers;
use l5p::nvme::Parameters;
use l5p::tls::ContentType;
use testkit::bare::{Message, Rig};
use testkit::fixtures::{self, SUITES};
use testkit::pdus::PduStream;
use testkit::records::Records;
use wire::SeqNum;
use wire::nvme::{C2HData, CapsuleCmd, CapsuleResp, H2CData, Pdu, Role};

use super::PLAIN;
use super::stream::{Stream, Suite, crypto};

/// What kind of PDU, and how much data it has.
pub type Shape = (bool, u32);

pub fn parameters(sender: Role, header_digest: bool, data_digest: bool) -> Parameters {
    Parameters {
        alignment: 3,
        commands: 128,
        ..fixtures::nvme(sender, header_digest, data_digest)
    }
}

/// Of each shape one; those with the flag set are of the sender's second kind, which may do without data.
pub fn pdus(parameters: &Parameters, shapes: &[Shape]) -> PduStream {
    let mut pdus = PduStream::new(parameters, &[]);
    for (n, &(second, data_len)) in shapes.iter().enumerate() {
        let pdu = pdu(parameters.sender, n, second, data_len);
        pdus.push_pdu(&pdu, |n| PLAIN ^ (n % 31 == 30) as u8);
    }
    pdus
}

/// The PDUs as the stream, with their context.
pub fn send_bare(pdus: &PduStream, rig: &mut Rig, start: SeqNum) -> Stream {
    rig.host.memory.write(0, &pdus.framed);
    rig.create(start, &Layers::of(&pdus.parameters));
    Stream {
        start,
        crypto: crypto(SUITES[3]),
        records: Message::all(start, &pdus.starts, 0),
        expected: pdus.wire.clone(),
    }
}

/// The PDUs as content of records of these sizes (the last one takes what is left), with their context; and of each record, where in
/// the PDUs its content is.
pub fn send_in_tls(
    pdus: &PduStream,
    rig: &mut Rig,
    suite: Suite,
    start: SeqNum,
    sizes: &[usize],
) -> (Stream, Vec<Range<usize>>) {
    let (mut at, mut contents) = (0, Vec::new());
    let mut records = Records::new(&crypto(suite));
    for &size in sizes.iter().chain(&[16_384; 16]) {
        if at == pdus.len() && !contents.is_empty() {
            break;
        }
        let content = at..pdus.len().min(at + size);
        let (given, sent) = (&pdus.framed[content.clone()], &pdus.wire[content.clone()]);
        records.push_as(ContentType::APPLICATION_DATA, given, sent);
        at = content.end;
        contents.push(content);
    }
    assert_eq!(at, pdus.len());
    let layers = Layers::of(&records.crypto).carrying(&pdus.parameters);
    rig.create(start, &layers);
    (Stream::of(rig, start, &records), contents)
}

fn pdu(sender: Role, n: usize, second: bool, data_len: u32) -> Pdu {
    match (sender, second) {
        (Role::Host, true) => Pdu::CapsuleCmd(CapsuleCmd {
            sqe: [n as u8; 64],
            data_len: data_len % 8192,
        }),
        (Role::Host, false) => Pdu::H2CData(H2CData {
            cccid: n as u16,
            ttag: n as u16,
            data_offset: 4 * n as u32,
            data_len: data_len.max(1),
            last: true,
        }),
        (Role::Controller, true) => Pdu::CapsuleResp(CapsuleResp { cqe: [n as u8; 16] }),
        (Role::Controller, false) => Pdu::C2HData(C2HData {
            cccid: n as u16,
            data_offset: 4 * n as u32,
            data_len: data_len.max(1),
            last: n.is_multiple_of(2),
            success: false,
        }),
    }
}
