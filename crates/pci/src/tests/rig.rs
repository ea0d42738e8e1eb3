//! A NIC on a thread with sockets for VMMs, and a VMM with a driver that knows `docs/device.md` only.

use std::any::Any;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nic::ring::FunctionConfig;
use nic::{Nic, NicConfig};
use rings::{Limits, Server};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_MSIX_IRQ_INDEX,
};
use vfio_user::Client;
use wire::ethernet::MacAddr;

use crate::Gate;

const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const QUEUES: u16 = 2;

/// A NIC with a socket for each address.
pub(super) struct Process {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    hosts: Vec<MacAddr>,
    pub(super) sockets: Vec<PathBuf>,
    gates: Vec<(Gate, Box<dyn Any>)>,
}

impl Process {
    pub(super) fn start(hosts: &[MacAddr]) -> Process {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (mut servers, mut sockets, mut gates) = (Vec::new(), Vec::new(), Vec::new());
        for mac in hosts {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("longshore-pci-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let listening = rings::Gate::listen(&path).expect("a free path");
            let (server, theirs) = server(&path, *mac);
            let listener = listening.as_fd().try_clone_to_owned();
            let gate = Gate::start(listener.expect("a socket"), theirs).expect("a thread");
            gates.push((gate, Box::new(listening) as Box<dyn Any>));
            servers.push(server);
            sockets.push(path);
        }
        let mut process = Process {
            stop: Arc::default(),
            thread: None,
            hosts: hosts.to_vec(),
            sockets,
            gates,
        };
        process.run(servers);
        process
    }

    /// The NIC dies, and another one takes its place behind the gates.
    pub(super) fn restart(&mut self) {
        self.end();
        let places = self.sockets.iter().zip(&self.hosts);
        let each = places.map(|(path, mac)| server(path, *mac));
        let (servers, channels): (Vec<_>, Vec<_>) = each.unzip();
        self.run(servers);
        for ((gate, _), channel) in self.gates.iter().zip(channels) {
            gate.connect(channel);
        }
    }

    fn run(&mut self, mut servers: Vec<Server>) {
        self.stop = Arc::default();
        let stopped = Arc::clone(&self.stop);
        self.thread = Some(std::thread::spawn(move || run(&mut servers, &stopped)));
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

/// The NIC's end of a gate, and the gate's end of their channel.
fn server(path: &Path, mac: MacAddr) -> (Server, OwnedFd) {
    let mut limits = Limits::default();
    limits.config.queues = QUEUES;
    let (theirs, ours) = rings::Gate::channel().expect("sockets");
    let server = Server::new(path, mac, limits).expect("an eventfd");
    let mut server = server.for_guests();
    server.connect(ours).expect("a thread");
    (server, theirs)
}

fn run(servers: &mut [Server], stopped: &AtomicBool) {
    let mut nic = Nic::new(NicConfig::new([1; 16]));
    let mut out = vec![0; 1 << 17];
    while !stopped.load(Ordering::Relaxed) {
        let now = Instant::now();
        servers.iter_mut().for_each(|server| server.poll(&mut nic));
        while nic.poll_transmit(now, &mut out).is_some() {}
        nic.flush(now);
        nic.take_wakeups(|function, queue| {
            servers
                .iter()
                .for_each(|server| server.ring(function, queue));
        });
        std::thread::yield_now();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Registers.
pub(super) const CONTROL: u64 = 0x008;
pub(super) const STATUS: u64 = 0x00c;
pub(super) const EVENTS: u64 = 0x01c;
pub(super) const FEATURES: u64 = 0x020;
pub(super) const QUEUES_WANTED: u64 = 0x040;
pub(super) const SEND_ENTRIES: u64 = 0x048;
pub(super) const RINGS: u64 = 0x200;
pub(super) const DOORBELL: u64 = 0x1000;
pub(super) const READY: u32 = 1;
pub(super) const LINK: u32 = 2;
pub(super) const FAILED: u32 = 4;
/// Events.
pub(super) const BOTH: u32 = 3;

/// Where the guest's memory is, how long it is, and what is in it: rings of the queues, buffers, payload.
pub(super) const RAM: u64 = 0x1_0000_0000;
pub(super) const RAM_BYTES: u64 = 4 << 20;
pub(super) const BUFFERS: u64 = RAM + (1 << 20);
const PAYLOAD: u64 = RAM + (2 << 20);
const BUFFER_BYTES: u32 = 2048;
const ENTRIES: u64 = 64;
const LARGE_ENTRIES: u64 = 8;

/// The opcode that `docs/device.md` gives `AccelRoom`.
const ACCEL_ROOM: u8 = 6;

/// Where in a queue's block each ring is.
const SEND: u64 = 0;
const COMMAND: u64 = SEND + 384 + ENTRIES * 192;
pub(super) const RECEIVE: u64 = COMMAND + 384 + ENTRIES * 192;
const SMALL: u64 = RECEIVE + 384 + ENTRIES * 64;
const LARGE: u64 = SMALL + 384 + ENTRIES * 16;
pub(super) const BLOCK: u64 = LARGE + 384 + LARGE_ENTRIES * 16;

pub(super) struct Guest {
    pub(super) client: Client,
    pub(super) memory: File,
    interrupts: Vec<OwnedFd>,
    sent: u64,
    posted: u64,
    taken: u64,
}

impl Guest {
    /// A VMM that has come, whose guest has done nothing yet.
    pub(super) fn new(process: &Process, socket: usize) -> Guest {
        let mut client = Client::new(&process.sockets[socket]).expect("it is there");
        let memory = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&memory, RAM_BYTES).expect("memory");
        let memory = File::from(memory);
        let mapped = client.dma_map(0, RAM, RAM_BYTES, memory.as_raw_fd());
        mapped.expect("an answer");
        let vector = |_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let interrupts: Vec<_> = (0..QUEUES + 1).map(vector).map(Result::unwrap).collect();
        let numbers: Vec<_> = interrupts.iter().map(|it| it.as_raw_fd()).collect();
        let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
        let count = numbers.len() as u32;
        let set = client.set_irqs(VFIO_PCI_MSIX_IRQ_INDEX, flags, 0, count, &numbers);
        set.expect("an answer");
        Guest {
            client,
            memory,
            interrupts,
            sent: 0,
            posted: 0,
            taken: 0,
        }
    }

    /// The same with a function of one queue, and buffers for it.
    pub(super) fn enabled(process: &Process, socket: usize) -> Guest {
        let mut guest = Guest::new(process, socket);
        guest.set_sizes();
        assert_eq!(guest.enable(), READY | LINK);
        guest.post(BUFFERS, 32);
        guest
    }

    /// Lets the function reach memory, or not.
    pub(super) fn set_bus_master(&mut self, is_set: bool) {
        let command = [if is_set { 6 } else { 2 }, 0];
        self.client.region_write(7, 4, &command).expect("answer");
    }

    pub(super) fn set_sizes(&mut self) {
        self.set_bus_master(true);
        let config = FunctionConfig::new(MacAddr::ZERO);
        let sizes = [
            1,
            ENTRIES,
            ENTRIES,
            ENTRIES,
            ENTRIES,
            LARGE_ENTRIES,
            config.small_bytes.into(),
        ];
        for (at, size) in (0..).zip(sizes) {
            self.write64(QUEUES_WANTED + 8 * at, size);
        }
        self.write64(RINGS, RAM);
        self.write64(RINGS + 8, RAM + BLOCK);
    }

    /// Gives the status afterwards.
    pub(super) fn enable(&mut self) -> u32 {
        (self.sent, self.posted, self.taken) = (0, 0, 0);
        self.write32(CONTROL, 1);
        self.read32(STATUS)
    }

    pub(super) fn read32(&mut self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.client.region_read(0, at, &mut bytes).expect("answer");
        u32::from_le_bytes(bytes)
    }

    pub(super) fn read64(&mut self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.client.region_read(0, at, &mut bytes).expect("answer");
        u64::from_le_bytes(bytes)
    }

    pub(super) fn write32(&mut self, at: u64, value: u32) {
        let bytes = value.to_le_bytes();
        self.client.region_write(0, at, &bytes).expect("answer");
    }

    pub(super) fn write64(&mut self, at: u64, value: u64) {
        let bytes = value.to_le_bytes();
        self.client.region_write(0, at, &bytes).expect("answer");
    }

    pub(super) fn config(&mut self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.client.region_read(7, at, &mut bytes).expect("answer");
        u32::from_le_bytes(bytes)
    }

    pub(super) fn poke(&self, address: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, address - RAM).expect("RAM");
    }

    pub(super) fn peek<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory
            .read_exact_at(&mut bytes, address - RAM)
            .expect("RAM");
        bytes
    }

    fn peek64(&self, address: u64) -> u64 {
        u64::from_ne_bytes(self.peek(address))
    }

    pub(super) fn poke64(&self, address: u64, value: u64) {
        self.poke(address, &value.to_ne_bytes());
    }

    /// Posts empty small buffers behind each other.
    pub(super) fn post(&mut self, address: u64, count: u64) {
        for n in 0..count {
            let slot = RAM + SMALL + 384 + (self.posted % ENTRIES) * 16;
            self.poke(slot, &slice(address + n * 2048, BUFFER_BYTES));
            self.posted += 1;
        }
        self.poke64(RAM + SMALL, self.posted);
    }

    /// The same, the first ones of another queue than the first.
    pub(super) fn post_first(&mut self, queue: u64, address: u64, count: u64) {
        let ring = RAM + queue * BLOCK + SMALL;
        for n in 0..count {
            let slot = ring + 384 + n * 16;
            self.poke(slot, &slice(address + n * 2048, BUFFER_BYTES));
        }
        self.poke64(ring, count);
    }

    /// Posts a frame whose payload is in the guest's memory, and rings.
    pub(super) fn send(&mut self, from: MacAddr, to: MacAddr, payload: &[u8]) {
        self.poke(PAYLOAD, payload);
        self.send_from(from, to, PAYLOAD, payload.len() as u32);
    }

    pub(super) fn send_from(&mut self, from: MacAddr, to: MacAddr, address: u64, len: u32) {
        self.send_typed(from, to, [0x88, 0xb5], address, len);
    }

    /// The same of a type of Ethernet.
    pub(super) fn send_typed(
        &mut self,
        from: MacAddr,
        to: MacAddr,
        ether_type: [u8; 2],
        address: u64,
        len: u32,
    ) {
        let mut slot = [0; 192];
        // A send with 14 bytes of header and one slice, without a context.
        slot[..4].copy_from_slice(&[1, 0, 14, 1]);
        slot[8..12].fill(0xff);
        slot[12..16].copy_from_slice(&len.to_ne_bytes());
        slot[16..32].copy_from_slice(&slice(address, len));
        slot[64..70].copy_from_slice(&to.0);
        slot[70..76].copy_from_slice(&from.0);
        slot[76..78].copy_from_slice(&ether_type);
        self.post_slot(&slot);
    }

    /// Posts a descriptor that names memory by its one slice, and nothing else.
    pub(super) fn command(&mut self, opcode: u8, address: u64, len: u32) {
        let mut slot = [0; 192];
        (slot[0], slot[3]) = (opcode, 1);
        slot[16..32].copy_from_slice(&slice(address, len));
        self.post_slot(&slot);
    }

    fn post_slot(&mut self, slot: &[u8; 192]) {
        let at = RAM + SEND + 384 + (self.sent % ENTRIES) * 192;
        self.poke(at, slot);
        self.sent += 1;
        self.poke64(RAM + SEND, self.sent);
        self.write32(DOORBELL, 1);
    }

    /// Has the NIC raise an interrupt when it has something for queue 0.
    pub(super) fn sleep(&self) {
        self.poke64(RAM + RECEIVE + 256, 1);
    }

    /// Descriptors of queue 0's receive ring that have come, without waiting; what tells of the NIC's room for connections is skipped.
    pub(super) fn take(&mut self) -> Vec<[u8; 64]> {
        let mut came = Vec::new();
        while self.taken < self.peek64(RAM + RECEIVE) {
            let descriptor: [u8; 64] = self.peek(RAM + RECEIVE + 384 + (self.taken % ENTRIES) * 64);
            self.taken += 1;
            if descriptor[0] != ACCEL_ROOM {
                came.push(descriptor);
            }
        }
        self.poke64(RAM + RECEIVE + 128, self.taken);
        came
    }

    /// Waits until so many descriptors have come to a queue's receive ring, none of which was taken, and gives the last.
    pub(super) fn nth(&self, queue: u64, count: u64) -> [u8; 64] {
        let ring = RAM + queue * BLOCK + RECEIVE;
        until(|| (self.peek64(ring) >= count).then_some(()));
        self.peek(ring + 384 + (count - 1) * 64)
    }

    /// Waits for a descriptor.
    pub(super) fn receive(&mut self) -> [u8; 64] {
        until(|| {
            let mut came = self.take();
            assert!(came.len() < 2, "one is expected");
            came.pop()
        })
    }

    /// Waits until what was sent is done.
    pub(super) fn wait_until_sent(&self) {
        until(|| (self.peek64(RAM + SEND + 128) == self.sent).then_some(()));
    }

    /// Waits for an interrupt.
    pub(super) fn interrupted(&self, vector: u16) {
        let file = &self.interrupts[usize::from(vector)];
        let mut fds = [PollFd::new(file, PollFlags::IN)];
        let patience = Timespec {
            tv_sec: PATIENCE.as_secs() as i64,
            tv_nsec: 0,
        };
        assert_eq!(
            poll(&mut fds, Some(&patience)),
            Ok(1),
            "vector {vector} is raised"
        );
        let read = rustix::io::read(file, &mut [0; 8]);
        assert_eq!(read, Ok(8));
    }
}

fn slice(address: u64, len: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_ne_bytes());
    bytes[8..12].copy_from_slice(&len.to_ne_bytes());
    bytes
}

/// Waits until something is so.
pub(super) fn until<T>(mut come: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = come() {
            return value;
        }
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::sleep(Duration::from_micros(100));
    }
}
