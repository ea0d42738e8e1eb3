use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use wire::ethernet::MacAddr;

use super::rig::*;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 10]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 11]);
const PAYLOAD: &[u8] = b"a payload that the NIC reads where the guest has it";

/// Address and length of the buffer of a received packet.
fn buffer(descriptor: &[u8; 64]) -> (u64, u32) {
    assert_eq!(descriptor[0], 1, "it is a packet");
    let (address, len) = descriptor[16..28].split_at(8);
    (
        u64::from_ne_bytes(address.try_into().unwrap()),
        u32::from_ne_bytes(len.try_into().unwrap()),
    )
}

#[test]
fn a_guest_learns_what_the_device_is() {
    let process = Process::start(&[A]);
    let mut guest = Guest::new(&process, 0);
    assert_eq!(guest.config(0x00), 0x0001_6c73);
    assert_eq!(guest.config(0x08), 0x0200_0000, "Ethernet");
    assert_eq!(guest.config(0x34) & 0xff, 0x40, "capabilities");
    assert_eq!(
        guest.config(0x80) & 0x07ff_00ff,
        0x0002_0011,
        "three vectors"
    );
    assert_eq!(guest.read32(0), 0x6c6e_7372);
    assert_eq!(guest.read32(4), rings::VERSION);
    assert_eq!(guest.read64(0x10), 0x0200_0000_000a);
    assert_eq!(guest.read32(STATUS), LINK);
    assert_eq!(
        guest.read64(0x100),
        u64::from(rings::VERSION),
        "the identity"
    );
    let mtu = guest.read32(0x18);
    assert_eq!(guest.read64(0x118), u64::from(mtu), "the MTU");
    assert_eq!(guest.read64(0x120), u64::from(QUEUES));
    assert_eq!(guest.read64(SEND_ENTRIES), 1024, "a default");
}

#[test]
fn frames_go_from_guest_to_guest_and_interrupts_tell_of_them() {
    let process = Process::start(&[A, B]);
    let mut sender = Guest::enabled(&process, 0);
    let mut receiver = Guest::enabled(&process, 1);
    for round in 0..200u64 {
        receiver.sleep();
        sender.sleep();
        let payload = [PAYLOAD, &round.to_ne_bytes()].concat();
        sender.send(A, B, &payload);
        receiver.interrupted(0);
        let (address, len) = buffer(&receiver.receive());
        assert_eq!(len as usize, 14 + payload.len());
        let frame: [u8; 14 + 51 + 8] = receiver.peek(address);
        assert_eq!(frame[..6], B.0);
        assert_eq!(frame[14..], payload);
        receiver.post(address, 1);
        // That its slots are free again is told too.
        sender.interrupted(0);
        sender.wait_until_sent();
        assert!(sender.take().is_empty(), "what is right gets no completion");
    }
}

#[test]
fn a_guest_goes_on_with_the_nics_next_process() {
    let mut process = Process::start(&[A, B]);
    let mut sender = Guest::enabled(&process, 0);
    let mut receiver = Guest::enabled(&process, 1);
    for _ in 0..2 {
        process.restart();
        for guest in [&mut sender, &mut receiver] {
            guest.interrupted(QUEUES);
            until(|| (guest.read32(STATUS) == LINK | FAILED).then_some(()));
            assert_eq!(guest.read32(EVENTS), BOTH);
            guest.write32(EVENTS, BOTH);
            assert_eq!(guest.read32(EVENTS), 0);
            assert_eq!(guest.read64(RINGS), RAM, "settings stay");
            guest.poke(RAM, &[0; BLOCK as usize]);
            assert_eq!(guest.enable(), READY | LINK);
            guest.post(BUFFERS, 8);
        }
        sender.send(A, B, PAYLOAD);
        buffer(&receiver.receive());
    }
}

#[test]
fn each_queue_has_a_vector() {
    let process = Process::start(&[A]);
    let mut guest = Guest::new(&process, 0);
    guest.set_sizes();
    guest.write64(QUEUES_WANTED, 2);
    assert_eq!(guest.enable(), READY | LINK);
    // A descriptor without an opcode, on the send ring of queue 1.
    let queue = RAM + BLOCK;
    guest.poke64(queue + RECEIVE + 256, 1);
    guest.poke64(queue, 1);
    guest.write32(DOORBELL + 4, 0);
    guest.interrupted(1);
    let completion: [u8; 1] = guest.peek(queue + RECEIVE + 384);
    assert_ne!(completion[0], 1, "it is no packet");
}

#[test]
fn a_reset_removes_the_function_and_its_settings() {
    type Reset = fn(&mut Guest);
    let by_register: Reset = |guest| guest.write32(CONTROL, 2);
    let by_flr: Reset = |guest| guest.client.region_write(7, 0x48, &[0, 0x80]).unwrap();
    let by_vmm: Reset = |guest| guest.client.reset().unwrap();
    let process = Process::start(&[A, B]);
    let mut other = Guest::enabled(&process, 1);
    let mut guest = Guest::enabled(&process, 0);
    for reset in [by_register, by_flr, by_vmm] {
        reset(&mut guest);
        assert_eq!(guest.read32(STATUS), LINK);
        assert_eq!(guest.read64(RINGS), 0);
        assert_eq!(guest.read64(SEND_ENTRIES), 1024);
        // Nothing comes to its memory.
        other.send(B, A, PAYLOAD);
        other.wait_until_sent();
        assert!(guest.take().is_empty());
        // Empty rings, and it is as new.
        guest.poke(RAM, &[0; BLOCK as usize]);
        guest.set_sizes();
        assert_eq!(guest.enable(), READY | LINK);
        guest.post(BUFFERS, 8);
        other.send(B, A, PAYLOAD);
        buffer(&guest.receive());
    }
    guest.write32(CONTROL, 0);
    assert_eq!(guest.read32(STATUS), LINK);
    assert_eq!(
        guest.read64(RINGS),
        RAM,
        "settings stay when it is disabled"
    );
}

