//! Placement and digests of NVMe/TCP, as the host sees them.

use std::ops::Range;

use l5p::Layers;
use l5p::nvme::{Parameters, Role};
use proptest::prelude::*;
use wire::SeqNum;
use wire::tcp::Flags;

use super::rig::*;
use crate::context::Contexts;
use crate::receive::pdus::{Kind, PduStream, parameters};
use crate::ring::{
    ContextId, ErrorCode, Processed, RecvDescriptor, Region, RegionId, SendDescriptor, Slice,
};

const MSS: usize = 1448;
const FIRST: SeqNum = SeqNum(u32::MAX - 9_000);
const GUARD: u8 = 0xa5;
const CONTEXT: ContextId = ContextId(3);

/// A rig with a context, and memory for what it places.
struct World {
    rig: Rig,
    blocks: std::sync::Arc<Region>,
    blocks_id: RegionId,
    stream: PduStream,
}

/// A packet and where its payload is.
struct Found {
    packet: crate::ring::Packet,
    seq: SeqNum,
    payload: Vec<u8>,
    placed: Vec<(Range<usize>, Slice, u16)>,
}

const BLOCKS: usize = 1 << 20;

impl World {
    fn new(parameters: &Parameters, kinds: &[Kind]) -> World {
        Self::with(config(), parameters, kinds)
    }

    fn with(config: crate::ring::FunctionConfig, parameters: &Parameters, kinds: &[Kind]) -> World {
        let mut rig = Rig::new(config);
        rig.fill(200, 30);
        let blocks = std::sync::Arc::new(Region::anonymous(BLOCKS));
        blocks.write(0, &vec![GUARD; BLOCKS]);
        let blocks_id = rig.host.register(std::sync::Arc::clone(&blocks)).unwrap();
        rig.command(&SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: l5p::Direction::Receive,
            flow: flow(1),
            tcpsn: FIRST,
            layers: &Layers::of(parameters),
        });
        World {
            rig,
            blocks,
            blocks_id,
            stream: PduStream::new(parameters, kinds),
        }
    }

    fn slice(&self, offset: u64, len: u32) -> Slice {
        Slice {
            offset,
            len,
            region: self.blocks_id,
        }
    }

    fn map(&mut self, tag: u16, slices: &[Slice]) {
        self.rig.command(&SendDescriptor::AddRrState {
            context: CONTEXT,
            tag,
            slices,
        });
    }

    fn unmap(&mut self, tag: u16) {
        self.rig.command(&SendDescriptor::DelRrState {
            context: CONTEXT,
            tag,
        });
    }

    fn send(&mut self, from: usize, to: usize) {
        self.send_flagged(from, to, Flags::ACK);
    }

    fn send_flagged(&mut self, from: usize, to: usize, flags: Flags) {
        let mut tcp = segment(&flow(1), FIRST + from as u32);
        tcp.flags = flags;
        let frame = frame(&flow(1), &tcp, &self.stream.wire[from..to]);
        self.rig.frame(&frame, VALID);
    }

    fn send_all(&mut self) {
        let end = self.stream.wire.len();
        for from in (0..end).step_by(MSS) {
            self.send(from, (from + MSS).min(end));
        }
    }

    /// Ends the batch; gives the packets and whatever else there is.
    fn flush(&mut self) -> (Vec<Found>, Vec<RecvDescriptor>) {
        let descriptors = self.rig.flush();
        self.read(descriptors)
    }

    fn read(&mut self, descriptors: Vec<RecvDescriptor>) -> (Vec<Found>, Vec<RecvDescriptor>) {
        let mut packets: Vec<Found> = Vec::new();
        let mut others = Vec::new();
        let mut behind_packet = false;
        for descriptor in descriptors {
            match descriptor {
                RecvDescriptor::Packet(packet) => {
                    let delivered = self.rig.read(descriptor).unwrap();
                    assert_eq!(
                        delivered.payload().len() as u32,
                        packet.buffer.len - u32::from(packet.header_len)
                    );
                    // The headers speak of the whole payload.
                    let mut whole = delivered.bytes.clone();
                    let whole_len = u32::from(packet.header_len) + packet.payload_len;
                    whole.resize(whole_len as usize, 0);
                    let parsed = wire::packet::parse(&whole).expect("valid headers");
                    packets.push(Found {
                        packet,
                        seq: parsed.tcp.seq,
                        payload: delivered.payload().to_vec(),
                        placed: Vec::new(),
                    });
                }
                RecvDescriptor::Placed { at, slice, tag } => {
                    assert!(behind_packet, "right behind its packet");
                    let at = at as usize..(at + slice.len) as usize;
                    packets.last_mut().unwrap().placed.push((at, slice, tag));
                }
                other => others.push(other),
            }
            behind_packet = !matches!(
                descriptor,
                RecvDescriptor::ResyncRequest { .. } | RecvDescriptor::Completion { .. }
            );
        }
        for found in &packets {
            assert_eq!(usize::from(found.packet.placed), found.placed.len());
        }
        self.rig.fill(packets.len(), packets.len());
        (packets, others)
    }

    /// The bytes of a packet's payload, from wherever they are.
    fn bytes(&self, found: &Found) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = &found.payload[..];
        for (range, slice, _) in &found.placed {
            let (before, behind) = rest.split_at(range.start - bytes.len());
            bytes.extend_from_slice(before);
            rest = behind;
            let mut placed = vec![0; slice.len as usize];
            assert!(self.blocks.read(slice.offset, &mut placed));
            bytes.extend_from_slice(&placed);
        }
        bytes.extend_from_slice(rest);
        assert_eq!(bytes.len() as u32, found.packet.payload_len);
        bytes
    }

    /// Checks that the packets hold what was sent; gives the bytes placed.
    fn check(&self, packets: &[Found]) -> usize {
        let mut placed = 0;
        for found in packets {
            let from = FIRST.distance_to(found.seq) as usize;
            let bytes = self.bytes(found);
            assert_eq!(bytes, self.stream.wire[from..from + bytes.len()]);
            for (range, slice, tag) in &found.placed {
                assert_eq!(self.stream.belongs(from + range.start).unwrap().0, *tag);
                placed += slice.len as usize;
            }
        }
        placed
    }

    fn block(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.blocks.read(offset, &mut bytes));
        bytes
    }
}

