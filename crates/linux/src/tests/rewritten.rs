//! Sockets whose packets bear other addresses at the interface, SYNs and segments that another sends in their names, and sockets that take the place
//! of others: whatever happens, no framed content is on the wire.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use attachment::{Direction, Errno, OffloadState, Slab, SlotRef, SlotRequest};
use l5p::tls::{ContentType, Writer};
use nic::Nic;
use proptest::prelude::*;
use rustix::fs::MemfdFlags;
use testkit::tap;
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum, packet};

use super::program::{CIPHERS, keys};
use super::rig::{OURS, PEER, SMALL, SUPER, Socket, cases, device, finished, header, segment_with};
use crate::{LinuxFunction, SocketAt, SocketPhase, Sockets};

/// What must never be on the wire.
const SECRET_CONTENT: &[u8] = b"content in clear";
/// Where the timestamps begin that are forged.
const FORGED: u32 = 0x3333_3333;
/// Connections' addresses, few of them, so that they meet.
const ADDRESSES: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    /// A socket connects between these addresses; its packets bear those.
    Connect {
        own: u8,
        on_tap: u8,
    },
    /// The library of the socket at these addresses asks for records, or gives them back.
    SetKeys(u8),
    Stop(u8),
    /// So many records are written, and sent; or sent again from the oldest unacknowledged byte.
    Send(u8, u8),
    Again(u8),
    /// The peer acknowledges all that has come.
    Acknowledge(u8),
    /// The socket is closed, and gone.
    Close(u8),
    /// A stranger whose packets Linux forwards sends a segment: with or without a payload, at the connection's next number or at another.
    Forge {
        on_tap: u8,
        flags: u8,
        seq: Option<u32>,
        payload: bool,
    },
    /// The driver takes so many frames off the interface's queue.
    Take(u8),
    /// Linux does not tell of its sockets, or does again.
    Silence(bool),
    /// The NIC's process dies. What is queued goes with it.
    Restart,
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let address = || 0..ADDRESSES;
    prop_oneof![
        4 => (address(), address()).prop_map(|(own, on_tap)| Step::Connect { own, on_tap }),
        4 => address().prop_map(|own| Step::Connect { own, on_tap: own }),
        5 => address().prop_map(Step::SetKeys),
        1 => address().prop_map(Step::Stop),
        8 => (address(), 1u8..4).prop_map(|(own, records)| Step::Send(own, records)),
        2 => address().prop_map(Step::Again),
        4 => address().prop_map(Step::Acknowledge),
        2 => address().prop_map(Step::Close),
        4 => (address(), 0u8..4, any::<Option<u32>>(), any::<bool>())
            .prop_map(|(on_tap, flags, seq, payload)| Step::Forge { on_tap, flags, seq, payload }),
        8 => (1u8..6).prop_map(Step::Take),
        1 => any::<bool>().prop_map(Step::Silence),
        1 => Just(Step::Restart),
        2 => (1u16..500).prop_map(Step::Wait),
    ]
}

fn flow(address: u8) -> FlowKey {
    FlowKey {
        src: (Ipv4Addr::new(10, 0, 0, 1).into(), 1000 + u16::from(address)),
        dst: (Ipv4Addr::new(10, 0, 0, 2).into(), 443),
    }
}

/// Linux's sockets, by their own addresses, and whether it tells nothing of them.
#[derive(Clone, Debug, Default)]
struct All(Arc<Mutex<HashMap<FlowKey, SocketAt>>>, Arc<AtomicBool>);

impl Sockets for All {
    fn look_up(&mut self, flow: &FlowKey) -> Result<Option<SocketAt>, Errno> {
        if self.1.load(Ordering::Relaxed) {
            return Err(Errno::AGAIN);
        }
        Ok(self.0.lock().unwrap().get(flow).copied())
    }

    fn bound(&mut self) -> Result<Vec<(FlowKey, u64)>, Errno> {
        Ok(Vec::new())
    }
}

/// A connection with its library.
struct Connection {
    socket: Socket,
    /// As its packets have it.
    on_tap: FlowKey,
    /// What the program has written, and how much of that is sent.
    stream: Vec<u8>,
    sent: usize,
    slot: SlotRef,
    /// The NIC makes its records.
    is_offloaded: bool,
    is_open: bool,
    /// Where its timestamps begin.
    clock: u32,
}

struct World {
    nic: Nic,
    function: LinuxFunction,
    began: Instant,
    now: Instant,
    file: OwnedFd,
    all: All,
    slab: Arc<Slab>,
    connections: HashMap<u8, Connection>,
    /// Frames of Linux's that the driver has not taken.
    queue: VecDeque<(Vec<u8>, nic::FrameMeta)>,
    cookie: u64,
    /// What has left, with its payload.
    seen: u64,
    accepted: u64,
}

