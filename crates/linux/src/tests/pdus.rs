//! Connections that carry NVMe/TCP PDUs, and libraries that want data where they may not.

use std::sync::Arc;
use std::time::Instant;

use attachment::pdus::{Generation, Mapping, Writer};
use attachment::{
    DataMemory, Direction, Errno, Lifecycle, OffloadState, PAGE, Slab, SlotRef, SlotRequest,
    SocketFacts,
};
use l5p::crc32c::Crc32c;
use l5p::nvme::Parameters;
use nic::{Nic, NicConfig};
use proptest::prelude::*;
use wire::nvme::{C2HData, Pdu, Role};
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use super::program::{CIPHER, keys};
use super::rig::{
    OURS, OneSocket, PAIRS, PEER, SECRET, SMALL, SUPER, Socket, checked, flow, pattern, segment,
    segment_with,
};
use crate::{Config, LinuxFunction, State};

/// Far behind what the rig's segments acknowledge, which is 1.
const ISN: u32 = 0x6fff_f000;
const PARAMETERS: Parameters = Parameters {
    sender: Role::Controller,
    header_digest: false,
    data_digest: true,
    alignment: 0,
    max_pdu: 1 << 20,
    commands: 8,
};

struct World {
    nic: Nic,
    function: LinuxFunction,
    state: State,
    linux: OneSocket,
    now: Instant,
    flow: FlowKey,
    socket: Socket,
    slot: SlotRef,
    memory: Arc<DataMemory>,
    sent: u32,
    received: u32,
}

impl World {
    fn new() -> World {
        let now = Instant::now();
        let state = State::in_memory(SMALL).unwrap();
        let flow = flow(PAIRS[0]);
        let socket = Socket::new(flow, 5, (SeqNum(1), SeqNum(ISN)));
        let linux = OneSocket::new(socket);
        let (mut nic, mut function) = device(now, &state, &linux);
        linux.open(&mut nic, &mut function, now);
        let slab = Arc::new(Slab::create(1).unwrap());
        let (index, generation) = slab.claim().unwrap();
        World {
            nic,
            function,
            state,
            linux,
            socket,
            now,
            flow,
            slot: SlotRef::new(&slab, index, generation).unwrap(),
            memory: Arc::new(DataMemory::create(4 * PAGE as u64).unwrap()),
            sent: 1,
            received: ISN,
        }
    }

    fn started() -> World {
        let mut world = World::new();
        assert_eq!(world.order(&world.start()), Ok(SeqNum(ISN)));
        world.run();
        world
    }

    /// The NIC's process dies, and another one has its state.
    fn restart(&mut self) {
        (self.nic, self.function) = device(self.now, &self.state, &self.linux);
    }

    fn facts(&self) -> SocketFacts {
        let next = SeqNum(self.received);
        let now = Socket {
            write: SeqNum(self.sent),
            read: next,
            receive_next: next,
            ..self.socket
        };
        now.facts()
    }

    fn start(&self) -> SlotRequest {
        SlotRequest::Pdus {
            slot: self.slot.clone(),
            memory: Arc::clone(&self.memory),
            parameters: PARAMETERS,
            socket: self.facts(),
        }
    }

    fn order(&mut self, order: &SlotRequest) -> Result<SeqNum, Errno> {
        let answer = self.function.handle_slot_request(self.now, order);
        answer.result.map(|()| answer.tcpsn)
    }

    /// Has everything move; gives the payloads that Linux gets.
    fn run(&mut self) -> Vec<Vec<u8>> {
        let (mut room, mut got) = (vec![0; 70_000], Vec::new());
        for _ in 0..4 {
            self.function.publish();
            while self.nic.poll_transmit(self.now, &mut room).is_some() {}
            self.nic.flush(self.now);
            while let Some((frame, meta)) = self.function.poll_frame(self.now) {
                got.push(checked(&(frame.to_vec(), meta)).1);
            }
        }
        got
    }