fn data(tag: u16, at: u32, len: u32) -> Kind {
    Kind::Data { tag, at, len }
}

fn error(others: &[RecvDescriptor]) -> Vec<ErrorCode> {
    let errors = others.iter().map(|other| match other {
        RecvDescriptor::Completion { error, .. } => *error,
        other => panic!("{other:?}"),
    });
    errors.collect()
}

#[test]
fn data_lie_in_the_mapped_buffer_and_packets_are_merged_around_them() {
    let parameters = parameters(Role::Controller, true, true);
    let mut world = World::new(&parameters, &[data(5, 0, 60_000), Kind::Capsule(0)]);
    let slices = [world.slice(8192, 20_000), world.slice(100_000, 40_000)];
    world.map(5, &slices);
    world.send_all();
    let (packets, others) = world.flush();
    assert_eq!(others, []);
    assert_eq!(packets.len(), 1, "one merged packet");
    assert_eq!(
        packets[0].packet.segments as usize,
        world.stream.wire.len().div_ceil(MSS)
    );
    assert_eq!(packets[0].packet.processed, Processed::by_layers(1, false));
    assert_eq!(packets[0].packet.context, Some(CONTEXT));
    let places: Vec<Slice> = packets[0].placed.iter().map(|part| part.1).collect();
    assert_eq!(places, slices, "adjacent parts are one");
    assert_eq!(world.check(&packets), 60_000);
    let range = world.stream.data[0].0.clone();
    let sent = &world.stream.wire[range];
    assert_eq!(world.block(8192, 20_000), sent[..20_000]);
    assert_eq!(world.block(100_000, 40_000), sent[20_000..]);
    // Nothing around it.
    assert_eq!(world.block(0, 8192), vec![GUARD; 8192]);
    assert_eq!(world.block(28_192, 71_808), vec![GUARD; 71_808]);
    assert_eq!(world.block(140_000, 1000), vec![GUARD; 1000]);
    let counters = world.rig.counters();
    assert_eq!(counters.named("rx_nvmeotcp_bytes"), 60_000);
    assert_eq!(counters.named("rx_nvmeotcp_packets"), 42);
    assert_eq!(
        counters.named("rx_nvmeotcp_digest_bytes") as usize,
        world.stream.wire.len()
    );
    assert_eq!(counters.named("rx_nvmeotcp_ddp_setup"), 1);
    assert_eq!(counters.named("rx_nvmeotcp_sk_add"), 1);
}

