//! Guests and VMMs that do what none does by itself.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_setfl, ftruncate};
use rustix::io::write;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_PCI_MSIX_IRQ_INDEX,
};
use wire::ethernet::MacAddr;

use super::rig::*;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 20]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 21]);

/// Frames still go between two guests.
fn assert_works(process: &Process) {
    let mut sender = Guest::enabled(process, 0);
    let mut receiver = Guest::enabled(process, 1);
    sender.send(A, B, b"still there");
    assert_eq!(receiver.receive()[0], 1);
}

#[test]
fn settings_that_can_not_be_are_refused() {
    let process = Process::start(&[A, B]);
    let mut guest = Guest::new(&process, 0);
    let cases: [(u64, u64, u32); 12] = [
        (SEND_ENTRIES, 3, 4),
        (SEND_ENTRIES, 0, 4),
        (SEND_ENTRIES, 1 << 30, 4),
        (SEND_ENTRIES, 1 << 40, 4),
        (QUEUES_WANTED, 0, 4),
        (QUEUES_WANTED, 3, 4),
        (QUEUES_WANTED, u64::MAX, 4),
        (RINGS, RAM + 64, 5),
        (RINGS, RAM - 128, 5),
        (RINGS, RAM + RAM_BYTES - BLOCK + 128, 5),
        (RINGS, u64::MAX - 127, 5),
        (FEATURES, 1 << 63, 11),
    ];
    for (register, value, refusal) in cases {
        guest.write32(CONTROL, 2);
        guest.set_sizes();
        guest.write64(register, value);
        let status = guest.enable();
        assert_eq!(status & READY, 0, "{register:#x} = {value:#x}");
        assert_eq!(status >> 8, refusal, "{register:#x} = {value:#x}");
    }
    guest.write32(CONTROL, 2);
    guest.set_sizes();
    guest.poke64(RAM, 1);
    assert_eq!(guest.enable() >> 8, 7, "the rings are not empty");
    drop(guest);
    assert_works(&process);
}

#[test]
fn memory_that_is_cut_off_ends_nothing() {
    let process = Process::start(&[A, B]);
    let mut sender = Guest::enabled(&process, 0);
    let receiver = Guest::enabled(&process, 1);
    // The pages of its buffers first, then those of its rings.
    for bytes in [1 << 20, 0] {
        ftruncate(&receiver.memory, bytes).unwrap();
        for _ in 0..3 {
            sender.send(A, B, b"into nothing");
            sender.wait_until_sent();
        }
    }
    // A frame out of it does not leave.
    drop(receiver);
    sender.take();
    ftruncate(&sender.memory, 1 << 20).unwrap();
    sender.send_from(A, B, RAM + (2 << 20), 100);
    assert_ne!(sender.receive()[0], 1, "it is refused");
    drop(sender);
    assert_works(&process);
}

#[test]
fn memory_is_mapped_where_it_can_be_only() {
    let process = Process::start(&[A, B]);
    let mut guest = Guest::enabled(&process, 0);
    let memory = guest.memory.as_raw_fd();
    for (offset, address, len) in [
        (0, RAM + 4096, 4096),
        (0, u64::MAX - 4095, 8192),
        (0, 0, 0),
        (1, 0x1000, 4096),
        (u64::MAX - 4095, 0x1000, 4096),
        (0, 0x1000, u64::MAX - 0x2000),
    ] {
        guest.client.dma_map(offset, address, len, memory).unwrap();
    }
    let null = std::fs::File::open("/dev/null").unwrap();
    let null = null.as_raw_fd();
    guest.client.dma_map(0, 0x1000, 4096, null).unwrap();
    guest.send_from(A, B, 0x1000, 64);
    assert_ne!(guest.receive()[0], 1, "nothing is there");
    guest.client.dma_unmap(0, u64::MAX).unwrap();
    assert_eq!(guest.read32(STATUS), LINK | FAILED);
    drop(guest);
    assert_works(&process);
}

