//! Placement and digests of NVMe/TCP, packet by packet and for arbitrary arrivals.

use std::collections::HashMap;

use l5p::Direction;
use l5p::nvme::{Engine, LatePdu, Role};
use proptest::prelude::*;
use wire::SeqNum;

use super::*;
use crate::receive::placing::Placer;
use crate::ring::{RegionId, Slice};
use testkit::arrivals::{Fate, arrivals};
use testkit::fixtures::{GUARD, nvme};
use testkit::pdus::{Kind, PduStream, crc32c, data};

const FIRST: SeqNum = SeqNum(u32::MAX - 5_000);
/// Memory of each tag's buffer, with guards around it.
const STRIDE: u64 = 8192;
const BUFFER: u32 = 6000;

/// A context with the memory that it places in.
struct Host<'s> {
    stream: &'s PduStream,
    recovery: Recovery<Engine, Placer>,
    shared: Shared<LatePdu, Placer>,
    memory: Vec<u8>,
    mapped: HashMap<u16, Vec<Slice>>,
    /// By byte of the stream: it has been passed up.
    seen: Vec<bool>,
    /// By byte of memory: written since it was mapped.
    written: Vec<bool>,
    /// By byte of the stream: it was placed.
    placed: Vec<bool>,
    /// What comes may be anything.
    forged: bool,
}

/// The buffer of a tag: two slices, in descending order of memory.
fn buffer(tag: u16) -> Vec<Slice> {
    let base = u64::from(tag) * STRIDE;
    let part = |offset, len| Slice {
        offset: base + offset,
        len,
        region: RegionId(0),
    };
    vec![part(4000, 3000), part(500, BUFFER - 3000)]
}

impl<'s> Host<'s> {
    fn new(stream: &'s PduStream, order: ArrivalOrder) -> Self {
        let parameters = &stream.parameters;
        let engine = Engine::new(parameters, Direction::Receive);
        let memory = usize::from(parameters.commands) * STRIDE as usize;
        Self {
            stream,
            recovery: Recovery::new(engine, Placer::new(parameters.commands), FIRST, 0),
            shared: Shared::new(order, 1),
            memory: vec![GUARD; memory],
            mapped: HashMap::new(),
            seen: vec![false; stream.len()],
            written: vec![false; memory],
            placed: vec![false; stream.len()],
            forged: false,
        }
    }

    fn map(&mut self, tag: u16) {
        let slices = buffer(tag);
        let added = self.recovery.observer.table.map(tag, &slices);
        assert_eq!(added.is_ok(), self.mapped.insert(tag, slices).is_none());
    }

    fn unmap(&mut self, tag: u16) {
        let removed = self.recovery.observer.table.unmap(tag);
        let slices = self.mapped.remove(&tag);
        assert_eq!(removed.is_ok(), slices.is_some());
        for slice in slices.into_iter().flatten() {
            let range = slice.offset as usize..(slice.offset + u64::from(slice.len)) as usize;
            self.written[range.clone()].fill(false);
            self.memory[range].fill(GUARD);
        }
    }

    fn map_all(&mut self) {
        for tag in 0..32 {
            self.map(tag);
        }
    }

    /// With all tags mapped.
    fn mapped(stream: &'s PduStream, order: ArrivalOrder) -> Self {
        let mut host = Host::new(stream, order);
        host.map_all();
        host
    }

    /// Gives a packet to the context, does what it says, and checks that: gives the verdict and the bytes placed.
    fn receive(&mut self, from: usize, to: usize) -> (Verdict, usize) {
        let payload = self.stream.wire[from..to].to_vec();
        self.receive_as(from, &payload)
    }

    fn receive_as(&mut self, from: usize, payload: &[u8]) -> (Verdict, usize) {
        let seq = FIRST + from as u32;
        let verdict = self.recovery.receive(&mut self.shared, seq, payload, None);
        let mut end = 0;
        let mut bytes = 0;
        for part in self.shared.noted.as_slice() {
            assert!(part.at >= end, "ascending");
            end = part.end();
            for n in 0..part.slice.len {
                let (at, place) = (part.at + n, part.slice.offset + u64::from(n));
                let stream_at = from + at as usize;
                if self.forged {
                    let mapped = self.mapped.get(&part.tag).expect("a mapped tag");
                    assert!(mapped.iter().any(|slice| {
                        (slice.offset..slice.offset + u64::from(slice.len)).contains(&place)
                    }));
                } else {
                    // It is what the stream says, where the host said.
                    let (tag, offset) = self.stream.belongs(stream_at).expect("data");
                    assert_eq!(part.tag, tag);
                    assert_eq!(self.place(tag, offset), Some(place), "byte {stream_at}");
                    assert!(!self.seen[stream_at], "byte {stream_at} had been passed up");
                    assert!(!self.placed[stream_at], "byte {stream_at} is placed again");
                    self.placed[stream_at] = true;
                }
                assert!(
                    !self.written[place as usize],
                    "memory {place} is written again"
                );
                self.written[place as usize] = true;
                self.memory[place as usize] = payload[at as usize];
                bytes += 1;
            }
        }
        let until = (from + payload.len()).min(self.seen.len());
        self.seen[from.min(until)..until].fill(true);
        (verdict, bytes)
    }

