//! The world of one mode: the client's host, the server's host, a link in memory.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use host::{ListenOptions, StackConfig};
use sim::{NodeConfig, World, WorldConfig};

use super::case::{ByNic, Counted, Mode};
use super::settings::Settings;
use crate::bench::case::Round;
use crate::bench::exchange::{Client, Messages, Server};
use crate::bench::hosts::{CLIENTS, Hosts, MEASURED, WIRE_BYTES, config, counter, node_for};
use crate::bench::latency::Timed;

const PORT: u16 = 80;

/// A world and its applications.
pub struct ShortWorld {
    world: World,
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
        let node = NodeConfig {
            stack: stack_config(settings),
            ..node_for(settings.connections)
        };
        let mut nodes = vec![node; 2];
        nodes[MEASURED].stack.accel = mode.accel();
        let mut world = World::new(WorldConfig {
            wire_bytes: WIRE_BYTES,
            ..config(&settings.run, settings.seed, granularity, nodes)
        });
        let address = SocketAddr::new(World::address(MEASURED, false), PORT);
        let options = ListenOptions {
            backlog: 2 * settings.connections as usize + 1024,
            // The client speaks first.
            defer: mode.accel().setup,
            ..ListenOptions::default()
        };
        let listener = world.stack(MEASURED).listen(address, options);
        let listener = listener.context("the server can't listen")?;
        let messages = settings.messages();
        let each = settings.transactions_per_connection;
        Ok(Self {
            world,
            client: Client::new(address, settings.connections, each, &messages)?,
            server: Server::new(listener, &messages, each),
            messages,
            connections: settings.connections_of_a_round(),
            transactions: settings.transactions_of_a_round(),
        })
    }

    /// As counted until now.
    fn by_nic(&self) -> ByNic {
        let of = |name| counter(self.world.stack_ref(MEASURED), name);
        ByNic {
            connections: 0,
            set_up: of("AccelSetups"),
            torn_down: of("AccelTeardowns") - of("AccelTeardownsRefused"),
            promoted: of("AccelQuasiPromoted"),
        }
    }

    /// Opens a round's connections, and exchanges messages on them.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn round(&mut self) -> anyhow::Result<Round<Counted>> {
        self.client.ask_for(self.connections);
        let before = self.by_nic();
        let taken = self.run()?;
        let by_nic = ByNic {
            connections: self.connections,
            ..self.by_nic().with(&before, u64::saturating_sub)
        };
        Ok(Round {
            count: self.transactions,
            taken,
            counted: Counted { by_nic },
            verified: self.verified(),
        })
    }
}

impl Hosts for ShortWorld {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn is_done(&self) -> bool {
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
        let moved = client.turn(now, world.stack(CLIENTS), messages)?;
        let (served, cycles) = server.turn(now, world.stack(MEASURED), messages)?;
        Ok((moved || served, cycles))
    }
}

impl Timed for ShortWorld {
    fn ask_for(&mut self, count: u64) {
        self.client.ask_for(count);
    }

    fn latency(&mut self) -> &mut Histogram<u64> {
        self.client.latency()
    }

    fn verified(&self) -> bool {
        self.client.verified() && self.server.verified()
    }
}

/// A host's stack, the client's or the server's.
pub fn stack_config(settings: &Settings) -> StackConfig {
    StackConfig {
        // Connections that end are beside those that go on.
        max_sockets: 4 * settings.connections + 1024,
        ..node_for(settings.connections).stack
    }
}
