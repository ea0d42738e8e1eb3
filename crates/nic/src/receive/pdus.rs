//! Streams of NVMe/TCP PDUs for tests, and where their data belong.

use std::ops::Range;

use l5p::crc32c::Crc32c;
use l5p::nvme::{Parameters, Role};
use wire::nvme::{C2HData, CapsuleCmd, CapsuleResp, H2CData, MAX_HEADER_LEN, Pdu, R2T};

/// A PDU to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data that belong at byte `at` of the buffer of `tag`.
    Data { tag: u16, at: u32, len: u32 },
    /// What asks for data or says that a command is done, and for a host a command with so many bytes in its capsule.
    Capsule(u32),
    /// A controller asks for data.
    Ready,
}

/// A stream of PDUs on the wire.
#[derive(Clone, Debug, Default)]
pub(super) struct PduStream {
    pub(super) wire: Vec<u8>,
    /// Where the PDUs begin, and the end.
    pub(super) starts: Vec<usize>,
    /// Their data: the range of the stream, the tag, and where in its buffer.
    pub(super) data: Vec<(Range<usize>, u16, u32)>,
}

pub(super) fn parameters(sender: Role, header_digest: bool, data_digest: bool) -> Parameters {
    Parameters {
        sender,
        header_digest,
        data_digest,
        alignment: 0,
        max_pdu: 1 << 20,
        commands: 32,
    }
}

/// The data byte of a place in a stream: no two places near each other have the same surroundings.
pub(super) fn byte_at(at: usize) -> u8 {
    let word = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32) as u8 ^ (word >> 56) as u8
}

impl PduStream {
    pub(super) fn new(parameters: &Parameters, kinds: &[Kind]) -> PduStream {
        let mut stream = PduStream {
            starts: vec![0],
            ..PduStream::default()
        };
        for kind in kinds {
            stream.push(parameters, *kind);
        }
        stream
    }

    pub(super) fn push(&mut self, parameters: &Parameters, kind: Kind) {
        let data_len = match kind {
            Kind::Data { len, .. } => len,
            Kind::Capsule(len) if parameters.sender == Role::Host => len,
            _ => 0,
        };
        let pdu = match (kind, parameters.sender) {
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
            (_, Role::Host) => Pdu::CapsuleCmd(CapsuleCmd {
                sqe: [2; 64],
                data_len,
            }),
        };
        let framing = parameters.framing();
        let layout = framing.layout(pdu.pdu_type(), data_len);
        let mut header = [0; MAX_HEADER_LEN];
        let header_len = pdu.emit(&framing, &mut header);
        let start = self.wire.len();
        self.wire.extend_from_slice(&header[..header_len]);
        if layout.header_digest {
            let digest = Crc32c::of(&header[..header_len]);
            self.wire.extend_from_slice(&digest.to_le_bytes());
        }
        self.wire.resize(start + layout.data().start as usize, 0);
        let from = self.wire.len();
        self.wire
            .extend((from..from + data_len as usize).map(byte_at));
        let to = self.wire.len();
        if let Kind::Data { tag, at, .. } = kind {
            self.data.push((from..to, tag, at));
        }
        if layout.data_digest {
            let digest = Crc32c::of(&self.wire[from..to]);
            self.wire.extend_from_slice(&digest.to_le_bytes());
        }
        assert_eq!(self.wire.len() - start, layout.pdu_len() as usize);
        self.starts.push(self.wire.len());
    }

    /// Whether a PDU begins at this place.
    pub(super) fn begins_at(&self, at: usize) -> bool {
        self.starts.binary_search(&at).is_ok() && at < self.wire.len()
    }

    /// Where the byte at this place belongs: its tag, and where in that buffer.
    pub(super) fn belongs(&self, at: usize) -> Option<(u16, u32)> {
        let next = self.data.partition_point(|(range, _, _)| range.start <= at);
        let (range, tag, first) = self.data.get(next.checked_sub(1)?)?;
        range
            .contains(&at)
            .then(|| (*tag, first + (at - range.start) as u32))
    }
}
