//! A client, a proxy and a backend, each a host with a NIC, on one link in virtual time.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use host::memory::ArenaLayout;
use host::{
    Accel, Cidr, Event, ListenOptions, SocketError, SocketId, SpliceHandle, SpliceRefused,
    SpliceReport, Stack, StackConfig,
};
use nic::ring::FunctionConfig;
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::MacAddr;

pub const CLIENT: usize = 0;
pub const PROXY: usize = 1;
pub const BACKEND: usize = 2;

const LATENCY: Duration = Duration::from_micros(50);

/// One host.
pub struct Node {
    pub stack: Stack,
    pub nic: Nic,
    inbox: VecDeque<(Instant, Vec<u8>)>,
    pub events: Vec<Event>,
}

/// What becomes of a frame on the wire.
pub enum Fate {
    Pass,
    Drop,
    Late(Duration),
    Twice(Duration),
}

pub type Wire = Box<dyn FnMut(usize, usize, &mut Vec<u8>) -> Fate>;

pub struct Rig {
    pub nodes: Vec<Node>,
    pub now: Instant,
    /// Says what becomes of each frame, by its sender and its receiver.
    pub wire: Wire,
}

/// Both connections of the proxy's, at each end.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    pub client: SocketId,
    pub front: SocketId,
    pub back: SocketId,
    pub server: SocketId,
}

pub fn address(node: usize, ipv6: bool) -> IpAddr {
    let last = node as u8 + 1;
    if ipv6 {
        IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last.into()])
    } else {
        IpAddr::from([10, 0, 0, last])
    }
}

