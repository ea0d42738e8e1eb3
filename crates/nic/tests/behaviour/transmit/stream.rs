//! Records, or PDUs, in the memory of a host that sends them.

use l5p::tls::{Algorithm, CryptoInfo, Version};
use nic::ring::Slice;
use testkit::bare::{Message, Rig};
use testkit::fixtures;
use testkit::records::Records;
use wire::SeqNum;
use wire::packet::Parsed;

use super::PLAIN;

/// A stream of messages: framed for the NIC at the beginning of the host's memory, and as software would send it.
pub struct Stream {
    pub start: SeqNum,
    pub crypto: CryptoInfo,
    pub records: Vec<Message>,
    pub expected: Vec<u8>,
}

/// A version and an algorithm.
pub type Suite = (Version, Algorithm);

pub fn crypto(suite: Suite) -> CryptoInfo {
    CryptoInfo {
        sequence: 3,
        ..fixtures::crypto(suite)
    }
}

impl Stream {
    /// Frames records of these sizes.
    pub fn new(rig: &Rig, suite: Suite, start: SeqNum, sizes: &[usize]) -> Stream {
        let contents = sizes.iter().map(|&size| vec![PLAIN; size]);
        Stream::of(rig, start, &Records::of(&crypto(suite), contents))
    }

    pub fn of(rig: &Rig, start: SeqNum, records: &Records) -> Stream {
        rig.host.memory.write(0, &records.framed);
        Stream {
            start,
            crypto: records.crypto.clone(),
            records: Message::all(start, &records.starts, records.crypto.sequence),
            expected: records.wire.clone(),
        }
    }

    pub fn len(&self) -> u32 {
        self.expected.len() as u32
    }

    pub fn end(&self) -> SeqNum {
        self.start + self.len()
    }

    /// Offset of a sequence number in the memory, and in `expected`.
    pub fn offset(&self, tcpsn: SeqNum) -> u32 {
        self.start.distance_to(tcpsn)
    }

    pub fn record_at(&self, tcpsn: SeqNum) -> Option<&Message> {
        self.records
            .iter()
            .find(|record| tcpsn.is_within(record.start, record.len))
    }

    /// The stream's bytes from `from` up to `to`, in slices of uneven lengths.
    pub fn slices(&self, rig: &Rig, from: SeqNum, to: SeqNum, cut: u32) -> Vec<Slice> {
        let (mut at, end) = (self.offset(from), self.offset(to));
        let cut = cut.max((end - at) / 12 + 1);
        let mut slices = Vec::new();
        while at < end {
            let len = (cut - at % cut).min(end - at);
            slices.push(rig.slice(u64::from(at), len));
            at += len;
        }
        slices
    }

    /// All of a message.
    pub fn whole(&self, rig: &Rig, message: &Message) -> Vec<Slice> {
        self.slices(rig, message.start, message.end(), 900)
    }

    /// Checks that a segment carries what software would have sent there.
    pub fn check(&self, parsed: &Parsed, payload: &[u8]) {
        let at = self.offset(parsed.tcp.seq) as usize;
        assert!(
            self.expected[at..at + payload.len()] == *payload,
            "segment of {} bytes at {at} is not what software sends",
            payload.len()
        );
    }

    /// Checks all that reaches the wire now.
    pub fn check_segments(&self, rig: &mut Rig) -> usize {
        let segments = rig.segments();
        for (parsed, payload) in &segments {
            self.check(parsed, payload);
        }
        segments.len()
    }
}
