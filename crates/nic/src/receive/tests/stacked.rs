//! NVMe/TCP inside TLS, as the host sees it.

use std::sync::Arc;

use l5p::Layers;
use l5p::crc32c::Crc32c;
use l5p::nvme::{Parameters, Role};
use l5p::tls::{Algorithm, ContentType, Version, Writer};
use proptest::prelude::*;
use wire::SeqNum;

use super::rig::*;
use crate::receive::pdus::{Kind, PduStream, parameters};
use crate::ring::{
    ContextId, ErrorCode, InnerPlace, Packet, RecvDescriptor, Region, RegionId, SendDescriptor,
    Slice,
};

const MSS: usize = 1448;
const FIRST: SeqNum = SeqNum(u32::MAX - 9_000);
const CONTEXT: ContextId = ContextId(3);
const GUARD: u8 = 0xa5;
const BLOCKS: usize = 1 << 20;
/// Memory for each tag's buffer, with a guard behind it.
const STRIDE: u64 = 24_576;
const BUFFER: u32 = 24_000;
const SEQUENCE: u64 = 5;

/// A part of the stream.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The next so many bytes of the PDU stream, as one record.
    Content(usize),
    /// A record of another type, with so many bytes of content.
    Control(usize),
    /// As [`Content`](Self::Content), with padding.
    Padded(usize),
}

/// Records on the wire, and what is in them.
struct Records {
    wire: Vec<u8>,
    /// As packets that were decrypted show it.
    opened: Vec<u8>,
    starts: Vec<usize>,
    /// By byte on the wire, the byte of the PDU stream that it is.
    inner: Vec<Option<usize>>,
}

impl Records {
    fn new(pdus: &PduStream, parts: &[Part]) -> Records {
        let keys = crypto(Algorithm::Aes128Gcm, Version::Tls13);
        let mut writer = Writer::new(keys);
        let mut records = Records {
            wire: Vec::new(),
            opened: Vec::new(),
            starts: Vec::new(),
            inner: Vec::new(),
        };
        let mut at = 0;
        let mut parts = parts.iter().cycle();
        while at < pdus.wire.len() {
            let part = parts.next().unwrap();
            let (kind, from, padding) = match *part {
                Part::Content(len) => (ContentType::APPLICATION_DATA, at..at + len, 1),
                Part::Padded(len) => (ContentType::APPLICATION_DATA, at..at + len, 16),
                Part::Control(len) => (ContentType::HANDSHAKE, at..at + len, 1),
            };
            let from = from.start..from.end.min(pdus.wire.len());
            // Of another type, but with bytes that would be data.
            let content = &pdus.wire[from.clone()];
            writer.set_padding(padding);
            let layout = writer.record_layout(kind, content.len());
            let mut record = vec![0; writer.record_len(content.len())];
            writer.seal_into(kind, &[content], &mut record);
            records.starts.push(records.wire.len());
            let mut opened = [layout.header(), content, layout.trailer()].concat();
            let icv = record.len() - 16;
            opened[icv..].copy_from_slice(&record[icv..]);
            opened[..layout.header().len()].copy_from_slice(&record[..layout.header().len()]);
            records.opened.extend_from_slice(&opened);
            let start = records.wire.len();
            records.wire.extend_from_slice(&record);
            records.inner.resize(records.wire.len(), None);
            if kind == ContentType::APPLICATION_DATA {
                let first = start + layout.header().len();
                for (n, inner) in from.clone().enumerate() {
                    records.inner[first + n] = Some(inner);
                }
                at = from.end;
            }
        }
        records
    }

    /// What the host answers: whether a record, or a PDU in one, begins there, and the record's index.
    fn answer(&self, pdus: &PduStream, at: usize, inner: Option<InnerPlace>) -> Option<u64> {
        let record = self.starts.binary_search(&at).ok()?;
        match inner {
            None => Some(SEQUENCE + record as u64),
            Some(InnerPlace { offset, .. }) => {
                let inner = *self.inner.get(at + 5 + offset as usize)?;
                pdus.begins_at(inner?).then_some(0)
            }
        }
    }
}