impl World {
    fn new() -> World {
        let now = Instant::now();
        let file = rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC).unwrap();
        let all = All::default();
        let (nic, function) = device(now, SUPER, (&file, SMALL), all.clone());
        World {
            nic,
            function,
            began: now,
            now,
            file,
            all,
            slab: Arc::new(Slab::create(4096).unwrap()),
            connections: HashMap::new(),
            queue: VecDeque::new(),
            cookie: 0,
            seen: 0,
            accepted: 0,
        }
    }

    /// A frame of Linux's, from a stack whose timestamps begin at `clock`.
    fn queue(
        &mut self,
        flow: &FlowKey,
        (seq, ack, flags): (SeqNum, SeqNum, Flags),
        clock: u32,
        payload: &[u8],
    ) {
        let val = clock.wrapping_add(self.milliseconds());
        let options = Options {
            timestamps: Some(Timestamps { val, echo: 0 }),
            ..Options::default()
        };
        let header = Header {
            options,
            ..header(flow, seq, ack, flags)
        };
        let frame = tap::segment([OURS, PEER], flow, &header, payload, 1400);
        self.queue.push_back(frame);
    }

    fn milliseconds(&self) -> u32 {
        self.now.duration_since(self.began).as_millis() as u32
    }

    fn take(&mut self, count: usize) {
        for _ in 0..count {
            let Some((frame, meta)) = self.queue.pop_front() else {
                break;
            };
            self.function.handle_frame(self.now, &frame, meta);
            self.run();
        }
    }

    /// Has the NIC work. Nothing in clear leaves; what comes up is Linux's.
    fn run(&mut self) {
        let mut out = vec![0; 70_000];
        self.function.publish();
        while let Some((len, _)) = self.nic.poll_transmit(self.now, &mut out) {
            let frame = &out[..len];
            self.seen += 1;
            let leaks = frame
                .windows(SECRET_CONTENT.len())
                .any(|bytes| bytes == SECRET_CONTENT);
            assert!(!leaks, "content in clear is on the wire");
            let parsed = packet::parse(frame).unwrap();
            let flags = parsed.tcp.flags;
            if flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) {
                self.answer_syn(parsed.flow, parsed.tcp.seq);
            }
        }
        self.nic.flush(self.now);
        while self.function.poll_frame(self.now).is_some() {}
        self.function.publish();
    }

    fn receive(&mut self, flow: &FlowKey, (seq, ack, flags): (SeqNum, SeqNum, Flags)) {
        let header = (seq.0, ack.0, flags);
        let answer = segment_with((PEER, OURS), &flow.reversed(), header, &[], 1400);
        let (frame, meta) = finished(&answer);
        self.nic.handle_frame(self.now, &frame, meta);
    }

    /// The peer answers; the socket whose packets bear these addresses is connected, if the numbers are its own.
    fn answer_syn(&mut self, on_tap: FlowKey, seq: SeqNum) {
        self.receive(&on_tap, (SeqNum(0), seq + 1, Flags::SYN.union(Flags::ACK)));
        let mut connections = self.connections.values_mut();
        let its = connections
            .find(|connection| connection.on_tap == on_tap && connection.socket.first.0 == seq + 1);
        let Some(connection) = its.filter(|connection| !connection.is_open) else {
            return;
        };
        connection.is_open = true;
        let (own, clock) = (connection.socket.flow, connection.clock);
        let mut all = self.all.0.lock().unwrap();
        if let Some(socket) = all.get_mut(&own) {
            socket.phase = SocketPhase::Synchronized;
        }
        drop(all);
        self.queue(&on_tap, (seq + 1, SeqNum(1), Flags::ACK), clock, &[]);
    }

    fn connect(&mut self, own: u8, on_tap: u8) {
        if self.connections.contains_key(&own) {
            return;
        }
        self.cookie += 1;
        let first = SeqNum((self.cookie as u32).wrapping_mul(0x1357_9bdf));
        let clock = (self.cookie as u32).wrapping_mul(0x2468_ace1);
        let socket = Socket::new(flow(own), self.cookie, (first, SeqNum(1)));
        let found = SocketAt {
            cookie: self.cookie,
            phase: SocketPhase::Opening,
        };
        self.all.0.lock().unwrap().insert(flow(own), found);
        let Some((index, generation)) = self.slab.claim() else {
            return;
        };
        let connection = Connection {
            socket,
            on_tap: flow(on_tap),
            stream: Vec::new(),
            sent: 0,
            slot: SlotRef::new(&self.slab, index, generation).unwrap(),
            is_offloaded: false,
            is_open: false,
            clock,
        };
        self.connections.insert(own, connection);
        let syn = (first - 1, SeqNum(0), Flags::SYN);
        self.queue(&flow(on_tap), syn, clock, &[]);
    }

    fn order(&mut self, own: u8, stop: bool) {
        let milliseconds = self.milliseconds();
        let Some(connection) = self.connections.get_mut(&own).filter(|found| found.is_open) else {
            return;
        };
        if stop != connection.is_offloaded {
            return;
        }
        let timestamp = connection.clock.wrapping_add(milliseconds);
        connection.socket.timestamp = Some(timestamp);
        let (slot, socket) = (connection.slot.clone(), connection.socket.facts());
        let direction = Direction::Transmit;
        let order = match stop {
            true => SlotRequest::Stop {
                slot,
                direction,
                socket,
            },
            false => SlotRequest::SetKeys {
                slot,
                direction,
                info: keys(CIPHERS[3], 1),
                resume: None,
                socket,
            },
        };
        let answer = self.function.handle_slot_request(self.now, &order);
        if answer.result.is_ok() {
            connection.is_offloaded = !stop;
            assert_eq!(answer.tcpsn, connection.socket.write);
            self.accepted += 1;
        }
    }

    /// The program writes: framed content while the NIC makes the records, and otherwise what is no secret.
    fn send(&mut self, own: u8, records: u8) {
        let Some(connection) = self.connections.get_mut(&own).filter(|found| found.is_open) else {
            return;
        };
        let slot = connection.slot.slot();
        let state = slot.status(Direction::Transmit, connection.slot.generation());
        if connection.is_offloaded && state == OffloadState::Reset {
            return;
        }
        let from = connection.stream.len();
        for _ in 0..records {
            let content = SECRET_CONTENT.repeat(20);
            match connection.is_offloaded {
                true => {
                    let writer = Writer::new(keys(CIPHERS[3], 1));
                    let layout = writer.record_layout(ContentType::APPLICATION_DATA, content.len());
                    let parts = [layout.header(), &content, layout.trailer()];
                    connection.stream.extend(parts.concat());
                }
                false => connection.stream.extend([0x5a; 300]),
            }
        }
        connection.socket.write = connection.socket.first.0 + connection.stream.len() as u32;
        self.transmit(own, from);
    }

    fn transmit(&mut self, own: u8, from: usize) {
        let Some(connection) = self.connections.get_mut(&own) else {
            return;
        };
        let (first, on_tap) = (connection.socket.first.0, connection.on_tap);
        let clock = connection.clock;
        let payload = connection.stream[from..].to_vec();
        connection.sent = connection.stream.len();
        if !payload.is_empty() {
            let header = (first + from as u32, SeqNum(1), Flags::ACK);
            self.queue(&on_tap, header, clock, &payload);
        }
    }

    fn again(&mut self, own: u8) {
        if let Some(connection) = self.connections.get(&own).filter(|found| found.is_open) {
            let first = connection.socket.first.0;
            let from = first.distance_to(connection.socket.unacknowledged);
            self.transmit(own, from as usize);
        }
    }

    fn acknowledge(&mut self, own: u8) {
        self.take(usize::MAX);
        let Some(connection) = self.connections.get_mut(&own).filter(|found| found.is_open) else {
            return;
        };
        let upto = connection.socket.first.0 + connection.sent as u32;
        connection.socket.unacknowledged = upto;
        let on_tap = connection.on_tap;
        self.receive(&on_tap, (SeqNum(1), upto, Flags::ACK));
        self.run();
    }

    fn forge(&mut self, on_tap: u8, flags: u8, seq: Option<u32>, payload: bool) {
        let flags = match flags {
            0 => Flags::SYN,
            1 => Flags::SYN.union(Flags::ACK),
            2 => Flags::ACK,
            _ => Flags::RST,
        };
        let mut connections = self.connections.values();
        let its = connections.find(|connection| connection.on_tap == flow(on_tap));
        let next = its.map_or(SeqNum(0), |connection| connection.socket.write);
        let seq = seq.map_or(next, SeqNum);
        let payload: &[u8] = if payload { b"forged" } else { &[] };
        self.queue(&flow(on_tap), (seq, SeqNum(7), flags), FORGED, payload);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Connect { own, on_tap } => {
                self.connect(own, on_tap);
                if own == on_tap {
                    self.take(usize::MAX);
                }
            }
            Step::Silence(is_silent) => self.all.1.store(is_silent, Ordering::Relaxed),
            Step::SetKeys(own) => self.order(own, false),
            Step::Stop(own) => self.order(own, true),
            Step::Send(own, records) => self.send(own, records),
            Step::Again(own) => self.again(own),
            Step::Acknowledge(own) => self.acknowledge(own),
            Step::Close(own) => {
                self.connections.remove(&own);
                self.all.0.lock().unwrap().remove(&flow(own));
            }
            Step::Forge {
                on_tap,
                flags,
                seq,
                payload,
            } => self.forge(on_tap, flags, seq, payload),
            Step::Take(count) => self.take(count.into()),
            Step::Restart => {
                self.queue.clear();
                (self.nic, self.function) =
                    device(self.now, SUPER, (&self.file, SMALL), self.all.clone());
            }
            Step::Wait(milliseconds) => {
                self.now += Duration::from_millis(milliseconds.into());
                self.function.handle_timeout(self.now);
                self.run();
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn no_framed_content_leaves_in_clear(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.take(usize::MAX);
    }
}

/// The property says something only if keys are taken.
#[test]
fn keys_are_taken_for_a_socket_whose_packets_bear_its_own_addresses() {
    for (on_tap, taken) in [(0, 1), (1, 0)] {
        let mut world = World::new();
        world.step(&Step::Connect { own: 0, on_tap });
        world.take(usize::MAX);
        world.step(&Step::SetKeys(0));
        world.step(&Step::Send(0, 2));
        world.take(usize::MAX);
        assert_eq!(world.accepted, taken);
        assert!(world.seen > 2);
    }
}
