//! The world of one mode: the clients' host, the server's host, a link in memory.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use host::{Holder, ListenOptions, SocketId, Stack, read_cycles};
use sim::{World, WorldConfig};

use super::case::{Counted, Mode, Owned};
use super::client::Clients;
use super::pages::Pages;
use super::server::Server;
use super::settings::Settings;
use crate::bench::case::Round;
use crate::bench::cycle_sum::CycleSum;
use crate::bench::cycles::Taken;
use crate::bench::hosts::{
    CLIENTS, Hosts, MEASURED as SERVER, WIRE_BYTES, config, counter, node_for,
};
use crate::bench::latency::Timed;
use crate::bench::turn::{Talk, work};

const PORT: u16 = 80;
/// Bytes on the wire in each direction at most.
const MOST_WIRE_BYTES: usize = 64 << 20;
/// Longest time that a move from host to NIC or back may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A world and its applications.
pub struct HandoffWorld {
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
        let mut node = node_for(settings.connections);
        node.stack.max_sockets = settings.connections + 1024;
        let mut nodes = vec![node; 2];
        let server = &mut nodes[SERVER];
        server.stack.handoff = mode.handoff(settings.selection);
        server.nic.toe.hard_limit = settings.hard_limit();
        // All that comes in a batch is worked off in it: nothing says how long the NIC takes.
        server.nic.toe.packets_per_turn = None;
        let mut world = World::new(WorldConfig {
            wire_bytes: wire_bytes(settings),
            ..config(&settings.run, settings.seed, granularity, nodes)
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
            while self.step(&mut cycles)? {}
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
            if !self.step(&mut rest)? {
                self.world.advance_to(until);
            }
        }
    }

    /// As counted until now.
    fn owned(&self) -> Owned {
        let of = |name| counter(self.world.stack_ref(SERVER), name);
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

    /// Makes a round's requests. The first round opens the connections too.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn round(&mut self) -> anyhow::Result<Round<Counted>> {
        self.clients.ask_for(self.requests);
        let before = Owned {
            host: 0,
            nic: 0,
            ..self.owned()
        };
        let taken = self.run()?;
        let connections = self.owned() - before;
        Ok(Round {
            count: self.requests,
            taken,
            counted: Counted { connections },
            verified: self.verified(),
        })
    }
}

impl Hosts for HandoffWorld {
    const TURNS: u32 = 2;

    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn is_done(&self) -> bool {
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
        clients.start(&mut Talk {
            now,
            stack: world.stack(CLIENTS),
            messages: pages,
        })?;
        let moved = work(now, world.stack(CLIENTS), |stack| {
            clients.run(&mut Talk {
                now,
                stack,
                messages: pages,
            })
        })?;
        let start = read_cycles();
        let served = work(now, world.stack(SERVER), |stack| {
            server.run(&mut Talk {
                now,
                stack,
                messages: pages,
            })
        })?;
        Ok((moved || served, read_cycles() - start))
    }
}

impl Timed for HandoffWorld {
    fn ask_for(&mut self, count: u64) {
        self.clients.ask_for(count);
    }

    fn latency(&mut self) -> &mut Histogram<u64> {
        self.clients.latency()
    }

    fn verified(&self) -> bool {
        self.clients.verified()
    }
}

/// Bytes on the wire in each direction: as much as there is to send at once, so that nobody waits for the link.
fn wire_bytes(settings: &Settings) -> usize {
    let response = settings.file_bytes as usize * 9 / 8 + 1024;
    (settings.at_once as usize * response)
        .next_power_of_two()
        .clamp(WIRE_BYTES, MOST_WIRE_BYTES)
}