struct World {
    rig: Rig,
    blocks: Arc<Region>,
    blocks_id: RegionId,
    pdus: PduStream,
    records: Records,
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
    fn new(nvme: &Parameters, kinds: &[Kind], parts: &[Part]) -> World {
        let mut rig = Rig::filled();
        let blocks = Arc::new(Region::anonymous(BLOCKS));
        blocks.write(0, &vec![GUARD; BLOCKS]);
        let blocks_id = rig.host.register(Arc::clone(&blocks)).unwrap();
        let keys = crypto(Algorithm::Aes128Gcm, Version::Tls13);
        rig.command(&SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: l5p::Direction::Receive,
            flow: flow(1),
            tcpsn: FIRST,
            layers: &Layers::of(&keys).carrying(nvme),
        });
        let pdus = PduStream::new(nvme, kinds);
        let records = Records::new(&pdus, parts);
        let mut world = World {
            rig,
            blocks,
            blocks_id,
            seen: vec![false; records.wire.len()],
            covered: vec![false; records.wire.len()],
            written: vec![false; BLOCKS],
            pdus,
            records,
            exact: true,
            placed: 0,
            asked: [0; 2],
        };
        for tag in 0..32 {
            world.map(tag);
        }
        world
    }

    fn map(&mut self, tag: u16) {
        let slice = |offset, len| Slice {
            offset: STRIDE * u64::from(tag) + offset,
            len,
            region: self.blocks_id,
        };
        let slices = [slice(0, 1000), slice(1000, BUFFER - 1000)];
        self.rig.command(&SendDescriptor::AddRrState {
            context: CONTEXT,
            tag,
            slices: &slices,
        });
    }

    fn send(&mut self, from: usize, to: usize) {
        let payload = self.records.wire[from..to].to_vec();
        self.send_as(from, &payload);
    }

    fn send_as(&mut self, from: usize, payload: &[u8]) {
        let tcp = segment(&flow(1), FIRST + from as u32);
        self.rig.frame(&frame(&flow(1), &tcp, payload), VALID);
    }

    /// Sends packets `range` of `MSS` bytes but for those left out.
    fn send_all_but(&mut self, left_out: &[usize]) {
        let end = self.records.wire.len();
        for n in (0..end.div_ceil(MSS)).filter(|n| !left_out.contains(n)) {
            self.send(n * MSS, ((n + 1) * MSS).min(end));
            self.flush();
        }
    }

    /// Takes what has come, checks it, and answers what is asked.
    fn flush(&mut self) -> Vec<Shown> {
        let mut found: Vec<Shown> = Vec::new();
        let descriptors = self.rig.flush();
        let mut at = 0;
        while at < descriptors.len() {
            match descriptors[at] {
                RecvDescriptor::Packet(packet) => {
                    let parts = &descriptors[at + 1..][..usize::from(packet.placed)];
                    found.push(self.check(descriptors[at], parts));
                    at += parts.len();
                }
                RecvDescriptor::ResyncRequest {
                    context,
                    tcpsn,
                    inner,
                } => {
                    self.asked[usize::from(inner.is_some())] += 1;
                    let place = FIRST.distance_to(tcpsn) as usize;
                    let index = self.records.answer(&self.pdus, place, inner);
                    self.rig.command(&SendDescriptor::ResyncResponse {
                        context,
                        tcpsn,
                        inner,
                        confirmed: index.is_some(),
                        index: index.unwrap_or(0),
                    });
                }
                other => panic!("{other:?}"),
            }
            at += 1;
        }
        self.rig.fill(found.len(), found.len());
        found
    }

    fn check(&mut self, descriptor: RecvDescriptor, parts: &[RecvDescriptor]) -> Shown {
        let delivered = self.rig.read(descriptor).unwrap();
        let packet = delivered.packet;
        let mut whole = delivered.bytes.clone();
        whole.resize(
            usize::from(packet.header_len) + packet.payload_len as usize,
            0,
        );
        let parsed = wire::packet::parse(&whole).expect("valid headers");
        let from = FIRST.distance_to(parsed.tcp.seq) as usize;
        let mut bytes = Vec::new();
        let mut rest = delivered.payload();
        let mut placed = 0;
        for part in parts {
            let RecvDescriptor::Placed { at, slice, tag } = *part else {
                panic!("{part:?}")
            };
            let (before, behind) = rest.split_at(at as usize - bytes.len());
            bytes.extend_from_slice(before);
            rest = behind;
            for n in 0..u64::from(slice.len) {
                let wire_at = from + bytes.len() + n as usize;
                assert!(!self.seen[wire_at], "byte {wire_at} had been passed up");
                let memory = slice.offset + n;
                let offset = memory.checked_sub(STRIDE * u64::from(tag)).unwrap();
                assert!(offset < u64::from(BUFFER), "not the buffer of {tag}");
                assert!(!self.written[memory as usize], "written again");
                self.written[memory as usize] = true;
                if self.exact {
                    let inner = self.records.inner[wire_at].expect("content");
                    assert_eq!(self.pdus.belongs(inner), Some((tag, offset as u32)));
                }
            }
            let mut data = vec![0; slice.len as usize];
            assert!(self.blocks.read(slice.offset, &mut data));
            bytes.extend_from_slice(&data);
            placed += data.len();
        }
        bytes.extend_from_slice(rest);
        assert_eq!(bytes.len(), packet.payload_len as usize);
        assert!(packet.processed.by(0) || placed == 0 && !packet.processed.by(1));
        let expected = match packet.processed.by(0) {
            true => &self.records.opened,
            false => &self.records.wire,
        };
        let to = from + bytes.len();
        if bytes != expected[from..to] {
            // Changed on its way, which only what comes as it was shows.
            assert!(!packet.processed.by(0), "{from}..{to}");
        }
        if packet.processed.by(1) {
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
        self.pdus.data.iter().map(|data| data.0.len()).sum()
    }
}