    /// The command leaves.
    fn send(&mut self) {
        let (frame, meta) = segment(
            (OURS, PEER),
            &self.flow,
            self.sent,
            Flags::ACK,
            &[1; 72],
            1400,
        );
        self.function.handle_frame(self.now, &frame, meta);
        self.sent += 72;
        self.run();
    }

    /// All data of a command comes.
    fn receive(&mut self, tag: u16, data: &[u8]) -> Vec<Vec<u8>> {
        let pdu = Pdu::C2HData(C2HData {
            cccid: tag,
            data_offset: 0,
            data_len: data.len() as u32,
            last: true,
            success: true,
        });
        let mut bytes = vec![0; 24];
        pdu.emit(&PARAMETERS.framing(), &mut bytes);
        bytes.extend(data);
        bytes.extend(Crc32c::of(data).to_le_bytes());
        let flow = self.flow.reversed();
        let (frame, meta) = segment((PEER, OURS), &flow, self.received, Flags::ACK, &bytes, 1400);
        self.received = self.received.wrapping_add(bytes.len() as u32);
        self.nic.handle_frame(self.now, &frame, meta);
        let got = self.run();
        assert_eq!(got.concat(), bytes, "Linux gets all of the bytes");
        got
    }

    fn data(&self, page: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let region = crate::memory::region_of(&self.memory);
        assert!(region.read((page * PAGE) as u64, &mut bytes));
        bytes
    }
}

fn device(now: Instant, state: &State, linux: &OneSocket) -> (Nic, LinuxFunction) {
    let mut nic = Nic::new(NicConfig {
        wire: SUPER,
        ..NicConfig::new([7; 16])
    });
    let config = Config::default();
    let (host, device) = nic::ring::function(config.function(OURS));
    nic.attach(device).unwrap();
    let sockets = Box::new(linux.clone());
    let function = LinuxFunction::new(now, host, &config, state, sockets, SECRET);
    (nic, function.unwrap())
}

fn mapping(generation: Generation, page: u32, len: u32) -> Mapping {
    Mapping {
        generation,
        page,
        len,
    }
}

#[test]
fn data_is_where_it_was_wanted_and_in_the_packets() {
    let mut world = World::started();
    let (first, data) = (Generation::FIRST, pattern(5000));
    let slot = world.slot.clone();
    let pdus = slot.slot().pdus();
    pdus.map(3, mapping(first, 1, 5000));
    world.send();
    let start = SeqNum(world.received);
    world.receive(3, &data);
    assert_eq!(world.data(1, 5000), data);
    assert_eq!(
        (world.data(0, PAGE), world.data(3, PAGE)),
        (vec![0; PAGE], vec![0; PAGE])
    );
    let header = pdus.span(start, 5028);
    assert_eq!(
        (header.len, header.placed, header.checked),
        (24, None, true)
    );
    let span = pdus.span(start + 24, 5004);
    assert_eq!(
        (span.len, span.placed, span.checked),
        (5000, Some(first), true)
    );
    assert!(!span.doubtful);

    // The mapping ends when the library says so, and what was written is reported.
    pdus.map(3, mapping(first, 0, 0));
    let settle = SlotRequest::Settle { slot: slot.clone() };
    assert_eq!(world.order(&settle), Ok(SeqNum(0)));
    assert!(
        world.function.poll_timeout().is_some(),
        "it must not sleep now"
    );
    world.run();
    assert_eq!(pdus.ended_mapping(3, first), Some(5000));
    world.receive(3, &[0xaa; 5000]);
    assert_eq!(world.data(1, 5000), data, "nothing is written any more");
}