#[test]
fn a_packet_with_a_wrong_digest_arrives_whole_and_is_told_apart() {
    let parameters = parameters(Role::Controller, false, true);
    let mut world = World::new(
        &parameters,
        &[data(0, 0, 5000), data(1, 0, 5000), data(2, 0, 5000)],
    );
    for tag in 0..3 {
        let slices = [world.slice(10_000 * u64::from(tag), 5000)];
        world.map(tag, &slices);
    }
    let end = world.stream.starts[2];
    world.stream.wire[end - 1] ^= 1;
    world.send_all();
    let (packets, _) = world.flush();
    world.check(&packets);
    let bad: Vec<&Found> = packets
        .iter()
        .filter(|found| !found.packet.processed.by(0))
        .collect();
    let from = FIRST.distance_to(bad[0].seq) as usize;
    assert!((from..from + bad[0].packet.payload_len as usize).contains(&(end - 1)));
    assert!(bad[0].placed.is_empty());
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_digest_err"), 1);
}

#[test]
fn without_digests_nothing_is_said_of_them() {
    let parameters = parameters(Role::Host, false, false);
    let mut world = World::new(&parameters, &[data(0, 0, 5000)]);
    let slices = [world.slice(0, 5000)];
    world.map(0, &slices);
    world.send_all();
    let (packets, _) = world.flush();
    assert_eq!(world.check(&packets), 5000);
    assert!(packets.iter().all(|found| !found.packet.processed.by(0)));
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_digest_packets"), 0);
}

#[test]
fn memory_that_is_not_the_functions_is_not_mapped() {
    let parameters = parameters(Role::Controller, false, false);
    let mut world = World::new(&parameters, &[data(0, 0, 100)]);
    let read_only = {
        let owner = std::sync::Arc::new(vec![0u8; 4096]);
        let start = owner.as_ptr().cast_mut();
        // SAFETY: `owner` keeps 4096 bytes that nobody writes.
        #[allow(unsafe_code)]
        let region = unsafe { Region::from_raw_parts(start, 4096, owner, false) };
        world
            .rig
            .host
            .register(std::sync::Arc::new(region))
            .unwrap()
    };
    let good = world.slice(0, 50);
    for (bad, why) in [
        (world.slice(BLOCKS as u64 - 49, 50), ErrorCode::BadMemory),
        (world.slice(u64::MAX - 10, 50), ErrorCode::BadMemory),
        (
            Slice {
                region: RegionId(99),
                ..good
            },
            ErrorCode::BadMemory,
        ),
        (
            Slice {
                region: read_only,
                ..good
            },
            ErrorCode::ReadOnlyMemory,
        ),
    ] {
        world.map(0, &[good, bad]);
        assert_eq!(error(&world.flush().1), [why]);
    }
    world.send_all();
    let (packets, _) = world.flush();
    assert_eq!(world.check(&packets), 0);
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_ddp_setup_fail"), 4);
    assert_eq!(world.block(0, BLOCKS), vec![GUARD; BLOCKS]);
}

