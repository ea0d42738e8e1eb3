//! The worlds in which the benchmark runs: an initiator for each mode on one host, the controller on the other.
//!
//! What is inside TLS has a world of its own, since a controller's connections are all inside TLS or none.

use std::time::{Duration, Instant};

use handshake::nvme_psk::Hash;
use host::memory::ArenaLayout;
use host::nvme::PduOffload;
use host::nvme::initiator::{Blocks, Event, Initiator};
use host::{Offload, Stack, read_cycles};
use l5p::nvme::target::Limits;
use port::impair::Impairment;
use sim::storage::{SharedKey, Storage, StorageConfig, poll_initiator};
use sim::{NodeConfig, World, WorldConfig};
use wire::nvme::Digests;

use super::case::{Io, Mode, Offloaded, Stage};
use super::settings::{Digest, Settings};
use crate::bench::pcie::{PcieBytes, pcie};

/// The initiator's host.
pub const HOST: usize = 0;
/// The controller's.
pub const CONTROLLER: usize = 1;

/// Virtual time of a batch when throughput is measured.
pub const TICK: Duration = Duration::from_micros(20);
/// Payload memory of a host's stack.
const ARENA: u64 = 256 << 20;
/// Bytes on the wire in each direction at most: what a batch of 20 µs is at 100 Gbit/s.
const WIRE_BYTES: usize = 256 << 10;
const BLOCK_SHIFT: u8 = 12;

/// Initiators of some modes and their controller.
pub struct NvmeWorld {
    /// The world.
    pub world: World,
    /// By mode.
    pub initiators: Vec<Initiator>,
    storage: Storage,
    tick: Duration,
}

/// What is counted, up to now.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// What the initiator's NIC moved.
    pub pcie: PcieBytes,
    /// What it did for NVMe.
    pub offloaded: Offloaded,
    /// Payload bytes that were sent again, both ways.
    pub retransmitted: u64,
}

impl NvmeWorld {
    /// A world for these modes, all of them inside TLS or none, every initiator connected. Its clock moves by `tick` at least.
    pub fn new(settings: &Settings, modes: &[Mode], tick: Duration) -> anyhow::Result<Self> {
        let mut node = NodeConfig::default();
        node.stack.meter = true;
        node.stack.tcp.rcv_buf = 1 << 20;
        node.stack.send_buffer = 2 << 20;
        node.stack.arena = ArenaLayout::within(ARENA);
        let mut world = World::new(WorldConfig {
            seed: settings.seed,
            wire_bytes: WIRE_BYTES,
            nodes: [node.clone(), node],
            granularity: tick,
            nic_thread: settings.run.has_nic_thread(),
            cycle_counter: Some(read_cycles),
            ..WorldConfig::default()
        });
        let keys = match modes.first() {
            Some(mode) if mode.tls => Some(SharedKey::new(Hash::Sha256)?),
            _ => None,
        };
        let memory = u64::from(settings.depth) * u64::from(settings.io_bytes.max(64 << 10));
        let storage = Storage::new(
            &mut world,
            StorageConfig {
                bytes: settings.working_set,
                block_shift: BLOCK_SHIFT,
                limits: Limits {
                    queue_entries: u32::from(settings.depth + 1).next_power_of_two().max(128),
                    data: 1 << 20,
                    h2c_data: 256 << 10,
                    c2h_data: 256 << 10,
                    ..Limits::default()
                },
                memory: 2 * memory,
                offload: PduOffload::ALL,
                tls_offload: Offload::Both,
                keys,
            },
        );
        let mut world = Self {
            world,
            initiators: Vec::new(),
            storage,
            tick,
        };
        for mode in modes {
            let initiator = world.connect(settings, mode)?;
            world.initiators.push(initiator);
        }
        Ok(world)
    }

    /// Loses and delays packets with data from now on, as the settings say: those towards whom the data goes.
    pub fn impair(&mut self, settings: &Settings, io: Io) {
        let impairment = Impairment {
            loss: settings.loss,
            reorder: settings.reorder,
            ..Impairment::default()
        };
        let (from, to) = match io {
            Io::Read => (CONTROLLER, HOST),
            Io::Write => (HOST, CONTROLLER),
        };
        self.world.impair(from, impairment);
        self.world.impair(to, Impairment::default());
    }

    /// Nothing is lost or late from now on.
    pub fn calm(&mut self) {
        for node in [HOST, CONTROLLER] {
            self.world.impair(node, Impairment::default());
        }
    }

