//! Streams of NVMe/TCP PDUs: framed for the NIC, and as software would send them.

use std::ops::Range;

use l5p::nvme::Parameters;
use wire::SeqNum;
use wire::nvme::{C2HData, CapsuleCmd, CapsuleResp, Framing, H2CData, Pdu, Phase, Role};

use super::rig::*;

/// What kind of PDU, and how much data it has.
pub(super) type Shape = (bool, u32);

/// PDUs, one after the other.
pub(super) struct Pdus {
    pub(super) parameters: Parameters,
    /// With dummies for the data's digests.
    pub(super) framed: Vec<u8>,
    /// With the digests.
    pub(super) expected: Vec<u8>,
    /// Of each PDU, all of it and its data's digest.
    pub(super) ranges: Vec<(Range<u32>, Range<u32>)>,
}

pub(super) fn parameters(sender: Role, header_digest: bool, data_digest: bool) -> Parameters {
    Parameters {
        sender,
        header_digest,
        data_digest,
        alignment: 3,
        max_pdu: 1 << 20,
        commands: 128,
    }
}

/// CRC-32C, bit by bit: the definition.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

impl Pdus {
    /// Of each shape one; those with the flag set are of the sender's second kind, which may do without data.
    pub(super) fn new(parameters: Parameters, shapes: &[Shape]) -> Pdus {
        let framing = Framing {
            sender: parameters.sender,
            phase: Phase::Established,
            header_digest: parameters.header_digest,
            data_digest: parameters.data_digest,
            alignment: parameters.alignment,
            max_pdu: parameters.max_pdu,
        };
        let mut pdus = Pdus {
            parameters,
            framed: Vec::new(),
            expected: Vec::new(),
            ranges: Vec::new(),
        };
        for (n, &(second, data_len)) in shapes.iter().enumerate() {
            pdus.push(&pdu(parameters.sender, n, second, data_len), &framing);
        }
        pdus
    }

    fn push(&mut self, pdu: &Pdu, framing: &Framing) {
        let layout = framing.layout(pdu.pdu_type(), pdu.data_len());
        let range = |range: Range<u32>| range.start as usize..range.end as usize;
        let mut bytes = vec![0; layout.pdu_len() as usize];
        pdu.emit(framing, &mut bytes);
        if layout.header_digest {
            let digest = crc32c(&bytes[..layout.header_len()]);
            bytes[range(layout.header_digest())].copy_from_slice(&digest.to_le_bytes());
        }
        bytes[range(layout.data())].fill(PLAIN);
        for (n, byte) in bytes[range(layout.data())].iter_mut().enumerate() {
            *byte ^= (n % 31 == 30) as u8;
        }
        let at = self.framed.len() as u32;
        self.framed.extend_from_slice(&bytes);
        if layout.data_digest {
            let digest = crc32c(&bytes[range(layout.data())]);
            bytes[range(layout.data_digest())].copy_from_slice(&digest.to_le_bytes());
        }
        self.expected.extend_from_slice(&bytes);
        let digest = layout.data_digest();
        self.ranges.push((
            at..at + layout.pdu_len(),
            at + digest.start..at + digest.end,
        ));
    }

    /// Index of the PDU with the byte at `offset`, or of the one that is to come there.
    pub(super) fn index_at(&self, offset: u32) -> usize {
        self.ranges.partition_point(|(pdu, _)| pdu.end <= offset)
    }

    /// Whether there is a byte of a data digest in these.
    pub(super) fn has_digest(&self, range: Range<u32>) -> bool {
        self.ranges
            .iter()
            .any(|(_, digest)| digest.start.max(range.start) < digest.end.min(range.end))
    }

    /// The PDUs as the stream, framed at the region's start.
    pub(super) fn stream(&self, rig: &Rig, start: SeqNum) -> Stream {
        assert!(rig.region.write(0, &self.framed));
        Stream {
            start,
            crypto: crypto(SUITES[3]),
            records: (0..)
                .zip(&self.ranges)
                .map(|(index, (pdu, _))| Record {
                    start: start + pdu.start,
                    len: pdu.end - pdu.start,
                    index,
                })
                .collect(),
            expected: self.expected.clone(),
        }
    }

    /// The PDUs as content of records of these sizes (the last one takes what is left), framed at the region's start; and
    /// of each record, where in the PDUs its content is.
    pub(super) fn stream_in_tls(
        &self,
        rig: &Rig,
        suite: Suite,
        start: SeqNum,
        sizes: &[usize],
    ) -> (Stream, Vec<Range<u32>>) {
        let (mut at, mut contents) = (0, Vec::new());
        for &size in sizes.iter().chain(&[16_384; 16]) {
            let end = self.framed.len().min(at + size);
            if at == self.framed.len() && !contents.is_empty() {
                break;
            }
            contents.push(at as u32..end as u32);
            at = end;
        }
        assert_eq!(at, self.framed.len());
        let pairs = contents.iter().map(|content| {
            let content = content.start as usize..content.end as usize;
            (&self.framed[content.clone()], &self.expected[content])
        });
        (Stream::of(rig, suite, start, pairs), contents)
    }
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
