//! Two hosts with a NIC each, and the link between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use host::{Cidr, ListenOptions, Offload, SocketId, Stack, StackConfig};
use nic::ring::FunctionConfig;
use nic::{Nic, NicConfig};
use port::impair::{Impair, Impairment, Impairments};
use wire::ethernet::MacAddr;

use crate::Suite;

mod turns;
mod wires;

use turns::Turns;
pub use wires::Observer;
use wires::Wires;

/// What a world is made of. Equal configurations give equal runs, but for the random bytes of a TLS handshake.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Seeds the stacks' and NICs' secrets and the links' impairments.
    pub seed: u64,
    /// Largest IP packet on the link, in bytes.
    pub mtu: u16,
    /// Bytes of frames that the wire holds in each direction between two steps.
    pub wire_bytes: usize,
    /// What happens to frames from host 0 to host 1, and back.
    pub links: [Impairment; 2],
    /// The two hosts.
    pub nodes: [NodeConfig; 2],
    /// The least that the clock moves when it moves: work that falls due in between is done in one batch, as with a
    /// NIC that moderates its interrupts.
    pub granularity: Duration,
    /// Reads a cycle counter, where [`World::cycles`] is wanted.
    pub cycle_counter: Option<fn() -> u64>,
    /// Lets the NICs and the link run on a thread of their own, in strict turns with the hosts: nothing else changes,
    /// but the hosts keep their processor's caches to themselves, as they would with a NIC in hardware.
    pub nic_thread: bool,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            mtu: 1500,
            wire_bytes: 1 << 20,
            links: Default::default(),
            nodes: Default::default(),
            granularity: Duration::from_micros(1),
            cycle_counter: None,
            nic_thread: false,
        }
    }
}

/// One host and its NIC.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The stack's settings; the world fills in addresses, MTU and secret.
    pub stack: StackConfig,
    /// The NIC's settings; the world fills in MTU and secret.
    pub nic: NicConfig,
    /// The function's settings; the world fills in the MAC address.
    pub function: FunctionConfig,
    /// Time that the NIC takes for a frame; in each direction it does one after the other. Zero for a NIC that takes none.
    pub nic_frame_time: Duration,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            stack: StackConfig::default(),
            nic: NicConfig::new([0; 16]),
            function: FunctionConfig::new(MacAddr([0; 6])),
            nic_frame_time: Duration::ZERO,
        }
    }
}

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

/// Two hosts, two NICs, one link, one clock.
pub struct World {
    origin: Instant,
    now: Instant,
    granularity: Duration,
    cycle_counter: fn() -> u64,
    stacks: [Stack; 2],
    host_cycles: [u64; 2],
    nic_resets: [u32; 2],
    wires: Place,
}

/// Where the NICs and the link run.
enum Place {
    Here(Box<Wires>, Option<Observer>),
    OnAThread(Turns),
}

impl World {
    /// A world at rest. Its clock starts at an arbitrary instant.
    pub fn new(config: WorldConfig) -> Self {
        let origin = Instant::now();
        let cycle_counter = config.cycle_counter.unwrap_or(|| 0);
        let link = port::memory::LinkConfig {
            capacity: config.wire_bytes,
            ..port::memory::LinkConfig::for_mtu(config.mtu)
        };
        let (near, far) = port::memory::link(link);
        let [first, second] = config.nodes;
        let [out, back] = config.links;
        let paces = [&first, &second].map(|node| node.nic_frame_time);
        let (stack, nic, port) = node(origin, 0, first, near, out, config.seed, config.mtu);
        let (other_stack, other_nic, other_port) =
            node(origin, 1, second, far, back, config.seed, config.mtu);
        let wires = Wires::new([nic, other_nic], [port, other_port], paces, cycle_counter);
        Self {
            origin,
            now: origin,
            granularity: config.granularity,
            cycle_counter,
            stacks: [stack, other_stack],
            host_cycles: [0; 2],
            nic_resets: [0; 2],
            wires: if config.nic_thread {
                Place::OnAThread(Turns::new(wires))
            } else {
                Place::Here(Box::new(wires), None)
            },
        }
    }

