use std::collections::VecDeque;

use proptest::prelude::*;
use wire::SeqNum;
use wire::tcp::Header;

use super::*;
use crate::ring::{ContextId, Packet, Slice};

const CONNECTIONS: u32 = 5;
const LIMIT: u32 = 12;

/// One with a number that is divisible by three and without parts has no payload.
fn packet(number: u32, placed: u16) -> (NicPacket, Vec<Placed>) {
    let packet = NicPacket {
        header: Header {
            seq: SeqNum(number),
            ..Header::default()
        },
        stored: match placed {
            0 if number.is_multiple_of(3) => Stored::Header { hop_limit: 64 },
            placed => Stored::Buffer(
                Packet {
                    buffer: Slice::NOTHING,
                    header_len: 54,
                    payload_len: 10,
                    segments: 1,
                    context: None,
                    processed: crate::ring::Processed::NONE,
                    placed,
                    notes: 0,
                    checksum_ok: true,
                    hash: number,
                    hash_type: None,
                },
                2048,
            ),
        },
    };
    let parts = (0..placed).map(|tag| Placed {
        at: number,
        slice: Slice::NOTHING,
        tag,
    });
    (packet, parts.collect())
}

#[test]
fn a_slot_is_small() {
    assert!(
        size_of::<Slot>() <= 144,
        "{} bytes, of which the header is {}",
        size_of::<Slot>(),
        size_of::<Header>()
    );
}

#[derive(Clone, Debug)]
enum Step {
    Open(u32),
    Hold(u32),
    Release(u32),
    Push(u32, u16),
    Pop,
    Drain(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let connection = 0..CONNECTIONS;
    prop_oneof![
        connection.clone().prop_map(Step::Open),
        connection.clone().prop_map(Step::Hold),
        connection.clone().prop_map(Step::Release),
        (connection.clone(), 0..4u16)
            .prop_map(|(connection, placed)| Step::Push(connection, placed)),
        (connection.clone(), 0..2u16)
            .prop_map(|(connection, placed)| Step::Push(connection, placed)),
        Just(Step::Pop),
        connection.prop_map(Step::Drain),
    ]
}

/// A connection as it should be.
#[derive(Default)]
struct Model {
    open: bool,
    held: bool,
    packets: VecDeque<(NicPacket, Vec<Placed>)>,
}

proptest! {
    #[test]
    fn packets_come_out_in_their_connections_order_and_only_when_they_may(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut queue = RxQueue::new(LIMIT);
        let mut models: Vec<Model> = (0..CONNECTIONS).map(|_| Model::default()).collect();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Open(at) if !models[at as usize].open => {
                    queue.open(at, 0);
                    models[at as usize] = Model { open: true, held: true, ..Model::default() };
                }
                Step::Hold(at) => {
                    queue.hold(at);
                    models[at as usize].held = true;
                }
                Step::Release(at) => {
                    queue.release(at);
                    models[at as usize].held = false;
                }
                Step::Push(at, placed) => {
                    let (packet, parts) = packet(number as u32, placed);
                    let total: usize = models.iter().map(|model| model.packets.len()).sum();
                    let parts_total: usize = models
                        .iter()
                        .flat_map(|model| &model.packets)
                        .map(|(_, parts)| parts.len())
                        .sum();
                    let fits = total < LIMIT as usize
                        && total + parts_total + parts.len() < 2 * LIMIT as usize;
                    let taken = queue.push(at, packet, parts.iter().copied());
                    prop_assert_eq!(taken, models[at as usize].open && fits);
                    if taken {
                        models[at as usize].packets.push_back((packet, parts));
                    }
                }
                Step::Pop => {
                    let next = queue.peek().map(|(at, packet)| (at, *packet));
                    let can = models.iter().any(|model| model.open && !model.held && !model.packets.is_empty());
                    prop_assert_eq!(next.is_some(), can);
                    prop_assert_eq!(queue.has_work(), can);
                    if let Some((at, packet)) = next {
                        prop_assert!(!models[at as usize].held);
                        let mut parts = Vec::new();
                        let taken = queue.take(at, |part| parts.push(part));
                        prop_assert_eq!(taken, Some(packet));
                        let expected = models[at as usize].packets.pop_front();
                        prop_assert_eq!(Some((packet, parts)), expected);
                    }
                }
                Step::Drain(at) if models[at as usize].open => {
                    queue.hold(at);
                    let mut parts = Vec::new();
                    while let Some(packet) = queue.take(at, |part| parts.push(part)) {
                        let expected = models[at as usize].packets.pop_front();
                        prop_assert_eq!(Some((packet, std::mem::take(&mut parts))), expected);
                    }
                    prop_assert!(models[at as usize].packets.is_empty());
                    queue.close(at);
                    models[at as usize].open = false;
                }
                Step::Open(_) | Step::Drain(_) => {}
            }
            let total: usize = models.iter().map(|model| model.packets.len()).sum();
            prop_assert_eq!(queue.len() as usize, total);
        }
    }
}

