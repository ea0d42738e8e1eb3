//! The world of one mode: the client's host, the server's host, a link in memory.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use host::memory::ArenaLayout;
use host::{ListenOptions, StackConfig, read_cycles};
use sim::{NodeConfig, World, WorldConfig};

use super::case::{ByNic, Mode};
use super::settings::Settings;
use crate::bench::cycle_sum::CycleSum;
use crate::bench::exchange::{Client, Messages, Server};
use crate::bench::latency::Timed;
use crate::bench::rounds::{Contestant, Round};
use crate::bench::turn::work;

/// The host of the client.
const CLIENT: usize = 0;
/// The host that is measured.
pub const SERVER: usize = 1;

/// Virtual time of a batch.
pub const TICK: Duration = Duration::from_micros(20);
const PORT: u16 = 80;
/// Bytes on the wire in each direction at most: what a batch of 20 µs is at 100 Gbit/s.
const WIRE_BYTES: usize = 256 << 10;
/// Payload memory of a host.
const ARENA: u64 = 256 << 20;

/// A world, its applications, and who opens and closes.
pub struct ShortWorld {
    /// Of the server's host.
    mode: Mode,
    /// Hosts, NICs, link.
    pub world: World,
    client: Client,
    server: Server,
    messages: Messages,
    /// Connections of a round.
    connections: u64,
    /// Transactions of a round.
    transactions: u64,
}

impl ShortWorld {
    /// A world at rest. Its clock goes on by `granularity` at least.
    ///
    /// # Errors
    /// When the server can't listen.
    pub fn new(settings: &Settings, mode: Mode, granularity: Duration) -> anyhow::Result<Self> {
        let [client, mut server] = [node(settings), node(settings)];
        server.stack.accel = mode.accel();
        let mut world = World::new(WorldConfig {
            seed: settings.seed,
            wire_bytes: WIRE_BYTES,
            nodes: vec![client, server],
            granularity,
            nic_thread: settings.run.has_nic_thread(),
            cycle_counter: Some(read_cycles),
            ..WorldConfig::default()
        });
        let address = SocketAddr::new(World::address(SERVER, false), PORT);
        let options = ListenOptions {
            backlog: 2 * settings.connections as usize + 1024,
            // The client speaks first.
            defer: mode.accel().setup,
            ..ListenOptions::default()
        };
        let listener = world
            .stack(SERVER)
            .listen(address, options)
            .context("the server can't listen")?;
        let messages = Messages::new(
            settings.seed,
            settings.request_bytes as usize,
            settings.response_bytes as usize,
        );
        let each = settings.transactions_per_connection;
        Ok(Self {
            mode,
            world,
            client: Client::new(address, settings.connections, each, &messages)?,
            server: Server::new(listener, &messages, each),
            messages,
            connections: settings.connections_of_a_round(),
            transactions: settings.transactions_of_a_round(),
        })
    }

    /// The client.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Whether every byte until now was the right one.
    pub fn verified(&self) -> bool {
        self.client.verified() && self.server.verified()
    }

    /// As counted until now.
    fn by_nic(&self) -> ByNic {
        let of = |name| {
            let counters = self.world.stack_ref(SERVER).counters();
            counters
                .filter(|(n, _)| *n == name)
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        ByNic {
            connections: 0,
            set_up: of("AccelSetups"),
            torn_down: of("AccelTeardowns") - of("AccelTeardownsRefused"),
            promoted: of("AccelQuasiPromoted"),
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

impl Timed for ShortWorld {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn is_done(&mut self) -> bool {
        self.client.is_done()
    }

    fn step_hosts(&mut self) -> anyhow::Result<(bool, u64)> {
        let Self {
            world,
            client,
            server,
            messages,
            ..
        } = self;
        let now = world.now();
        client.open(now, world.stack(CLIENT))?;
        let moved = work(now, world.stack(CLIENT), |stack| {
            client.run(now, stack, messages)
        })?;
        let (start, mut aside) = (read_cycles(), 0);
        let served = work(now, world.stack(SERVER), |stack| {
            aside += server.run(now, stack, messages)?;
            Ok(())
        })?;
        Ok((moved || served, read_cycles() - start - aside))
    }
}

impl Contestant<ByNic> for ShortWorld {
    fn label(&self) -> &'static str {
        self.mode.label()
    }

    fn round(&mut self) -> anyhow::Result<Round<ByNic>> {
        self.client.ask_for(self.connections);
        let before = self.by_nic();
        let mut cycles = CycleSum::start(&self.world);
        while !self.client.is_done() {
            let is_under_way = self.step(&mut cycles)? || self.world.advance();
            anyhow::ensure!(is_under_way, "nothing is under way any more");
        }
        // The last acknowledgements belong to the round.
        while self.step(&mut cycles)? {}
        Ok(Round {
            count: self.transactions,
            taken: cycles.sum()[SERVER],
            counted: ByNic {
                connections: self.connections,
                ..self.by_nic().since(&before)
            },
            verified: self.verified(),
        })
    }
}

/// A host's stack, the client's or the server's.
pub fn stack_config(settings: &Settings) -> StackConfig {
    StackConfig {
        meter: true,
        // Connections that end are beside those that go on.
        max_sockets: 4 * settings.connections + 1024,
        arena: ArenaLayout::within(ARENA),
        ..StackConfig::default()
    }
}

fn node(settings: &Settings) -> NodeConfig {
    let mut node = NodeConfig {
        stack: stack_config(settings),
        ..NodeConfig::default()
    };
    // What all connections may send in a batch has room.
    let packets = (4 * settings.connections).next_power_of_two();
    node.function.receive_entries = packets.clamp(2048, 8192);
    node.function.small_entries = node.function.receive_entries;
    node
}