    /// Where byte `offset` of a tag's buffer is.
    fn place(&self, tag: u16, offset: u32) -> Option<u64> {
        let mut offset = offset;
        for slice in self.mapped.get(&tag)? {
            if offset < slice.len {
                return Some(slice.offset + u64::from(offset));
            }
            offset -= slice.len;
        }
        None
    }

    /// What the host answers to the request that is due.
    fn answer(&mut self) -> Option<(usize, Answer)> {
        let guess = self.recovery.due_request(0)?;
        self.recovery.request_sent(0);
        let at = FIRST.distance_to(guess) as usize;
        let confirmed = self.stream.begins_at(at);
        let answer = self.recovery.answer(&mut self.shared, guess, confirmed, 0);
        Some((at, answer))
    }
}

const OFFLOADED: Verdict = Verdict::Offloaded;

fn bypassed(why: Bypass) -> Verdict {
    Verdict::Bypassed(why)
}

/// PDUs of 1,000 bytes, of which 972 are data, each with a tag of its own.
fn thousands(count: u16) -> PduStream {
    let parameters = nvme(Role::Controller, false, true);
    let kinds: Vec<Kind> = (0..count).map(|tag| data(tag, 0, 1000 - 24 - 4)).collect();
    let stream = PduStream::new(&parameters, &kinds);
    assert_eq!(stream.starts[1], 1000);
    stream
}

#[test]
fn packets_in_sequence_are_placed_and_their_digests_hold() {
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        let stream = thousands(10);
        let mut host = Host::mapped(&stream, order);
        let mut placed = 0;
        for from in (0..10_000).step_by(300) {
            let (verdict, bytes) = host.receive(from, (from + 300).min(10_000));
            assert_eq!(verdict, OFFLOADED);
            placed += bytes;
        }
        assert_eq!(placed, 9720);
        assert_eq!(host.shared.noted.refused, 0);
    }
}

#[test]
fn one_packet_may_hold_pdus_of_several_commands_and_answers_between_them() {
    let parameters = nvme(Role::Controller, true, true);
    let stream = PduStream::new(
        &parameters,
        &[
            data(1, 0, 100),
            data(2, 0, 50),
            Kind::Ready,
            data(1, 100, 30),
            Kind::Capsule(0),
            data(2, 50, 70),
        ],
    );
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    let end = stream.len();
    assert_eq!(host.receive(0, end), (OFFLOADED, 250));
    assert_eq!(host.shared.noted.len(), 4);
}

#[test]
fn what_a_host_sends_is_placed_by_its_transfer_tag() {
    let parameters = nvme(Role::Host, true, true);
    let stream = PduStream::new(
        &parameters,
        &[Kind::Capsule(512), data(9, 0, 4000), Kind::Capsule(0)],
    );
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    let end = stream.len();
    let mut placed = 0;
    for from in (0..end).step_by(700) {
        let (verdict, bytes) = host.receive(from, (from + 700).min(end));
        assert_eq!(verdict, OFFLOADED);
        placed += bytes;
    }
    assert_eq!(placed, 4000, "not what is in the capsule");
}

#[test]
fn past_data_are_not_placed() {
    // Figure 8a
    let stream = thousands(3);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    host.receive(0, 400);
    assert_eq!(host.receive(100, 400), (bypassed(Bypass::Past), 0));
    assert_eq!(host.receive(400, 1000), (OFFLOADED, 596));
    // Begins in the past: the digest goes on, and only what is new is placed.
    let (verdict, placed) = host.receive(500, 1500);
    assert_eq!((verdict, placed), (bypassed(Bypass::Absorbed), 476));
}

#[test]
fn behind_a_loss_inside_a_pdu_data_are_placed_on() {
    // Figure 8b; NVMeTCP offload: "the HW will continue the direct data placement of the following packets".
    let stream = thousands(4);
    let mut host = Host::mapped(&stream, ArrivalOrder::Sequence);
    assert_eq!(host.receive(0, 300), (OFFLOADED, 276));
    assert_eq!(host.receive(600, 900), (bypassed(Bypass::Gap), 300));
    // With the next header: what it ends is placed, and what it begins.
    let (verdict, placed) = host.receive(900, 1300);
    assert_eq!((verdict, placed), (bypassed(Bypass::Absorbed), 96 + 276));
    assert_eq!(host.receive(1300, 1900), (OFFLOADED, 600));
    // "When the missing packet arrives, the HW will bypass the offload flow."
    assert_eq!(host.receive(300, 600), (bypassed(Bypass::Past), 0));
    assert!(host.recovery.is_in_step());
}