#[test]
fn memory_that_goes_away_under_buffers_is_not_written() {
    const MORE: u64 = RAM + (1 << 32);
    let process = Process::start(&[A, B]);
    let mut sender = Guest::enabled(&process, 0);
    let mut receiver = Guest::new(&process, 1);
    receiver.set_sizes();
    assert_eq!(receiver.enable(), READY | LINK);
    let more = receiver.memory.as_raw_fd();
    let mapped = receiver.client.dma_map(1 << 20, MORE, 1 << 20, more);
    mapped.unwrap();
    receiver.post(MORE, 4);
    sender.send(A, B, PAYLOAD);
    let (address, _) = buffer(&receiver.receive());
    assert_eq!(address, MORE);
    receiver.client.dma_unmap(MORE, 1 << 20).unwrap();
    let before: [u8; 4096] = receiver.peek(BUFFERS + 2048);
    sender.send(A, B, b"another one, for which there is no buffer");
    sender.wait_until_sent();
    assert_eq!(receiver.peek::<4096>(BUFFERS + 2048), before);
    assert!(receiver.take().is_empty());
    // A frame from there does not leave.
    receiver.send_from(B, A, MORE, 100);
    let completion = receiver.receive();
    assert_ne!(completion[0], 1);
    receiver.post(BUFFERS, 4);
    sender.send(A, B, PAYLOAD);
    buffer(&receiver.receive());
    assert_eq!(receiver.read32(STATUS), READY | LINK);
}

#[test]
fn memory_that_goes_away_under_rings_takes_the_function_with_it() {
    let process = Process::start(&[A]);
    let mut guest = Guest::enabled(&process, 0);
    guest.client.dma_unmap(RAM, RAM_BYTES).unwrap();
    guest.interrupted(QUEUES);
    assert_eq!(guest.read32(STATUS), LINK | FAILED);
    assert_eq!(guest.read32(EVENTS), 2);
    guest.write32(EVENTS, 2);
    assert_eq!(guest.read32(EVENTS), 0);
    assert_eq!(guest.enable() >> 8, 5, "the rings are in no memory");
    let memory = guest.memory.as_raw_fd();
    guest.client.dma_map(0, RAM, RAM_BYTES, memory).unwrap();
    guest.poke(RAM, &[0; BLOCK as usize]);
    assert_eq!(guest.enable(), READY | LINK);
}

#[test]
fn a_vmm_that_goes_takes_its_function_with_it() {
    let process = Process::start(&[A]);
    for _ in 0..3 {
        // The next one has the place: it is enabled, where a second function would be refused.
        let guest = Guest::enabled(&process, 0);
        drop(guest);
    }
}

#[test]
fn a_function_that_may_reach_no_memory_is_none() {
    let process = Process::start(&[A, B]);
    let mut sender = Guest::enabled(&process, 0);
    let mut receiver = Guest::enabled(&process, 1);
    receiver.set_bus_master(false);
    assert_eq!(receiver.read32(STATUS), LINK | FAILED);
    assert_eq!(receiver.read32(EVENTS), 2);
    sender.send(A, B, PAYLOAD);
    sender.wait_until_sent();
    assert!(receiver.take().is_empty());
    receiver.poke(RAM, &[0; BLOCK as usize]);
    assert_eq!(receiver.enable() >> 8, 5, "it is still not let");
    receiver.set_bus_master(true);
    assert_eq!(receiver.enable(), READY | LINK);
}

#[test]
fn a_driver_hears_of_a_function_that_went_with_other_memory_of_its_range() {
    let process = Process::start(&[A]);
    let mut guest = Guest::enabled(&process, 0);
    // The range has the rings, these addresses of it have none.
    guest
        .client
        .dma_unmap(RAM + RAM_BYTES - 4096, 4096)
        .unwrap();
    assert_eq!(guest.read32(STATUS), LINK | FAILED);
    assert_eq!(guest.read32(EVENTS), 2);
    guest.interrupted(QUEUES);
}

#[test]
fn functions_that_a_guest_begins_one_after_the_other_wait_for_their_turn() {
    let process = Process::start(&[A]);
    let mut guest = Guest::new(&process, 0);
    guest.set_sizes();
    let since = Instant::now();
    for _ in 0..20 {
        assert_eq!(guest.enable(), READY | LINK);
        guest.write32(CONTROL, 0);
        guest.poke(RAM, &[0; BLOCK as usize]);
    }
    let least = Duration::from_millis(500);
    assert!(since.elapsed() >= least, "{:?}", since.elapsed());
}
