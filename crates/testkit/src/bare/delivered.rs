//! Packets as a host finds them.

use std::ops::Range;

use l5p::Note;
use nic::ring::{Packet, Slice};
use wire::ethernet::HEADER_LEN;
use wire::packet::{self, Parsed};
use wire::{SeqNum, ipv4, ipv6};

use super::Memory;

/// A part of a packet's payload that lies in a mapped buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which bytes of the payload.
    pub at: Range<usize>,
    /// Where they are.
    pub slice: Slice,
    /// The tag of the buffer.
    pub tag: u16,
}

/// A packet as the host finds it.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// What the NIC tells of it.
    pub packet: Packet,
    /// What its buffer holds.
    pub bytes: Vec<u8>,
    /// Parts of its payload that are elsewhere, by ascending place.
    pub placed: Vec<Part>,
    /// What the innermost protocol has to say of it.
    pub notes: Vec<Note>,
}

impl Delivered {
    /// All that belongs to the packet has come.
    pub(super) fn is_complete(&self) -> bool {
        let told = (
            usize::from(self.packet.placed),
            usize::from(self.packet.notes),
        );
        (self.placed.len(), self.notes.len()) == told
    }

    /// The headers, of the whole payload.
    pub fn parsed(&self) -> Parsed {
        let mut whole = self.bytes.clone();
        let len = usize::from(self.packet.header_len) + self.packet.payload_len as usize;
        whole.resize(whole.len().max(len), 0);
        packet::parse(&whole).expect("valid headers")
    }

    /// The sequence number, without a look at the rest.
    pub fn seq(&self) -> SeqNum {
        sequence_number(&self.bytes)
    }

    /// The payload that is in the buffer.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[usize::from(self.packet.header_len)..]
    }

    /// The whole payload, the placed parts from where they lie.
    pub fn whole(&self, memory: &Memory) -> Vec<u8> {
        let (mut whole, mut rest) = (Vec::new(), self.payload());
        for part in &self.placed {
            let (before, behind) = rest.split_at(part.at.start - whole.len());
            whole.extend_from_slice(before);
            whole.extend(memory.get(part.slice));
            rest = behind;
        }
        whole.extend_from_slice(rest);
        assert_eq!(whole.len(), self.packet.payload_len as usize);
        whole
    }
}

/// The sequence number of a frame with a TCP segment, whose payload may be elsewhere.
pub fn sequence_number(frame: &[u8]) -> SeqNum {
    let ip = match frame[HEADER_LEN] >> 4 {
        4 => ipv4::HEADER_LEN,
        _ => ipv6::HEADER_LEN,
    };
    let field = &frame[HEADER_LEN + ip + 4..][..4];
    SeqNum(u32::from_be_bytes(field.try_into().expect("4 bytes")))
}
