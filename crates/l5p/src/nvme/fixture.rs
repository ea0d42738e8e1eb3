//! PDUs for the tests of this module.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::nvme::{C2HData, CapsuleCmd, CapsuleResp, H2CData, MAX_HEADER_LEN, Pdu, R2T};

use super::{Parameters, Role};
use crate::crc32c::Crc32c;

/// Tags below this are good.
pub(super) const COMMANDS: u16 = 64;

/// A PDU with its data.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) pdu: Pdu,
    pub(super) data: Vec<u8>,
}

impl Sample {
    /// The bytes on the wire, with these digests over its data.
    fn write(&self, parameters: &Parameters, digest: impl Fn(&[u8]) -> u32, to: &mut Vec<u8>) {
        let framing = parameters.framing();
        let layout = framing.layout(self.pdu.pdu_type(), self.data.len() as u32);
        let mut header = [0; MAX_HEADER_LEN];
        let len = self.pdu.emit(&framing, &mut header);
        let start = to.len();
        to.extend_from_slice(&header[..len]);
        if layout.header_digest {
            to.extend_from_slice(&Crc32c::of(&header[..len]).to_le_bytes());
        }
        to.resize(start + layout.data().start as usize, 0);
        to.extend_from_slice(&self.data);
        if layout.data_digest {
            to.extend_from_slice(&digest(&self.data).to_le_bytes());
        }
        assert_eq!(to.len() - start, layout.pdu_len() as usize);
    }
}

/// The stream on the wire.
pub(super) fn on_wire(parameters: &Parameters, samples: &[Sample]) -> Vec<u8> {
    let mut stream = Vec::new();
    for sample in samples {
        sample.write(parameters, |bytes| Crc32c::of(bytes), &mut stream);
    }
    stream
}

/// The stream as a host gives it to a NIC: with dummy data digests.
pub(super) fn framed(parameters: &Parameters, samples: &[Sample]) -> Vec<u8> {
    let mut stream = Vec::new();
    for sample in samples {
        sample.write(parameters, |_| 0xdddd_dddd, &mut stream);
    }
    stream
}

pub(super) fn parameters() -> impl Strategy<Value = Parameters> {
    let alignment = prop_oneof![4 => Just(0), 1 => 0..=31u8];
    (any::<[bool; 3]>(), alignment).prop_map(|([host, header_digest, data_digest], alignment)| {
        Parameters {
            sender: if host { Role::Host } else { Role::Controller },
            header_digest,
            data_digest,
            alignment,
            max_pdu: 1 << 20,
            commands: COMMANDS,
        }
    })
}

/// A PDU that `sender` may send, with up to `max_data` bytes of data.
fn sample(sender: Role, max_data: usize) -> impl Strategy<Value = Sample> {
    let data = prop_oneof![vec(any::<u8>(), 1..40), vec(any::<u8>(), 1..max_data)];
    let numbers = (0..COMMANDS, 0..COMMANDS, 0..1u32 << 20);
    (0..3u8, numbers, any::<[u8; 16]>(), data).prop_map(
        move |(kind, (cid, ttag, offset), bytes, data)| {
            let (data_len, last) = (data.len() as u32, bytes[0] & 1 != 0);
            let pdu = match (sender, kind) {
                (Role::Host, 0) => Pdu::H2CData(H2CData {
                    cccid: cid,
                    ttag,
                    data_offset: offset,
                    data_len,
                    last,
                }),
                (Role::Host, _) => Pdu::CapsuleCmd(CapsuleCmd {
                    sqe: [bytes; 4].concat().try_into().expect("64 bytes"),
                    data_len: if kind == 1 { data_len } else { 0 },
                }),
                (Role::Controller, 0) => Pdu::C2HData(C2HData {
                    cccid: cid,
                    data_offset: offset,
                    data_len,
                    last,
                    success: false,
                }),
                (Role::Controller, 1) => Pdu::CapsuleResp(CapsuleResp { cqe: bytes }),
                (Role::Controller, _) => Pdu::R2T(R2T {
                    cccid: cid,
                    ttag,
                    offset,
                    len: data_len,
                }),
            };
            let data = if pdu.data_len() == 0 {
                Vec::new()
            } else {
                data
            };
            Sample { pdu, data }
        },
    )
}

/// What was agreed on, and PDUs of that direction.
pub(super) fn stream(max_data: usize) -> impl Strategy<Value = (Parameters, Vec<Sample>)> {
    parameters().prop_flat_map(move |parameters| {
        let samples = vec(sample(parameters.sender, max_data), 1..6);
        (Just(parameters), samples)
    })
}
