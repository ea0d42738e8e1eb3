//! The NICs and the wires between them: one from each host to each other one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nic::{FunctionId, Nic};
use port::Port;
use port::impair::{Impair, Impairments};
use port::memory::End;

use super::config::{WorldConfig, mac};

/// What becomes of a frame on its way from one host to another, before the wire's impairments see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It is lost.
    Drop,
    /// It goes on so much later; others overtake it.
    Late(Duration),
    /// It goes on now, and once more so much later.
    Twice(Duration),
    /// Only so many of its bytes go on.
    Cut(usize),
}

/// Decides what becomes of each frame: of the node that sends it, to the node that it is for. It may change the bytes, as somebody
/// on the path could.
pub type Fates = Box<dyn FnMut(usize, usize, &mut [u8]) -> Fate>;

/// More bytes than any frame of a NIC's has.
const MOST_BYTES: usize = 1 << 17;

/// All that is not a host.
pub(super) struct Wires {
    nodes: Vec<Node>,
    cycle_counter: fn() -> u64,
}

/// A NIC, and its ends of the wires to all others.
struct Node {
    nic: Nic,
    wires: Vec<Wire>,
    transmit_pace: Pace,
    receive_pace: Pace,
    transmit_cycles: u64,
    receive_cycles: u64,
    /// Where a frame lies that may go to more than one host.
    frame: Vec<u8>,
}

/// From one host to another, and back.
struct Wire {
    to: usize,
    port: Impair<End>,
    held: Held,
}

impl Wires {
    pub(super) fn new(nics: Vec<Nic>, config: &WorldConfig) -> Self {
        let count = nics.len();
        let mut ends = ends(count, config);
        let nodes = nics.into_iter().enumerate().map(|(at, nic)| {
            let impairment = config.links.get(at).copied().unwrap_or_default();
            let wires = std::mem::take(&mut ends[at]);
            let wires = wires.into_iter().enumerate().map(|(nth, (to, end))| {
                let directions = count as u64 * (count as u64 - 1);
                let direction = (at * (count - 1) + nth) as u64;
                let seed = config.seed.wrapping_mul(directions);
                let impairments = Impairments::on_transmit(impairment);
                Wire {
                    to,
                    port: Impair::new(end, impairments, seed.wrapping_add(direction)),
                    held: Held::default(),
                }
            });
            let frame_time = config.nodes[at].nic_frame_time;
            Node {
                nic,
                wires: wires.collect(),
                transmit_pace: Pace::new(frame_time),
                receive_pace: Pace::new(frame_time),
                transmit_cycles: 0,
                receive_cycles: 0,
                frame: Vec::new(),
            }
        });
        Self {
            nodes: nodes.collect(),
            cycle_counter: config.cycle_counter.unwrap_or(|| 0),
        }
    }

    /// Puts on the wires what all hosts have posted, then gives each what has come. Answers whether a frame moved.
    pub(super) fn run(&mut self, now: Instant, fates: &mut Option<Fates>) -> bool {
        let mut moved = false;
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let start = (self.cycle_counter)();
            moved |= node.transmit(now, at, fates);
            node.transmit_cycles += (self.cycle_counter)() - start;
        }
        for node in &mut self.nodes {
            let start = (self.cycle_counter)();
            moved |= node.receive(now);
            node.nic.flush(now);
            node.receive_cycles += (self.cycle_counter)() - start;
        }
        moved
    }

    pub(super) fn impair(&mut self, node: usize, impairments: Impairments) {
        for wire in &mut self.nodes[node].wires {
            wire.port.set_impairments(impairments);
        }
    }

    pub(super) fn reset(&mut self, node: usize) {
        // Each NIC has one function, the first.
        let is_there = self.nodes[node].nic.reset_function(FunctionId(0));
        assert!(is_there, "the node's function");
    }

    pub(super) fn replace(&mut self, node: usize, nic: Nic) {
        self.nodes[node].nic = nic;
    }

    pub(super) fn inject(&mut self, now: Instant, node: usize, frame: &[u8]) {
        let wires = &mut self.nodes[node].wires;
        let is_only = wires.len() == 1;
        for wire in wires {
            if is_only || wire.is_for_it(frame) {
                wire.held.admit(now, frame, port::Meta::default());
                wire.send_held(now);
            }
        }
    }

    pub(super) fn deliver(&mut self, now: Instant, node: usize, frame: &[u8]) {
        let nic = &mut self.nodes[node].nic;
        nic.handle_frame(now, frame, nic::FrameMeta::default());
        nic.flush(now);
    }

    pub(super) fn nic(&mut self, node: usize) -> &mut Nic {
        &mut self.nodes[node].nic
    }

    pub(super) fn counters(&self, node: usize) -> nic::Counters {
        self.nodes[node].nic.counters()
    }

    /// Frames that the impairments have kept from the host they were for, or changed.
    pub(super) fn harmed(&self) -> u64 {
        let wires = self.nodes.iter().flat_map(|node| &node.wires);
        let counters = wires.map(|wire| wire.port.transmit_counters());
        counters
            .map(|it| it.lost + it.queue_dropped + it.corrupted)
            .sum()
    }

    /// Cycles that a node's NIC has taken to transmit, and to receive.
    pub(super) fn cycles(&self, node: usize) -> (u64, u64) {
        let node = &self.nodes[node];
        (node.transmit_cycles, node.receive_cycles)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.nodes.iter().filter_map(Node::poll_timeout).min()
    }
}

