//! NVMe/TCP inside TLS, as the host sees it.

mod random;
mod scenarios;

use l5p::Layers;
use l5p::nvme::{Parameters, Role};
use l5p::tls::{Algorithm, ContentType, Version};
use nic::ring::{ErrorCode, InnerPlace, Packet, RecvDescriptor, SendDescriptor};
use proptest::prelude::*;
use testkit::arrivals::{Fate, arrivals};
use testkit::bare::Memory;
use testkit::fixtures::GUARD;
use testkit::pdus::{PduStream, crc32c};
use testkit::records::Records;
use wire::SeqNum;

use super::*;

const FIRST: SeqNum = SeqNum(u32::MAX - 9_000);
const CONTEXT: ContextId = ContextId(3);
const BLOCKS: usize = 1 << 20;
/// Memory for each tag's buffer, with a guard behind it.
const STRIDE: u64 = 24_576;
const BUFFER: u32 = 24_000;

/// A part of the stream.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The next so many bytes of the PDU stream, as one record.
    Content(usize),
    /// A record of another type, with so many bytes of content, which would be data.
    Control(usize),
    /// As [`Content`](Self::Content), with padding.
    Padded(usize),
}

/// PDUs in records.
struct Stream {
    pdus: PduStream,
    records: Records,
    /// By byte on the wire, the byte of the PDU stream that it is.
    inner: Vec<Option<usize>>,
}

impl Stream {
    fn new(pdus: PduStream, parts: &[Part]) -> Stream {
        let mut records = Records::new(&aes());
        let (mut at, mut inner) = (0, Vec::new());
        let mut parts = parts.iter().cycle();
        while at < pdus.len() {
            let (kind, len, padding) = match *parts.next().unwrap() {
                Part::Content(len) => (ContentType::APPLICATION_DATA, len, 1),
                Part::Padded(len) => (ContentType::APPLICATION_DATA, len, 16),
                Part::Control(len) => (ContentType::HANDSHAKE, len, 1),
            };
            let content = at..(at + len).min(pdus.len());
            let bytes = &pdus.wire[content.clone()];
            records.set_padding(padding);
            records.push_as(kind, bytes, bytes);
            inner.resize(records.len(), None);
            if kind == ContentType::APPLICATION_DATA {
                let places = records.contents.last().unwrap().clone();
                for (place, byte) in places.zip(content.clone()) {
                    inner[place] = Some(byte);
                }
                at = content.end;
            }
        }
        Stream {
            pdus,
            records,
            inner,
        }
    }

    fn len(&self) -> usize {
        self.records.len()
    }

    /// What the host answers: whether a record, or a PDU in one, begins there, and the record's index.
    fn answer(&self, at: usize, inner: Option<InnerPlace>) -> Option<u64> {
        let record = self.records.index_at(at)?;
        match inner {
            None => Some(record),
            Some(InnerPlace { offset, .. }) => {
                let inner = *self.inner.get(at + 5 + offset as usize)?;
                self.pdus.begins_at(inner?).then_some(0)
            }
        }
    }

    /// For each PDU, where its bytes are on the wire.
    fn places(&self) -> impl Iterator<Item = Vec<usize>> {
        self.pdus.pdus.iter().map(|pdu| {
            let is_of = |at: &usize| self.inner[*at].is_some_and(|inner| pdu.all.contains(&inner));
            (0..self.len()).filter(is_of).collect()
        })
    }

    /// Changes a byte on the wire, as it is decrypted too.
    fn change(&mut self, at: usize) {
        self.records.wire[at] ^= 0x20;
        self.records.opened[at] ^= 0x20;
    }
}

struct World {
    rig: Rig,
    blocks: Memory,
    stream: Stream,
    /// By byte on the wire: passed up.
    seen: Vec<bool>,
    /// By byte on the wire: shown by a packet whose digests hold.
    covered: Vec<bool>,
    /// By byte of the blocks: written.
    written: Vec<bool>,
    /// What is placed is where the PDU stream says. Not so when a record of another type was missing.
    exact: bool,
    placed: usize,
    /// Requests for the outer and for the inner layer.
    asked: [u32; 2],
}

/// What a packet is, with its first byte on the wire.
struct Shown {
    at: usize,
    packet: Packet,
    placed: usize,
}

impl World {
    fn new(kinds: &[Kind], parts: &[Part]) -> World {
        World::of(Stream::new(PduStream::new(&nvme(), kinds), parts))
    }