#[test]
fn a_nic_that_comes_later_knows_where_the_connection_is() {
    let mut world = World::started();
    let first = Generation::FIRST;
    for _ in 0..2 {
        let position = SeqNum(world.received);
        let before = world.slot.clone();
        world.restart();
        before.slot().free(before.generation());
        let slab = Arc::new(Slab::create(1).unwrap());
        let (index, generation) = slab.claim().unwrap();
        world.slot = SlotRef::new(&slab, index, generation).unwrap();
        assert_eq!(world.order(&world.start()), Ok(position));
        let slot = world.slot.clone();
        slot.slot().pdus().map(3, mapping(first, 1, 5000));
        world.send();
        let data = pattern(5000);
        world.receive(3, &data);
        assert_eq!(world.data(1, 5000), data);
        let span = slot.slot().pdus().span(position + 24, 5000);
        assert_eq!((span.len, span.placed), (5000, Some(first)));
    }
}

/// It is remembered for its PDUs, and once more for the keys that come later: these count.
#[test]
fn a_connection_that_was_remembered_and_has_keys_is_fenced_after_a_restart() {
    let mut world = World::started();
    let slab = Arc::new(Slab::create(1).unwrap());
    let (index, generation) = slab.claim().unwrap();
    let keys = SlotRequest::SetKeys {
        slot: SlotRef::new(&slab, index, generation).unwrap(),
        direction: Direction::Transmit,
        info: keys(CIPHER, 0),
        resume: None,
        socket: world.facts(),
    };
    assert_eq!(world.order(&keys), Ok(SeqNum(1)));
    world.restart();
    let (frame, meta) = segment((OURS, PEER), &world.flow, 1, Flags::ACK, &[1; 72], 1400);
    world.function.handle_frame(world.now, &frame, meta);
    assert_eq!(world.function.counters().tx_tls_fenced_dropped, 1);
}

/// The next NIC has no place for it, and an entry is free for another.
#[test]
fn a_connection_that_was_released_is_not_remembered() {
    let mut world = World::started();
    let release = SlotRequest::Release {
        slot: world.slot.clone(),
        cookie: 0,
        tenant: 0,
    };
    assert_eq!(world.order(&release), Ok(SeqNum(0)));
    world.run();
    world.restart();
    assert_eq!(world.order(&world.start()), Err(Errno::NODEV));
}

#[test]
fn a_second_copy_makes_bytes_doubtful() {
    let mut world = World::started();
    let slot = world.slot.clone();
    let pdus = slot.slot().pdus();
    pdus.map(0, mapping(Generation::FIRST, 0, 1000));
    world.send();
    let before = world.received;
    world.receive(0, &pattern(1000));
    let span = |at: u32| pdus.span(SeqNum(before) + at, 1);
    assert!(span(30).placed.is_some() && !span(30).doubtful);
    world.received = before;
    world.receive(0, &[7; 1000]);
    assert!(span(30).placed.is_none() && span(30).doubtful && span(0).doubtful);
    assert_eq!(world.data(0, 1000), pattern(1000));
    assert_eq!(world.function.counters().rx_nvme_second_copies, 1);
}

/// Others whose packets Linux forwards know neither where the connection is nor what it was given.
#[test]
fn a_forged_acknowledgement_hides_no_second_copy() {
    let mut world = World::started();
    let before = world.received;
    world.receive(0, &pattern(1000));
    let header = (world.sent, world.received + 100_000, Flags::ACK);
    let (forged, meta) = segment_with((OURS, PEER), &world.flow, header, &[], 1400);
    world.function.handle_frame(world.now, &forged, meta);
    world.run();
    world.received = before;
    world.receive(0, &[7; 1000]);
    assert_eq!(world.function.counters().rx_nvme_second_copies, 1);
}

