//! A real host and a real NIC between two peers, stepped one action at a time in an order that is chosen.
//!
//! What usually happens is that everybody takes turns and the wire loses nothing. A deviation lets somebody wait while the others
//! go on, loses or doubles a packet, or lets time pass while there is something to do.

mod frames;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use host::{Accel, Stack};
use nic::ring::FunctionConfig;
use nic::{FrameMeta, Nic, NicConfig};
use sim::NodeConfig;
use sim::explore::Choices;
use wire::SeqNum;
use wire::packet::{self, Class};

use super::peer::{Bytes, Peer, Plan};

/// The node that the host is; the peers are the first two.
const HOST: usize = 8;
pub const HOST_IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
/// Steps of a run at most: one that needs more goes on for ever.
const MOST_STEPS: usize = 4_000;

/// Who has put a frame on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Host,
    Nic,
}

/// A rule of handing over that the world breaks, to see that this is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// What comes while a connection changes hands is nobody's.
    LosesHeld,
    /// What comes then is answered by both.
    BothAnswer,
    /// Who has given a connection away sends a frame more.
    SendsOn,
}

/// What the host's application does.
pub trait App {
    /// Whether a connection changes hands.
    fn is_between(&self, stack: &Stack) -> bool {
        let _ = stack;
        false
    }

    /// Does what is to be done now. Whether there was anything.
    fn drive(&mut self, now: Instant, stack: &mut Stack) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The NIC takes a frame of this peer's.
    ToNic(usize),
    /// The NIC works off a descriptor or a frame of its own.
    Nic,
    /// The host polls, then its application.
    Host,
    /// This peer takes a frame.
    ToPeer(usize),
}

const TURNS: [Action; 6] = [
    Action::ToNic(0),
    Action::ToNic(1),
    Action::Nic,
    Action::Host,
    Action::ToPeer(0),
    Action::ToPeer(1),
];

#[derive(Clone, Copy, Debug)]
enum Move {
    Do(Action),
    Lose(Action),
    Double(Action),
    /// The clock moves on to what is due next.
    Wait,
}

/// What is between the NIC and a peer, and what was seen of it.
#[derive(Default)]
pub struct Wire {
    to_nic: VecDeque<Vec<u8>>,
    to_peer: VecDeque<Vec<u8>>,
    /// Who has sent to the peer, each time that it changed.
    pub owners: Vec<Owner>,
    /// The end of what the NIC has sent to it.
    forwarded: Option<SeqNum>,
    /// The end of what was sent to it.
    sent: Option<SeqNum>,
    /// The last frame to it, if that only acknowledged: what it said, and how much had been taken from the peer by then.
    answered: Option<(SeqNum, u16, u32)>,
    /// Frames taken from it.
    taken: u32,
}

pub struct World<A> {
    pub now: Instant,
    pub stack: Stack,
    nic: Nic,
    pub app: A,
    pub peers: [Option<Peer>; 2],
    plans: [Plan; 2],
    pub wires: [Wire; 2],
    host_due: bool,
    nic_due: bool,
    turn: usize,
    /// How often something was sent again.
    pub repeated: u32,
    /// Acknowledgments that said again what one before them had, with nothing to answer in between.
    pub answered_twice: u32,
    made: u64,
    /// Nothing of a previous owner's leaves late.
    pub is_strict: bool,
    /// Somebody may be reset.
    pub may_reset: bool,
    /// A rule that does not hold.
    pub broken: Option<Broken>,
    /// A frame that the rule broken keeps back.
    kept_back: Option<Vec<u8>>,
    out: Vec<u8>,
    /// Packets were lost or doubled, or time has passed that need not have.
    pub is_disturbed: bool,
    pub log: Vec<String>,
}

pub fn peer_ip(peer: usize) -> IpAddr {
    sim::World::address(peer, false)
}

impl<A: App> World<A> {
    pub fn new(
        accel: Accel,
        plans: [Plan; 2],
        app: A,
        adjust: impl FnOnce(&mut NicConfig),
    ) -> Self {
        let now = Instant::now();
        let mut node = NodeConfig::default();
        node.nic.accel.closing = 64;
        node.nic.accel.packet_memory = 1 << 16;
        node.nic.accel.egress_bytes = 1 << 16;
        adjust(&mut node.nic);
        node.function = FunctionConfig {
            send_entries: 64,
            receive_entries: 64,
            small_entries: 64,
            large_entries: 8,
            contexts: 16,
            tags: 16,
            ..node.function
        };
        node.stack.memory = 2 << 20;
        node.stack.tcp.delayed_ack = None;
        node.stack.tcp.time_wait = Duration::from_secs(2);
        node.stack.accel = accel;
        let (stack, nic) = node.build(now, HOST, 0, 1500);
        Self {
            now,
            stack,
            nic,
            app,
            peers: [None, None],
            plans,
            wires: Default::default(),
            host_due: true,
            nic_due: true,
            turn: 0,
            repeated: 0,
            answered_twice: 0,
            made: 0,
            is_strict: false,
            may_reset: false,
            broken: None,
            kept_back: None,
            out: vec![0; 70_000],
            is_disturbed: false,
            log: Vec::new(),
        }
    }