#[test]
fn memory_that_is_taken_away_keeps_data_in_the_packets() {
    let parameters = parameters(Role::Controller, false, true);
    let mut world = World::new(&parameters, &[data(0, 0, 5000)]);
    let slices = [world.slice(0, 5000)];
    world.map(0, &slices);
    world.send(0, 1000);
    world.rig.host.regions.unregister(world.blocks_id);
    world.send(1000, 2000);
    world.send(2000, world.stream.wire.len());
    let (packets, _) = world.flush();
    assert_eq!(world.check(&packets), 1000 - 24);
    assert!(packets.iter().all(|found| found.packet.processed.by(0)));
    assert!(world.rig.counters().named("rx_nvmeotcp_drop") >= 1);
}

#[test]
fn state_that_contradicts_is_refused() {
    let nvme = parameters(Role::Controller, false, false);
    let mut world = World::new(&nvme, &[data(0, 0, 100)]);
    let slices = [world.slice(0, 100)];
    world.map(0, &slices);
    world.map(0, &slices);
    world.map(32, &slices);
    world.unmap(1);
    world.unmap(0);
    world.unmap(0);
    let keys = crypto(l5p::tls::Algorithm::Aes128Gcm, l5p::tls::Version::Tls13);
    world.rig.offload(4, flow(2), FIRST, &keys);
    for context in [ContextId(4), ContextId(5), ContextId(500)] {
        world.rig.command(&SendDescriptor::AddRrState {
            context,
            tag: 0,
            slices: &slices,
        });
        world
            .rig
            .command(&SendDescriptor::DelRrState { context, tag: 0 });
    }
    let errors = error(&world.flush().1);
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
    let nvme = parameters(Role::Controller, false, false);
    let mut quota = config();
    quota.tags = 32 + 31;
    let mut world = World::with(quota, &nvme, &[]);
    let create = |rig: &mut Rig, id, port| {
        rig.command(&SendDescriptor::CreateContext {
            context: ContextId(id),
            direction: l5p::Direction::Receive,
            flow: flow(port),
            tcpsn: FIRST,
            layers: &Layers::of(&nvme),
        });
    };
    create(&mut world.rig, 4, 2);
    assert_eq!(error(&world.flush().1), [ErrorCode::OverQuota]);
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_sk_add_fail"), 1);
    world
        .rig
        .command(&SendDescriptor::DestroyContext { context: CONTEXT });
    create(&mut world.rig, 4, 2);
    assert!(world.flush().1.is_empty());
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_sk_del"), 1);
}

#[test]
fn once_a_buffer_is_unmapped_all_that_was_written_to_it_is_on_the_ring() {
    let parameters = parameters(Role::Controller, false, true);
    let mut world = World::new(&parameters, &[data(0, 0, 5000)]);
    let slices = [world.slice(0, 5000)];
    world.map(0, &slices);
    world.send(0, 1000);
    world.send(1000, 2000);
    // Not flushed: the packets are still being merged.
    world.unmap(0);
    let queue = &mut world.rig.host.queues[0];
    assert_eq!(queue.send.completed(), queue.send.posted());
    let shown: Vec<_> = std::iter::from_fn(|| queue.recv.pop()).collect();
    let _ = queue.publish();
    let (packets, _) = world.read(shown);
    assert_eq!(world.check(&packets), 2000 - 24);
    let before = world.block(0, 10_000);
    world.send(2000, world.stream.wire.len());
    let (packets, _) = world.flush();
    assert_eq!(world.check(&packets), 0);
    assert!(packets[0].packet.processed.by(0));
    assert_eq!(world.block(0, 10_000), before);
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_ddp_teardown"), 1);
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_drop"), 1);
}