    fn connect(&mut self, settings: &Settings, mode: &Mode) -> anyhow::Result<Initiator> {
        let offload = PduOffload {
            placement: mode.stage >= Stage::Copy,
            receive_digest: mode.stage >= Stage::Crc,
            transmit_digest: mode.stage >= Stage::Crc,
        };
        let tls_offload = match mode.stage {
            Stage::Software => Offload::None,
            Stage::Tls | Stage::Copy | Stage::Crc => Offload::Both,
        };
        let mut initiator = self.storage.initiator(self.world.now(), |config, options| {
            config.digests = match mode.digest {
                Digest::None => Digests::NONE,
                Digest::Data => Digests {
                    header: false,
                    data: true,
                },
                Digest::Both => Digests {
                    header: true,
                    data: true,
                },
            };
            config.io_queues = 1;
            config.depth = settings.depth;
            options.offload = offload;
            options.tls_offload = tls_offload;
        });
        let label = mode.label();
        loop {
            poll_initiator(&mut self.world, &mut initiator);
            match initiator.poll_event() {
                Some(Event::Ready) => break,
                Some(Event::Lost(failure) | Event::Ended(Some(failure))) => {
                    anyhow::bail!("{label}: no connection: {failure}")
                }
                _ => {}
            }
            self.poll_controller();
            let due = initiator.poll_timeout();
            anyhow::ensure!(self.step_until(due), "{label}: the connection is stuck");
        }
        Ok(initiator)
    }

    /// Lets an initiator do what it can. Whether that was anything. Events of the other ones' sockets, which are at rest,
    /// say nothing new.
    pub fn poll_initiator(&mut self, initiator: usize) -> bool {
        poll_initiator(&mut self.world, &mut self.initiators[initiator])
    }

    /// Lets the controller do what it can. Whether that was anything.
    pub fn poll_controller(&mut self) -> bool {
        self.storage.poll(&mut self.world)
    }

    /// One batch, and one tick of the clock. False when nothing is under way any more.
    pub fn step(&mut self, initiator: usize) -> bool {
        let due = self.initiators[initiator].poll_timeout();
        self.step_until(due)
    }

    fn step_until(&mut self, due: Option<Instant>) -> bool {
        let now = self.world.now();
        if self.world.step() {
            self.world.advance_to(now + self.tick);
            return true;
        }
        self.wait_until(due)
    }

    /// Goes to when something is due. False when nothing ever will be.
    pub fn wait(&mut self, initiator: usize) -> bool {
        let due = self.initiators[initiator].poll_timeout();
        self.wait_until(due)
    }

    fn wait_until(&mut self, due: Option<Instant>) -> bool {
        let now = self.world.now();
        let due = due.into_iter().chain(self.storage.poll_timeout()).min();
        match due {
            Some(due) => {
                self.world.advance_to(due.max(now + self.tick));
                true
            }
            None => self.world.advance(),
        }
    }

    /// Steps until all that was under way is done.
    pub fn settle(&mut self, initiator: usize) {
        loop {
            self.poll_initiator(initiator);
            self.poll_controller();
            if !self.world.step() {
                return;
            }
            self.world.advance_to(self.world.now() + self.tick);
        }
    }

    /// The blocks of a chunk.
    pub fn blocks(chunk: u32, chunk_len: u32) -> Blocks {
        let count = chunk_len >> BLOCK_SHIFT;
        Blocks {
            start: u64::from(chunk) * u64::from(count),
            count,
        }
    }

    /// What is counted for an initiator, up to now.
    pub fn counted(&self) -> Counted {
        let counters = self.world.nic_counters(HOST);
        let stack = self.world.stack_ref(HOST);
        Counted {
            pcie: pcie(&counters),
            offloaded: Offloaded {
                placed_bytes: counters.named("rx_nvmeotcp_bytes"),
                placed_packets: counters.named("rx_nvmeotcp_packets"),
                digest_packets: counters.named("rx_nvmeotcp_digest_packets"),
                packets: counters.rx_packets,
                resyncs: counters.named("rx_nvmeotcp_resync"),
            },
            retransmitted: retransmitted(stack) + retransmitted(self.world.stack_ref(CONTROLLER)),
        }
    }
}

fn retransmitted(stack: &Stack) -> u64 {
    let tcp = stack.sockets().filter_map(|socket| socket.tcp);
    tcp.map(|tcp| tcp.bytes_retrans).sum()
}
