//! Placement and digests of NVMe/TCP, as the host sees them.

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

    /// Ends the batch; gives the errors that the host is told of, and nothing but them.
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

#[test]
fn data_lie_in_the_mapped_buffer_and_packets_are_merged_around_them() {
    let parameters = nvme(Role::Controller, true, true);
    let mut world = World::new(&parameters, &[data(5, 0, 60_000), Kind::Capsule(0)]);
    let blocks = &world.blocks;
    let slices = [blocks.slice(8192, 20_000), blocks.slice(100_000, 40_000)];
    world.map(5, &slices);
    world.send_all();
    let (packets, others) = world.flush();
    assert_eq!(others, []);
    assert_eq!(packets.len(), 1, "one merged packet");
    let packet = &packets[0].packet;
    assert_eq!(
        usize::from(packet.segments),
        world.stream.len().div_ceil(MSS)
    );
    assert_eq!(packet.processed, Processed::by_layers(1, false));
    assert_eq!(packet.context, Some(CONTEXT));
    let places: Vec<Slice> = packets[0].placed.iter().map(|part| part.slice).collect();
    assert_eq!(places, slices, "adjacent parts are one");
    assert_eq!(world.check(&packets), 60_000);
    let sent = &world.stream.wire[world.stream.data[0].0.clone()];
    assert_eq!(world.block(8192, 20_000), sent[..20_000]);
    assert_eq!(world.block(100_000, 40_000), sent[20_000..]);
    // Nothing around it.
    for (offset, len) in [(0, 8192), (28_192, 71_808), (140_000, 1000)] {
        assert_eq!(world.block(offset, len), vec![GUARD; len]);
    }
    assert_eq!(world.count("rx_nvmeotcp_bytes"), 60_000);
    assert_eq!(world.count("rx_nvmeotcp_packets"), 42);
    assert_eq!(
        world.count("rx_nvmeotcp_digest_bytes") as usize,
        world.stream.len()
    );
    assert_eq!(world.count("rx_nvmeotcp_ddp_setup"), 1);
    assert_eq!(world.count("rx_nvmeotcp_sk_add"), 1);
}

#[test]
fn a_packet_with_a_wrong_digest_arrives_whole_and_is_told_apart() {
    let mut world = World::mapped(&nvme(Role::Controller, false, true), 3);
    let end = world.stream.starts[2];
    world.stream.wire[end - 1] ^= 1;
    world.send_all();
    let (packets, _) = world.flush_and_check();
    let bad = packets.iter().find(|found| !found.packet.processed.by(0));
    let bad = bad.unwrap();
    let from = FIRST.distance_to(bad.parsed().tcp.seq) as usize;
    assert!((from..from + bad.packet.payload_len as usize).contains(&(end - 1)));
    assert!(bad.placed.is_empty());
    assert_eq!(world.count("rx_nvmeotcp_digest_err"), 1);
}

#[test]
fn without_digests_nothing_is_said_of_them() {
    let mut world = World::mapped(&nvme(Role::Host, false, false), 1);
    world.send_all();
    let (packets, placed) = world.flush_and_check();
    assert_eq!(placed, 5000);
    assert!(packets.iter().all(|found| !found.packet.processed.by(0)));
    assert_eq!(world.count("rx_nvmeotcp_digest_packets"), 0);
}

/// Memory that the device must not write to.
fn read_only() -> Region {
    let owner = Arc::new(vec![0u8; 4096]);
    let start = owner.as_ptr().cast_mut();
    // SAFETY: `owner` keeps 4096 bytes that nobody writes.
    #[allow(unsafe_code)]
    unsafe {
        Region::from_raw_parts(start, 4096, owner, false)
    }
}

