//! A host and its NIC on a bare wire, in virtual time.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::{Duration, Instant};

use host::handoff::policy::Selection;
use host::{Event, Handoff, SocketId, Stack};
use nic::{FrameMeta, Nic, ToeConfig};
use sim::NodeConfig;
use testkit::network;
use wire::arp;
use wire::packet::{self, Class, Parsed};

use super::text::{number, time};

/// Who runs TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The host.
    Host,
    /// The NIC, as soon as a connection is established.
    Handoff,
    /// The NIC, once the application has closed.
    Teardown,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Handoff => "handoff",
            Self::Teardown => "teardown",
        })
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let modes = [Self::Host, Self::Handoff, Self::Teardown];
        let mode = modes.into_iter().find(|mode| mode.to_string() == text);
        mode.ok_or_else(|| format!("no mode `{text}`; use host, handoff, teardown"))
    }
}

/// What a script sets.
#[derive(Debug)]
pub struct Setup {
    pub node: NodeConfig,
    pub mtu: u16,
    /// What leaves may be so early or late.
    pub tolerance: Duration,
    /// The peer's initial sequence number.
    pub isn: u32,
}

impl Default for Setup {
    fn default() -> Self {
        let mut node = NodeConfig::default();
        node.stack.memory = 16 << 20;
        Self {
            node,
            mtu: 1500,
            tolerance: Duration::from_millis(2),
            // Numbers wrap before long.
            isn: u32::MAX - 5_000,
        }
    }
}