pub fn mac(node: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, node as u8 + 1])
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_, _, _| {})
    }

    /// A rig whose settings `adjust` has changed.
    pub fn with(adjust: impl Fn(usize, &mut StackConfig, &mut NicConfig)) -> Self {
        let now = Instant::now();
        let nodes = [CLIENT, PROXY, BACKEND].map(|at| {
            let mut config = StackConfig {
                addresses: vec![
                    Cidr::new(address(at, false), 24),
                    Cidr::new(address(at, true), 64),
                ],
                arena: ArenaLayout {
                    header: 2048,
                    packet: 4096,
                    record: 512,
                    large: 512,
                },
                secret: [at as u8 + 7; 16],
                accel: Accel {
                    splice: at == PROXY,
                    ..Accel::NONE
                },
                ..StackConfig::default()
            };
            let mut nic = NicConfig::new([at as u8; 16]);
            adjust(at, &mut config, &mut nic);
            let mut nic = Nic::new(nic);
            let (function, device) = nic::ring::function(FunctionConfig::new(mac(at)));
            nic.attach(device).expect("a first function");
            Node {
                stack: Stack::new(now, config, function),
                nic,
                inbox: VecDeque::new(),
                events: Vec::new(),
            }
        });
        Self {
            nodes: nodes.into(),
            now,
            wire: Box::new(|_, _, _| Fate::Pass),
        }
    }

    pub fn stack(&mut self, at: usize) -> &mut Stack {
        &mut self.nodes[at].stack
    }

    /// Runs everything that is due now. Answers whether there was anything.
    pub fn step(&mut self) -> bool {
        let mut progress = false;
        for at in 0..self.nodes.len() {
            progress |= self.step_node(at);
        }
        progress
    }

    fn step_node(&mut self, at: usize) -> bool {
        let now = self.now;
        let mut progress = false;
        let node = &mut self.nodes[at];
        while node.inbox.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, bytes)) = node.inbox.pop_front() else {
                break;
            };
            node.nic.handle_frame(now, &bytes, FrameMeta::default());
            progress = true;
        }
        node.nic.flush(now);
        progress |= node.stack.poll(now);
        while let Some(event) = node.stack.poll_event() {
            node.events.push(event);
            progress = true;
        }
        progress |= self.transmit(at);
        self.nodes[at].nic.flush(now);
        progress
    }

    fn transmit(&mut self, at: usize) -> bool {
        let mut progress = false;
        let mut frame = vec![0; 1 << 17];
        while let Some((len, _)) = self.nodes[at].nic.poll_transmit(self.now, &mut frame) {
            progress = true;
            let destination = &frame[..6];
            for to in 0..self.nodes.len() {
                if to == at || !(destination[0] & 1 == 1 || destination == mac(to).0) {
                    continue;
                }
                let mut bytes = frame[..len].to_vec();
                let fate = (self.wire)(at, to, &mut bytes);
                self.fly(to, bytes, fate);
            }
        }
        progress
    }

    fn fly(&mut self, to: usize, bytes: Vec<u8>, fate: Fate) {
        let due = self.now + LATENCY;
        let (first, second) = match fate {
            Fate::Drop => return,
            Fate::Pass => (due, None),
            Fate::Late(more) => (due + more, None),
            Fate::Twice(more) => (due, Some(due + more)),
        };
        for due in std::iter::once(first).chain(second) {
            let inbox = &mut self.nodes[to].inbox;
            let place = inbox.partition_point(|(other, _)| *other <= due);
            inbox.insert(place, (due, bytes.clone()));
        }
    }

    /// Puts a frame on the wire towards a node.
    pub fn inject(&mut self, to: usize, frame: Vec<u8>) {
        self.nodes[to].inbox.push_front((self.now, frame));
    }

    /// Runs on to the next thing that is due. False when nothing ever will be.
    pub fn advance(&mut self) -> bool {
        while self.step() {}
        let due = self
            .nodes
            .iter()
            .flat_map(|node| {
                [
                    node.stack.poll_timeout(),
                    node.nic.poll_timeout(),
                    node.inbox.front().map(|(due, _)| *due),
                ]
            })
            .flatten()
            .min();
        let Some(due) = due else { return false };
        self.now = due.max(self.now + Duration::from_micros(1));
        true
    }

    /// Runs until `done`, for `limit` of virtual time at most.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            while self.step() {
                if done(self) {
                    return true;
                }
            }
            if done(self) {
                return true;
            }
            if self.now >= end || !self.advance() {
                return false;
            }
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_until(time, |_| false);
        self.now = self.now.max(end);
    }

    /// The client's connection to the proxy and the proxy's to the backend.
    pub fn join(&mut self) -> Joined {
        self.join_over([false, false])
    }

    /// The same, each over IPv6 or not.
    pub fn join_over(&mut self, ipv6: [bool; 2]) -> Joined {
        let (client, front) = self.connect(CLIENT, PROXY, ipv6[0]);
        let (back, server) = self.connect(PROXY, BACKEND, ipv6[1]);
        Joined {
            client,
            front,
            back,
            server,
        }
    }

    fn connect(&mut self, from: usize, to: usize, ipv6: bool) -> (SocketId, SocketId) {
        let at = SocketAddr::new(address(to, ipv6), 80);
        let listener = self.stack(to).listen(at, ListenOptions::default());
        let listener = listener.expect("the port is free");
        let now = self.now;
        let near = self.stack(from).connect(now, at).expect("a route");
        let mut far = None;
        let connected = self.run_until(Duration::from_secs(60), |rig| {
            far = far.or_else(|| rig.stack(to).accept(listener));
            far.is_some() && rig.nodes[from].events.contains(&Event::Connected(near))
        });
        assert!(connected, "{:?}", self.nodes[from].events);
        let closed = self.stack(to).close_listener(listener);
        closed.expect("it listens");
        (near, far.expect("accepted"))
    }

    pub fn write(&mut self, at: usize, id: SocketId, data: &[u8]) -> usize {
        let now = self.now;
        match self.stack(at).write(now, id, data) {
            Ok(written) => written,
            Err(SocketError::WouldBlock | SocketError::Spliced) => 0,
            Err(error) => panic!("write at {at}: {error}"),
        }
    }

    /// Reads all that there is; `None` at the end of the stream.
    pub fn read(&mut self, at: usize, id: SocketId, into: &mut Vec<u8>) -> Option<usize> {
        let now = self.now;
        let mut buffer = vec![0; 64 << 10];
        let mut all = 0;
        loop {
            match self.stack(at).read(now, id, &mut buffer) {
                Ok(0) => return None,
                Ok(bytes) => {
                    into.extend_from_slice(&buffer[..bytes]);
                    all += bytes;
                }
                Err(SocketError::WouldBlock | SocketError::Spliced) => return Some(all),
                Err(error) => panic!("read at {at} after {} bytes: {error}", into.len()),
            }
        }
    }

    pub fn counter(&self, at: usize, name: &str) -> u64 {
        let mut counters = self.nodes[at].stack.counters();
        let found = counters.find(|(counter, _)| *counter == name);
        found.unwrap_or_else(|| panic!("no counter {name}")).1
    }

    pub fn is_spliced(&self, splice: SpliceHandle) -> bool {
        self.nodes[PROXY].events.contains(&Event::Spliced(splice))
    }

    pub fn refused(&self, splice: SpliceHandle) -> Option<SpliceRefused> {
        self.nodes[PROXY]
            .events
            .iter()
            .find_map(|event| match event {
                Event::SpliceRefused(handle, reason) if *handle == splice => Some(*reason),
                _ => None,
            })
    }

    pub fn ended(&self, splice: SpliceHandle) -> Option<SpliceReport> {
        self.nodes[PROXY]
            .events
            .iter()
            .find_map(|event| match event {
                Event::SpliceEnded(handle, report) if *handle == splice => Some(*report),
                _ => None,
            })
    }

    /// Splices, and waits for the answer.
    pub fn splice(&mut self, joined: &Joined) -> Result<SpliceHandle, SpliceRefused> {
        let now = self.now;
        let (a, b) = (joined.front, joined.back);
        let splice = self.stack(PROXY).splice(now, a, b, Default::default())?;
        let answered = self.run_until(Duration::from_secs(5), |rig| {
            rig.is_spliced(splice) || rig.refused(splice).is_some()
        });
        assert!(answered, "{:?}", self.nodes[PROXY].events);
        match self.refused(splice) {
            Some(reason) => Err(reason),
            None => Ok(splice),
        }
    }
}

/// Bytes that are different at every place, as far as 32 bits go.
pub fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len.div_ceil(4) as u32)
        .flat_map(|word| (word ^ seed).wrapping_mul(0x9e37_79b1).to_le_bytes())
        .take(len)
        .collect()
}
