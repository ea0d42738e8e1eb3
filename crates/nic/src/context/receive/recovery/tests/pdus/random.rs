//! Arbitrary arrivals, and forged ones.

use super::*;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        2 => (1u8..30).prop_map(Fate::Late),
        1 => (1u8..30).prop_map(Fate::Twice),
        1 => (0u16..400, 0u16..400).prop_map(|(a, b)| Fate::Overlaps(a, b)),
        1 => Just(Fate::Corrupt(0)),
    ]
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let len = prop_oneof![1u32..60, 1u32..1500, Just(BUFFER), 1u32..2 * BUFFER];
    let kind = prop_oneof![
        4 => (0u16..32, len).prop_map(|(tag, len)| data(tag, 0, len)),
        1 => (0u32..600).prop_map(Kind::Capsule),
        1 => Just(Kind::Ready),
    ];
    prop::collection::vec(kind, 5..40).prop_map(|mut kinds| {
        // Data of one tag mostly follow each other.
        let mut ends = [0; 32];
        for (n, kind) in kinds.iter_mut().enumerate() {
            if let Kind::Data { tag, at, len } = kind {
                if n % 7 != 0 {
                    *at = ends[usize::from(*tag)];
                }
                ends[usize::from(*tag)] += *len;
            }
        }
        kinds
    })
}