#[test]
fn connections_take_turns() {
    let mut queue = RxQueue::new(LIMIT);
    for at in 0..3 {
        queue.open(at, 0);
        queue.release(at);
    }
    for (at, number) in [(0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (2, 5)] {
        let (packet, _) = packet(number, 0);
        assert!(queue.push(at, packet, std::iter::empty()));
    }
    let order: Vec<u32> = std::iter::from_fn(|| {
        let (at, _) = queue.peek()?;
        Some(queue.take(at, |_| {})?.header.seq.0)
    })
    .collect();
    assert_eq!(order, [0, 3, 5, 1, 4, 2]);
}

proptest! {
    #[test]
    fn a_mark_passes_with_what_was_placed_or_names_a_context_before_it(
        steps in prop::collection::vec((0..4u8, 0..3u32, 0..3u16, any::<bool>()), 1..120),
    ) {
        let mut queue = RxQueue::new(64);
        for at in 0..3 {
            queue.open(at, 0);
        }
        let mut queued: Vec<VecDeque<(u32, bool)>> = vec![VecDeque::new(); 3];
        // Each with the packets before it that had parts or named a context.
        let mut epochs: Vec<(u64, Vec<u32>)> = Vec::new();
        for (number, (what, at, placed, named)) in steps.into_iter().enumerate() {
            let number = number as u32;
            match what {
                0 | 1 => {
                    let (mut packet, parts) = packet(number, placed);
                    if let Stored::Buffer(packet, _) = &mut packet.stored {
                        packet.context = named.then_some(ContextId(7));
                    }
                    let counts = packet.context().is_some() || placed > 0;
                    if queue.push(at, packet, parts.into_iter()) {
                        queued[at as usize].push_back((number, counts));
                    }
                }
                2 => {
                    if queue.take(at, |_| {}).is_some() {
                        let (gone, _) = queued[at as usize].pop_front().expect("it was there");
                        for (_, waits_for) in &mut epochs {
                            waits_for.retain(|packet| *packet != gone);
                        }
                    }
                }
                _ => {
                    let counted = queued.iter().flatten().filter(|(_, counts)| *counts);
                    let before: Vec<u32> = counted.map(|(number, _)| *number).collect();
                    match queue.end_epoch() {
                        Some(epoch) => epochs.push((epoch, before)),
                        None => prop_assert!(before.is_empty()),
                    }
                }
            }
            for (epoch, waits_for) in &epochs {
                prop_assert!(waits_for.is_empty() || !queue.has_passed(*epoch));
            }
        }
        for at in 0..3 {
            while queue.take(at, |_| {}).is_some() {}
        }
        for (epoch, _) in &epochs {
            prop_assert!(queue.has_passed(*epoch));
        }
    }
}

#[test]
fn what_is_promised_is_kept() {
    let mut queue = RxQueue::new(2);
    queue.open(0, 0);
    queue.promise(1);
    assert!(queue.has_room());
    assert_eq!(queue.room_for_placed(), 1);
    queue.promise(0);
    assert!(!queue.has_room());
    assert_eq!(queue.room_for_placed(), 0);
    queue.redeem(1);
    let (packet, parts) = packet(0, 1);
    assert!(queue.push(0, packet, parts.into_iter()));
    assert!(!queue.has_room());
    queue.redeem(0);
    assert!(queue.has_room());
}
