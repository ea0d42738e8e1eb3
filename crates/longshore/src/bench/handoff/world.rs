//! The world of one mode: the clients' host, the server's host, a link in memory.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use host::memory::ArenaLayout;
use host::{Holder, ListenOptions, SocketId, Stack, StackConfig, read_cycles};
use sim::{NodeConfig, World, WorldConfig};

use super::case::{Mode, Owned};
use super::client::Clients;
use super::pages::Pages;
use super::server::Server;
use super::settings::Settings;
use crate::bench::cycle_sum::CycleSum;
use crate::bench::cycles::Taken;
use crate::bench::latency::Timed;
use crate::bench::rounds::{Contestant, Round};
use crate::bench::turn::work;

/// The host of the clients.
const CLIENTS: usize = 0;
/// The host that is measured.
const SERVER: usize = 1;

/// Virtual time of a batch.
pub const TICK: Duration = Duration::from_micros(20);
const PORT: u16 = 80;
/// Bytes on the wire in each direction, at least and at most.
const WIRE_BYTES: usize = 256 << 10;
const MOST_WIRE_BYTES: usize = 64 << 20;
/// Payload memory of a host.
const ARENA: u64 = 256 << 20;
/// Longest time that a move from host to NIC or back may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A world, its applications, and who runs the server's connections.
pub struct HandoffWorld {
    /// Of the server's host.
    mode: Mode,
    world: World,
    clients: Clients,
    server: Server,
    pages: Pages,
    /// Requests of a round.
    requests: u64,
}

impl HandoffWorld {
    /// A world at rest. Its clock goes on by `granularity` at least.
    ///
    /// # Errors
    /// When the server can't listen.
    pub fn new(settings: &Settings, mode: Mode, granularity: Duration) -> anyhow::Result<Self> {
        let [clients, mut server] = [node(settings), node(settings)];
        server.stack.handoff = mode.handoff(settings.selection);
        server.nic.toe.hard_limit = settings.hard_limit();
        // All that comes in a batch is worked off in it: nothing says how long the NIC takes.
        server.nic.toe.packets_per_turn = None;
        let mut world = World::new(WorldConfig {
            seed: settings.seed,
            wire_bytes: wire_bytes(settings),
            nodes: vec![clients, server],
            granularity,
            nic_thread: settings.run.has_nic_thread(),
            cycle_counter: Some(read_cycles),
            ..WorldConfig::default()
        });
        let address = SocketAddr::new(World::address(SERVER, false), PORT);
        let options = ListenOptions {
            backlog: settings.connections as usize + 1024,
            ..ListenOptions::default()
        };
        let pages = Pages::new(settings.seed, settings.file_bytes);
        let stack = world.stack(SERVER);
        let listener = stack
            .listen(address, options)
            .context("the server can't listen")?;
        let region = stack
            .register(pages.region(), "files")
            .context("the files can't be registered")?;
        Ok(Self {
            mode,
            world,
            clients: Clients::new(
                address,
                (settings.connections, settings.at_once),
                &pages,
                settings.seed,
            )?,
            server: Server::new(listener, region),
            pages,
            requests: settings.requests,
        })
    }

    /// The world.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// The clients.
    pub fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    /// The server's ends of the connections that `holder` has.
    pub fn held_by(&self, holder: Holder) -> Vec<SocketId> {
        let stack = self.world.stack_ref(SERVER);
        let is_held = |id: &SocketId| stack.info(*id).is_some_and(|info| info.holder == holder);
        self.server.sockets().filter(is_held).collect()
    }

    /// Has the server's stack do something to each of its connections in `moved`, and waits until all of them are with `to`. Answers what
    /// the server's host and NIC took; nothing else goes on meanwhile.
    ///
    /// # Errors
    /// When it does not come to that.
    pub fn hand(
        &mut self,
        moved: &[SocketId],
        to: Holder,
        mut hand: impl FnMut(&mut Stack, Instant, SocketId) -> anyhow::Result<()>,
    ) -> anyhow::Result<Taken> {
        /// Connections that are moved in one turn: what the rings have room for.
        const AT_ONCE: usize = 256;
        let until = self.world.now() + PATIENCE;
        let mut cycles = CycleSum::start(&self.world);
        for some in moved.chunks(AT_ONCE) {
            let start = read_cycles();
            let now = self.world.now();
            for id in some {
                hand(self.world.stack(SERVER), now, *id)?;
            }
            cycles.step(&self.world, [0, read_cycles() - start]);
            while self.step(&mut cycles)? || self.step(&mut cycles)? {}
        }
        // Looking at sockets takes time of its own.
        let taken = cycles.sum()[SERVER];
        let mut rest = CycleSum::start(&self.world);
        loop {
            let stack = self.world.stack_ref(SERVER);
            let is_there = |id: &SocketId| stack.info(*id).is_some_and(|info| info.holder == to);
            if moved.iter().all(is_there) {
                return Ok(taken);
            }
            anyhow::ensure!(self.world.now() < until, "connections stay where they are");
            if !self.step(&mut rest)? && !self.step(&mut rest)? {
                self.world.advance_to(until);
            }
        }
    }