fn data(tag: u16, at: u32, len: u32) -> Kind {
    Kind::Data { tag, at, len }
}

fn nvme() -> Parameters {
    parameters(Role::Controller, true, true)
}

/// Ten PDUs of 20,000 bytes.
fn large() -> Vec<Kind> {
    (0..10).map(|tag| data(tag, 0, 20_000)).collect()
}

#[test]
fn a_packet_of_too_many_records_is_not_vouched_for() {
    let mut world = World::new(&nvme(), &[data(0, 0, 150)], &[Part::Content(4)]);
    assert!(world.records.starts.len() > 40);
    world.send(0, world.records.wire.len().min(MSS));
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
            (0..40)
                .map(|n| data(n % 4, 300 * u32::from(n / 4), 300))
                .collect(),
            vec![Part::Content(2000), Part::Content(1), Part::Content(700)],
        ),
    ] {
        let mut world = World::new(&nvme(), &kinds, &parts);
        let end = world.records.wire.len();
        let most = end
            .div_ceil(MSS)
            .div_ceil(if kinds.len() < 20 { 14 } else { 2 });
        let mut packets = 0;
        for (n, from) in (0..end).step_by(MSS).enumerate() {
            world.send(from, (from + MSS).min(end));
            if n % 16 == 15 || from + MSS >= end {
                for shown in world.flush() {
                    packets += 1;
                    assert!(shown.packet.processed.by(0) && shown.packet.processed.by(1));
                }
            }
        }
        assert_eq!(world.placed, world.data_len());
        assert!(packets <= most, "{packets} packets");
        let counters = world.rig.counters();
        assert_eq!(
            counters.named("rx_nvmeotcp_bytes") as usize,
            world.data_len()
        );
        assert_eq!(counters.named("rx_tls_decrypted_bytes") as usize, end);
        assert_eq!(
            (
                counters.named("rx_tls_ctx"),
                counters.named("rx_nvmeotcp_sk_add")
            ),
            (1, 1)
        );
    }
}

#[test]
fn late_packets_of_a_record_are_decrypted_and_placed() {
    let mut world = World::new(&nvme(), &large(), &[Part::Content(16_384)]);
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
    assert_eq!(
        world.rig.counters().named("rx_tls_decrypted_late_packets"),
        1
    );
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_late_packets"), 1);
}

#[test]
fn behind_a_lost_record_header_the_inner_layer_knows_where_it_is() {
    let mut world = World::new(&nvme(), &large(), &[Part::Content(1300)]);
    // The third record's header is lost, the first PDU goes on.
    let lost = world.records.starts[2] / MSS;
    world.send_all_but(&[lost]);
    assert_eq!(world.asked[0], 1, "about a record");
    assert_eq!(world.asked[1], 0, "about a PDU");
    let counters = world.rig.counters();
    assert_eq!(counters.named("rx_tls_resync_res_ok"), 1);
    // What was passed up encrypted, and what follows until the outer layer is sure of itself.
    let missed = world.data_len() - world.placed;
    assert!(missed < 5 * 1300, "{missed} bytes");
    assert!(counters.named("rx_nvmeotcp_resumed") >= 1);
}

