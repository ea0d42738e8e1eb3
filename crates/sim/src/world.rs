//! Hosts with a NIC each, and the wires between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use host::{Event, ListenerId, Stack};
use nic::Nic;
use port::impair::{Impairment, Impairments};
use wire::ethernet::MacAddr;

mod config;
pub(crate) mod exchange;
mod turns;
mod wires;

pub use config::{NodeConfig, WorldConfig};
use turns::Turns;
use wires::Wires;
pub use wires::{Fate, Fates};

/// Cycles that one node has taken since the world was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycles {
    /// In the host's stack, in [`World::step`]; what an application spends in its own calls is for the caller to count.
    pub host: u64,
    /// In the NIC, taking frames from the wire.
    pub nic_receive: u64,
    /// In the NIC, taking what the host has posted, and making frames of it.
    pub nic_transmit: u64,
}

/// Hosts, their NICs, the wires between them, one clock.
pub struct World {
    origin: Instant,
    now: Instant,
    config: WorldConfig,
    hosts: Vec<Host>,
    wires: Place,
}

struct Host {
    stack: Stack,
    cycles: u64,
    nic_resets: u32,
    events: Vec<Event>,
    /// Of [`World::connect`].
    listeners: BTreeMap<SocketAddr, ListenerId>,
}

/// Where the NICs and the wires run.
enum Place {
    Here(Box<Wires>, Option<Fates>),
    OnAThread(Turns),
}

impl World {
    /// A world at rest. Its clock starts at an arbitrary instant.
    pub fn new(config: WorldConfig) -> Self {
        let now = Instant::now();
        let (mut hosts, mut nics) = (Vec::new(), Vec::new());
        let machines = config.nodes.len();
        for node in 0..machines * usize::from(config.workers) {
            let machine = node % machines;
            let (stack, nic) = config
                .node(node)
                .build(now, machine, config.seed, config.mtu);
            hosts.push(Host::new(stack));
            nics.push(nic);
        }
        let wires = Wires::new(nics, &config);
        Self {
            origin: now,
            now,
            hosts,
            wires: if config.nic_thread {
                Place::OnAThread(Turns::new(wires))
            } else {
                Place::Here(Box::new(wires), None)
            },
            config,
        }
    }

    /// The address of a node, of one family.
    pub fn address(node: usize, ipv6: bool) -> IpAddr {
        config::address(node, ipv6)
    }