#[test]
fn random_accesses_and_memory_end_nothing() {
    let process = Process::start(&[A, B]);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut guest = Guest::enabled(&process, 0);
    for _ in 0..3000 {
        let memory = guest.memory.as_raw_fd();
        let client = &mut guest.client;
        match random(8) {
            0 | 1 => guest.write32(random(0x420) & !3, random(u64::MAX) as u32),
            2 => guest.write64(random(0x420) & !7, random(1 << 20)),
            3 => guest.write32(DOORBELL + random(64) * 4, 0),
            4 => client
                .region_write(7, random(256), &[random(256) as u8; 2])
                .unwrap(),
            5 => client.dma_map(0, RAM, RAM_BYTES, memory).unwrap(),
            6 if random(8) == 0 => client.dma_unmap(RAM, RAM_BYTES).unwrap(),
            6 => guest.poke64(RAM + random(BLOCK / 8) * 8, random(u64::MAX) >> random(64)),
            _ => {
                guest.set_sizes();
                let _ = guest.enable();
            }
        }
    }
    drop(guest);
    assert_works(&process);
}

#[test]
fn what_is_no_message_closes_the_connection_only() {
    let process = Process::start(&[A, B]);
    // A version of no length, one that does not end, a command that there is not, and half a message.
    let header = |command: u16, len: u32| {
        let mut bytes = [0; 16];
        bytes[2..4].copy_from_slice(&command.to_le_bytes());
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        bytes
    };
    for message in [
        [&header(1, 0)[..], &[0; 4]].concat(),
        [&header(1, 24)[..], &[0; 4], b"{}{}"].concat(),
        [&header(99, 16)[..]].concat(),
        header(9, 32)[..7].to_vec(),
    ] {
        let mut stream = UnixStream::connect(&process.sockets[0]).unwrap();
        stream.write_all(&message).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_works(&process);
}

#[test]
fn a_vector_that_nobody_can_write_to_keeps_nobody_waiting() {
    let process = Process::start(&[A, B]);
    let mut guest = Guest::enabled(&process, 0);
    // One that is full and made to wait, and a pipe that is full.
    let full = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let (_reader, pipe) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    while write(&pipe, &[0; 4096]).is_ok() {}
    fcntl_setfl(&pipe, OFlags::empty()).unwrap();
    let files = [full.as_raw_fd(), pipe.as_raw_fd(), full.as_raw_fd()];
    let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
    let set = guest
        .client
        .set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, flags, 0, 3, &files);
    set.unwrap();
    let flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
    let raised = guest
        .client
        .set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, flags, 0, 3, &[]);
    raised.unwrap();
    guest.sleep();
    guest.send_from(A, B, 0x1000, 64);
    assert_ne!(guest.receive()[0], 1, "nothing is there");
    drop(guest);
    assert_works(&process);
}

/// A socket whose close waits so long for its peer, which reads nothing.
fn lingering(time: Duration) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&socket, Some(time)).unwrap();
    (socket, peer)
}

/// Sends a request with a file, closes its own copy before the rest of the request goes, and reads the answer.
fn pass_last(stream: &mut UnixStream, command: u16, body: &[u8], file: TcpStream) {
    let mut header = [0; 16];
    header[2..4].copy_from_slice(&command.to_le_bytes());
    header[4..8].copy_from_slice(&(16 + body.len() as u32).to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&files)));
    let parts = [IoSlice::new(&header)];
    sendmsg(&*stream, &parts, &mut ancillary, SendFlags::empty()).unwrap();
    drop(file);
    stream.write_all(body).unwrap();
    stream.read_exact(&mut header).unwrap();
}

#[test]
fn files_whose_close_waits_keep_nobody_waiting() {
    const LINGERS: Duration = Duration::from_secs(60);
    let mut process = Process::start(&[A, B]);
    let since = Instant::now();
    let mut vmm = UnixStream::connect(&process.sockets[0]).unwrap();
    let ((memory, _one), (vector, _two)) = (lingering(LINGERS), lingering(LINGERS));
    // DMA_MAP of a page, and SET_IRQS of a vector.
    let mut map = [0; 32];
    (map[0], map[4], map[17], map[25]) = (32, 3, 0x10, 0x10);
    pass_last(&mut vmm, 2, &map, memory);
    let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
    let words = [20, flags, VFIO_PCI_MSIX_IRQ_INDEX, 0, 1];
    let set: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    pass_last(&mut vmm, 8, &set, vector);
    // Another guest goes on with the NIC's next process, and the VMM's place is free when it has gone.
    let mut other = Guest::enabled(&process, 1);
    process.restart();
    until(|| (other.read32(STATUS) == LINK | FAILED).then_some(()));
    drop((vmm, other));
    assert_works(&process);
    assert!(since.elapsed() < LINGERS / 2, "{:?}", since.elapsed());
}
