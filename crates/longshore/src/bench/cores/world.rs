//! A world of one workload: clients and servers with a stack and a NIC for each core, and the wire between their machines.

use std::net::SocketAddr;

use anyhow::Context as _;
use host::{Accel, ListenOptions};
use sim::{Suite, World, WorldConfig};

use super::case::{Counted, Mode, Workload};
use super::settings::Settings;
use crate::bench::case::Round;
use crate::bench::exchange::{Client, Messages, Server};
use crate::bench::hosts::{CLIENTS, Hosts, MEASURED, TICK, WIRE_BYTES, config, node_for};

const PORT: u16 = 80;

/// A world and its applications.
pub struct CoresWorld {
    world: World,
    /// By core of the clients' machine.
    clients: Vec<(usize, Client)>,
    /// By core of the measured machine.
    servers: Vec<(usize, Server)>,
    messages: Messages,
    /// Connections of a round, for each core.
    connections: u64,
    /// Transactions of a round, of all cores.
    transactions: u64,
}

impl CoresWorld {
    /// A world at rest.
    ///
    /// # Errors
    /// When a server can't listen.
    pub fn new(settings: &Settings, mode: Mode) -> anyhow::Result<Self> {
        let Mode { workload, cores } = mode;
        let mut node = node_for(settings.connections);
        // Connections that end are beside those that go on, and no core has just its share.
        node.stack.max_sockets = 8 * settings.connections + 1024;
        let mut nodes = vec![node; 2];
        let by_nic = workload == Workload::Connections;
        nodes[MEASURED].stack.accel = Accel {
            setup: by_nic,
            teardown: by_nic,
            lazy_tcb: by_nic,
            splice: false,
        };
        let mut world = World::new(WorldConfig {
            wire_bytes: WIRE_BYTES * usize::from(cores),
            workers: cores,
            own_queues: true,
            ..config(&settings.run, settings.seed, TICK, nodes)
        });
        let secured = (workload == Workload::Tls).then_some(Suite::DEFAULT);
        let messages = Messages::new(settings.seed, Workload::REQUEST, workload.response());
        let each = settings.transactions_per_connection(workload);
        let address = SocketAddr::new(World::address(MEASURED, false), PORT);
        let clients = world.nodes_of(CLIENTS).map(|node| {
            let client = Client::new(address, settings.connections, each, &messages)?;
            Ok((node, client.secured_by(secured)))
        });
        let clients = clients.collect::<anyhow::Result<_>>()?;
        let mut servers = Vec::new();
        for node in world.nodes_of(MEASURED) {
            let options = ListenOptions {
                backlog: 8 * settings.connections as usize + 1024,
                // The client speaks first.
                defer: by_nic,
                ..ListenOptions::default()
            };
            let listener = world.stack(node).listen(address, options);
            let listener = listener.context("the server can't listen")?;
            let server = Server::new(listener, &messages, each).secured_by(secured);
            servers.push((node, server));
        }
        let connections = settings.connections_of_a_round(workload);
        Ok(Self {
            world,
            clients,
            servers,
            messages,
            connections,
            transactions: connections * u64::from(each) * u64::from(cores),
        })
    }

    /// Opens a round's connections, and exchanges messages on them.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn round(&mut self) -> anyhow::Result<Round<Counted>> {
        for (_, client) in &mut self.clients {
            client.ask_for(self.connections);
        }
        let before: Vec<u64> = self.requests().collect();
        let taken = self.run()?;
        let most = self
            .requests()
            .zip(before)
            .map(|(now, before)| now - before);
        let share = self.transactions as f64 / self.servers.len() as f64;
        let clients = self.clients.iter().map(|(_, client)| client.verified());
        let servers = self.servers.iter().map(|(_, server)| server.verified());
        Ok(Round {
            count: self.transactions,
            taken,
            counted: Counted {
                most_over_share: most.max().unwrap_or(0) as f64 / share,
            },
            verified: clients.chain(servers).all(|verified| verified),
        })
    }

    /// Transactions of each core until now.
    fn requests(&self) -> impl Iterator<Item = u64> + '_ {
        self.servers.iter().map(|(_, server)| server.requests())
    }
}

impl Hosts for CoresWorld {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn is_done(&self) -> bool {
        self.clients.iter().all(|(_, client)| client.is_done())
    }

    fn step_hosts(&mut self) -> anyhow::Result<(bool, u64)> {
        let Self {
            world,
            clients,
            servers,
            messages,
            ..
        } = self;
        let now = world.now();
        let mut moved = false;
        for (node, client) in clients {
            moved |= client.turn(now, world.stack(*node), messages)?;
        }
        let mut cycles = 0;
        for (node, server) in servers {
            let (served, taken) = server.turn(now, world.stack(*node), messages)?;
            moved |= served;
            cycles += taken;
        }
        Ok((moved, cycles))
    }
}