#[test]
fn a_lost_pdu_header_is_asked_about_by_its_record_and_offset() {
    // Small PDUs, so that a header is lost without a record's.
    let kinds: Vec<Kind> = (0..60)
        .map(|n| data(n % 10, 1000 * u32::from(n / 10), 1000))
        .collect();
    let mut world = World::new(&nvme(), &kinds, &[Part::Content(16_384)]);
    world.send_all_but(&[3]);
    assert_eq!(world.asked, [0, 1]);
    let counters = world.rig.counters();
    assert_eq!(counters.named("rx_nvmeotcp_resync"), 1);
    assert_eq!(counters.named("rx_nvmeotcp_resync_res_ok"), 1);
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
            let kinds: Vec<Kind> = (0..90)
                .map(|n| data(n % 10, 2000 * u32::from(n / 10), 2000))
                .collect();
            let mut world = World::new(&nvme(), &kinds, &parts);
            world.send_all_but(&[]);
            // One that is not in one packet costs the inner layer its track; what it placed nevertheless is right.
            assert_eq!(world.asked[0], 0);
            let records = &world.records;
            let mut ends = records.starts[1..].iter().skip(1).step_by(parts.len());
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
    let mut world = World::new(&nvme(), &large(), &parts);
    world.exact = false;
    world.send_all_but(&[]);
    assert!(world.asked[1] > 0 && world.asked[0] == 0);
    for (n, bounds) in world.pdus.starts.windows(2).enumerate() {
        let whole = (0..world.records.wire.len())
            .filter(|at| {
                world.records.inner[*at].is_some_and(|i| (bounds[0]..bounds[1]).contains(&i))
            })
            .all(|at| world.covered[at]);
        let control_in_it = n % 2 == 0;
        assert!(!(whole && control_in_it && n == 0), "PDU {n}");
    }
}

#[test]
fn padded_records_are_decrypted_and_nothing_of_them_is_placed_wrongly() {
    let mut world = World::new(&nvme(), &large(), &[Part::Padded(6001)]);
    world.send_all_but(&[]);
    assert_eq!(
        world.rig.counters().named("rx_tls_decrypted_bytes") as usize,
        world.records.wire.len()
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
        let mut world = World::new(&nvme(), &large(), &parts);
        // What is placed is right, which each packet is looked at for.
        world.send_all_but(&[]);
        assert!(world.placed > 0);
    }
}

#[test]
fn a_record_whose_check_fails_costs_the_inner_layer_its_track() {
    let mut world = World::new(&nvme(), &large(), &[Part::Content(6000)]);
    let end = world.records.starts[1];
    for n in 0..6 {
        let (from, to) = (n * MSS, (n + 1) * MSS);
        let mut payload = world.records.wire[from..to].to_vec();
        if (from..to).contains(&(end - 1)) {
            payload[end - 1 - from] ^= 1;
        }
        world.send_as(from, &payload);
    }
    let shown = world.flush();
    assert!(shown[0].packet.processed.by(0));
    assert!(shown.iter().any(|shown| !shown.packet.processed.by(0)));
    let failed = shown
        .iter()
        .find(|shown| !shown.packet.processed.by(0))
        .unwrap();
    assert!(
        shown
            .iter()
            .filter(|shown| shown.at >= failed.at)
            .all(|shown| shown.placed == 0)
    );
    assert_eq!(world.rig.counters().named("rx_tls_err"), 1);
    assert_eq!(world.rig.counters().named("rx_nvmeotcp_resync_start"), 1);
}

#[test]
fn answers_to_what_was_not_asked_are_stale() {
    let mut world = World::new(&nvme(), &large(), &[Part::Content(6000)]);
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
    let counters = world.rig.counters();
    assert_eq!(counters.named("rx_tls_resync_res_skip"), 1);
    assert_eq!(counters.named("rx_nvmeotcp_resync_res_skip"), 2);
    world.send_all_but(&[]);
    assert_eq!(world.placed, world.data_len());
}

