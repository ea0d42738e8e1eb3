//! NVMe/TCP inside TLS, as the host sees it.

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
        world.rig.command(&SendDescriptor::ResyncResponse {
            context: CONTEXT,
            tcpsn: FIRST,
            inner,
            confirmed: true,
            index: 3,
        });
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
