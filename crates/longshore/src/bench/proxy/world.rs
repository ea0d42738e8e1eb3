//! The world of one mode: clients and a server on one host, the load balancer on the other, a link in memory.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use host::{ListenOptions, Offload, Stack, read_cycles};
use sim::World;

use super::case::{Mode, Spliced};
use super::settings::Settings;
use crate::bench::case::Round;
use crate::bench::cycle_sum::CycleSum;
use crate::bench::exchange::{Client, Ends, Messages, Server};
use crate::bench::hosts::{CLIENTS as ENDS, Hosts, MEASURED as BALANCER, TICK, config, node};
use crate::bench::turn::work;
use crate::lb::config::Config;
use crate::lb::{Balancer, Checks, Means};

/// Where the load balancer listens.
pub const FRONT_PORT: u16 = 80;
/// Where the server listens.
pub const BACK_PORT: u16 = 8080;
/// Longest time without a step forward.
const PATIENCE: Duration = Duration::from_secs(120);
/// What belongs to a round after its last answer: ends of connections, and what lingers of them.
const LINGER: Duration = Duration::from_secs(5);

/// A world, its applications, and who relays.
pub struct ProxyWorld {
    world: World,
    ends: Ends,
    balancer: Balancer,
}

impl ProxyWorld {
    /// A world at rest.
    ///
    /// # Errors
    /// When the server or the load balancer can't listen.
    pub fn new(settings: &Settings, mode: Mode) -> anyhow::Result<Self> {
        let mut nodes = vec![node(); 2];
        nodes[BALANCER].stack.accel = mode.accel();
        let mut world = World::new(config(&settings.run, settings.seed, TICK, nodes));
        let front = SocketAddr::new(World::address(BALANCER, false), FRONT_PORT);
        let back = SocketAddr::new(World::address(ENDS, false), BACK_PORT);
        let ends = ends(settings, world.stack(ENDS), front, back)?;
        let config = Config::parse("the benchmark's load balancer", &configuration(front, back))?;
        let now = world.now();
        let can_splice = mode.accel().splice;
        let balancer = Balancer::start(
            now,
            config,
            world.stack(BALANCER),
            Means {
                can_splice,
                offload: Offload::None,
                tls: None,
                checks: Checks::Own,
            },
        )?;
        Ok(Self {
            world,
            ends,
            balancer,
        })
    }

    /// Everybody once, and one tick of the clock, or more where nobody has anything to do. Answers whether anything moved.
    fn turn(&mut self, cycles: &mut CycleSum) -> anyhow::Result<bool> {
        let moved = self.step(cycles)?;
        if !moved {
            let now = self.world.now();
            let due = self.balancer.poll_timeout();
            let due = due.map_or(now + LINGER, |due| due.max(now + TICK));
            self.world.advance_to(due.min(now + LINGER));
        }
        Ok(moved)
    }

    /// As counted until now.
    fn spliced(&self) -> Spliced {
        let mut sum = Spliced::default();
        for (_, counters) in self.balancer.frontends() {
            sum.connections += counters.splices;
            sum.refused += counters.splices_refused;
            sum.packets += counters.spliced_packets_in + counters.spliced_packets_out;
        }
        sum
    }

    /// Lets so many clients come, exchange their messages, and go.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn round(&mut self, connections: u64, messages: u64) -> anyhow::Result<Round<Spliced>> {
        self.ends.client.ask_for(connections);
        let before = self.spliced();
        let mut cycles = CycleSum::start(&self.world);
        let mut moved_at = self.world.now();
        while !self.ends.client.is_done() {
            if self.turn(&mut cycles)? {
                moved_at = self.world.now();
            }
            let stands_still = self.world.now() - moved_at;
            anyhow::ensure!(stands_still < PATIENCE, "nothing is under way any more");
        }
        let until = self.world.now() + LINGER;
        while self.world.now() < until {
            self.turn(&mut cycles)?;
        }
        Ok(Round {
            count: messages,
            taken: cycles.sum()[BALANCER],
            counted: self.spliced() - before,
            verified: self.ends.verified(),
        })
    }
}

impl Hosts for ProxyWorld {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    fn is_done(&self) -> bool {
        self.ends.client.is_done()
    }

    fn step_hosts(&mut self) -> anyhow::Result<(bool, u64)> {
        let Self {
            world,
            ends,
            balancer,
        } = self;
        let now = world.now();
        ends.client.open(now, world.stack(ENDS))?;
        let moved = work(now, world.stack(ENDS), |stack| ends.run(now, stack))?;
        let start = read_cycles();
        let relayed = work(now, world.stack(BALANCER), |stack| {
            balancer.poll(now, stack);
            Ok(())
        })?;
        Ok((moved || relayed, read_cycles() - start))
    }
}

/// Clients of `front` and a server at `back`, on one stack.
///
/// # Errors
/// When the server can't listen.
pub fn ends(
    settings: &Settings,
    stack: &mut Stack,
    front: SocketAddr,
    back: SocketAddr,
) -> anyhow::Result<Ends> {
    let bytes = settings.message_bytes as usize;
    let messages = Messages::new(settings.seed, bytes, bytes);
    let options = ListenOptions {
        backlog: 2 * settings.connections as usize + 1024,
        ..ListenOptions::default()
    };
    let listener = stack
        .listen(back, options)
        .context("the server can't listen")?;
    let each = settings.messages_per_connection;
    Ok(Ends {
        client: Client::new(front, settings.connections, each, &messages)?,
        server: Server::new(listener, &messages, each),
        messages,
    })
}

/// The load balancer's configuration file.
fn configuration(front: SocketAddr, back: SocketAddr) -> String {
    format!(
        "[frontends.bench]
listen = [\"{front}\"]
mode = \"tcp\"
pool = \"bench\"

[pools.bench]
backends = [\"{back}\"]
health = {{ check = \"none\" }}
"
    )
}
