//! Streams of NVMe/TCP PDUs.

use std::ops::Range;

use l5p::nvme::{Parameters, Role};
use wire::nvme::{C2HData, CapsuleCmd, CapsuleResp, H2CData, Pdu, R2T};

use crate::fixtures::byte;

/// A PDU to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data that belong at byte `at` of the buffer of `tag`.
    Data {
        /// The command's tag.
        tag: u16,
        /// Their place in its buffer.
        at: u32,
        /// Bytes of them.
        len: u32,
    },
    /// What says that a command is done, and for a host a command with so many bytes in its capsule.
    Capsule(u32),
    /// A controller asks for data.
    Ready,
}

/// [`Kind::Data`].
pub fn data(tag: u16, at: u32, len: u32) -> Kind {
    Kind::Data { tag, at, len }
}

/// Where a PDU is in its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PduRanges {
    /// All of it.
    pub all: Range<usize>,
    /// Its data.
    pub data: Range<usize>,
    /// Their digest.
    pub digest: Range<usize>,
}

/// PDUs one after the other: as a sending host frames them for its NIC, and as they are on the wire.
#[derive(Clone, Debug)]
pub struct PduStream {
    /// What both ends agreed on.
    pub parameters: Parameters,
    /// With dummies for the digests of data.
    pub framed: Vec<u8>,
    /// What software would send.
    pub wire: Vec<u8>,
    /// Where the PDUs are.
    pub pdus: Vec<PduRanges>,
    /// Where the PDUs begin, and the end.
    pub starts: Vec<usize>,
    /// Data of [`Kind::Data`]: the range of the stream, the tag, and where in its buffer.
    pub data: Vec<(Range<usize>, u16, u32)>,
}

impl PduStream {
    /// A PDU of each kind.
    pub fn new(parameters: &Parameters, kinds: &[Kind]) -> PduStream {
        let mut stream = PduStream {
            parameters: *parameters,
            framed: Vec::new(),
            wire: Vec::new(),
            pdus: Vec::new(),
            starts: vec![0],
            data: Vec::new(),
        };
        for kind in kinds {
            stream.push(*kind);
        }
        stream
    }

    /// Adds a PDU whose data are those of their place in the stream.
    pub fn push(&mut self, kind: Kind) {
        let start = self.wire.len();
        let pdu = pdu(self.parameters.sender, kind);
        let placed = self.push_pdu(&pdu, |n| byte(0, start + n));
        if let Kind::Data { tag, at, .. } = kind {
            self.data.push((placed.data, tag, at));
        }
    }

    /// Adds a PDU; `data` gives its bytes of data.
    pub fn push_pdu(&mut self, pdu: &Pdu, data: impl Fn(usize) -> u8) -> PduRanges {
        let framing = self.parameters.framing();
        let layout = framing.layout(pdu.pdu_type(), pdu.data_len());
        let range = |range: Range<u32>| range.start as usize..range.end as usize;
        let mut bytes = vec![0; layout.pdu_len() as usize];
        pdu.emit(&framing, &mut bytes);
        if layout.header_digest {
            let digest = crc32c(&bytes[..layout.header_len()]);
            bytes[range(layout.header_digest())].copy_from_slice(&digest);
        }
        for (n, byte) in bytes[range(layout.data())].iter_mut().enumerate() {
            *byte = data(n);
        }
        self.framed.extend_from_slice(&bytes);
        if layout.data_digest {
            let digest = crc32c(&bytes[range(layout.data())]);
            bytes[range(layout.data_digest())].copy_from_slice(&digest);
        }
        let start = self.wire.len();
        self.wire.extend_from_slice(&bytes);
        self.starts.push(self.wire.len());
        let place = |part: Range<u32>| start + part.start as usize..start + part.end as usize;
        let placed = PduRanges {
            all: place(0..layout.pdu_len()),
            data: place(layout.data()),
            digest: place(layout.data_digest()),
        };
        self.pdus.push(placed.clone());
        placed
    }

    /// Bytes of the stream.
    pub fn len(&self) -> usize {
        self.wire.len()
    }

    /// Whether there are no PDUs.
    pub fn is_empty(&self) -> bool {
        self.wire.is_empty()
    }

    /// Whether a PDU begins at this place.
    pub fn begins_at(&self, at: usize) -> bool {
        self.index_at(at).is_some()
    }

    /// The number of the PDU that begins at this place.
    pub fn index_at(&self, at: usize) -> Option<usize> {
        self.starts[..self.pdus.len()].binary_search(&at).ok()
    }

    /// The number of the PDU with the byte at this place, or of the one that is to come there.
    pub fn number_at(&self, at: usize) -> usize {
        self.pdus.partition_point(|pdu| pdu.all.end <= at)
    }

    /// Whether there is a byte of a digest of data in the range.
    pub fn has_digest(&self, range: Range<usize>) -> bool {
        let digests = self.pdus.iter().map(|pdu| &pdu.digest);
        digests
            .map(|digest| digest.start.max(range.start)..digest.end.min(range.end))
            .any(|common| !common.is_empty())
    }

    /// Where the byte at this place belongs: its tag, and where in that buffer.
    pub fn belongs(&self, at: usize) -> Option<(u16, u32)> {
        let next = self.data.partition_point(|(range, _, _)| range.start <= at);
        let (range, tag, first) = self.data.get(next.checked_sub(1)?)?;
        range
            .contains(&at)
            .then(|| (*tag, first + (at - range.start) as u32))
    }
}

/// The PDU of a kind that this side sends.
pub fn pdu(sender: Role, kind: Kind) -> Pdu {
    match (kind, sender) {
        (Kind::Data { tag, at, len }, Role::Controller) => Pdu::C2HData(C2HData {
            cccid: tag,
            data_offset: at,
            data_len: len,
            last: true,
            success: false,
        }),
        (Kind::Data { tag, at, len }, Role::Host) => Pdu::H2CData(H2CData {
            cccid: 7,
            ttag: tag,
            data_offset: at,
            data_len: len,
            last: true,
        }),
        (Kind::Ready, Role::Controller) => Pdu::R2T(R2T {
            cccid: 3,
            ttag: 4,
            offset: 0,
            len: 4096,
        }),
        (_, Role::Controller) => Pdu::CapsuleResp(CapsuleResp { cqe: [9; 16] }),
        (Kind::Capsule(data_len), Role::Host) => Pdu::CapsuleCmd(CapsuleCmd {
            sqe: [2; 64],
            data_len,
        }),
        (Kind::Ready, Role::Host) => Pdu::CapsuleCmd(CapsuleCmd {
            sqe: [2; 64],
            data_len: 0,
        }),
    }
}

/// CRC-32C as on the wire, from its definition and not from the code under test.
pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut crc, mut bit) = (byte as u32, 0);
            while bit < 8 {
                crc = crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    };
    let crc = bytes.iter().fold(!0u32, |crc, byte| {
        crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)]
    });
    (!crc).to_le_bytes()
}