#[test]
fn memory_that_is_not_the_functions_is_not_mapped() {
    let mut world = World::new(&nvme(Role::Controller, false, false), &one_each(1, 100));
    let read_only = world.rig.host.register(Arc::new(read_only())).unwrap();
    let good = world.blocks.slice(0, 50);
    let in_region = |region| Slice { region, ..good };
    for (bad, why) in [
        (
            world.blocks.slice(BLOCKS as u64 - 49, 50),
            ErrorCode::BadMemory,
        ),
        (world.blocks.slice(u64::MAX - 10, 50), ErrorCode::BadMemory),
        (in_region(RegionId(99)), ErrorCode::BadMemory),
        (in_region(read_only), ErrorCode::ReadOnlyMemory),
    ] {
        world.map(0, &[good, bad]);
        assert_eq!(world.errors(), [why]);
    }
    world.send_all();
    assert_eq!(world.flush_and_check().1, 0);
    assert_eq!(world.count("rx_nvmeotcp_ddp_setup_fail"), 4);
    assert_eq!(world.block(0, BLOCKS), vec![GUARD; BLOCKS]);
}

#[test]
fn memory_that_is_taken_away_keeps_data_in_the_packets() {
    let mut world = World::mapped(&nvme(Role::Controller, false, true), 1);
    world.send(0, 1000);
    world.rig.host.regions.unregister(world.blocks.id);
    world.send(1000, 2000);
    world.send(2000, world.stream.len());
    let (packets, placed) = world.flush_and_check();
    assert_eq!(placed, 1000 - 24);
    assert!(packets.iter().all(|found| found.packet.processed.by(0)));
    assert!(world.count("rx_nvmeotcp_drop") >= 1);
}

#[test]
fn state_that_contradicts_is_refused() {
    let mut world = World::new(&nvme(Role::Controller, false, false), &one_each(1, 100));
    for tag in [0, 0, 32] {
        world.map_at(tag, 0, 100);
    }
    for tag in [1, 0, 0] {
        world.unmap(tag);
    }
    offload(&mut world.rig, 4, &flow(2), FIRST, &aes());
    let slices = [world.blocks.slice(0, 100)];
    for context in [ContextId(4), ContextId(5), ContextId(500)] {
        world.rig.map(context, 0, &slices);
        world.rig.unmap(context, 0);
    }
    let errors = world.errors();
    assert_eq!(
        errors[..4],
        [
            ErrorCode::TagMapped,
            ErrorCode::OverQuota,
            ErrorCode::TagNotMapped,
            ErrorCode::TagNotMapped
        ]
    );
    assert_eq!(errors[4..], [ErrorCode::NoContext; 6]);
}

#[test]
fn tags_count_against_the_functions_quota() {
    let parameters = nvme(Role::Controller, false, false);
    let quota = FunctionConfig {
        tags: 32 + 31,
        ..function_config()
    };
    let mut world = World::with(quota, &parameters, &[]);
    let create = |world: &mut World| {
        let layers = Layers::of(&parameters);
        world.rig.offload(ContextId(4), &flow(2), FIRST, &layers);
        world.errors()
    };
    assert_eq!(create(&mut world), [ErrorCode::OverQuota]);
    assert_eq!(world.count("rx_nvmeotcp_sk_add_fail"), 1);
    let destroy = SendDescriptor::DestroyContext { context: CONTEXT };
    world.rig.command(&destroy);
    assert!(create(&mut world).is_empty());
    assert_eq!(world.count("rx_nvmeotcp_sk_del"), 1);
}

#[test]
fn once_a_buffer_is_unmapped_all_that_was_written_to_it_is_on_the_ring() {
    let mut world = World::mapped(&nvme(Role::Controller, false, true), 1);
    world.send(0, 1000);
    world.send(1000, 2000);
    // Not flushed: the packets are still being merged.
    world.unmap(0);
    let send = &mut world.rig.host.queues[0].send;
    assert_eq!(send.completed(), send.posted());
    let (packets, _) = world.shown();
    assert_eq!(world.check(&packets), 2000 - 24);
    let before = world.block(0, 10_000);
    world.send(2000, world.stream.len());
    let (packets, placed) = world.flush_and_check();
    assert_eq!(placed, 0);
    assert!(packets[0].packet.processed.by(0));
    assert_eq!(world.block(0, 10_000), before);
    assert_eq!(world.count("rx_nvmeotcp_ddp_teardown"), 1);
    assert_eq!(world.count("rx_nvmeotcp_drop"), 1);
}

