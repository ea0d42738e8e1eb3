//! A peer, a lossy path, the NIC, a model of Linux's receive queue, and a socket whose session reads what the model gives it.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use attachment::{Answer, Direction, Errno, Examine, SlotRequest, SocketFacts};
use linux::{Config, LinuxFunction, SocketAt, SocketPhase, Sockets, State, StateConfig};
use nic::{FrameMeta, Nic, NicConfig};
use testkit::frames;
use wire::ethernet::MacAddr;
use wire::packet;
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const COOKIE: u64 = 1;
/// More than a test has under way at a time.
const WINDOW: u32 = 256 << 10;
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// The stream as a peer sends it, and how far it has come.
pub struct World {
    /// What outlives the NIC's process.
    state: State,
    sockets: OneSocket,
    nic: Nic,
    function: LinuxFunction,
    now: Instant,
    /// Of the packets that come.
    flow: FlowKey,
    /// Position of the stream's first byte.
    base: SeqNum,
    /// All ciphertext that the peer has made so far.
    pub stream: Vec<u8>,
    queue: Queue,
    /// The socket's other end: what comes in order is written there.
    feed: TcpStream,
    /// The NIC's memory of the flow has gone with it, and its library is awaited.
    pub is_fenced: bool,
    /// Frames that the kernel drops: a number each, counted down.
    pub drops: Vec<bool>,
    random: u64,
}

/// What Linux says of the socket, but for what its program has read; nothing of one that there is not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel(Option<SocketFacts>);

impl Examine for Kernel {
    fn examine(&mut self, socket: BorrowedFd<'_>, _: u32) -> Result<SocketFacts, Errno> {
        let facts = self.0.ok_or(Errno::NODEV)?;
        let unread = rustix::io::ioctl_fionread(socket)? as u32;
        Ok(SocketFacts { unread, ..facts })
    }
}

/// A socket that stays, once it is connected.
#[derive(Clone, Debug, Default)]
struct OneSocket(Arc<AtomicBool>);

impl Sockets for OneSocket {
    fn look_up(&mut self, _: &FlowKey) -> Result<Option<SocketAt>, Errno> {
        Ok(Some(SocketAt {
            cookie: COOKIE,
            phase: match self.0.load(Ordering::Relaxed) {
                true => SocketPhase::Synchronized,
                false => SocketPhase::Opening,
            },
        }))
    }

    fn bound(&mut self) -> Result<Vec<(FlowKey, u64)>, Errno> {
        Ok(Vec::new())
    }
}

/// Linux's receive queue: what is in order has gone to the feed, the rest is kept as it came.
#[derive(Default)]
struct Queue {
    next: usize,
    pieces: BTreeMap<usize, Vec<u8>>,
    /// There was something out of order at some time.
    has_reordered: bool,
}

impl World {
    /// A world, and the socket that its stream comes out of.
    pub fn new(base: u32, seed: u64) -> (World, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let feed = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        feed.set_nodelay(true).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let address = |text: &str| {
            let address: SocketAddr = text.parse().unwrap();
            (address.ip(), address.port())
        };
        let flow = FlowKey {
            src: address("10.0.0.2:443"),
            dst: address("10.0.0.1:1000"),
        };
        let state = State::in_memory(StateConfig::default()).unwrap();
        let now = Instant::now();
        let sockets = OneSocket::default();
        let (nic, function) = device(now, &state, &sockets);
        let mut world = World {
            state,
            sockets,
            nic,
            function,
            now,
            flow,
            base: SeqNum(base),
            stream: Vec::new(),
            queue: Queue::default(),
            feed,
            is_fenced: false,
            drops: Vec::new(),
            random: seed | 1,
        };
        world.open();
        (world, socket)
    }

    /// Linux's handshake with the peer.
    fn open(&mut self) {
        let (ours, theirs) = (SeqNum(0), self.base - 1);
        let out = self.flow.reversed();
        let from_linux = |flags, seq, ack| Header {
            ack,
            flags,
            ..frames::ack(&out, seq)
        };
        let syn = from_linux(Flags::SYN, ours, SeqNum(0));
        let ack = from_linux(Flags::ACK, ours + 1, self.base);
        let syn_ack = segment(&self.flow, theirs, Flags::SYN.union(Flags::ACK), &[]);
        let meta = FrameMeta::default();
        let sent = |header: &Header| frames::frame(OURS, PEER, &out, header, &[]);
        let (syn, ack) = (sent(&syn), sent(&ack));
        self.function.handle_frame(self.now, &syn, meta);
        self.nic.handle_frame(self.now, &syn_ack, meta);
        self.nic.flush(self.now);
        while self.function.poll_frame(self.now).is_some() {}
        self.function.handle_frame(self.now, &ack, meta);
        self.sockets.0.store(true, Ordering::Relaxed);
    }

    /// What Linux knows of the socket.
    pub fn kernel(&self) -> Kernel {
        Kernel(Some(SocketFacts {
            tenant: 0,
            interface: 1,
            flow: self.flow.reversed(),
            cookie: COOKIE,
            acknowledged: 1,
            unacknowledged: 0,
            received: self.queue.next as u64,
            unread: 0,
            window: WINDOW,
            reordered: self.queue.has_reordered,
            peer_has_ended: false,
            timestamp: None,
        }))
    }