    /// The MAC address of a node.
    pub fn mac(node: usize) -> MacAddr {
        config::mac(node)
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Virtual time since the world was made.
    pub fn elapsed(&self) -> Duration {
        self.now - self.origin
    }

    /// A host's stack.
    pub fn stack(&mut self, node: usize) -> &mut Stack {
        &mut self.hosts[node].stack
    }

    /// A host's stack, to look at.
    pub fn stack_ref(&self, node: usize) -> &Stack {
        &self.hosts[node].stack
    }

    /// The nodes of a machine: hosts with a NIC each that share its addresses.
    pub fn nodes_of(&self, machine: usize) -> impl Iterator<Item = usize> + use<> {
        let machines = self.config.nodes.len();
        (0..usize::from(self.config.workers)).map(move |worker| machine + worker * machines)
    }

    /// A host's NIC.
    ///
    /// # Panics
    /// When the NICs have a thread of their own.
    pub fn nic(&mut self, node: usize) -> &mut Nic {
        match &mut self.wires {
            Place::Here(wires, _) => wires.nic(node),
            Place::OnAThread(_) => panic!("a NIC on another thread can't be lent"),
        }
    }

    /// All that a host's stack has told its application, where the world is [watched](WorldConfig::watched).
    pub fn events(&self, node: usize) -> &[Event] {
        &self.hosts[node].events
    }

    /// The same, which are let go of.
    pub fn take_events(&mut self, node: usize) -> Vec<Event> {
        std::mem::take(&mut self.hosts[node].events)
    }

    /// What a host's NIC has counted.
    pub fn nic_counters(&self, node: usize) -> nic::Counters {
        self.with_wires(|wires| wires.counters(node))
    }

    /// Frames that the links have lost or corrupted.
    pub fn frames_harmed(&self) -> u64 {
        self.with_wires(|wires| wires.harmed())
    }

    /// How often a host's NIC was reset.
    pub fn nic_resets(&self, node: usize) -> u32 {
        self.hosts[node].nic_resets
    }

    /// What a node has taken of the processor.
    pub fn cycles(&self, node: usize) -> Cycles {
        let (nic_transmit, nic_receive) = self.with_wires(|wires| wires.cycles(node));
        Cycles {
            host: self.hosts[node].cycles,
            nic_receive,
            nic_transmit,
        }
    }

    /// Changes what the wires do to frames that a node sends from now on.
    pub fn impair(&mut self, node: usize, impairment: Impairment) {
        self.with_wires_mut(|wires| wires.impair(node, Impairments::on_transmit(impairment)));
    }

    /// The NIC of `node` loses all that it has for its host.
    pub fn reset_nic(&mut self, node: usize) {
        self.hosts[node].nic_resets += 1;
        self.with_wires_mut(|wires| wires.reset(node));
    }

    /// A host starts anew, with its NIC: both have forgotten everything.
    pub fn restart(&mut self, node: usize) {
        let WorldConfig { seed, mtu, .. } = self.config;
        let machine = node % self.config.nodes.len();
        let built = self.config.node(node).build(self.now, machine, seed, mtu);
        let (stack, nic) = built;
        self.hosts[node] = Host::new(stack);
        self.with_wires_mut(|wires| wires.replace(node, nic));
    }

    /// Puts a frame of somebody else's on the wire, on the side of `node`: it shares the wire, and what that does to frames,
    /// with the node's own.
    pub fn inject(&mut self, node: usize, frame: &[u8]) {
        let now = self.now;
        self.with_wires_mut(|wires| wires.inject(now, node, frame));
    }

    /// Gives a frame of somebody else's to the NIC of `node`, whatever happens on the wires.
    pub fn deliver(&mut self, node: usize, frame: &[u8]) {
        let now = self.now;
        self.with_wires_mut(|wires| wires.deliver(now, node, frame));
    }

    /// Shows every frame to `observer` from now on, with the node that sends it, before the wire impairs it. It may change the
    /// bytes, as somebody on the path could.
    ///
    /// # Panics
    /// When the NICs have a thread of their own.
    pub fn observe(&mut self, mut observer: impl FnMut(usize, &mut [u8]) + 'static) {
        self.decide(move |from, _, frame| {
            observer(from, frame);
            Fate::Pass
        });
    }

    /// Lets `fates` say what becomes of every frame from now on, by its sender and its receiver; in place of what has observed or
    /// decided before.
    ///
    /// # Panics
    /// When the NICs have a thread of their own.
    pub fn decide(&mut self, fates: impl FnMut(usize, usize, &mut [u8]) -> Fate + 'static) {
        match &mut self.wires {
            Place::Here(_, place) => *place = Some(Box::new(fates)),
            Place::OnAThread(_) => panic!("a wire on another thread can't be observed"),
        }
    }

    /// Lets each host and then each NIC run once. Answers whether anything moved.
    pub fn step(&mut self) -> bool {
        let moved = self.step_hosts();
        self.step_wires() || moved
    }

    /// Lets each host run once. Answers whether anything moved.
    pub fn step_hosts(&mut self) -> bool {
        let count = self.config.cycle_counter.unwrap_or(|| 0);
        let mut moved = false;
        for host in &mut self.hosts {
            let start = count();
            moved |= host.stack.poll(self.now);
            host.cycles += count() - start;
            if self.config.watched {
                moved |= host.watch();
            }
        }
        moved
    }

    /// Lets each NIC, and the wires, run once. Answers whether anything moved.
    pub fn step_wires(&mut self) -> bool {
        match &mut self.wires {
            Place::Here(wires, fates) => wires.run(self.now, fates),
            Place::OnAThread(turns) => turns.run(self.now),
        }
    }

    /// Lets time go by in which nobody does anything, as while a host is busy: what falls due meanwhile is late.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Jumps to the next wake-up. `false` when nothing is to come: the world is at rest for good.
    pub fn advance(&mut self) -> bool {
        let Some(wake) = self.next_wake() else {
            return false;
        };
        self.now = wake.max(self.now + self.config.granularity);
        true
    }

    /// Moves the clock to `when` if nothing is due before, or else to what is due.
    pub fn advance_to(&mut self, when: Instant) {
        let next = match self.next_wake() {
            Some(wake) => wake.max(self.now + self.config.granularity).min(when),
            None => when,
        };
        self.now = next.max(self.now);
    }

    /// Steps until nothing moves at this instant.
    pub fn settle(&mut self) -> bool {
        let mut moved = false;
        while self.step() {
            moved = true;
        }
        moved
    }

    /// Lets time go by with all that falls due before its end.
    pub(crate) fn settle_until(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.settle();
            self.advance_to(end);
        }
    }

    /// Runs until `done`, for `limit` of virtual time at most. Answers whether it came to be.
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
            if self.now >= end {
                return false;
            }
            self.advance_to(end);
        }
    }

    /// Runs for so long.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    fn next_wake(&self) -> Option<Instant> {
        let wires = self.with_wires(Wires::poll_timeout);
        let hosts = self.hosts.iter();
        let stacks = hosts.filter_map(|host| host.stack.poll_timeout());
        stacks.chain(wires).min()
    }

    fn with_wires<T>(&self, f: impl FnOnce(&Wires) -> T) -> T {
        match &self.wires {
            Place::Here(wires, _) => f(wires),
            Place::OnAThread(turns) => turns.with(|wires| f(wires)),
        }
    }

    fn with_wires_mut<T>(&mut self, f: impl FnOnce(&mut Wires) -> T) -> T {
        match &mut self.wires {
            Place::Here(wires, _) => f(wires),
            Place::OnAThread(turns) => turns.with(f),
        }
    }
}

impl Host {
    fn new(stack: Stack) -> Self {
        Self {
            stack,
            cycles: 0,
            nic_resets: 0,
            events: Vec::new(),
            listeners: BTreeMap::new(),
        }
    }

    /// Takes what the stack has to tell. Answers whether there was anything.
    fn watch(&mut self) -> bool {
        let before = self.events.len();
        self.events
            .extend(std::iter::from_fn(|| self.stack.poll_event()));
        self.assert_figures();
        self.events.len() > before
    }

    /// The figures of every socket agree with each other, whichever side runs its connection.
    fn assert_figures(&self) {
        for socket in self.stack.sockets() {
            let Some(tcp) = &socket.tcp else { continue };
            assert!(tcp.bytes_acked <= tcp.bytes_sent, "{socket:?}");
            assert!(tcp.bytes_retrans <= tcp.bytes_sent, "{socket:?}");
            assert!(u64::from(tcp.unread) <= tcp.bytes_received, "{socket:?}");
            assert!(socket.send_queue <= 1 << 30, "{socket:?}");
        }
    }
}