    fn of(stream: Stream) -> World {
        let mut rig = filled();
        let blocks = Memory::guarded(&rig.host, BLOCKS);
        let layers = Layers::of(&aes()).carrying(&nvme());
        rig.offload(CONTEXT, &flow(1), FIRST, &layers);
        for tag in 0..32 {
            let from = STRIDE * u64::from(tag);
            let slices = [
                blocks.slice(from, 1000),
                blocks.slice(from + 1000, BUFFER - 1000),
            ];
            rig.map(CONTEXT, tag, &slices);
        }
        World {
            rig,
            blocks,
            seen: vec![false; stream.len()],
            covered: vec![false; stream.len()],
            written: vec![false; BLOCKS],
            stream,
            exact: true,
            placed: 0,
            asked: [0; 2],
        }
    }

    fn send(&mut self, from: usize, to: usize) {
        let payload = self.stream.records.wire[from..to].to_vec();
        self.send_as(from, &payload);
    }

    fn send_as(&mut self, from: usize, payload: &[u8]) {
        let tcp = segment(&flow(1), FIRST + from as u32);
        self.rig.receive(&from_peer(&flow(1), &tcp, payload));
    }

    /// Sends packets of `MSS` bytes, but for those left out.
    fn send_all_but(&mut self, left_out: &[usize]) {
        for (from, to) in packets(self.stream.len()) {
            if !left_out.contains(&(from / MSS)) {
                self.send(from, to);
                self.flush();
            }
        }
    }

    /// Takes what has come, checks it, and answers what is asked.
    fn flush(&mut self) -> Vec<Shown> {
        let (packets, others) = self.rig.received();
        let shown = packets.iter().map(|packet| self.check(packet)).collect();
        self.rig.host.refill();
        for request in others {
            let RecvDescriptor::ResyncRequest { tcpsn, inner, .. } = request else {
                panic!("{request:?}");
            };
            self.asked[usize::from(inner.is_some())] += 1;
            let place = FIRST.distance_to(tcpsn) as usize;
            self.rig.answer(&request, self.stream.answer(place, inner));
        }
        shown
    }

    fn check(&mut self, delivered: &Delivered) -> Shown {
        let packet = delivered.packet;
        let from = FIRST.distance_to(delivered.parsed().tcp.seq) as usize;
        let mut placed = 0;
        for part in &delivered.placed {
            for (at, memory) in part.at.clone().zip(part.slice.offset..) {
                let wire_at = from + at;
                assert!(!self.seen[wire_at], "byte {wire_at} had been passed up");
                let offset = memory.checked_sub(STRIDE * u64::from(part.tag)).unwrap();
                assert!(offset < u64::from(BUFFER), "not the buffer of {}", part.tag);
                assert!(!self.written[memory as usize], "written again");
                self.written[memory as usize] = true;
                if self.exact {
                    let inner = self.stream.inner[wire_at].expect("content");
                    let belongs = self.stream.pdus.belongs(inner);
                    assert_eq!(belongs, Some((part.tag, offset as u32)));
                }
            }
            placed += part.at.len();
        }
        let bytes = delivered.whole(&self.blocks);
        let processed = packet.processed;
        assert!(processed.by(0) || placed == 0 && !processed.by(1));
        let expected = match processed.by(0) {
            true => &self.stream.records.opened,
            false => &self.stream.records.wire,
        };
        let to = from + bytes.len();
        if bytes != expected[from..to] {
            // Changed on its way, which only what comes as it was shows.
            assert!(!processed.by(0), "{from}..{to}");
        }
        if processed.by(1) {
            self.covered[from..to].fill(true);
        }
        self.seen[from..to].fill(true);
        self.placed += placed;
        Shown {
            at: from,
            packet,
            placed,
        }
    }

    /// All data of the stream.
    fn data_len(&self) -> usize {
        self.stream.pdus.data.iter().map(|data| data.0.len()).sum()
    }

    /// What the function has counted under this name.
    fn count(&self, name: &str) -> u64 {
        self.rig.counters().named(name)
    }
}

fn nvme() -> Parameters {
    fixtures::nvme(Role::Controller, true, true)
}

/// Ten PDUs of 20,000 bytes.
fn large() -> Vec<Kind> {
    one_each(10, 20_000)
}

/// PDUs with so much data each, for so many tags in turn.
fn in_turn(pdus: u32, tags: u32, len: u32) -> Vec<Kind> {
    let kinds = (0..pdus).map(|n| data((n % tags) as u16, len * (n / tags), len));
    kinds.collect()
}