#[test]
fn a_late_packet_of_a_pdu_is_placed_and_completes_its_digest() {
    let stream = thousands(4);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    assert_eq!(host.receive(0, 300), (OFFLOADED, 276));
    assert_eq!(host.receive(600, 900), (OFFLOADED, 300));
    assert_eq!(host.receive(900, 1300), (OFFLOADED, 96 + 276));
    assert_eq!(host.receive(300, 600), (OFFLOADED, 300));
    assert_eq!(host.receive(300, 600), (bypassed(Bypass::Past), 0));
    assert_eq!(host.shared.counts.late, 1);
}

#[test]
fn a_late_packet_with_wrong_data_fails_the_digest_and_is_not_placed() {
    let stream = thousands(4);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    host.receive(0, 300);
    host.receive(600, 1300);
    let mut wrong = stream.wire[300..600].to_vec();
    wrong[7] ^= 1;
    let (verdict, placed) = host.receive_as(300, &wrong);
    assert_eq!((verdict, placed), (bypassed(Bypass::Failed), 0));
    assert_eq!(host.receive(1300, 1900), (OFFLOADED, 600));
}

#[test]
fn a_lost_header_is_asked_about_and_placement_goes_on_after_the_answer() {
    // Figure 8c
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        let stream = thousands(8);
        let mut host = Host::mapped(&stream, order);
        assert_eq!(host.receive(0, 900).0, OFFLOADED);
        // 900..1100 is lost.
        assert_eq!(host.receive(1100, 2100), (bypassed(Bypass::OutOfStep), 0));
        assert_eq!(host.recovery.due_request(0), Some(FIRST + 2000));
        assert_eq!(host.receive(2100, 3100), (bypassed(Bypass::OutOfStep), 0));
        assert_eq!(host.answer(), Some((2000, Answer::Resumed)));
        // From the next header on.
        assert_eq!(host.receive(3100, 4000), (bypassed(Bypass::Past), 0));
        assert_eq!(host.receive(4000, 5000), (OFFLOADED, 972));
        assert_eq!(host.receive(5000, 6000), (OFFLOADED, 972));
    }
}

#[test]
fn what_was_passed_up_while_a_header_was_missing_is_not_placed_when_it_comes_again() {
    let stream = thousands(6);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    host.receive(0, 900);
    assert_eq!(host.receive(1300, 1500), (bypassed(Bypass::OutOfStep), 0));
    // The missing header comes; then what has come already, and what follows.
    let (verdict, placed) = host.receive(900, 1300);
    assert_eq!((verdict, placed), (OFFLOADED, 96 - 24 + 24 + 276));
    assert_eq!(host.receive(1300, 1500), (OFFLOADED, 0));
    assert_eq!(host.receive(1500, 2500), (OFFLOADED, 496 + 476));
}

#[test]
fn a_tag_that_is_not_mapped_keeps_its_data_in_the_stream() {
    let stream = thousands(3);
    let mut host = Host::new(&stream, ArrivalOrder::Any);
    host.map(1);
    assert_eq!(host.receive(0, 1000), (OFFLOADED, 0));
    assert_eq!(host.shared.noted.refused, 1);
    assert_eq!(host.receive(1000, 2000), (OFFLOADED, 972));
    // Too late for the one that has begun.
    host.receive(2000, 2100);
    host.map(2);
    assert_eq!(host.receive(2100, 3000), (OFFLOADED, 0));
}

#[test]
fn nothing_is_placed_after_unmapping_also_when_the_tag_is_mapped_again() {
    let stream = thousands(3);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    assert_eq!(host.receive(0, 300), (OFFLOADED, 276));
    assert_eq!(host.receive(400, 600), (OFFLOADED, 200));
    host.unmap(0);
    host.map(0);
    assert_eq!(host.receive(600, 700), (OFFLOADED, 0), "in sequence");
    assert_eq!(host.receive(300, 400), (OFFLOADED, 0), "late");
    assert_eq!(host.receive(700, 1000), (OFFLOADED, 0));
    assert_eq!(host.shared.noted.refused, 3);
}

#[test]
fn data_beyond_their_buffer_stay_in_the_stream() {
    let parameters = nvme(Role::Controller, false, false);
    let stream = PduStream::new(
        &parameters,
        &[
            data(0, BUFFER - 10, 11),
            data(0, BUFFER - 10, 10),
            data(0, 0, 10),
        ],
    );
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    let end = stream.len();
    assert_eq!(host.receive(0, end), (OFFLOADED, 10));
    assert_eq!(host.shared.noted.refused, 2);
}

#[test]
fn more_pdus_than_a_packet_can_have_places_stay_in_the_stream() {
    let parameters = nvme(Role::Controller, false, false);
    let kinds: Vec<Kind> = (0..30).map(|tag| data(tag, 0, 20)).collect();
    let stream = PduStream::new(&parameters, &kinds);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    let end = stream.len();
    let most = crate::receive::MAX_PLACED;
    assert_eq!(host.receive(0, end), (OFFLOADED, 20 * most));
}

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