    /// The NIC's process dies, and another one starts.
    pub fn restart(&mut self) {
        (self.nic, self.function) = device(self.now, &self.state, &self.sockets);
        self.is_fenced = true;
    }

    /// What the process does when the library asks for something.
    pub fn carry_out(&mut self, order: &SlotRequest) -> Answer {
        let answer = self.function.handle_slot_request(self.now, order);
        if let SlotRequest::SetKeys {
            direction: Direction::Receive,
            ..
        } = order
        {
            assert_eq!(answer.result, Ok(()));
            self.is_fenced = false;
        }
        self.poll();
        answer
    }

    /// Everything that the peer has made has come in order.
    pub fn is_done(&self) -> bool {
        self.queue.next == self.stream.len()
    }

    /// Where the first byte is that has not come in order.
    pub fn next(&self) -> usize {
        self.queue.next
    }

    /// These bytes of the stream come, as a packet; `forged` has them changed, and is one that TCP drops.
    pub fn packet(&mut self, start: usize, len: usize, forged: bool) {
        let end = (start + len).min(self.stream.len());
        let mut payload = self.stream[start.min(end)..end].to_vec();
        let mut flags = Flags::ACK;
        if forged {
            flags = Flags::PSH;
            for byte in &mut payload {
                *byte ^= (self.random() >> 40) as u8;
            }
        }
        let frame = segment(&self.flow, self.base + start as u32, flags, &payload);
        self.nic
            .handle_frame(self.now, &frame, FrameMeta::default());
    }

    /// Linux gets what the NIC has for it, and acknowledges some of it.
    pub fn poll(&mut self) {
        self.nic.flush(self.now);
        while let Some((frame, _)) = self.function.poll_frame(self.now) {
            let parsed = packet::parse(frame).unwrap();
            let payload = parsed.payload(frame).to_vec();
            let is_lost = self.drops.pop().unwrap_or(false);
            let seq = parsed.tcp.seq;
            if parsed.tcp.flags.contains(Flags::ACK) && !is_lost {
                let start = self.base.distance_to(seq) as usize;
                let choice = self.random();
                let ready = self.queue.take(start, payload, choice);
                self.feed.write_all(&ready).unwrap();
            }
        }
        if !self.random().is_multiple_of(3) {
            let ack = self.base + self.queue.next as u32;
            let out = self.flow.reversed();
            let header = Header {
                ack,
                ..frames::ack(&out, SeqNum(0))
            };
            let frame = frames::frame(OURS, PEER, &out, &header, &[]);
            self.function
                .handle_frame(self.now, &frame, FrameMeta::default());
        }
        self.function.publish();
        let mut out = vec![0; 70_000];
        while self.nic.poll_transmit(self.now, &mut out).is_some() {}
        self.nic.flush(self.now);
        self.function.publish();
    }

    /// Time passes: questions without an answer are asked again.
    pub fn pass_time(&mut self) {
        self.now += std::time::Duration::from_millis(300);
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Queue {
    /// Takes a packet, and gives what is in order then. Of what comes twice it keeps either copy, by `choice`.
    fn take(&mut self, mut start: usize, mut payload: Vec<u8>, mut choice: u64) -> Vec<u8> {
        let end = start + payload.len();
        if end <= self.next {
            return Vec::new();
        }
        if start < self.next {
            payload.drain(..self.next - start);
            start = self.next;
        }
        let overlapping: Vec<usize> = self
            .pieces
            .range(..end)
            .filter(|(at, piece)| *at + piece.len() > start)
            .map(|(at, _)| *at)
            .collect();
        for at in overlapping {
            let piece = self.pieces.remove(&at).unwrap();
            let keeps_old = choice & 1 != 0;
            choice >>= 1;
            let (from, to) = (at.max(start), (at + piece.len()).min(start + payload.len()));
            if keeps_old {
                payload[from - start..to - start].copy_from_slice(&piece[from - at..to - at]);
            }
            // What of the old one is not covered stays.
            if at < start {
                self.pieces.insert(at, piece[..start - at].to_vec());
            }
            if at + piece.len() > end {
                self.pieces.insert(end, piece[end - at..].to_vec());
            }
        }
        self.pieces.insert(start, payload);
        let mut ready = Vec::new();
        while let Some(piece) = self.pieces.remove(&self.next) {
            self.next += piece.len();
            ready.extend(piece);
        }
        self.has_reordered |= !self.pieces.is_empty();
        ready
    }
}

fn device(now: Instant, state: &State, sockets: &OneSocket) -> (Nic, LinuxFunction) {
    let config = Config::default();
    let mut nic = Nic::new(NicConfig::new([7; 16]));
    let (host, device) = nic::ring::function(config.function(OURS));
    nic.attach(device).unwrap();
    let sockets = Box::new(sockets.clone());
    let function = LinuxFunction::new(now, host, &config, state, sockets, (7, 7));
    (nic, function.unwrap())
}

fn segment(flow: &FlowKey, seq: SeqNum, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        ack: SeqNum(1),
        flags,
        ..frames::ack(flow, seq)
    };
    frames::frame(PEER, OURS, flow, &header, payload)
}