    /// Peer 0 connects to the host's port 80.
    pub fn connect(&mut self) {
        self.connect_with([Bytes::Counted(1), Bytes::Counted(2)]);
    }

    /// Peer 0 connects, to send and to get these bytes.
    pub fn connect_with(&mut self, streams: [Bytes; 2]) {
        let flow = wire::FlowKey {
            src: (peer_ip(0), 4_000),
            dst: (HOST_IP, 80),
        };
        let peer = Peer::connecting(self.now, sim::World::mac(0), flow, streams, self.plans[0]);
        self.peers[0] = Some(peer);
        self.let_send(0);
    }

    /// One step as it usually goes, without a choice. False when nothing is to be done at this time.
    pub fn step(&mut self) -> bool {
        let Some(action) = self.enabled().first().copied() else {
            return false;
        };
        self.act(action);
        true
    }

    /// Runs as it usually goes until `done`.
    pub fn settle(&mut self, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if done(self) {
                return;
            }
            if !self.step() {
                assert!(self.wait(), "nothing is to come:\n{}", self.story());
            }
        }
        panic!("too many steps:\n{}", self.story());
    }

    /// Runs as it usually goes while there is something to do.
    pub fn settle_idle(&mut self) {
        while self.step() {}
    }

    /// Runs in the order that is chosen, until `done`.
    pub fn run(&mut self, choices: &mut Choices<'_>, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if done(self) {
                return;
            }
            let moves = self.moves();
            if moves.is_empty() {
                assert!(self.wait(), "nothing is to come:\n{}", self.story());
                continue;
            }
            let chosen = moves[choices.choose(moves.len())];
            self.make(chosen);
        }
        panic!("too many steps:\n{}", self.story());
    }

    /// What may be done: first what usually is.
    fn moves(&self) -> Vec<Move> {
        let enabled = self.enabled();
        let Some(first) = enabled.first().copied() else {
            return Vec::new();
        };
        let mut moves: Vec<Move> = enabled.iter().copied().map(Move::Do).collect();
        if matches!(first, Action::ToNic(_) | Action::ToPeer(_)) {
            moves.extend([Move::Lose(first), Move::Double(first)]);
        }
        if self.next_due().is_some() {
            moves.push(Move::Wait);
        }
        moves
    }

    fn make(&mut self, chosen: Move) {
        match chosen {
            Move::Do(action) => self.act(action),
            Move::Lose(action) => {
                self.is_disturbed = true;
                let frame = self.queue(action).and_then(VecDeque::pop_front);
                self.note(&format!("lost {action:?}"), frame.as_deref());
            }
            Move::Double(action) => {
                self.is_disturbed = true;
                if let Some(queue) = self.queue(action)
                    && let Some(frame) = queue.front().cloned()
                {
                    queue.push_front(frame);
                }
                self.act(action);
            }
            Move::Wait => {
                self.is_disturbed = true;
                self.wait();
            }
        }
    }

    fn queue(&mut self, action: Action) -> Option<&mut VecDeque<Vec<u8>>> {
        match action {
            Action::ToNic(peer) => Some(&mut self.wires[peer].to_nic),
            Action::ToPeer(peer) => Some(&mut self.wires[peer].to_peer),
            Action::Nic | Action::Host => None,
        }
    }

    /// What can be done, in the order of turns.
    fn enabled(&self) -> Vec<Action> {
        let turns = (0..TURNS.len()).map(|at| TURNS[(self.turn + at) % TURNS.len()]);
        let is_enabled = |action: &Action| match *action {
            Action::ToNic(peer) => !self.wires[peer].to_nic.is_empty(),
            Action::ToPeer(peer) => !self.wires[peer].to_peer.is_empty(),
            Action::Nic => self.nic_due,
            Action::Host => self.host_due,
        };
        turns.filter(is_enabled).collect()
    }

    fn act(&mut self, action: Action) {
        let place = TURNS.iter().position(|turn| *turn == action).unwrap_or(0);
        self.turn = place + 1;
        match action {
            Action::ToNic(peer) => {
                let Some(frame) = self.wires[peer].to_nic.pop_front() else {
                    return;
                };
                self.note(&format!("{peer} > NIC"), Some(&frame));
                self.wires[peer].taken += 1;
                if self.broken == Some(Broken::LosesHeld) && self.app.is_between(&self.stack) {
                    self.broken = None;
                    return;
                }
                self.nic
                    .handle_frame(self.now, &frame, FrameMeta::default());
                self.nic.flush(self.now);
                self.host_due = true;
                self.nic_due = true;
            }
            Action::Nic => self.run_nic(),
            Action::Host => {
                let moved = self.stack.poll(self.now);
                let moved = self.app.drive(self.now, &mut self.stack) || moved;
                if moved {
                    self.note("host", None);
                }
                self.host_due = moved;
                self.nic_due |= moved;
            }
            Action::ToPeer(peer) => {
                let Some(frame) = self.wires[peer].to_peer.pop_front() else {
                    return;
                };
                self.note(&format!("{peer} takes"), Some(&frame));
                if let Some(peer) = &mut self.peers[peer] {
                    peer.receive(self.now, &frame);
                }
                self.let_send(peer);
            }
        }
    }

    fn run_nic(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        let sent = self.nic.poll_transmit(self.now, &mut out);
        self.nic.flush(self.now);
        self.nic_due = sent.is_some();
        self.host_due |= sent.is_some();
        if let Some((len, _)) = sent {
            let counters = self.nic.counters();
            let made = counters.accel_tx_packets + counters.toe_tx_packets;
            let owner = if made > self.made {
                Owner::Nic
            } else {
                Owner::Host
            };
            self.made = made;
            self.leave(&out[..len], owner);
        } else {
            // Descriptors that are no packets were worked off.
            self.host_due = true;
        }
        self.out = out;
    }

    fn let_send(&mut self, peer: usize) {
        if let Some(it) = &mut self.peers[peer] {
            it.run(self.now);
            while let Some(frame) = it.transmit(self.now, sim::World::mac(HOST)) {
                self.wires[peer].to_nic.push_back(frame);
            }
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let peers = self.peers.iter().flatten();
        let peers = peers.filter_map(|peer| peer.connection.poll_timeout());
        let ours = [self.stack.poll_timeout(), self.nic.poll_timeout()];
        peers.chain(ours.into_iter().flatten()).min()
    }

    /// The clock moves on to what is due next.
    fn wait(&mut self) -> bool {
        let Some(due) = self.next_due() else {
            return false;
        };
        self.now = due.max(self.now + Duration::from_micros(1));
        self.note("time passes", None);
        for peer in 0..2 {
            if let Some(it) = &mut self.peers[peer]
                && it
                    .connection
                    .poll_timeout()
                    .is_some_and(|at| at <= self.now)
            {
                it.connection.handle_timeout(self.now);
                self.let_send(peer);
            }
        }
        self.host_due = true;
        self.nic_due = true;
        true
    }

    fn note(&mut self, what: &str, frame: Option<&[u8]>) {
        if self.log.capacity() == 0 {
            return;
        }
        let seen = frame.map(|frame| match packet::classify(frame) {
            Class::Tcp(parsed) => {
                let tcp = parsed.tcp;
                format!(
                    "{:?} seq {} ack {} len {} win {}",
                    tcp.flags, tcp.seq, tcp.ack, parsed.payload_len, tcp.window
                )
            }
            other => format!("{other:?}"),
        });
        self.log
            .push(format!("{what}: {}", seen.unwrap_or_default()));
    }

    /// What the NIC has counted.
    pub fn nic_counters(&self) -> nic::Counters {
        self.nic.counters()
    }

    /// Keeps a log from here on.
    pub fn keep_log(&mut self) {
        self.log.reserve(MOST_STEPS);
    }

    /// What has happened, for a message.
    pub fn story(&self) -> String {
        let sockets = self.stack.sockets();
        let sockets: Vec<String> = sockets
            .map(|info| format!("{} {} {:?}", info.state, info.remote, info.holder))
            .collect();
        let peers = self.peers.iter().flatten();
        let peers: Vec<String> = peers
            .map(|peer| {
                format!(
                    "{:?} got {} fin {}",
                    peer.state(),
                    peer.received,
                    peer.saw_fin
                )
            })
            .collect();
        let counters = self.nic.counters();
        let of_toe = counters.iter().filter(|(name, _)| name.starts_with("toe_"));
        let of_toe: Vec<_> = of_toe.filter(|(_, count)| *count > 0).collect();
        let host = self.stack.counters();
        let of_host = host.filter(|(name, count)| name.starts_with("Handoff") && *count > 0);
        let of_host: Vec<_> = of_host.collect();
        format!(
            "{}\nhost: {sockets:?} {of_host:?}\npeers: {peers:?}\nNIC: {of_toe:?}",
            self.log.join("\n")
        )
    }
}
