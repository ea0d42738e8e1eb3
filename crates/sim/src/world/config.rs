//! What a world is made of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use host::{Cidr, Dad, Shard, Stack, StackConfig};
use nic::ring::FunctionConfig;
use nic::{Nic, NicConfig};
use port::impair::Impairment;
use wire::ethernet::MacAddr;
use wire::packet::Steering;

/// What a world is made of. Equal configurations give equal runs, but for the random bytes of a TLS handshake.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Seeds the stacks' and NICs' secrets and the links' impairments.
    pub seed: u64,
    /// Largest IP packet on the link, in bytes.
    pub mtu: u16,
    /// Bytes of frames that the wire holds from each host to each other one between two steps. Two hosts' NICs wait for room;
    /// what does not fit among more hosts waits in front of the wire.
    pub wire_bytes: usize,
    /// By node: what happens to the frames that it sends, to each other one by itself. Nothing does where there is no entry.
    pub links: Vec<Impairment>,
    /// The machines; two unless said otherwise. Each is a node, or several.
    pub nodes: Vec<NodeConfig>,
    /// Nodes of each machine: hosts with a NIC each that share its addresses, over which its flows are spread. Of `m` machines, node
    /// `n` belongs to machine `n % m`.
    pub workers: u16,
    /// Workers have a queue each for what they send, and frames come by the queue of the worker that they are for, as with a TAP; else
    /// they come by each worker's in turns, so that many are passed on.
    pub own_queues: bool,
    /// The least that the clock moves when it moves: work that falls due in between is done in one batch, as with a
    /// NIC that moderates its interrupts.
    pub granularity: Duration,
    /// Reads a cycle counter, where [`World::cycles`](super::World::cycles) is wanted; or anything else that is to be counted so.
    pub cycle_counter: Option<fn() -> u64>,
    /// Lets the NICs and the link run on a thread of their own, in strict turns with the hosts: nothing else changes,
    /// but the hosts keep their processor's caches to themselves, as they would with a NIC in hardware.
    pub nic_thread: bool,
    /// Takes every stack's events at each step, for [`World::events`](super::World::events), and asserts that the figures of its sockets
    /// agree with each other.
    pub watched: bool,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            mtu: 1500,
            wire_bytes: 1 << 20,
            links: Vec::new(),
            nodes: vec![NodeConfig::default(); 2],
            workers: 1,
            own_queues: false,
            granularity: Duration::from_micros(1),
            cycle_counter: None,
            nic_thread: false,
            watched: false,
        }
    }
}

impl WorldConfig {
    /// So many hosts with 50 MiB of payload memory each, 50 µs apart, and [watched](Self::watched).
    pub fn modest(hosts: usize) -> Self {
        let mut node = NodeConfig::default();
        node.stack.memory = 50 << 20;
        let link = Impairment {
            delay: Duration::from_micros(50),
            ..Impairment::default()
        };
        Self {
            links: vec![link; hosts],
            nodes: vec![node; hosts],
            watched: true,
            ..Self::default()
        }
    }

    /// How the flows of a machine are spread over its nodes.
    pub(super) fn steering(&self, machine: usize) -> Steering {
        Steering::new(&secret(self.seed, machine, 3), self.workers)
    }

    /// The settings of a node.
    pub(super) fn node(&self, node: usize) -> NodeConfig {
        let count = self.nodes.len();
        let (machine, worker) = (node % count, node / count);
        let mut config = self.nodes[machine].clone();
        config.stack.shard = (self.workers > 1).then(|| Shard {
            steering: self.steering(machine),
            worker,
        });
        config
    }
}

/// Unpredictable to nobody who knows the seed.
fn secret(seed: u64, machine: usize, what: u8) -> [u8; 16] {
    let mut secret = [what; 16];
    secret[..8].copy_from_slice(&seed.to_le_bytes());
    secret[8] = machine as u8;
    secret
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
    /// Largest IP packet of this host, where that is less than the link's.
    pub mtu: Option<u16>,
    /// Time that the NIC takes for a frame; in each direction it does one after the other. Zero for a NIC that takes none.
    pub nic_frame_time: Duration,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            // Each host of a world has addresses of its own, and no switch looks after groups.
            stack: StackConfig {
                dad: Dad::Off,
                mld: false,
                ..StackConfig::default()
            },
            nic: NicConfig::new([0; 16]),
            function: FunctionConfig::new(MacAddr([0; 6])),
            mtu: None,
            nic_frame_time: Duration::ZERO,
        }
    }
}

impl NodeConfig {
    /// One with room for a few connections: many such worlds fit a machine.
    pub fn small() -> Self {
        let node = Self::default();
        let function = FunctionConfig {
            send_entries: 256,
            receive_entries: 512,
            small_entries: 512,
            large_entries: 32,
            contexts: 64,
            ..node.function
        };
        let stack = StackConfig {
            memory: 15 << 20,
            max_sockets: 16,
            ..node.stack
        };
        Self {
            stack,
            function,
            ..node
        }
    }

    /// The host and the NIC of a node, on no link yet: a world that is stepped in another way can be made of them.
    pub fn build(&self, now: Instant, node: usize, seed: u64, mtu: u16) -> (Stack, Nic) {
        let mtu = self.mtu.unwrap_or(mtu);
        let secret = |what| secret(seed, node, what);
        let mut nic = Nic::new(NicConfig {
            mtu,
            secret: secret(1),
            ..self.nic
        });
        let (function, device) = nic::ring::function(FunctionConfig {
            mac: mac(node),
            ..self.function
        });
        nic.attach(device)
            .expect("the address is unicast and the only one");
        let config = StackConfig {
            addresses: vec![
                Cidr::new(address(node, false), 24),
                Cidr::new(address(node, true), 64),
            ],
            mtu,
            secret: secret(2),
            ..self.stack.clone()
        };
        (Stack::new(now, config, function), nic)
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

/// The MAC address of a node.
pub fn mac(node: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, node as u8 + 1])
}
