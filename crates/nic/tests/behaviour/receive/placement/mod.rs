//! Placement and digests of NVMe/TCP, as the host sees them.

mod random;
mod scenarios;

use std::sync::Arc;

use l5p::Layers;
use l5p::nvme::{Parameters, Role};
use nic::ring::{
    ErrorCode, FunctionConfig, Processed, RecvDescriptor, Region, RegionId, SendDescriptor, Slice,
};
use proptest::prelude::*;
use testkit::arrivals::{Fate, arrivals};
use testkit::bare::Memory;
use testkit::fixtures::{GUARD, nvme};
use testkit::pdus::PduStream;
use wire::tcp::Flags;

use super::*;

const FIRST: SeqNum = SeqNum(u32::MAX - 9_000);
const CONTEXT: ContextId = ContextId(3);
const BLOCKS: usize = 1 << 20;

/// A rig with a context, and memory for what it places.
struct World {
    rig: Rig,
    blocks: Memory,
    stream: PduStream,
}

impl World {
    fn new(parameters: &Parameters, kinds: &[Kind]) -> World {
        Self::with(function_config(), parameters, kinds)
    }

    fn with(config: FunctionConfig, parameters: &Parameters, kinds: &[Kind]) -> World {
        let mut rig = Rig::filled(nic_config(), config);
        let blocks = Memory::guarded(&rig.host, BLOCKS);
        rig.offload(CONTEXT, &flow(1), FIRST, &Layers::of(parameters));
        World {
            rig,
            blocks,
            stream: PduStream::new(parameters, kinds),
        }
    }

    /// With PDUs of 5,000 bytes of data, each mapped.
    fn mapped(parameters: &Parameters, pdus: u16) -> World {
        let mut world = World::new(parameters, &one_each(pdus, 5000));
        for tag in 0..pdus {
            world.map_at(tag, 10_000 * u64::from(tag), 5000);
        }
        world
    }

    fn map(&mut self, tag: u16, slices: &[Slice]) {
        self.rig.map(CONTEXT, tag, slices);
    }

    fn map_at(&mut self, tag: u16, offset: u64, len: u32) {
        self.map(tag, &[self.blocks.slice(offset, len)]);
    }

    fn unmap(&mut self, tag: u16) {
        self.rig.unmap(CONTEXT, tag);
    }

    fn send(&mut self, from: usize, to: usize) {
        self.send_flagged(from, to, Flags::ACK);
    }

    fn send_flagged(&mut self, from: usize, to: usize, flags: Flags) {
        let mut tcp = segment(&flow(1), FIRST + from as u32);
        tcp.flags = flags;
        let frame = from_peer(&flow(1), &tcp, &self.stream.wire[from..to]);
        self.rig.receive(&frame);
    }

    fn send_all(&mut self) {
        for (from, to) in packets(self.stream.len()) {
            self.send(from, to);
        }
    }

    /// Ends the batch; gives the packets and whatever else there is.
    fn flush(&mut self) -> (Vec<Delivered>, Vec<RecvDescriptor>) {
        self.rig.nic.flush(self.rig.now);
        self.shown()
    }

    /// As [`flush`](Self::flush), of what is on the ring already.
    fn shown(&mut self) -> (Vec<Delivered>, Vec<RecvDescriptor>) {
        let taken = self.rig.host.take();
        let (packets, others) = self.rig.host.sort(taken);
        self.rig.host.refill();
        (packets, others)
    }

    /// Ends the batch; gives the errors that are reported, and nothing but them.
    fn errors(&mut self) -> Vec<ErrorCode> {
        let (packets, others) = self.flush();
        assert!(packets.is_empty());
        let errors = others.iter().map(|other| match other {
            RecvDescriptor::Completion { error, .. } => *error,
            other => panic!("{other:?}"),
        });
        errors.collect()
    }

    /// Checks that the packets hold what was sent; gives the bytes placed.
    fn check(&self, packets: &[Delivered]) -> usize {
        let mut placed = 0;
        for found in packets {
            let from = FIRST.distance_to(found.parsed().tcp.seq) as usize;
            let bytes = found.whole(&self.blocks);
            assert_eq!(bytes, self.stream.wire[from..from + bytes.len()]);
            for part in &found.placed {
                let (tag, _) = self.stream.belongs(from + part.at.start).unwrap();
                assert_eq!(tag, part.tag);
                placed += part.at.len();
            }
        }
        placed
    }

    /// Ends the batch, in which nothing but packets came, and checks them.
    fn flush_and_check(&mut self) -> (Vec<Delivered>, usize) {
        let (packets, _) = self.flush();
        let placed = self.check(&packets);
        (packets, placed)
    }

    /// Answers questions as the stream is; gives what is so.
    fn answer(&mut self, others: &[RecvDescriptor]) -> Vec<bool> {
        let answer = |request: &RecvDescriptor| {
            let RecvDescriptor::ResyncRequest { tcpsn, inner, .. } = *request else {
                panic!("{request:?}");
            };
            assert_eq!(inner, None);
            let confirmed = self.stream.begins_at(FIRST.distance_to(tcpsn) as usize);
            self.rig.answer(request, confirmed.then_some(0));
            confirmed
        };
        others.iter().map(answer).collect()
    }

    fn block(&self, offset: u64, len: usize) -> Vec<u8> {
        self.blocks.read(offset, len)
    }

    /// What the function has counted under this name.
    fn count(&self, name: &str) -> u64 {
        self.rig.counters().named(name)
    }
}
