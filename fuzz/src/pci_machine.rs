//! A virtual machine with a PCI function, for the target of its guest: a VMM that speaks vfio-user to a gate, the NIC behind that, and a neighbour on the
//! same NIC. All but the gate's threads runs on this one, and the NIC in virtual time.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nic::ring::{FunctionConfig, SendDescriptor, SendFlags};
use nic::{Features, FrameMeta, Nic, NicConfig};
use rings::{Limits, Server};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags as Flags, sendmsg};
use testkit::bare::{BareHost, Delivered, Memory};
use testkit::fixtures::{GUARD, HOST, PEER};
use wire::ethernet::MacAddr;

use super::pci_layout::*;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of the neighbour's memory that no descriptor names.
const SECRET: usize = 4096;
/// Frames that may leave before one of the neighbour's has its turn.
const TURN: usize = 1 << 16;
/// What may be the NIC's to write to: where it is for the guest, where in the file, and how long.
type Writable = (u64, u64, u64);

pub struct Machine {
    pub nic: Nic,
    pub now: Instant,
    server: Server,
    _gate: pci::Gate,
    vmm: UnixStream,
    messages: u16,
    /// The guest's memory, and what is in it unless the NIC has written to it.
    pub memory: File,
    shadow: Vec<u8>,
    now_there: Vec<u8>,
    writable: Vec<Writable>,
    /// There was a function at the last check, or later.
    was_ready: bool,
    /// Something has been asked of the function since.
    has_asked: bool,
    /// What has been published on each ring.
    pub tails: [[u64; 5]; QUEUES as usize],
    /// How often the function may still be enabled without a pause.
    pub enables: u32,
    neighbour: BareHost,
    secret: Memory,
    out: Vec<u8>,
}