#[test]
fn records_of_an_older_version_are_not_stacked() {
    let mut rig = Rig::filled();
    let keys = crypto(Algorithm::Aes128Gcm, Version::Tls12);
    rig.command(&SendDescriptor::CreateContext {
        context: CONTEXT,
        direction: l5p::Direction::Receive,
        flow: flow(1),
        tcpsn: FIRST,
        layers: &Layers::of(&keys).carrying(&nvme()),
    });
    let errors = rig.flush();
    assert!(matches!(
        errors[..],
        [RecvDescriptor::Completion {
            error: ErrorCode::Unsupported,
            ..
        }]
    ));
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Late(u8),
    Twice(u8),
    Corrupt(u16),
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
        let nvme = nvme();
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
        let mut world = World::new(&nvme, &kinds, &parts);
        if !wrong.is_empty() {
            // Digests that do not hold.
            for place in &wrong {
                let (range, _, _) = world.pdus.data[usize::from(*place) % world.pdus.data.len()].clone();
                world.pdus.wire[range.end] ^= 0x55;
            }
            world.records = Records::new(&world.pdus, &parts);
        }
        world.exact = controls.is_empty();
        let end = world.records.wire.len();
        let mut arrivals: Vec<(usize, usize, usize, Option<usize>)> = Vec::new();
        let (mut from, mut n) = (0, 0);
        while from < end {
            let to = (from + sizes[n % sizes.len()]).min(end);
            let now = 4 * n;
            match fates[n % fates.len()] {
                Fate::Arrives => arrivals.push((now, from, to, None)),
                Fate::Lost => {}
                Fate::Late(by) => arrivals.push((now + 4 * usize::from(by) + 2, from, to, None)),
                Fate::Twice(by) => {
                    arrivals.push((now, from, to, None));
                    arrivals.push((now + 4 * usize::from(by) + 2, from, to, None));
                }
                Fate::Corrupt(at) => {
                    // In a record's content: headers are not protected on the wire, and are the same for a host without a NIC.
                    let at = from + usize::from(at) % (to - from);
                    let at = world.records.inner[at].map(|_| at);
                    arrivals.push((now, from, to, at));
                }
            }
            from = to;
            n += 1;
        }
        arrivals.sort_by_key(|arrival| arrival.0);
        let mut harmed = vec![false; end];
        for (n, (_, from, to, corrupt)) in arrivals.into_iter().enumerate() {
            let mut payload = world.records.wire[from..to].to_vec();
            let mut opened = None;
            if let Some(at) = corrupt {
                // As it is decrypted, the same bit is wrong.
                world.flush();
                let inner = world.records.inner[at].expect("content");
                // A PDU's header that says another place is believed until the record's tag is seen.
                world.exact &= world.pdus.belongs(inner).is_some();
                payload[at - from] ^= 0x20;
                opened = Some(at);
                world.records.wire[at] ^= 0x20;
                world.records.opened[at] ^= 0x20;
                harmed[at] = true;
            }
            world.send_as(from, &payload);
            if n % batches == 0 || opened.is_some() {
                world.flush();
            }
            if let Some(at) = opened {
                world.records.wire[at] ^= 0x20;
                world.records.opened[at] ^= 0x20;
            }
        }
        world.flush();
        for (place, bounds) in world.pdus.starts.windows(2).enumerate() {
            let its: Vec<usize> = (0..end)
                .filter(|at| {
                    world.records.inner[*at].is_some_and(|inner| (bounds[0]..bounds[1]).contains(&inner))
                })
                .collect();
            if !its.iter().all(|at| world.covered[*at]) {
                continue;
            }
            let of_data = world.pdus.data.iter().find(|data| {
                (bounds[0]..bounds[1]).contains(&data.0.start)
            });
            if let Some((range, _, _)) = of_data {
                let digest = Crc32c::of(&world.pdus.wire[range.clone()]);
                let sent = &world.pdus.wire[range.end..range.end + 4];
                prop_assert_eq!(sent, &digest.to_le_bytes(), "PDU {}", place);
            }
            prop_assert!(its.iter().all(|at| !harmed[*at]), "PDU {}", place);
        }
        let mut memory = vec![0; BLOCKS];
        prop_assert!(world.blocks.read(0, &mut memory));
        for (byte, written) in memory.iter().zip(&world.written) {
            prop_assert!(*written || *byte == GUARD);
        }
    }
}
