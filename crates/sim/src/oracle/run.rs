//! One run of a scenario.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::{CloseReason, ListenOptions, Offload, Stack, TlsInfo};
use nic::ring::{Region, RegionId};
use wire::SeqNum;

use super::endpoint::{Endpoint, Session};
use super::watch::Wire;
use super::{Family, Help, Keys, Operation, Scenario, Side};
use crate::lending::{Lender, Lending};
use crate::world::exchange::find_counter;
use crate::{Identity, Leak, NodeConfig, World, WorldConfig};

/// Virtual time that a run may take: many times the longest retransmission timeout.
const LONGEST: Duration = Duration::from_secs(4 * 3600);
const PORT: u16 = 443;

/// How one side ended.
#[derive(Clone, Debug)]
pub struct End {
    /// All that it read.
    pub received: Vec<u8>,
    /// Whether it read to the end of the stream.
    pub eof: bool,
    /// Why the connection ended.
    pub closed: Option<CloseReason>,
    /// The TLS session, when the connection ended.
    pub tls: Option<TlsInfo>,
}

impl End {
    /// Whether the network would not carry the connection on: a dreadful link may lose every try to reach the peer.
    pub fn is_cut_off(&self) -> bool {
        is_cut_off(self.closed.as_ref())
    }
}

pub(super) fn is_cut_off(closed: Option<&CloseReason>) -> bool {
    matches!(
        closed,
        Some(CloseReason::Unreachable | CloseReason::TimedOut | CloseReason::NicReset)
    )
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "end of stream {}, closed {:?}", self.eof, self.closed)
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The client's end and the server's.
    pub ends: [End; 2],
    /// The first plaintext that stood in a frame: who sent it, the frame's number, and what it was.
    pub leak: Option<(Side, u64, Leak)>,
    /// The first frame that gave another byte for a sequence number than one before it: who sent it, and its number.
    pub changed: Option<(Side, u64)>,
    /// Frames that both NICs sent.
    pub frames: u64,
    /// The first sequence number of the client's, if it came so far.
    pub client_isn: Option<SeqNum>,
    /// TCP's stream as it was on the wire, from each side: what a receiver puts together.
    pub wire: [Vec<u8>; 2],
    /// The NICs' counters.
    pub nic: [Vec<(&'static str, u64)>; 2],
}

impl Outcome {
    /// A counter of one side's NIC.
    ///
    /// # Panics
    /// When it has no such counter.
    pub fn counter(&self, side: Side, name: &str) -> u64 {
        find_counter(self.nic[side as usize].iter().copied(), name)
    }
}

/// A run that did not come to its end.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the run stalled after {after:?} of virtual time and {frames} frames; {client}; {server}")]
pub struct Stalled {
    after: Duration,
    frames: u64,
    client: String,
    server: String,
}

/// Drives the scenario with this payload and this help.
///
/// # Errors
/// When the connection does not end in a virtual time in which it should.
pub fn run(scenario: &Scenario, streams: &[Vec<u8>; 2], help: Help) -> Result<Outcome, Stalled> {
    let start = match scenario.wrap_within {
        Some(within) => until_wrap(scenario, streams, within),
        None => Duration::ZERO,
    };
    Run::new(scenario, streams, help, start).finish()
}

/// How long to wait so that the client's sequence numbers start at most `within` before their wrap. They rise by one
/// every 4 µs (RFC 6528 §3); a world that goes as far as the SYN tells from where.
fn until_wrap(scenario: &Scenario, streams: &[Vec<u8>; 2], within: u32) -> Duration {
    let calm = Scenario {
        link: Default::default(),
        ..scenario.clone()
    };
    let mut probe = Run::new(&calm, streams, Help::from(Offload::None), Duration::ZERO);
    while probe.wire.borrow().streams[0].is_none() {
        assert!(probe.step(), "the client sends its SYN");
    }
    let isn = probe.wire.borrow().client_isn().expect("just seen");
    let wanted = SeqNum(0u32.wrapping_sub(within / 2 + 1));
    Duration::from_micros(4 * u64::from(isn.distance_to(wanted)))
}

struct Run {
    world: World,
    endpoints: [Endpoint; 2],
    /// By side, the node that has the connection; of the server's, as soon as it has accepted it.
    nodes: [usize; 2],
    workers: usize,
    /// Of the server's nodes.
    listeners: Vec<host::ListenerId>,
    wire: Rc<RefCell<Wire>>,
    /// Whether both sides have their keys, and their NICs know of them.
    secured: bool,
    lenders: Vec<Lender>,
}

impl Run {
    fn new(scenario: &Scenario, streams: &[Vec<u8>; 2], help: Help, start: Duration) -> Self {
        let mut world = world(scenario, help);
        world.settle_until(start);
        let wire = Rc::new(RefCell::new(Wire::new(streams)));
        let watch = Rc::clone(&wire);
        world.observe(move |node, frame| watch.borrow_mut().handle_frame(node, frame));

        let address = SocketAddr::new(World::address(1, scenario.family == Family::V6), PORT);
        let workers = usize::from(scenario.workers);
        let listeners = nodes_of(1, workers).map(|node| {
            let listener = world.stack(node).listen(address, ListenOptions::default());
            listener.expect("the port is free")
        });
        let listeners = listeners.collect();
        let [client, server] = sessions(scenario);
        let mut endpoint = |side: Side, session| {
            let at = side as usize;
            let mut operations = scenario.operations[at].clone();
            if operations.last() != Some(&Operation::Shutdown) {
                operations.push(Operation::Shutdown);
            }
            let region = register(&mut world, nodes_of(at, workers), &streams[at]);
            let stream = (&streams[at][..], region);
            Endpoint::new(
                side,
                session,
                help.offload,
                stream,
                &operations,
                scenario.reads[at],
            )
        };
        let mut endpoints = [
            endpoint(Side::Client, client),
            endpoint(Side::Server, server),
        ];
        let now = world.now();
        let client = 2 * (scenario.seed % u64::from(scenario.workers)) as usize;
        let connected = world.stack(client).connect(now, address);
        endpoints[0].socket = Some(connected.expect("the peer is on the link"));
        Self {
            world,
            endpoints,
            nodes: [client, 1],
            workers,
            listeners,
            wire,
            secured: false,
            lenders: Lender::of(&help.lending, scenario.workers),
        }
    }

    /// Everything that is due now, then the clock. `false` when there is nothing to come.
    fn step(&mut self) -> bool {
        let now = self.world.now();
        let mut moved = false;
        moved |= self.endpoints[0].handle_events(now, self.world.stack(self.nodes[0]), None);
        for (node, listener) in nodes_of(1, self.workers).zip(&self.listeners) {
            let server = &mut self.endpoints[1];
            let had_none = server.socket.is_none();
            moved |= server.handle_events(now, self.world.stack(node), Some(*listener));
            if had_none && server.socket.is_some() {
                self.nodes[1] = node;
            }
        }
        // Both sides must have installed their keys before the first record comes.
        if !self.secured && self.endpoints.iter().all(|endpoint| endpoint.secured) {
            self.world.settle();
            self.secured = true;
        }
        for at in 0..2 {
            let stack = self.world.stack(self.nodes[at]);
            moved |= self.endpoints[at].poll(now, stack, self.secured);
        }
        for lender in &mut self.lenders {
            moved |= lender.turn(now, &mut self.world);
        }
        moved |= self.world.step();
        if moved {
            return true;
        }
        match self
            .endpoints
            .iter()
            .filter_map(Endpoint::poll_timeout)
            .min()
        {
            Some(when) => {
                self.world.advance_to(when);
                true
            }
            None => self.world.advance(),
        }
    }

    fn finish(mut self) -> Result<Outcome, Stalled> {
        let deadline = self.world.now() + LONGEST;
        while !self.endpoints.iter().all(Endpoint::is_done)
            && !self.endpoints.iter().any(Endpoint::is_cut_off)
        {
            let goes_on = self.step() || self.lose_opening();
            if !goes_on || self.world.now() > deadline {
                return Err(self.stalled(deadline - LONGEST));
            }
        }
        Ok(self.outcome())
    }

    /// With nothing to come: whether the link has lost all that was to open the server's side, which then has no connection and no
    /// event. The client may have one, and would find out by its first byte, which it has not sent. That is an end, too: the server's,
    /// of time.
    fn lose_opening(&mut self) -> bool {
        let wire = self.wire.borrow();
        let mut client = wire.streams[0].iter();
        let has_only_opened = client.any(|stream| stream.bytes.is_empty());
        let server = &mut self.endpoints[1];
        let servers = nodes_of(1, self.workers).map(|node| self.world.stack_ref(node));
        let mut sockets = servers.flat_map(|stack| stack.sockets());
        let is_lost = has_only_opened
            && self.world.frames_harmed() > 0
            && server.socket.is_none()
            && sockets.all(|socket| socket.id.is_none());
        if is_lost {
            server.closed = Some(CloseReason::TimedOut);
        }
        is_lost
    }

    fn stalled(&self, began: Instant) -> Stalled {
        Stalled {
            after: self.world.now() - began,
            frames: self.wire.borrow().frames,
            client: self.endpoints[0].position(),
            server: self.endpoints[1].position(),
        }
    }

    fn outcome(self) -> Outcome {
        let Self {
            world,
            endpoints,
            nodes,
            wire,
            ..
        } = self;
        let nic = nodes.map(|node| world.nic_counters(node).iter().collect());
        let ends = endpoints.map(|endpoint| {
            let node = nodes[endpoint.side() as usize];
            endpoint.end(world.stack_ref(node))
        });
        let wire = wire.borrow();
        Outcome {
            ends,
            leak: wire.leak,
            changed: wire.changed,
            frames: wire.frames,
            client_isn: wire.client_isn(),
            wire: [0, 1].map(|at| {
                let stream = wire.streams[at].as_ref();
                stream
                    .map(|stream| stream.bytes.clone())
                    .unwrap_or_default()
            }),
            nic,
        }
    }
}

fn world(scenario: &Scenario, help: Help) -> World {
    let mut node = NodeConfig::small();
    node.nic.context_memory = scenario.context_memory;
    World::new(WorldConfig {
        seed: scenario.seed,
        mtu: scenario.mtu,
        links: vec![scenario.link; 2],
        nodes: Lending::nodes(&help.lending, &node),
        workers: scenario.workers,
        ..WorldConfig::default()
    })
}

/// The nodes of one of two machines.
fn nodes_of(machine: usize, workers: usize) -> impl Iterator<Item = usize> {
    (0..workers).map(move |worker| 2 * worker + machine)
}

/// Registers the payload with each of some nodes, at the same place.
fn register(world: &mut World, nodes: impl Iterator<Item = usize>, stream: &[u8]) -> RegionId {
    let region = Region::anonymous(stream.len().max(1));
    let is_whole = region.write(0, stream);
    assert!(is_whole, "the region is as long as the stream");
    let region = Arc::new(region);
    let ids = nodes.map(|node| world.register(node, Arc::clone(&region), "the payload"));
    let same = ids.reduce(|one, other| {
        assert_eq!(one, other, "stacks that did the same have the same ids");
        one
    });
    same.expect("a node")
}

impl Endpoint {
    fn end(self, stack: &Stack) -> End {
        let tls = self.socket.and_then(|socket| stack.info(socket)?.tls);
        End {
            received: self.received,
            eof: self.eof,
            closed: self.closed,
            tls,
        }
    }
}

fn sessions(scenario: &Scenario) -> [Session; 2] {
    match scenario.keys {
        Keys::Handshake => {
            let identity = Identity::new();
            [
                Session::Handshake(identity.client(scenario.suite)),
                Session::Handshake(identity.server(scenario.suite)),
            ]
        }
        Keys::Installed => {
            let out = scenario.suite.keys(scenario.seed ^ 0x0c11_e217);
            let back = scenario.suite.keys(scenario.seed ^ 0x5e12_7e12);
            [
                Session::Installed {
                    transmit: out.clone(),
                    receive: back.clone(),
                },
                Session::Installed {
                    transmit: back,
                    receive: out,
                },
            ]
        }
    }
}

#[cfg(test)]
mod tests;
