//! Two hosts with a NIC each, and the link between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use host::{Cidr, Stack, StackConfig};
use nic::ring::FunctionConfig;
use nic::{Nic, NicConfig};
use port::Port;
use port::impair::{Impair, Impairment, Impairments};
use wire::ethernet::MacAddr;

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
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            stack: StackConfig::default(),
            nic: NicConfig::new([0; 16]),
            function: FunctionConfig::new(MacAddr([0; 6])),
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

/// Sees every frame that a NIC puts on the wire, before the link impairs it: the node that sends it, and its bytes, which
/// it may change, as somebody on the path could.
pub type Observer = Box<dyn FnMut(usize, &mut [u8])>;

/// Two hosts, two NICs, one link, one clock.
pub struct World {
    origin: Instant,
    now: Instant,
    granularity: Duration,
    cycle_counter: fn() -> u64,
    nodes: [Node; 2],
    observer: Option<Observer>,
}

struct Node {
    stack: Stack,
    nic: Nic,
    port: Impair<port::memory::End>,
    cycles: Cycles,
}

impl World {
    /// A world at rest. Its clock starts at an arbitrary instant.
    pub fn new(config: WorldConfig) -> Self {
        let origin = Instant::now();
        let link = port::memory::LinkConfig {
            capacity: config.wire_bytes,
            ..port::memory::LinkConfig::for_mtu(config.mtu)
        };
        let (near, far) = port::memory::link(link);
        let [first, second] = config.nodes;
        let [out, back] = config.links;
        let nodes = [
            Node::new(origin, 0, first, near, out, config.seed, config.mtu),
            Node::new(origin, 1, second, far, back, config.seed, config.mtu),
        ];
        Self {
            origin,
            now: origin,
            granularity: config.granularity,
            cycle_counter: config.cycle_counter.unwrap_or(|| 0),
            nodes,
            observer: None,
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
        &mut self.nodes[node].stack
    }

    /// A host's stack, to look at.
    pub fn stack_ref(&self, node: usize) -> &Stack {
        &self.nodes[node].stack
    }

    /// A host's NIC.
    pub fn nic(&self, node: usize) -> &Nic {
        &self.nodes[node].nic
    }

    /// What a node has taken of the processor.
    pub fn cycles(&self, node: usize) -> Cycles {
        self.nodes[node].cycles
    }

    /// Changes what the link does to frames that a node sends from now on.
    pub fn impair(&mut self, node: usize, impairment: Impairment) {
        self.nodes[node]
            .port
            .set_impairments(Impairments::on_transmit(impairment));
    }

    /// Shows every frame to `observer` from now on.
    pub fn observe(&mut self, observer: impl FnMut(usize, &mut [u8]) + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// Lets each host and each NIC run once. Answers whether anything moved.
    pub fn step(&mut self) -> bool {
        let mut moved = false;
        for (at, node) in self.nodes.iter_mut().enumerate() {
            moved |= node.step(self.now, self.cycle_counter, at, &mut self.observer);
        }
        moved
    }

    /// Jumps to the next wake-up. `false` when nothing is to come: the world is at rest for good.
    pub fn advance(&mut self) -> bool {
        let Some(wake) = self.nodes.iter().filter_map(Node::poll_timeout).min() else {
            return false;
        };
        self.now = wake.max(self.now + self.granularity);
        true
    }

    /// Moves the clock to `when` if nothing is due before, or else to what is due.
    pub fn advance_to(&mut self, when: Instant) {
        let wake = self.nodes.iter().filter_map(Node::poll_timeout).min();
        let next = wake.map_or(when, |wake| wake.max(self.now + self.granularity).min(when));
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
}

impl Node {
    fn new(
        now: Instant,
        at: usize,
        config: NodeConfig,
        end: port::memory::End,
        link: Impairment,
        seed: u64,
        mtu: u16,
    ) -> Self {
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
        Self {
            stack,
            nic,
            port,
            cycles: Cycles::default(),
        }
    }

    /// Host, transmit side of the NIC, link; and the other way round before that.
    fn step(
        &mut self,
        now: Instant,
        cycles: fn() -> u64,
        at: usize,
        observer: &mut Option<Observer>,
    ) -> bool {
        let Self {
            stack,
            nic,
            port,
            cycles: taken,
        } = self;

        let start = cycles();
        let received = port.receive(now, &mut |frame, meta| {
            nic.handle_frame(now, frame, from_port(meta))
        });
        let received = received.expect("a link in memory does not fail") > 0;
        nic.flush(now);
        let posted = cycles();
        taken.nic_receive += posted - start;

        let worked = stack.poll(now);
        let polled = cycles();
        taken.host += polled - posted;

        let sent = port.transmit(now, &mut |buffer| {
            let (len, meta) = nic.poll_transmit(now, buffer)?;
            if let Some(observer) = observer {
                observer(at, &mut buffer[..len]);
            }
            Some((len, to_port(meta)))
        });
        let sent = sent.expect("a link in memory does not fail") > 0;
        taken.nic_transmit += cycles() - polled;
        received | worked | sent
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [
            self.stack.poll_timeout(),
            self.nic.poll_timeout(),
            self.port.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
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