/// By node, its end of a link to each other one.
fn ends(count: usize, config: &WorldConfig) -> Vec<Vec<(usize, End)>> {
    let link = port::memory::LinkConfig {
        capacity: config.wire_bytes,
        ..port::memory::LinkConfig::for_mtu(config.mtu)
    };
    let mut ends: Vec<Vec<_>> = std::iter::repeat_with(Vec::new).take(count).collect();
    for far in 1..count {
        for near in 0..far {
            let (one, other) = port::memory::link(link);
            ends[near].push((far, one));
            ends[far].push((near, other));
        }
    }
    ends
}

impl Node {
    /// Puts on the wires what the host has posted. Answers whether the NIC had anything.
    fn transmit(&mut self, now: Instant, at: usize, fates: &mut Option<Fates>) -> bool {
        match &mut self.wires[..] {
            [wire] => wire.carry(now, at, (&mut self.nic, &mut self.transmit_pace), fates),
            _ => self.distribute(now, at, fates),
        }
    }

    /// The same, where frames may be for any of several hosts, or for all.
    fn distribute(&mut self, now: Instant, at: usize, fates: &mut Option<Fates>) -> bool {
        let mut moved = false;
        self.frame.resize(MOST_BYTES, 0);
        while !self.transmit_pace.is_busy(now)
            && let Some((len, meta)) = self.nic.poll_transmit(now, &mut self.frame)
        {
            self.transmit_pace.work(now);
            moved = true;
            let frame = &self.frame[..len];
            for wire in self.wires.iter_mut().filter(|wire| wire.is_for_it(frame)) {
                let mut frame = frame.to_vec();
                let fate = decide(fates, at, wire.to, &mut frame);
                if let Some(len) = fate.passes(len) {
                    wire.held.admit(now, &frame[..len], to_port(meta));
                }
                if let Some(later) = fate.later() {
                    wire.held.admit(now + later, &frame, to_port(meta));
                }
            }
        }
        for wire in &mut self.wires {
            moved |= wire.send_held(now);
        }
        moved
    }

    fn receive(&mut self, now: Instant) -> bool {
        let (nic, pace) = (&mut self.nic, &mut self.receive_pace);
        let mut moved = false;
        for wire in &mut self.wires {
            while !pace.is_busy(now) {
                let received = wire.port.receive(now, &mut |frame, meta| {
                    pace.work(now);
                    nic.handle_frame(now, frame, from_port(meta))
                });
                if received.expect("a link in memory does not fail") == 0 {
                    break;
                }
                moved = true;
            }
        }
        moved
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let paces = [&self.transmit_pace, &self.receive_pace];
        let wires = self.wires.iter();
        let due = wires.flat_map(|wire| [wire.port.poll_timeout(), wire.held.poll_timeout()]);
        due.flatten()
            .chain(self.nic.poll_timeout())
            .chain(paces.into_iter().filter_map(|pace| pace.free_at))
            .min()
    }
}