    /// The address of a node, of one family.
    pub fn address(node: usize, ipv6: bool) -> IpAddr {
        let last = node as u8 + 1;
        if ipv6 {
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()))
        } else {
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
        }
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
        &mut self.stacks[node]
    }

    /// A host's stack, to look at.
    pub fn stack_ref(&self, node: usize) -> &Stack {
        &self.stacks[node]
    }

    /// What a host's NIC has counted.
    pub fn nic_counters(&self, node: usize) -> nic::Counters {
        self.with_wires(|wires| wires.counters(node))
    }

    /// How often a host's NIC was reset.
    pub fn nic_resets(&self, node: usize) -> u32 {
        self.nic_resets[node]
    }

    /// What a node has taken of the processor.
    pub fn cycles(&self, node: usize) -> Cycles {
        let (nic_transmit, nic_receive) = self.with_wires(|wires| wires.cycles(node));
        Cycles {
            host: self.host_cycles[node],
            nic_receive,
            nic_transmit,
        }
    }

    /// Changes what the link does to frames that a node sends from now on.
    pub fn impair(&mut self, node: usize, impairment: Impairment) {
        match &mut self.wires {
            Place::Here(wires, _) => wires.impair(node, impairment),
            Place::OnAThread(turns) => turns.with(|wires| wires.impair(node, impairment)),
        }
    }

    /// The NIC of `node` loses all that it has for its host.
    pub fn reset_nic(&mut self, node: usize) {
        self.nic_resets[node] += 1;
        match &mut self.wires {
            Place::Here(wires, _) => wires.reset(node),
            Place::OnAThread(turns) => turns.with(|wires| wires.reset(node)),
        }
    }

    /// Puts a frame of somebody else's on the link, on the side of `node`: it shares the link, and what that does to frames,
    /// with the node's own.
    pub fn inject(&mut self, node: usize, frame: &[u8]) {
        let now = self.now;
        match &mut self.wires {
            Place::Here(wires, _) => wires.inject(now, node, frame),
            Place::OnAThread(turns) => turns.with(|wires| wires.inject(now, node, frame)),
        }
    }

    /// Shows every frame to `observer` from now on.
    ///
    /// # Panics
    /// When the NICs have a thread of their own.
    pub fn observe(&mut self, observer: impl FnMut(usize, &mut [u8]) + 'static) {
        match &mut self.wires {
            Place::Here(_, place) => *place = Some(Box::new(observer)),
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
        let mut moved = false;
        for (stack, taken) in self.stacks.iter_mut().zip(&mut self.host_cycles) {
            let start = (self.cycle_counter)();
            moved |= stack.poll(self.now);
            *taken += (self.cycle_counter)() - start;
        }
        moved
    }

    /// Lets each NIC, and the link, run once. Answers whether anything moved.
    pub fn step_wires(&mut self) -> bool {
        match &mut self.wires {
            Place::Here(wires, observer) => wires.run(self.now, observer),
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
        self.now = wake.max(self.now + self.granularity);
        true
    }

    /// Moves the clock to `when` if nothing is due before, or else to what is due.
    pub fn advance_to(&mut self, when: Instant) {
        let next = match self.next_wake() {
            Some(wake) => wake.max(self.now + self.granularity).min(when),
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

    /// Connects host 0 to host 1 at `port`; answers both ends, at rest.
    ///
    /// # Panics
    /// When the port is taken or the connection does not come about.
    pub fn connect(&mut self, port: u16, ipv6: bool) -> (SocketId, SocketId) {
        let address = SocketAddr::new(Self::address(1, ipv6), port);
        let listener = self.stacks[1].listen(address, ListenOptions::default());
        let listener = listener.expect("the port is free");
        let sender = self.stacks[0].connect(self.now, address);
        let sender = sender.expect("a port to connect from is free");
        let receiver = loop {
            if let Some(receiver) = self.stacks[1].accept(listener) {
                break receiver;
            }
            assert!(self.step() || self.advance(), "the connection is stuck");
        };
        self.settle();
        (sender, receiver)
    }

    /// Starts TLS between both ends of a connection from host 0 to host 1, with keys that are known to both.
    ///
    /// # Panics
    /// When the connection does not stand, or has TLS already.
    pub fn secure(
        &mut self,
        (sender, receiver): (SocketId, SocketId),
        suite: Suite,
        offload: Offload,
    ) {
        let [out, back] = [1, 2].map(|seed| suite.keys(seed));
        for (node, socket, transmit, receive) in [
            (0, sender, out.clone(), back.clone()),
            (1, receiver, back, out),
        ] {
            let stack = &mut self.stacks[node];
            let installed = stack.install_tls(self.now, socket, transmit, receive, offload);
            installed.expect("a connection without TLS");
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let wires = self.with_wires(Wires::poll_timeout);
        let stacks = self.stacks.iter().filter_map(Stack::poll_timeout);
        stacks.chain(wires).min()
    }

    fn with_wires<T>(&self, f: impl FnOnce(&Wires) -> T) -> T {
        match &self.wires {
            Place::Here(wires, _) => f(wires),
            Place::OnAThread(turns) => turns.with(|wires| f(wires)),
        }
    }
}

fn node(
    now: Instant,
    at: usize,
    config: NodeConfig,
    end: port::memory::End,
    link: Impairment,
    seed: u64,
    mtu: u16,
) -> (Stack, Nic, Impair<port::memory::End>) {
    let mac = MacAddr([2, 0, 0, 0, 0, at as u8 + 1]);
    let secret = |what: u8| {
        let mut secret = [what; 16];
        secret[..8].copy_from_slice(&seed.to_le_bytes());
        secret[8] = at as u8;
        secret
    };
    let mut nic = Nic::new(NicConfig {
        mtu,
        secret: secret(1),
        ..config.nic
    });
    let (function, device) = nic::ring::function(FunctionConfig {
        mac,
        ..config.function
    });
    nic.attach(device)
        .expect("the address is unicast and the only one");
    let stack = Stack::new(
        now,
        StackConfig {
            addresses: vec![
                Cidr::new(World::address(at, false), 24),
                Cidr::new(World::address(at, true), 64),
            ],
            mtu,
            secret: secret(2),
            ..config.stack
        },
        function,
    );
    let port = Impair::new(
        end,
        Impairments::on_transmit(link),
        seed.wrapping_mul(2).wrapping_add(at as u64),
    );
    (stack, nic, port)
}