/// The program has not read what it was told: the data is where it was wanted, and in the packets.
#[test]
fn data_that_there_is_no_room_to_tell_of_is_counted() {
    let mut world = World::started();
    let slot = world.slot.clone();
    let pdus = slot.slot().pdus();
    pdus.map(0, mapping(Generation::FIRST, 0, 1000));
    world.send();
    let (mut writer, mut at) = (Writer::default(), SeqNum(ISN) + 1_000_000);
    while writer.checked(pdus, (at, 1)).is_ok() {
        at += 2;
    }
    let before = SeqNum(world.received);
    world.receive(0, &pattern(1000));
    assert_eq!(world.data(0, 1000), pattern(1000));
    let span = pdus.span(before + 30, 1);
    assert_eq!(
        (span.placed, span.checked, span.doubtful),
        (None, false, false)
    );
    assert_eq!(world.function.counters().rx_nvme_untold, 1);
    assert_eq!(world.function.counters().rx_nvme_second_copies, 0);
}

#[test]
fn a_slot_is_free_when_nothing_can_be_written_for_it() {
    let mut world = World::started();
    let slot = world.slot.clone();
    slot.slot()
        .pdus()
        .map(1, mapping(Generation::FIRST, 0, 4096));
    world.send();
    let again = world.order(&world.start());
    assert_eq!(again, Err(Errno::BUSY));
    let release = SlotRequest::Release {
        slot: slot.clone(),
        cookie: 0,
        tenant: 0,
    };
    assert_eq!(world.order(&release), Ok(SeqNum(0)));
    let in_use = Lifecycle::InUse {
        generation: slot.generation(),
    };
    assert_eq!(slot.slot().lifecycle(), in_use);
    world.run();
    let free = Lifecycle::Free {
        generation: slot.generation(),
    };
    assert_eq!(slot.slot().lifecycle(), free);
    assert_eq!(
        Arc::strong_count(&world.memory),
        1,
        "the NIC holds no memory"
    );
    world.receive(1, &[9; 4000]);
    assert_eq!(world.data(0, 4096), [0; 4096]);
    let settle = SlotRequest::Settle { slot };
    assert_eq!(world.order(&settle), Err(Errno::NODEV));
}

#[test]
fn nothing_is_placed_beyond_the_memory() {
    for (page, len) in [
        (4, 1),
        (3, 4097),
        (0, 4 * 4096 + 1),
        (Mapping::MAX_PAGE, Mapping::MAX_LEN),
    ] {
        let mut world = World::started();
        let slot = world.slot.clone();
        slot.slot()
            .pdus()
            .map(2, mapping(Generation::FIRST, page, len));
        world.send();
        world.receive(2, &pattern(1));
        assert_eq!(world.function.counters().nvme_lies, 1);
        let status = slot.slot().status(Direction::Receive, slot.generation());
        assert_eq!(status, OffloadState::Software);
        // It goes on, without help.
        world.receive(2, &pattern(3000));
        assert_eq!(world.data(0, 4 * PAGE), vec![0; 4 * PAGE]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is written into a slot, the NIC goes on, Linux gets the stream, and no side waits for ever.
    #[test]
    fn any_mappings_are_survived(
        steps in proptest::collection::vec((0u16..12, 0u32..6, 0u32..20_000, 1usize..6000, any::<bool>()), 1..40),
    ) {
        let mut world = World::started();
        let slot = world.slot.clone();
        let mut generation = Generation::FIRST;
        for (tag, page, len, data, settles) in steps {
            slot.slot().pdus().map(tag, mapping(generation, page, len));
            generation = generation.next();
            if settles {
                let settle = SlotRequest::Settle { slot: slot.clone() };
                prop_assert_eq!(world.order(&settle), Ok(SeqNum(0)));
            } else {
                world.send();
            }
            world.receive(tag % 8, &pattern(data));
            slot.slot().pdus().clear_before(SeqNum(world.received));
        }
        let release = SlotRequest::Release { slot: slot.clone(), cookie: 0, tenant: 0 };
        prop_assert_eq!(world.order(&release), Ok(SeqNum(0)));
        world.run();
        let free = Lifecycle::Free { generation: slot.generation() };
        prop_assert_eq!(slot.slot().lifecycle(), free);
    }
}