#[test]
fn a_destroyed_context_writes_no_more_and_shows_what_it_wrote() {
    let parameters = parameters(Role::Controller, false, true);
    let mut world = World::new(&parameters, &[data(0, 0, 5000)]);
    let slices = [world.slice(0, 5000)];
    world.map(0, &slices);
    world.send(0, 1000);
    world
        .rig
        .command(&SendDescriptor::DestroyContext { context: CONTEXT });
    let queue = &mut world.rig.host.queues[0];
    let shown: Vec<_> = std::iter::from_fn(|| queue.recv.pop()).collect();
    let _ = queue.publish();
    let (packets, _) = world.read(shown);
    assert_eq!(world.check(&packets), 976);
    world.send(1000, 2000);
    let (packets, _) = world.flush();
    assert_eq!(packets[0].packet.context, None);
    assert_eq!(world.check(&packets), 0);
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_ddp_teardown"), 1);
}

#[test]
fn a_full_receive_ring_limits_what_is_placed_and_loses_nothing() {
    let nvme = parameters(Role::Controller, false, true);
    for entries in [4, 8, 16] {
        let small = crate::ring::FunctionConfig {
            receive_entries: entries,
            ..config()
        };
        let kinds: Vec<Kind> = (0..24).map(|tag| data(tag, 0, 40)).collect();
        let mut world = World::with(small, &nvme, &kinds);
        for tag in 0..24 {
            let slices = [world.slice(100 * u64::from(tag), 40)];
            world.map(tag, &slices);
        }
        let end = world.stream.wire.len();
        let mut got = 0;
        for from in (0..end).step_by(400) {
            world.send(from, (from + 400).min(end));
            if from % 800 == 0 {
                let (packets, _) = world.flush();
                world.check(&packets);
                got += packets
                    .iter()
                    .map(|found| found.packet.payload_len)
                    .sum::<u32>();
            }
        }
        let (packets, _) = world.flush();
        world.check(&packets);
        got += packets
            .iter()
            .map(|found| found.packet.payload_len)
            .sum::<u32>();
        let dropped = world.rig.counters().rx_ring_full;
        assert!(
            got as usize == end || dropped > 0,
            "{entries}: {got} of {end}"
        );
        assert!(
            world.rig.counters().named("rx_nvmeotcp_bytes") > 0,
            "{entries}"
        );
    }
}

#[test]
fn a_lost_header_is_asked_about_once_and_the_answer_resumes_placement() {
    let parameters = parameters(Role::Controller, true, true);
    let kinds: Vec<Kind> = (0..30).map(|tag| data(tag, 0, 4000)).collect();
    let mut world = World::new(&parameters, &kinds);
    for tag in 0..30 {
        let slices = [world.slice(5000 * u64::from(tag), 4000)];
        world.map(tag, &slices);
    }
    let lost = world.stream.starts[2] / MSS;
    let end = world.stream.wire.len();
    let mut asked = 0;
    for n in (0..end.div_ceil(MSS)).filter(|n| *n != lost) {
        world.send(n * MSS, ((n + 1) * MSS).min(end));
        let (packets, others) = world.flush();
        world.check(&packets);
        for other in others {
            let RecvDescriptor::ResyncRequest {
                context,
                tcpsn,
                inner: None,
            } = other
            else {
                panic!("{other:?}");
            };
            asked += 1;
            let at = FIRST.distance_to(tcpsn) as usize;
            let confirmed = world.stream.begins_at(at);
            assert!(confirmed);
            world.rig.command(&SendDescriptor::ResyncResponse {
                context,
                tcpsn,
                inner: None,
                confirmed,
                index: 0,
            });
        }
    }
    let counters = world.rig.counters();
    assert_eq!(asked, 1);
    assert_eq!(counters.named("rx_nvmeotcp_resync"), 1);
    assert_eq!(counters.named("rx_nvmeotcp_resync_res_ok"), 1);
    assert!(counters.named("rx_nvmeotcp_bytes") > 30 * 4000 - 3 * 4000);
}