    /// Whether every byte until now was the right one.
    pub fn verified(&self) -> bool {
        self.clients.verified()
    }

    /// As counted until now.
    fn owned(&self) -> Owned {
        let of = |name| {
            let counters = self.world.stack_ref(SERVER).counters();
            counters
                .filter(|(n, _)| *n == name)
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        let nic = self.world.nic_counters(SERVER);
        Owned {
            host: self.held_by(Holder::Host).len() as u64,
            nic: self.held_by(Holder::Nic).len() as u64,
            handed_off: nic.toe_handoffs,
            refused: of("HandoffRefused"),
            restored: of("HandoffRestored") + of("HandoffGivenBack"),
            nic_packets_received: nic.toe_rx_packets,
            nic_packets_sent: nic.toe_tx_packets,
            nic_queue_full: nic.toe_rx_queue_full,
        }
    }

    /// One batch, and one tick of the clock if anything moved.
    fn step(&mut self, cycles: &mut CycleSum) -> anyhow::Result<bool> {
        let (mut moved, taken) = self.step_hosts()?;
        moved |= self.world.step_wires();
        cycles.step(&self.world, [0, taken]);
        if moved {
            self.world.advance_to(self.world.now() + TICK);
        }
        Ok(moved)
    }
}

impl Timed for HandoffWorld {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn is_done(&mut self) -> bool {
        self.clients.is_done()
    }

    fn step_hosts(&mut self) -> anyhow::Result<(bool, u64)> {
        let Self {
            world,
            clients,
            server,
            pages,
            ..
        } = self;
        let now = world.now();
        clients.start(now, world.stack(CLIENTS), pages)?;
        let moved = work(now, world.stack(CLIENTS), |stack| {
            clients.run(now, stack, pages)
        })?;
        let start = read_cycles();
        let served = work(now, world.stack(SERVER), |stack| {
            server.run(now, stack, pages)
        })?;
        Ok((moved || served, read_cycles() - start))
    }
}

impl Contestant<Owned> for HandoffWorld {
    fn label(&self) -> &'static str {
        self.mode.label()
    }

    /// The first round opens the connections too.
    fn round(&mut self) -> anyhow::Result<Round<Owned>> {
        self.clients.ask_for(self.requests);
        let before = self.owned();
        let mut cycles = CycleSum::start(&self.world);
        while !self.clients.is_done() {
            // A NIC may tell its host something without a frame that moves: the host is asked once more.
            let moved = self.step(&mut cycles)? || self.step(&mut cycles)?;
            let is_under_way = moved || self.world.advance();
            anyhow::ensure!(is_under_way, "nothing is under way any more");
        }
        // The last acknowledgements belong to the round.
        while self.step(&mut cycles)? || self.step(&mut cycles)? {}
        Ok(Round {
            count: self.requests,
            taken: cycles.sum()[SERVER],
            counted: self.owned().since(&before),
            verified: self.verified(),
        })
    }
}

/// Bytes on the wire in each direction: as much as there is to send at once, so that nobody waits for the link.
fn wire_bytes(settings: &Settings) -> usize {
    let response = settings.file_bytes as usize * 9 / 8 + 1024;
    (settings.at_once as usize * response)
        .next_power_of_two()
        .clamp(WIRE_BYTES, MOST_WIRE_BYTES)
}

/// A host's stack and its NIC, the clients' or the server's.
fn node(settings: &Settings) -> NodeConfig {
    let mut node = NodeConfig {
        stack: StackConfig {
            meter: true,
            max_sockets: settings.connections + 1024,
            arena: ArenaLayout::within(ARENA),
            ..StackConfig::default()
        },
        ..NodeConfig::default()
    };
    // What all connections may send in a batch has room.
    let packets = (4 * settings.connections).next_power_of_two();
    node.function.receive_entries = packets.clamp(2048, 8192);
    node.function.small_entries = node.function.receive_entries;
    node
}
