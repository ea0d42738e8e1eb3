//! Placement and digests of NVMe/TCP, packet by packet and for arbitrary arrivals.

mod random;
mod scenarios;

use std::collections::HashMap;

use l5p::Direction;
use l5p::nvme::{Engine, LatePdu, Role};
use proptest::prelude::*;
use wire::SeqNum;

use super::*;
use crate::context::receive::placing::Placer;
use crate::ring::{RegionId, Slice};
use testkit::arrivals::{Fate, arrivals};
use testkit::fixtures::{GUARD, nvme};
use testkit::pdus::{Kind, PduStream, crc32c, data};

const FIRST: SeqNum = SeqNum(u32::MAX - 5_000);
/// Memory of each tag's buffer, with guards around it.
const STRIDE: u64 = 8192;
const BUFFER: u32 = 6000;

/// A context with the memory that it places in.
struct Host<'s> {
    stream: &'s PduStream,
    recovery: Recovery<Engine, Placer>,
    shared: Shared<LatePdu, Placer>,
    memory: Vec<u8>,
    mapped: HashMap<u16, Vec<Slice>>,
    /// By byte of the stream: it has been passed up.
    seen: Vec<bool>,
    /// By byte of memory: written since it was mapped.
    written: Vec<bool>,
    /// By byte of the stream: it was placed.
    placed: Vec<bool>,
    /// What comes may be anything.
    forged: bool,
}

/// The buffer of a tag: two slices, in descending order of memory.
fn buffer(tag: u16) -> Vec<Slice> {
    let base = u64::from(tag) * STRIDE;
    let part = |offset, len| Slice {
        offset: base + offset,
        len,
        region: RegionId(0),
    };
    vec![part(4000, 3000), part(500, BUFFER - 3000)]
}

impl<'s> Host<'s> {
    fn new(stream: &'s PduStream, order: ArrivalOrder) -> Self {
        let parameters = &stream.parameters;
        let engine = Engine::new(parameters, Direction::Receive);
        let memory = usize::from(parameters.commands) * STRIDE as usize;
        Self {
            stream,
            recovery: Recovery::new(engine, Placer::new(parameters.commands), FIRST, 0),
            shared: Shared::new(order, 1),
            memory: vec![GUARD; memory],
            mapped: HashMap::new(),
            seen: vec![false; stream.len()],
            written: vec![false; memory],
            placed: vec![false; stream.len()],
            forged: false,
        }
    }

    fn map(&mut self, tag: u16) {
        let slices = buffer(tag);
        let added = self.recovery.observer.table.map(tag, &slices);
        assert_eq!(added.is_ok(), self.mapped.insert(tag, slices).is_none());
    }

    fn unmap(&mut self, tag: u16) {
        let removed = self.recovery.observer.table.unmap(tag);
        let slices = self.mapped.remove(&tag);
        assert_eq!(removed.is_ok(), slices.is_some());
        for slice in slices.into_iter().flatten() {
            let range = slice.offset as usize..(slice.offset + u64::from(slice.len)) as usize;
            self.written[range.clone()].fill(false);
            self.memory[range].fill(GUARD);
        }
    }

    fn map_all(&mut self) {
        for tag in 0..32 {
            self.map(tag);
        }
    }

    /// With all tags mapped.
    fn mapped(stream: &'s PduStream, order: ArrivalOrder) -> Self {
        let mut host = Host::new(stream, order);
        host.map_all();
        host
    }

    /// Gives a packet to the context, does what it says, and checks that: gives the verdict and the bytes placed.
    fn receive(&mut self, from: usize, to: usize) -> (Verdict, usize) {
        let payload = self.stream.wire[from..to].to_vec();
        self.receive_as(from, &payload)
    }

    fn receive_as(&mut self, from: usize, payload: &[u8]) -> (Verdict, usize) {
        let seq = FIRST + from as u32;
        let verdict = self.recovery.receive(&mut self.shared, seq, payload, None);
        let mut end = 0;
        let mut bytes = 0;
        for part in self.shared.noted.as_slice() {
            assert!(part.at >= end, "ascending");
            end = part.end();
            for n in 0..part.slice.len {
                let (at, place) = (part.at + n, part.slice.offset + u64::from(n));
                let stream_at = from + at as usize;
                if self.forged {
                    let mapped = self.mapped.get(&part.tag).expect("a mapped tag");
                    assert!(mapped.iter().any(|slice| {
                        (slice.offset..slice.offset + u64::from(slice.len)).contains(&place)
                    }));
                } else {
                    // It is what the stream says, where the host said.
                    let (tag, offset) = self.stream.belongs(stream_at).expect("data");
                    assert_eq!(part.tag, tag);
                    assert_eq!(self.place(tag, offset), Some(place), "byte {stream_at}");
                    assert!(!self.seen[stream_at], "byte {stream_at} had been passed up");
                    assert!(!self.placed[stream_at], "byte {stream_at} is placed again");
                    self.placed[stream_at] = true;
                }
                assert!(
                    !self.written[place as usize],
                    "memory {place} is written again"
                );
                self.written[place as usize] = true;
                self.memory[place as usize] = payload[at as usize];
                bytes += 1;
            }
        }
        let until = (from + payload.len()).min(self.seen.len());
        self.seen[from.min(until)..until].fill(true);
        (verdict, bytes)
    }

    /// Where byte `offset` of a tag's buffer is.
    fn place(&self, tag: u16, offset: u32) -> Option<u64> {
        let mut offset = offset;
        for slice in self.mapped.get(&tag)? {
            if offset < slice.len {
                return Some(slice.offset + u64::from(offset));
            }
            offset -= slice.len;
        }
        None
    }

    /// What the host answers to the request that is due.
    fn answer(&mut self) -> Option<(usize, Answer)> {
        let guess = self.recovery.due_request(0)?;
        self.recovery.request_sent(0);
        let at = FIRST.distance_to(guess) as usize;
        let confirmed = self.stream.begins_at(at);
        let answer = self.recovery.answer(&mut self.shared, guess, confirmed, 0);
        Some((at, answer))
    }
}

const OFFLOADED: Verdict = Verdict::Offloaded;

fn bypassed(why: Bypass) -> Verdict {
    Verdict::Bypassed(why)
}

/// PDUs of 1,000 bytes, of which 972 are data, each with a tag of its own.
fn thousands(count: u16) -> PduStream {
    let parameters = nvme(Role::Controller, false, true);
    let kinds: Vec<Kind> = (0..count).map(|tag| data(tag, 0, 1000 - 24 - 4)).collect();
    let stream = PduStream::new(&parameters, &kinds);
    assert_eq!(stream.starts[1], 1000);
    stream
}
