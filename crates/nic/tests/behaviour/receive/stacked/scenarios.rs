//! What becomes of records and PDUs in them.

use nic::ring::ResyncResponse;

use super::*;

#[test]
fn a_packet_of_too_many_records_is_not_vouched_for() {
    let mut world = World::new(&[data(0, 0, 150)], &[Part::Content(4)]);
    assert!(world.stream.records.starts.len() > 40);
    world.send(0, world.stream.len().min(MSS));
    for shown in world.flush() {
        assert!(shown.packet.processed.by(0));
        assert!(!shown.packet.processed.by(1), "not all of it was digested");
    }
}

#[test]
fn contents_are_decrypted_checked_placed_and_merged() {
    for (kinds, parts) in [
        // PDUs over many records, and records with many PDUs.
        (large(), vec![Part::Content(4000), Part::Content(16_384)]),
        (
            in_turn(40, 4, 300),
            vec![Part::Content(2000), Part::Content(1), Part::Content(700)],
        ),
    ] {
        let mut world = World::new(&kinds, &parts);
        let end = world.stream.len();
        let most = end
            .div_ceil(MSS)
            .div_ceil(if kinds.len() < 20 { 14 } else { 2 });
        let mut packets = 0;
        for (n, (from, to)) in super::packets(end).enumerate() {
            world.send(from, to);
            if n % 16 == 15 || to == end {
                for shown in world.flush() {
                    packets += 1;
                    assert!(shown.packet.processed.by(0) && shown.packet.processed.by(1));
                }
            }
        }
        assert_eq!(world.placed, world.data_len());
        assert!(packets <= most, "{packets} packets");
        assert_eq!(world.count("rx_nvmeotcp_bytes") as usize, world.data_len());
        assert_eq!(world.count("rx_tls_decrypted_bytes") as usize, end);
        assert_eq!(
            (world.count("rx_tls_ctx"), world.count("rx_nvmeotcp_sk_add")),
            (1, 1)
        );
    }
}

#[test]
fn late_packets_of_a_record_are_decrypted_and_placed() {
    let mut world = World::new(&large(), &[Part::Content(16_384)]);
    let packet = |world: &mut World, n: usize| {
        world.send(n * MSS, (n + 1) * MSS);
        let shown = world.flush();
        (
            shown[0].packet.processed.by(0),
            shown[0].packet.processed.by(1),
            shown[0].placed,
        )
    };
    for n in [0, 1, 3] {
        assert!(packet(&mut world, n).0);
    }
    let late = packet(&mut world, 2);
    assert_eq!(late, (true, true, MSS));
    // Again, which TCP drops.
    assert_eq!(packet(&mut world, 2), (false, false, 0));
    assert_eq!(world.count("rx_tls_decrypted_late_packets"), 1);
    assert_eq!(world.count("rx_nvmeotcp_late_packets"), 1);
}

#[test]
fn behind_a_lost_record_header_the_inner_layer_knows_where_it_is() {
    let mut world = World::new(&large(), &[Part::Content(1300)]);
    // The third record's header is lost, the first PDU goes on.
    let lost = world.stream.records.starts[2] / MSS;
    world.send_all_but(&[lost]);
    assert_eq!(world.asked[0], 1, "about a record");
    assert_eq!(world.asked[1], 0, "about a PDU");
    assert_eq!(world.count("rx_tls_resync_res_ok"), 1);
    // What was passed up encrypted, and what follows until the outer layer is sure of itself.
    let missed = world.data_len() - world.placed;
    assert!(missed < 5 * 1300, "{missed} bytes");
    assert!(world.count("rx_nvmeotcp_resumed") >= 1);
}

#[test]
fn a_lost_pdu_header_is_asked_about_by_its_record_and_offset() {
    // Small PDUs, so that a header is lost without a record's.
    let mut world = World::new(&in_turn(60, 10, 1000), &[Part::Content(16_384)]);
    world.send_all_but(&[3]);
    assert_eq!(world.asked, [0, 1]);
    assert_eq!(world.count("rx_nvmeotcp_resync"), 1);
    assert_eq!(world.count("rx_nvmeotcp_resync_res_ok"), 1);
    let missed = world.data_len() - world.placed;
    assert!(missed < 6 * MSS, "{missed} bytes");
}