impl Machine {
    /// A VMM that has come, whose guest has set up its rings and posted buffers.
    pub fn new() -> Machine {
        let listener = listener();
        let (channel, ours) = rings::Gate::channel().expect("sockets");
        let config = FunctionConfig {
            queues: QUEUES as u16,
            ..config()
        };
        let limits = Limits {
            config,
            ..Limits::default()
        };
        let server = Server::new(Path::new("a guest"), HOST, limits).expect("an eventfd");
        let mut server = server.for_guests();
        server.connect(ours).expect("a thread");
        let vmm = listener
            .local_addr()
            .and_then(|it| UnixStream::connect_addr(&it));
        let gate = pci::Gate::start(OwnedFd::from(listener), channel).expect("threads");
        let memory = memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&memory, RAM_BYTES).expect("memory");
        let mut nic = Nic::new(NicConfig::new([7; 16]));
        let mut neighbour = BareHost::attach(
            &mut nic,
            FunctionConfig {
                mac: NEIGHBOUR,
                queues: 1,
                receive_entries: 256,
                ..config
            },
        );
        neighbour.refill();
        let mut machine = Machine {
            nic,
            now: Instant::now(),
            server,
            _gate: gate,
            vmm: vmm.expect("it listens"),
            messages: 0,
            memory: File::from(memory),
            shadow: vec![0; RAM_BYTES as usize],
            now_there: vec![0; RAM_BYTES as usize],
            writable: Vec::new(),
            was_ready: true,
            has_asked: true,
            tails: [[0; 5]; QUEUES as usize],
            enables: 3,
            secret: Memory::guarded(&neighbour, SECRET),
            neighbour,
            out: vec![0; 70_000],
        };
        machine.map_all();
        machine.set_up(Features::ALL);
        machine
    }

    /// Rings, buffers and payload, one after the other: the last for reading only.
    fn map_all(&mut self) {
        for (from, to, flags) in [
            (0, BUFFERS, 3),
            (BUFFERS, PAYLOAD, 3),
            (PAYLOAD, UNMAPPED, 1),
        ] {
            self.map(flags, from, RAM + from, to - from);
        }
    }

    /// Has part of the guest's file mapped.
    pub fn map(&mut self, flags: u32, offset: u64, address: u64, len: u64) {
        let body = [words(&[32, flags]), longs(&[offset, address, len])].concat();
        let memory = self.memory.try_clone().expect("a descriptor");
        if flags & 2 != 0 {
            self.writable.push((address, offset, len));
        }
        self.ask(DMA_MAP, &body, &[memory.as_fd()]);
    }

    pub fn unmap(&mut self, flags: u32, address: u64, len: u64) {
        let body = [words(&[24, flags]), longs(&[address, len])].concat();
        self.ask(DMA_UNMAP, &body, &[]);
        // Until the answer it may have been written to.
        self.check();
        let (from, end) = match flags & 4 {
            0 => (address, address.saturating_add(len)),
            _ => (0, u64::MAX),
        };
        self.writable
            .retain(|(start, _, len)| *start >= end || start.saturating_add(*len) <= from);
    }

    /// What a driver does: the status afterwards.
    pub fn set_up(&mut self, features: Features) -> u32 {
        if self.enables == 0 {
            return 0;
        }
        self.write(0, CONTROL, &2u32.to_le_bytes());
        for queue in 0..QUEUES {
            self.poke(queue * BLOCK, &[0; BLOCK as usize]);
        }
        self.tails = Default::default();
        self.write(7, 4, &[6, 0]);
        let config = config();
        let sizes = [
            QUEUES,
            ENTRIES,
            ENTRIES,
            RECEIVE_ENTRIES,
            ENTRIES,
            LARGE_ENTRIES,
            SMALL_BYTES.into(),
            LARGE_BYTES.into(),
            config.contexts.into(),
            config.tags.into(),
            config.closing.into(),
            config.packet_memory,
            config.splices.into(),
            config.toe_connections.into(),
        ];
        for (at, size) in (SIZES..).step_by(8).zip(sizes) {
            self.set(at, size);
        }
        self.set(FEATURES, features.bits());
        for queue in 0..QUEUES {
            self.set(ADDRESSES + 8 * queue, RAM + queue * BLOCK);
        }
        self.write(0, CONTROL, &1u32.to_le_bytes());
        self.status()
    }

    pub fn status(&mut self) -> u32 {
        let answer = self.read(0, STATUS, 4).expect("a register");
        u32::from_le_bytes(answer[..4].try_into().expect("4 bytes"))
    }

    pub fn read(&mut self, region: u32, offset: u64, len: u32) -> Option<Vec<u8>> {
        let body = [longs(&[offset]), words(&[region, len])].concat();
        let answer = self.ask(REGION_READ, &body, &[])?;
        assert_eq!(answer.len(), 16 + len as usize);
        Some(answer[16..].to_vec())
    }

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        let low = CONTROL
            .checked_sub(offset)
            .and_then(|at| data.get(at as usize));
        if region == 0 && low.is_some_and(|low| low & 1 != 0) {
            // More of them wait.
            let Some(left) = self.enables.checked_sub(1) else {
                return;
            };
            self.enables = left;
            self.was_ready = true;
        }
        let head = [longs(&[offset]), words(&[region, data.len() as u32])].concat();
        self.ask(REGION_WRITE, &[&head[..], data].concat(), &[]);
    }

    /// Writes to a register without a wait for the answer.
    fn set(&mut self, register: u64, value: u64) {
        let body = [longs(&[register]), words(&[0, 8]), longs(&[value])].concat();
        self.send(REGION_WRITE, NO_REPLY, &body, &[]);
    }

    /// Makes a request and lets the NIC work until it is answered. `None` when it is refused.
    pub fn ask(&mut self, command: u16, body: &[u8], files: &[BorrowedFd<'_>]) -> Option<Vec<u8>> {
        self.has_asked = true;
        self.send(command, 0, body, files);
        self.serve_until_answered();
        let mut head = [0; 16];
        self.vmm.read_exact(&mut head).expect("an answer");
        assert_eq!(head[..2], self.messages.to_le_bytes());
        let len = u32::from_le_bytes(head[4..8].try_into().expect("4 bytes"));
        let mut rest = vec![0; len as usize - head.len()];
        self.vmm.read_exact(&mut rest).expect("an answer");
        (head[8] & 0x20 == 0).then_some(rest)
    }

    fn send(&mut self, command: u16, flags: u32, body: &[u8], files: &[BorrowedFd<'_>]) {
        self.messages = self.messages.wrapping_add(1);
        let mut message = [self.messages.to_le_bytes(), command.to_le_bytes()].concat();
        message.extend(words(&[16 + body.len() as u32, flags, 0]));
        message.extend(body);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(files.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(files)));
        let parts = [IoSlice::new(&message)];
        let sent = sendmsg(&self.vmm, &parts, &mut ancillary, Flags::NOSIGNAL).expect("a gate");
        self.vmm.write_all(&message[sent..]).expect("a gate");
    }

    fn serve_until_answered(&mut self) {
        loop {
            let [is_answered, is_asked] = wait([&self.vmm.as_fd(), &self.server.fd()]);
            assert!(is_answered || is_asked, "a request is answered");
            if is_asked {
                self.server.poll(&mut self.nic);
                self.nic.flush(self.now);
            }
            if is_answered {
                return;
            }
        }
    }

    /// What the guest writes to its memory.
    pub fn poke(&mut self, at: u64, bytes: &[u8]) {
        let at = at % RAM_BYTES;
        let len = bytes.len().min((RAM_BYTES - at) as usize);
        self.memory.write_all_at(&bytes[..len], at).expect("RAM");
        self.shadow[at as usize..][..len].copy_from_slice(&bytes[..len]);
    }

    pub fn peek<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, at).expect("RAM");
        bytes
    }

    fn peek64(&self, at: u64) -> u64 {
        u64::from_ne_bytes(self.peek(at))
    }

    /// Puts a slot on a ring of a queue, and publishes it.
    pub fn post(&mut self, queue: u64, ring: usize, slot: &[u8]) {
        let (start, entries, bytes) = RINGS[ring];
        let tail = &mut self.tails[queue as usize][ring];
        let index = *tail;
        *tail += 1;
        let at = queue * BLOCK + start;
        self.poke(at + 384 + index % entries * bytes, slot);
        self.poke(at, &(index + 1).to_ne_bytes());
    }

    /// The VMM cuts the guest's file off, and the NIC goes on; then the file is as long again, with zeros.
    pub fn cut(&mut self, from: u64) {
        ftruncate(&self.memory, from).expect("a shorter file");
        self.shadow[from as usize..].fill(0);
        self.transmit(16, |_| false);
        ftruncate(&self.memory, RAM_BYTES).expect("memory");
    }

    /// The NIC works, and at most so many frames leave. The guest takes what has come.
    pub fn work(&mut self, most: usize) {
        self.transmit(most, |_| false);
        self.neighbour.take();
        self.neighbour.refill();
        for queue in 0..QUEUES {
            let ring = queue * BLOCK + RINGS[RECEIVE].0;
            let tail: [u8; 8] = self.peek(ring);
            self.poke(ring + 128, &tail);
        }
    }

    /// Lets frames leave until this is the one, or there were so many. True if it was.
    fn transmit(&mut self, most: usize, is_it: impl Fn(&[u8]) -> bool) -> bool {
        self.neighbour.publish();
        let mut found = false;
        for _ in 0..most {
            let Some((len, _)) = self.nic.poll_transmit(self.now, &mut self.out) else {
                break;
            };
            let frame = &self.out[..len];
            let from = &frame[6..12];
            assert!(from == HOST.0 || from == NEIGHBOUR.0, "the sender is known");
            if is_it(frame) {
                found = true;
                break;
            }
        }
        self.nic.flush(self.now);
        let server = &self.server;
        self.nic
            .take_wakeups(|function, queue| server.ring(function, queue));
        found
    }

    /// A frame from the wire.
    pub fn arrive(&mut self, frame: &[u8], meta: FrameMeta) {
        self.nic.handle_frame(self.now, frame, meta);
    }

    /// A frame of the neighbour's.
    pub fn neighbour_sends(&mut self, to: MacAddr, payload: &[u8]) {
        self.neighbour.memory.write(0, payload);
        let payload = [self.neighbour.memory.slice(0, payload.len() as u32)];
        let header = [&to.0[..], &NEIGHBOUR.0, &ETHER_TYPE].concat();
        self.neighbour.post(&SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload: &payload,
        });
    }

    /// Since the last time, the NIC has written to no memory of the guest's but what is mapped for writing, and if there was a function.
    pub fn check(&mut self) {
        let is_ready = match std::mem::take(&mut self.has_asked) {
            true => self.status() & READY != 0,
            // Nothing has changed that.
            false => self.was_ready,
        };
        // For the status, just now.
        self.has_asked = false;
        let was_ready = std::mem::replace(&mut self.was_ready, is_ready);
        self.check_memory(was_ready || is_ready);
    }

    fn check_memory(&mut self, may_write: bool) {
        let now = &mut self.now_there;
        self.memory.read_exact_at(now, 0).expect("RAM");
        if may_write {
            for (_, offset, len) in &self.writable {
                let from = (*offset).min(RAM_BYTES) as usize;
                let to = offset.saturating_add(*len).min(RAM_BYTES) as usize;
                self.shadow[from..to].copy_from_slice(&now[from..to]);
            }
        }
        assert!(*now == self.shadow, "the NIC has written where it may not");
    }

    /// What the neighbour has is as it was, and its frames come and go.
    pub fn check_neighbour(&mut self) {
        assert!(self.secret.read(0, SECRET) == [GUARD; SECRET]);
        let header = [&NEIGHBOUR.0[..], &PEER.0, &ETHER_TYPE].concat();
        self.arrive(&[&header, &b"question"[..]].concat(), FrameMeta::default());
        self.nic.flush(self.now);
        assert!(self.neighbour_got(b"question"));
        self.neighbour_sends(PEER, b"answer");
        let is_it = |frame: &[u8]| frame[6..12] == NEIGHBOUR.0 && frame[14..] == *b"answer";
        assert!(self.transmit(TURN, is_it), "its turn comes");
        let taken = self.neighbour.take();
        assert!(self.neighbour.sort(taken).1.is_empty());
        self.neighbour.refill();
    }

    fn neighbour_got(&mut self, payload: &[u8]) -> bool {
        let taken = self.neighbour.take();
        let (packets, _) = self.neighbour.sort(taken);
        self.neighbour.refill();
        let is_it = |packet: &Delivered| packet.bytes.get(14..) == Some(payload);
        packets.iter().any(is_it)
    }

    /// After a reset the function works as if nothing had been: frames go both ways, and interrupts come.
    pub fn check_function(&mut self) {
        self.check();
        self.unmap(4, 0, 0);
        self.check();
        self.map_all();
        self.enables = 1;
        assert_eq!(self.set_up(Features::NONE), READY | LINK);
        let vector = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        let vector = vector.expect("an eventfd");
        let set = words(&[20, 0x24, 2, 0, 1]);
        assert!(self.ask(SET_IRQS, &set, &[vector.as_fd()]).is_some());
        self.neighbour.take();
        self.neighbour.refill();

        self.poke(PAYLOAD, b"from the guest");
        let header = [&NEIGHBOUR.0[..], &HOST.0, &ETHER_TYPE].concat();
        let slot = send_slot(&header, &[(RAM + PAYLOAD, 14)]);
        self.post(0, SEND, &slot);
        self.transmit(TURN, |_| false);
        assert!(self.neighbour_got(b"from the guest"));

        let ring = RINGS[RECEIVE].0;
        self.post(0, SMALL, &slice(RAM + BUFFERS, SMALL_BYTES));
        self.poke(ring + 256, &1u64.to_ne_bytes());
        self.neighbour_sends(HOST, b"to the guest");
        self.transmit(TURN, |_| false);
        assert!(self.peek64(ring) > 0, "it has come");
        assert_eq!(&self.peek::<12>(BUFFERS + 14), b"to the guest");
        assert_eq!(wait([&vector]), [true], "an interrupt");
    }

    /// The VMM goes, and with it the function.
    pub fn end(mut self) {
        self.check();
        let _ = self.vmm.shutdown(std::net::Shutdown::Both);
        while self.server.function().is_some() {
            assert_eq!(wait([&self.server.fd()]), [true], "the function goes");
            self.server.poll(&mut self.nic);
        }
        self.check_memory(false);
        self.check_neighbour();
    }
}

fn listener() -> UnixListener {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("longshore-pci-guest-{}-{number}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("a free name");
    listener.set_nonblocking(true).expect("a socket");
    listener
}

/// Which of these files can be read, when any can; none if that takes too long.
fn wait<const N: usize>(files: [&dyn AsFd; N]) -> [bool; N] {
    let since = Instant::now();
    loop {
        let mut fds = files.map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN));
        let left = PATIENCE.saturating_sub(since.elapsed());
        let left = Timespec::try_from(left).expect("some seconds");
        // A signal, as of the fuzzer's alarm, ends it early.
        if poll(&mut fds, Some(&left)) != Err(Errno::INTR) {
            return fds.map(|it| !it.revents().is_empty());
        }
    }
}