#[test]
fn contexts_of_nvme_take_no_room_from_those_of_tls() {
    const { assert!(Contexts::SLOT_BYTES <= 160) };
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
        let nvme = parameters(Role::Controller, digests.0, digests.1);
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
        let entries = crate::ring::FunctionConfig { receive_entries: queue_entries, ..config() };
        let mut world = World::with(entries, &nvme, &kinds);
        // Buffers of 16,000 bytes every 24,576, in slices with gaps of 64 bytes.
        let mut inside = vec![false; BLOCKS];
        let buffer = |world: &World, tag: u16| -> Vec<Slice> {
            let mut offset = 24_576 * u64::from(tag);
            let mut left = 16_000u32;
            let mut slices = Vec::new();
            for len in scatter.iter().copied().chain([u32::MAX]) {
                let len = len.min(left);
                slices.push(world.slice(offset, len));
                offset += u64::from(len) + 64;
                left -= len;
            }
            slices
        };
        for tag in 0..32 {
            let slices = buffer(&world, tag);
            for slice in &slices {
                inside[slice.offset as usize..][..slice.len as usize].fill(true);
            }
            world.map(tag, &slices);
        }
        let end = world.stream.wire.len();
        let mut arrivals: Vec<(usize, usize, Step)> = Vec::new();
        for (n, from) in (0..end).step_by(MSS).enumerate() {
            let step = steps[n % steps.len()];
            let now = 4 * n;
            match step {
                Step::Late(by) => arrivals.push((now + 4 * usize::from(by) + 2, from, step)),
                Step::Twice(by) => {
                    arrivals.push((now, from, step));
                    arrivals.push((now + 4 * usize::from(by) + 2, from, step));
                }
                _ => arrivals.push((now, from, step)),
            }
        }
        arrivals.sort_by_key(|arrival| arrival.0);
        // What the host puts together.
        let mut received: Vec<Option<u8>> = vec![None; end];
        let mut collect = |world: &mut World| {
            let (packets, others) = world.flush();
            for found in &packets {
                let from = FIRST.distance_to(found.seq) as usize;
                let bytes = world.bytes(found);
                for (n, byte) in bytes.into_iter().enumerate() {
                    let place = &mut received[from + n];
                    let placed = found.placed.iter().any(|part| part.0.contains(&n));
                    assert!(!placed || place.is_none(), "placed, but seen before");
                    *place = Some(byte);
                }
            }
            world.check(&packets);
            for other in others {
                if let RecvDescriptor::ResyncRequest { context, tcpsn, inner } = other {
                    let at = FIRST.distance_to(tcpsn) as usize;
                    let confirmed = world.stream.begins_at(at);
                    world.rig.command(&SendDescriptor::ResyncResponse {
                        context, tcpsn, inner, confirmed, index: 0,
                    });
                }
            }
        };
        for (_, from, step) in arrivals {
            let to = (from + MSS).min(end);
            match step {
                Step::Arrives(flags) => world.send_flagged(from, to, flags),
                Step::Late(_) | Step::Twice(_) => world.send(from, to),
                Step::Flush => {
                    world.send(from, to);
                    collect(&mut world);
                }
                Step::Remap(tag) => {
                    // What is placed is read before memory may be used anew, as a host does.
                    collect(&mut world);
                    world.unmap(tag);
                    let slices = buffer(&world, tag);
                    world.map(tag, &slices);
                    world.send(from, to);
                }
            }
        }
        collect(&mut world);
        if world.rig.counters().rx_ring_full == 0 {
            let whole: Option<Vec<u8>> = received.iter().copied().collect();
            prop_assert_eq!(whole.as_ref(), Some(&world.stream.wire));
        }
        let memory = world.block(0, BLOCKS);
        for (byte, inside) in memory.iter().zip(&inside) {
            prop_assert!(*inside || *byte == GUARD, "outside of the slices");
        }
    }
}
