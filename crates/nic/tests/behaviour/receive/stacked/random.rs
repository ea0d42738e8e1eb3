//! Arbitrary records and PDUs, and arbitrary arrivals.

use super::*;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        14 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        2 => (1u8..20).prop_map(Fate::Late),
        1 => (1u8..20).prop_map(Fate::Twice),
        1 => any::<u16>().prop_map(Fate::Corrupt),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever becomes of packets, the host finds in packets and placements what was sent; nothing is placed elsewhere, twice,
    /// or after it may have been passed up; and digests that are said to hold do.
    #[test]
    fn packets_and_placements_together_are_the_contents_that_were_sent(
        lens in prop::collection::vec((0u16..32, prop_oneof![1u32..300, 1u32..9000]), 5..40),
        wrong in prop::collection::vec(any::<u16>(), 0..4),
        mut parts in prop::collection::vec(
            prop_oneof![
                2 => (1usize..200).prop_map(Part::Content),
                6 => (1usize..16_384).prop_map(Part::Content),
            ],
            1..8,
        ),
        controls in prop::collection::vec((any::<u8>(), 1usize..400), 0..2),
        sizes in prop::collection::vec(prop_oneof![1usize..100, Just(MSS)], 1..6),
        fates in prop::collection::vec(fate(), 1..60),
        batches in 1usize..20,
    ) {
        let mut ends = [0u32; 32];
        let mut kinds = Vec::new();
        for (tag, len) in lens {
            let at = &mut ends[usize::from(tag)];
            kinds.push(data(tag, *at, len));
            *at += len;
            kinds.push(if len % 2 == 0 { Kind::Capsule(0) } else { Kind::Ready });
        }
        for (place, len) in &controls {
            parts.insert(usize::from(*place) % parts.len() + 1, Part::Control(*len));
        }
        let mut pdus = PduStream::new(&nvme(), &kinds);
        // Digests that do not hold.
        for place in &wrong {
            let place = usize::from(*place) % pdus.data.len();
            let end = pdus.data[place].0.end;
            pdus.wire[end] ^= 0x55;
        }
        let mut world = World::of(Stream::new(pdus, &parts));
        world.exact = controls.is_empty();
        let mut harmed = vec![false; world.stream.len()];
        for (n, packet) in arrivals(world.stream.len(), &sizes, &fates).into_iter().enumerate() {
            let (from, to) = (packet.from, packet.to);
            // In a record's content: headers are not protected on the wire, and are the same for a host without a NIC.
            let corrupt = packet.corrupt.filter(|at| world.stream.inner[*at].is_some());
            if let Some(at) = corrupt {
                world.flush();
                let inner = world.stream.inner[at].expect("content");
                // A PDU's header that says another place is believed until the record's tag is seen.
                world.exact &= world.stream.pdus.belongs(inner).is_some();
                // As it is decrypted, the same bit is wrong.
                world.stream.change(at);
                harmed[at] = true;
            }
            world.send(from, to);
            if n % batches == 0 || corrupt.is_some() {
                world.flush();
            }
            if let Some(at) = corrupt {
                world.stream.change(at);
            }
        }
        world.flush();
        let pdus = &world.stream.pdus;
        for (place, (pdu, its)) in pdus.pdus.iter().zip(world.stream.places()).enumerate() {
            if !its.iter().all(|at| world.covered[*at]) {
                continue;
            }
            if let Some((range, _, _)) = pdus.data.iter().find(|data| pdu.all.contains(&data.0.start)) {
                let digest = crc32c(&pdus.wire[range.clone()]);
                let sent = &pdus.wire[range.end..range.end + 4];
                prop_assert_eq!(sent, &digest, "PDU {}", place);
            }
            prop_assert!(its.iter().all(|at| !harmed[*at]), "PDU {}", place);
        }
        let memory = world.blocks.read(0, BLOCKS);
        for (byte, written) in memory.iter().zip(&world.written) {
            prop_assert!(*written || *byte == GUARD);
        }
    }
}
