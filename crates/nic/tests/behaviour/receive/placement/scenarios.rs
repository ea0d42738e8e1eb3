//! What is placed, and what is refused.

use super::*;

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
    // SAFETY: `owner` keeps 4096 bytes that are not written.
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