impl Setup {
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let tcp = &mut self.node.stack.tcp;
        match name {
            "mtu" => self.mtu = number(value)?,
            "memory" => self.node.stack.memory = number(value)?,
            "tolerance" => self.tolerance = time(value)?,
            "isn" => self.isn = number(value)?,
            "rcv-buf" => tcp.rcv_buf = number(value)?,
            "rcv-buf-max" => tcp.rcv_buf_max = number(value)?,
            "initial-window" => tcp.initial_window = number(value)?,
            "syn-retries" => tcp.syn_retries = number(value)?,
            "syn-ack-retries" => tcp.syn_ack_retries = number(value)?,
            "time-wait" => tcp.time_wait = time(value)?,
            "min-rto" => tcp.min_rto = time(value)?,
            "congestion" if value == "reno" => tcp.congestion = tcp::Algorithm::NewReno,
            "congestion" if value == "cubic" => tcp.congestion = tcp::Algorithm::Cubic,
            "ecn" if value == "ask" => tcp.ecn = tcp::EcnMode::Ask,
            "ecn" if value == "accept" => tcp.ecn = tcp::EcnMode::Accept,
            "ecn" if value == "off" => tcp.ecn = tcp::EcnMode::Off,
            "delayed-ack" if value == "off" => tcp.delayed_ack = None,
            "delayed-ack" => tcp.delayed_ack = Some(time(value)?),
            "nagle" => tcp.nagle = switch(value)?,
            "pacing" => tcp.pacing = switch(value)?,
            "mtu-probing" => tcp.mtu_probing = switch(value)?,
            "sack" => tcp.sack = switch(value)?,
            "timestamps" => tcp.timestamps = switch(value)?,
            _ => return Err(format!("no setting `{name}` of the value `{value}`")),
        }
        Ok(())
    }

    fn node(&self, mode: Mode) -> NodeConfig {
        let mut node = self.node.clone();
        match mode {
            Mode::Host => {}
            Mode::Handoff => {
                node.stack.handoff = Handoff::new(Selection::Fcfs);
                node.nic.toe = ToeConfig::default();
                node.function.toe_connections = 64;
            }
            Mode::Teardown => {
                node.stack.accel.teardown = true;
                node.nic.accel.closing = 64;
                node.nic.accel.packet_memory = 1 << 20;
                node.nic.accel.egress_bytes = 1 << 20;
            }
        }
        node
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{value}` is neither on nor off")),
    }
}

/// The byte at a place of either stream.
pub fn byte(at: i64) -> u8 {
    ((at as u32).wrapping_mul(0x9e37_79b1) >> 24) as u8
}

/// The node that the host is, and the one that the peer is.
const HOST: usize = 8;
const PEER: usize = 0;
/// Longer than any frame that the NIC makes.
const MOST_BYTES: usize = 70_000;
/// The clock moves on by no less.
const TICK: Duration = Duration::from_micros(1);

/// A frame that has left.
pub struct Sent {
    pub at: Duration,
    pub parsed: Parsed,
    pub frame: Vec<u8>,
}

pub struct Bench {
    origin: Instant,
    pub now: Instant,
    pub stack: Stack,
    nic: Nic,
    out: Vec<u8>,
    pub sent: VecDeque<Sent>,
    pub events: Vec<Event>,
    /// What the application goes on writing while there is room.
    pub writer: Option<Writer>,
}

/// An application that has `left` bytes to write, from `at` in the stream on.
pub struct Writer {
    pub socket: SocketId,
    pub at: i64,
    pub left: usize,
}

impl Bench {
    pub const HOST_IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, HOST as u8 + 1));

    pub fn peer_ip() -> IpAddr {
        sim::World::address(PEER, false)
    }

    pub fn new(setup: &Setup, mode: Mode) -> Self {
        let now = Instant::now();
        let (stack, nic) = setup.node(mode).build(now, HOST, 0, setup.mtu);
        let mut bench = Self {
            origin: now,
            now,
            stack,
            nic,
            out: vec![0; MOST_BYTES],
            sent: VecDeque::new(),
            events: Vec::new(),
            writer: None,
        };
        bench.settle();
        bench
    }

    pub fn elapsed(&self) -> Duration {
        self.now - self.origin
    }

    /// Gives a frame to the NIC. With `more` the host is not told yet.
    pub fn arrive(&mut self, frame: &[u8], more: bool) {
        let meta = FrameMeta::default();
        self.nic.handle_frame(self.now, frame, meta);
        if !more {
            self.settle();
        }
    }

    /// Of the peer, and of the host.
    pub fn macs() -> [wire::ethernet::MacAddr; 2] {
        [sim::World::mac(PEER), sim::World::mac(HOST)]
    }

    /// Lets time go by until then, or until something has left.
    pub fn run_until(&mut self, until: Duration) {
        let until = self.origin + until;
        while self.sent.is_empty() && self.now < until {
            let due = [self.stack.poll_timeout(), self.nic.poll_timeout()];
            let due = due.into_iter().flatten().min();
            let next = due.map_or(until, |due| due.max(self.now + TICK).min(until));
            self.now = next;
            self.settle();
        }
    }

    /// Lets host and NIC run until neither has anything to do.
    pub fn settle(&mut self) {
        let mut idle = 0;
        while idle < 2 {
            self.nic.flush(self.now);
            let mut moved = self.stack.poll(self.now);
            moved |= self.take_events();
            moved |= self.write();
            moved |= self.take_frames();
            idle = if moved { 0 } else { idle + 1 };
        }
    }

    /// Lets the application write what there is room for.
    fn write(&mut self) -> bool {
        let Some(writer) = &mut self.writer else {
            return false;
        };
        let data: Vec<u8> = (writer.at..).take(writer.left).map(byte).collect();
        let taken = self.stack.write(self.now, writer.socket, &data);
        let taken = taken.unwrap_or_default();
        writer.at += taken as i64;
        writer.left -= taken;
        taken > 0
    }

    fn take_events(&mut self) -> bool {
        let before = self.events.len();
        while let Some(event) = self.stack.poll_event() {
            self.events.push(event);
        }
        self.events.len() > before
    }

    fn take_frames(&mut self) -> bool {
        let mut moved = false;
        let mut out = std::mem::take(&mut self.out);
        while let Some((len, _)) = self.nic.poll_transmit(self.now, &mut out) {
            moved = true;
            self.left(&out[..len]);
        }
        self.out = out;
        moved
    }

    /// A frame is on the wire. The peer's resolver answers by itself.
    fn left(&mut self, frame: &[u8]) {
        match packet::classify(frame) {
            Class::Arp { offset } => self.answer_arp(&frame[offset..]),
            Class::Tcp(parsed) => {
                assert!(parsed.verify_checksums(frame), "checksums are right");
                self.sent.push_back(Sent {
                    at: self.elapsed(),
                    parsed,
                    frame: frame.to_vec(),
                });
            }
            // Neighbour discovery.
            _ => {}
        }
    }

    fn answer_arp(&mut self, bytes: &[u8]) {
        let Ok(question) = arp::Packet::parse(bytes) else {
            return;
        };
        let [peer, host] = Self::macs();
        let asked = IpAddr::V4(question.target_ip);
        if asked == Self::peer_ip() && question.operation == arp::Operation::Request {
            let answer = arp::Packet {
                operation: arp::Operation::Reply,
                sender_mac: peer,
                sender_ip: question.target_ip,
                target_mac: host,
                target_ip: question.sender_ip,
            };
            let frame = network::arp(host, &answer);
            self.nic
                .handle_frame(self.now, &frame, FrameMeta::default());
        }
    }
}
