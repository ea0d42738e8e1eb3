//! Arbitrary PDUs and buffers, and arbitrary arrivals.

use super::*;

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