#[test]
fn a_destroyed_context_writes_no_more_and_shows_what_it_wrote() {
    let mut world = World::mapped(&nvme(Role::Controller, false, true), 1);
    world.send(0, 1000);
    let destroy = SendDescriptor::DestroyContext { context: CONTEXT };
    world.rig.command(&destroy);
    let (packets, _) = world.shown();
    assert_eq!(world.check(&packets), 976);
    world.send(1000, 2000);
    let (packets, placed) = world.flush_and_check();
    assert_eq!(packets[0].packet.context, None);
    assert_eq!(placed, 0);
    assert_eq!(world.count("rx_nvmeotcp_ddp_teardown"), 1);
}

#[test]
fn a_full_receive_ring_limits_what_is_placed_and_loses_nothing() {
    let parameters = nvme(Role::Controller, false, true);
    for receive_entries in [4, 8, 16] {
        let small = FunctionConfig {
            receive_entries,
            ..function_config()
        };
        let mut world = World::with(small, &parameters, &one_each(24, 40));
        for tag in 0..24 {
            world.map_at(tag, 100 * u64::from(tag), 40);
        }
        let end = world.stream.len();
        let mut got = 0;
        let mut collect = |world: &mut World| {
            let (packets, _) = world.flush_and_check();
            got += packets.iter().map(|it| it.packet.payload_len).sum::<u32>();
        };
        for from in (0..end).step_by(400) {
            world.send(from, (from + 400).min(end));
            if from % 800 == 0 {
                collect(&mut world);
            }
        }
        collect(&mut world);
        let dropped = world.rig.counters().rx_ring_full;
        assert!(
            got as usize == end || dropped > 0,
            "{receive_entries}: {got} of {end}"
        );
        assert!(world.count("rx_nvmeotcp_bytes") > 0, "{receive_entries}");
    }
}

#[test]
fn a_lost_header_is_asked_about_once_and_the_answer_resumes_placement() {
    let parameters = nvme(Role::Controller, true, true);
    let mut world = World::new(&parameters, &one_each(30, 4000));
    for tag in 0..30 {
        world.map_at(tag, 5000 * u64::from(tag), 4000);
    }
    let lost = world.stream.starts[2] / MSS;
    let mut asked = 0;
    for (from, to) in packets(world.stream.len()).filter(|packet| packet.0 / MSS != lost) {
        world.send(from, to);
        let (packets, others) = world.flush();
        world.check(&packets);
        let answers = world.answer(&others);
        assert!(answers.iter().all(|confirmed| *confirmed));
        asked += answers.len();
    }
    assert_eq!(asked, 1);
    assert_eq!(world.count("rx_nvmeotcp_resync"), 1);
    assert_eq!(world.count("rx_nvmeotcp_resync_res_ok"), 1);
    assert!(world.count("rx_nvmeotcp_bytes") > 30 * 4000 - 3 * 4000);
}

/// What happens to one packet.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrives(Flags),
    Late(u8),
    Twice(u8),
    Flush,
    Remap(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => Just(Step::Arrives(Flags::ACK)),
        1 => Just(Step::Arrives(Flags::ACK.union(Flags::PSH))),
        2 => (1u8..20).prop_map(Step::Late),
        1 => (1u8..20).prop_map(Step::Twice),
        2 => Just(Step::Flush),
        1 => (0u16..32).prop_map(Step::Remap),
    ]
}

impl Step {
    fn fate(&self) -> Fate {
        match *self {
            Step::Late(by) => Fate::Late(by),
            Step::Twice(by) => Fate::Twice(by),
            Step::Arrives(_) | Step::Flush | Step::Remap(_) => Fate::Arrives,
        }
    }
}