#[test]
fn records_of_another_type_are_no_part_of_the_stream() {
    for control in [3, 200, 900] {
        for shift in [1000, 1500, 2000] {
            let parts = [
                Part::Content(shift),
                Part::Control(control),
                Part::Content(9000),
                Part::Content(9000),
                Part::Content(9000),
            ];
            let mut world = World::new(&in_turn(90, 10, 2000), &parts);
            world.send_all_but(&[]);
            // One that is not in one packet costs the inner layer its track; what it placed nevertheless is right.
            assert_eq!(world.asked[0], 0);
            let mut ends = world.stream.records.starts[1..]
                .iter()
                .skip(1)
                .step_by(parts.len());
            let is_whole = |end: &usize| (end - 1) / MSS == (end - control - 22) / MSS;
            // Nothing is placed of a short record whose end is in another packet.
            let least = match shift > 1200 && ends.all(is_whole) {
                true => world.data_len(),
                false => world.data_len() / 2,
            };
            assert!(world.placed >= least, "{} bytes", world.placed);
        }
    }
}

#[test]
fn a_long_record_of_another_type_is_found_out_at_its_end() {
    let parts = [
        Part::Content(9000),
        Part::Control(5000),
        Part::Content(9000),
    ];
    let mut world = World::new(&large(), &parts);
    world.exact = false;
    world.send_all_but(&[]);
    assert!(world.asked[1] > 0 && world.asked[0] == 0);
    for (n, places) in world.stream.places().enumerate() {
        let whole = places.iter().all(|at| world.covered[*at]);
        let control_in_it = n % 2 == 0;
        assert!(!(whole && control_in_it && n == 0), "PDU {n}");
    }
}

#[test]
fn padded_records_are_decrypted_and_nothing_of_them_is_placed_wrongly() {
    let mut world = World::new(&large(), &[Part::Padded(6001)]);
    world.send_all_but(&[]);
    assert_eq!(
        world.count("rx_tls_decrypted_bytes") as usize,
        world.stream.len()
    );
}

#[test]
fn short_padded_records_among_others_are_part_of_the_stream() {
    for padded in [3, 200, 900] {
        let parts = [
            Part::Content(2000),
            Part::Padded(padded),
            Part::Content(9000),
        ];
        let mut world = World::new(&large(), &parts);
        // What is placed is right, which each packet is looked at for.
        world.send_all_but(&[]);
        assert!(world.placed > 0);
    }
}

#[test]
fn a_record_whose_check_fails_costs_the_inner_layer_its_track() {
    let mut world = World::new(&large(), &[Part::Content(6000)]);
    let end = world.stream.records.starts[1];
    for n in 0..6 {
        let (from, to) = (n * MSS, (n + 1) * MSS);
        let mut payload = world.stream.records.wire[from..to].to_vec();
        if (from..to).contains(&(end - 1)) {
            payload[end - 1 - from] ^= 1;
        }
        world.send_as(from, &payload);
    }
    let shown = world.flush();
    assert!(shown[0].packet.processed.by(0));
    let is_raw = |shown: &&Shown| !shown.packet.processed.by(0);
    let failed = shown.iter().find(is_raw).expect("a packet that failed");
    let mut behind = shown.iter().filter(|shown| shown.at >= failed.at);
    assert!(behind.all(|shown| shown.placed == 0));
    assert_eq!(world.count("rx_tls_err"), 1);
    assert_eq!(world.count("rx_nvmeotcp_resync_start"), 1);
}

#[test]
fn answers_to_what_was_not_asked_are_stale() {
    let mut world = World::new(&large(), &[Part::Content(6000)]);
    let places = [0, u32::MAX].map(|offset| Some(InnerPlace { layer: 1, offset }));
    for inner in [None, places[0], places[1]] {
        world
            .rig
            .command(&SendDescriptor::ResyncResponse(ResyncResponse {
                context: CONTEXT,
                tcpsn: FIRST,
                inner,
                confirmed: true,
                index: 3,
            }));
    }
    assert_eq!(world.count("rx_tls_resync_res_skip"), 1);
    assert_eq!(world.count("rx_nvmeotcp_resync_res_skip"), 2);
    world.send_all_but(&[]);
    assert_eq!(world.placed, world.data_len());
}

#[test]
fn records_of_an_older_version_are_not_stacked() {
    let mut rig = filled();
    let keys = keys(Algorithm::Aes128Gcm, Version::Tls12);
    let layers = Layers::of(&keys).carrying(&nvme());
    rig.offload(CONTEXT, &flow(1), FIRST, &layers);
    let errors = rig.flush();
    assert!(matches!(
        errors[..],
        [RecvDescriptor::Completion {
            error: ErrorCode::Unsupported,
            ..
        }]
    ));
}