/// Puts headers of data PDUs into the data of others.
fn plant(stream: &mut PduStream, places: &[(u16, u16)]) {
    for (to, which) in places {
        let header = stream.starts[usize::from(*which) % (stream.starts.len() - 1)];
        let header = stream.wire[header..header + 24].to_vec();
        let count = stream.data.len();
        if count > 0 {
            let range = stream.data[usize::from(*to) % count].0.clone();
            if range.len() > 30 {
                let at = range.start + usize::from(*to) % (range.len() - 24);
                stream.wire[at..at + 24].copy_from_slice(&header);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Data are placed where they belong, once, and never what may have been passed up; digests that are said to hold do; the
    /// offload comes back.
    #[test]
    fn placed_data_are_where_they_belong_and_digests_that_hold_are_right(
        any_order in any::<bool>(),
        (host_sends, header_digest, data_digest) in any::<(bool, bool, bool)>(),
        kinds in kinds(),
        sizes in prop::collection::vec(prop_oneof![1usize..60, 100usize..1500, Just(1448usize)], 1..8),
        fates in prop::collection::vec(fate(), 1..60),
        unmapped in prop::collection::vec((0u16..32, any::<bool>()), 0..40),
        delays in prop::collection::vec(0usize..20, 1..5),
        places in prop::collection::vec(any::<(u16, u16)>(), 0..6),
    ) {
        let sender = if host_sends { Role::Host } else { Role::Controller };
        let parameters = nvme(sender, header_digest, data_digest);
        let mut stream = PduStream::new(&parameters, &kinds);
        // The digests of these no longer hold, the framing does.
        plant(&mut stream, &places);
        let order = if any_order { ArrivalOrder::Any } else { ArrivalOrder::Sequence };
        let mut host = Host::mapped(&stream, order);
        let end = stream.len();
        // By byte: a packet whose digests hold has brought it, unharmed.
        let mut covered = vec![false; end];
        let mut harmed = vec![false; end];
        let mut due = None;
        for (now, packet) in arrivals(end, &sizes, &fates).into_iter().enumerate() {
            let (from, to) = (packet.from, packet.to);
            if let Some((tag, again)) = unmapped.get(now) {
                host.unmap(*tag);
                if *again {
                    host.map(*tag);
                }
            }
            let mut payload = stream.wire[from..to].to_vec();
            // A byte of data: framing is not protected, and is the same for host and NIC.
            let at = (from + to) / 2;
            let corrupt = packet.corrupt.is_some() && stream.belongs(at).is_some();
            if corrupt {
                payload[at - from] ^= 0x40;
            }
            let (verdict, _) = host.receive_as(from, &payload);
            if verdict == OFFLOADED {
                covered[from..to].fill(true);
                harmed[at] |= corrupt;
            }
            if host.recovery.due_request(0).is_some() {
                let delay = delays[now % delays.len()];
                due = due.or(Some(now + delay));
                if due.is_some_and(|due| due <= now) {
                    due = None;
                    host.answer();
                }
            }
        }
        if data_digest {
            for (range, _, _) in &stream.data {
                let pdu = &stream.pdus[stream.number_at(range.start)];
                if covered[pdu.all.clone()].iter().all(|byte| *byte) {
                    let digest = crc32c(&stream.wire[range.clone()]);
                    prop_assert_eq!(&stream.wire[pdu.digest.clone()], &digest);
                    prop_assert!(!harmed[range.clone()].contains(&true));
                }
            }
        }
        for (byte, written) in host.memory.iter().zip(&host.written) {
            prop_assert!(*written || *byte == GUARD);
        }

        // Liveness: from now on nothing is lost and answers are true.
        let mut longer = stream.clone();
        for _ in 0..60 {
            longer.push(data(31, 0, 500));
        }
        host.stream = &longer;
        host.seen.resize(longer.len(), false);
        host.placed.resize(longer.len(), false);
        if !host.mapped.contains_key(&31) {
            host.map(31);
        }
        let mut placed = 0;
        let last = longer.starts[longer.starts.len() - 2];
        for from in (end..last).step_by(900) {
            host.receive(from, (from + 900).min(last));
            host.answer();
            host.unmap(31);
            host.map(31);
        }
        let (verdict, bytes) = host.receive(last, longer.len());
        placed += bytes;
        prop_assert_eq!((verdict, placed), (OFFLOADED, 500), "{:?}", host.recovery);
    }
}

/// A packet that someone on the path has made, or any other one.
#[derive(Clone, Debug)]
struct Seen {
    /// Where it begins; else where the one before it ended.
    from: Option<usize>,
    len: usize,
    /// A header of a data PDU that was put into it, and where: tag, offset, bytes.
    planted: Option<(usize, u16, u32, u32)>,
    /// A byte that was changed.
    changed: Option<(usize, u8)>,
    shift: u32,
    /// The host answers so, if it was asked.
    answer: Option<bool>,
    /// It maps or unmaps a tag before.
    remap: Option<u16>,
}

fn seen() -> impl Strategy<Value = Seen> {
    let planted = (any::<usize>(), 0u16..40, 0u32..7000, 1u32..9000);
    (
        prop::option::weighted(0.4, any::<usize>()),
        1usize..2000,
        prop::option::weighted(0.3, planted),
        prop::option::weighted(0.2, any::<(usize, u8)>()),
        prop_oneof![40 => Just(0u32), 1 => 1 << 28..1u32 << 31],
        prop::option::of(prop::bool::weighted(0.8)),
        prop::option::weighted(0.1, 0u16..32),
    )
        .prop_map(|(from, len, planted, changed, shift, answer, remap)| Seen {
            from,
            len,
            planted,
            changed,
            shift,
            answer,
            remap,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Whatever comes, and whatever the host answers: memory is written only inside of mapped slices, each byte of them once per
    /// mapping, and nothing after it was unmapped.
    #[test]
    fn forged_packets_write_nothing_outside_of_mapped_slices_and_nothing_twice(
        any_order in any::<bool>(),
        (host_sends, header_digest, data_digest) in any::<(bool, bool, bool)>(),
        kinds in kinds(),
        packets in prop::collection::vec(seen(), 1..60),
    ) {
        let sender = if host_sends { Role::Host } else { Role::Controller };
        let parameters = nvme(sender, header_digest, data_digest);
        let stream = PduStream::new(&parameters, &kinds);
        let order = if any_order { ArrivalOrder::Any } else { ArrivalOrder::Sequence };
        let mut host = Host::new(&stream, order);
        host.forged = true;
        host.map_all();
        let mut next = 0;
        for packet in packets {
            if let Some(tag) = packet.remap {
                if host.mapped.contains_key(&tag) {
                    host.unmap(tag);
                } else {
                    host.map(tag);
                }
            }
            let from = packet.from.unwrap_or(next) % stream.len();
            let to = (from + packet.len).min(stream.len());
            next = to;
            let mut payload = stream.wire[from..to].to_vec();
            if let Some((at, tag, offset, len)) = packet.planted {
                let forged = PduStream::new(&parameters, &[Kind::Data { tag, at: offset, len }]);
                let at = at % payload.len();
                let len = forged.wire.len().min(payload.len() - at);
                payload[at..at + len].copy_from_slice(&forged.wire[..len]);
            }
            if let Some((at, bits)) = packet.changed {
                let at = at % payload.len();
                payload[at] ^= bits;
            }
            host.receive_as(from + packet.shift as usize, &payload);
            if let Some(truthful) = packet.answer {
                if truthful {
                    host.answer();
                } else if let Some(guess) = host.recovery.due_request(0) {
                    host.recovery.request_sent(0);
                    host.recovery.answer(&mut host.shared, guess, true, 0);
                }
            }
        }
        for (byte, written) in host.memory.iter().zip(&host.written) {
            prop_assert!(*written || *byte == GUARD);
        }
    }
}