/// Buffers of 16,000 bytes every 24,576, in slices of these lengths with gaps of 64 bytes.
fn buffer(blocks: &Memory, scatter: &[u32], tag: u16) -> Vec<Slice> {
    let (mut offset, mut left) = (24_576 * u64::from(tag), 16_000u32);
    let lens = scatter.iter().copied().chain([u32::MAX]);
    let slices = lens.map(|len| {
        let slice = blocks.slice(offset, len.min(left));
        offset += u64::from(slice.len) + 64;
        left -= slice.len;
        slice
    });
    slices.collect()
}

/// What a host puts together, by byte of the stream.
struct Received(Vec<Option<u8>>);

impl Received {
    fn collect(&mut self, world: &mut World) {
        let (packets, others) = world.flush();
        for found in &packets {
            let from = FIRST.distance_to(found.parsed().tcp.seq) as usize;
            for (n, byte) in found.whole(&world.blocks).into_iter().enumerate() {
                let place = &mut self.0[from + n];
                let placed = found.placed.iter().any(|part| part.at.contains(&n));
                assert!(!placed || place.is_none(), "placed, but seen before");
                *place = Some(byte);
            }
        }
        world.check(&packets);
        world.answer(&others);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The stream that the host puts together, from packets and from its buffers, is the one that was sent; memory outside of
    /// the mapped slices is untouched, and inside of them holds each buffer's data where a packet says so.
    #[test]
    fn packets_and_placements_together_are_the_stream(
        digests in any::<(bool, bool)>(),
        lens in prop::collection::vec((0u16..32, prop_oneof![1u32..200, 1u32..9000]), 5..40),
        steps in prop::collection::vec(step(), 1..60),
        queue_entries in prop_oneof![Just(256u32), Just(32)],
        scatter in prop::collection::vec(1u32..3000, 0..4),
    ) {
        let mut ends = [0u32; 32];
        let mut kinds = Vec::new();
        for (tag, len) in lens {
            let at = &mut ends[usize::from(tag)];
            kinds.push(data(tag, *at, len));
            *at += len;
            if len % 3 == 0 {
                kinds.push(Kind::Capsule(0));
            }
        }
        let entries = FunctionConfig { receive_entries: queue_entries, ..function_config() };
        let parameters = nvme(Role::Controller, digests.0, digests.1);
        let mut world = World::with(entries, &parameters, &kinds);
        let mut inside = vec![false; BLOCKS];
        for tag in 0..32 {
            let slices = buffer(&world.blocks, &scatter, tag);
            for slice in &slices {
                inside[slice.offset as usize..][..slice.len as usize].fill(true);
            }
            world.map(tag, &slices);
        }
        let fates: Vec<Fate> = steps.iter().map(Step::fate).collect();
        let mut received = Received(vec![None; world.stream.len()]);
        for packet in arrivals(world.stream.len(), &[MSS], &fates) {
            let (from, to) = (packet.from, packet.to);
            match steps[packet.number % steps.len()] {
                Step::Arrives(flags) => world.send_flagged(from, to, flags),
                Step::Late(_) | Step::Twice(_) => world.send(from, to),
                Step::Flush => {
                    world.send(from, to);
                    received.collect(&mut world);
                }
                Step::Remap(tag) => {
                    // What is placed is read before memory may be used anew, as a host does.
                    received.collect(&mut world);
                    world.unmap(tag);
                    let slices = buffer(&world.blocks, &scatter, tag);
                    world.map(tag, &slices);
                    world.send(from, to);
                }
            }
        }
        received.collect(&mut world);
        if world.rig.counters().rx_ring_full == 0 {
            let whole: Option<Vec<u8>> = received.0.iter().copied().collect();
            prop_assert_eq!(whole.as_ref(), Some(&world.stream.wire));
        }
        let memory = world.block(0, BLOCKS);
        for (byte, inside) in memory.iter().zip(&inside) {
            prop_assert!(*inside || *byte == GUARD, "outside of the slices");
        }
    }
}