impl Wire {
    /// Whether a frame is for the host at the other end.
    fn is_for_it(&self, frame: &[u8]) -> bool {
        frame.len() < 6 || frame[0] & 1 == 1 || frame[..6] == mac(self.to).0
    }

    /// Carries what the NIC has for the only other host: it is written where it lies on the wire. Answers whether there was anything.
    fn carry(
        &mut self,
        now: Instant,
        from: usize,
        (nic, pace): (&mut Nic, &mut Pace),
        fates: &mut Option<Fates>,
    ) -> bool {
        let Self { to, port, held } = self;
        let mut moved = false;
        let sent = port.transmit(now, &mut |buffer| {
            if let Some(frame) = held.take_due(now, buffer) {
                return Some(frame);
            }
            loop {
                if pace.is_busy(now) {
                    return None;
                }
                let (len, meta) = nic.poll_transmit(now, buffer)?;
                pace.work(now);
                moved = true;
                let frame = &mut buffer[..len];
                let fate = decide(fates, from, *to, frame);
                if let Some(later) = fate.later() {
                    held.admit(now + later, frame, to_port(meta));
                }
                if let Some(len) = fate.passes(len) {
                    return Some((len, to_port(meta)));
                }
            }
        });
        sent.expect("a link in memory does not fail") > 0 || moved
    }

    /// Sends what was held until now. Answers whether there was anything.
    fn send_held(&mut self, now: Instant) -> bool {
        let Self { port, held, .. } = self;
        let sent = port.transmit(now, &mut |buffer| held.take_due(now, buffer));
        sent.expect("a link in memory does not fail") > 0
    }
}

fn decide(fates: &mut Option<Fates>, from: usize, to: usize, frame: &mut [u8]) -> Fate {
    fates
        .as_mut()
        .map_or(Fate::Pass, |fates| fates(from, to, frame))
}

impl Fate {
    /// How much of a frame of `len` bytes goes on now, if anything does.
    fn passes(self, len: usize) -> Option<usize> {
        match self {
            Self::Pass | Self::Twice(_) => Some(len),
            Self::Cut(to) => Some(to.min(len)),
            Self::Drop | Self::Late(_) => None,
        }
    }

    /// How much later it goes on, or goes on again.
    fn later(self) -> Option<Duration> {
        match self {
            Self::Late(more) | Self::Twice(more) => Some(more),
            Self::Pass | Self::Drop | Self::Cut(_) => None,
        }
    }
}

/// Frames in front of a wire, in the order in which they go on.
#[derive(Default)]
struct Held(VecDeque<(Instant, Vec<u8>, port::Meta)>);

impl Held {
    fn admit(&mut self, due: Instant, frame: &[u8], meta: port::Meta) {
        let place = self.0.partition_point(|(other, ..)| *other <= due);
        self.0.insert(place, (due, frame.to_vec(), meta));
    }

    fn take_due(&mut self, now: Instant, buffer: &mut [u8]) -> Option<(usize, port::Meta)> {
        self.0.front().filter(|(due, ..)| *due <= now)?;
        let (_, frame, meta) = self.0.pop_front()?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Some((frame.len(), meta))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.front().map(|(due, ..)| *due)
    }
}

/// How fast one direction of a NIC is: one frame after the other, each for a time.
struct Pace {
    frame_time: Duration,
    /// When it has done with what it was last given, if it was asked before that.
    free_at: Option<Instant>,
    busy_until: Option<Instant>,
}

impl Pace {
    /// The clock moves in steps: a NIC that was idle before a step does in the next what it could have done since.
    const SLACK: Duration = Duration::from_micros(2);

    fn new(frame_time: Duration) -> Self {
        Self {
            frame_time,
            free_at: None,
            busy_until: None,
        }
    }

    fn is_busy(&mut self, now: Instant) -> bool {
        self.free_at = self.busy_until.filter(|until| *until > now);
        self.free_at.is_some()
    }

    fn work(&mut self, now: Instant) {
        if !self.frame_time.is_zero() {
            let from = self.busy_until.unwrap_or(now).max(now - Self::SLACK);
            self.busy_until = Some(from + self.frame_time);
        }
    }
}

fn from_port(meta: port::Meta) -> nic::FrameMeta {
    nic::FrameMeta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}

fn to_port(meta: nic::FrameMeta) -> port::Meta {
    port::Meta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}
