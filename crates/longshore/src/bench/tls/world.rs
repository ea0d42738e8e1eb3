//! The world in which the benchmark runs: two hosts, a link, and the connections.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::Context as _;
use host::{Event, ListenOptions, ListenerId, Offload, SocketId};
use sim::{Suite, World, WorldConfig};

use super::Settings;
pub use crate::bench::hosts::{CLIENTS as SENDER, MEASURED as RECEIVER};
use crate::bench::hosts::{TICK, WIRE_BYTES, config, node};

/// Connections to one port of the receiver's: there are some 28,000 local ports to connect from.
const CONNECTIONS_PER_PORT: u32 = 16_384;
const FIRST_PORT: u16 = 5001;
/// What one connection may have queued: two messages of the usual size, as auto-tuning makes it on a short path. More only
/// moves the copies from the cache to main memory.
const SEND_BUFFER: u32 = 512 << 10;
/// Payload memory of a host.
const ARENA: u64 = 512 << 20;
/// Connections opened at a time.
const OPENED_AT_ONCE: u32 = 256;

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The sending end.
    pub sender: SocketId,
    /// The receiving end.
    pub receiver: SocketId,
}

/// The world, its listeners open.
pub struct BenchWorld {
    /// Itself.
    pub world: World,
    listeners: Vec<ListenerId>,
}

impl BenchWorld {
    /// A world for that many connections in all. Nothing is lost or late in it yet.
    pub fn new(settings: &Settings, connections: u32) -> anyhow::Result<Self> {
        let mut node = node();
        node.stack.max_sockets = connections + 1024;
        node.stack.tcp.rcv_buf = 1 << 20;
        node.stack.send_buffer = SEND_BUFFER.max(2 * settings.message_bytes);
        node.stack.memory = ARENA;
        node.stack.record_bytes = settings.record_bytes as u16;
        node.function.contexts = (settings.connections + 64).next_power_of_two();
        let mut world = World::new(WorldConfig {
            wire_bytes: WIRE_BYTES,
            ..config(&settings.run, settings.seed, TICK, vec![node; 2])
        });
        let ports = connections.div_ceil(CONNECTIONS_PER_PORT) as u16;
        let listeners = (0..ports)
            .map(|port| {
                let address = SocketAddr::new(World::address(RECEIVER, false), FIRST_PORT + port);
                world
                    .stack(RECEIVER)
                    .listen(address, ListenOptions::default())
            })
            .collect::<Result<_, _>>()
            .context("the receiver listens")?;
        Ok(Self { world, listeners })
    }

    /// Loses and delays data packets from now on, as the settings say. Acknowledgements all arrive: what a lost data
    /// packet costs is the question.
    pub fn impair(&mut self, settings: &Settings) {
        self.world.impair(SENDER, settings.faults.impairment());
    }

    /// One batch, and one tick of the clock.
    pub fn step(&mut self) -> bool {
        if self.world.step() {
            self.world.advance_to(self.world.now() + TICK);
            true
        } else {
            self.world.advance()
        }
    }

    /// Opens connections, `first` being the number of those opened before.
    pub fn open(&mut self, first: u32, count: u32) -> anyhow::Result<Vec<Pair>> {
        let mut pairs = Vec::with_capacity(count as usize);
        while (pairs.len() as u32) < count {
            let at_once = OPENED_AT_ONCE.min(count - pairs.len() as u32);
            self.open_some(first + pairs.len() as u32, at_once, &mut pairs)?;
        }
        Ok(pairs)
    }

    fn open_some(&mut self, first: u32, count: u32, pairs: &mut Vec<Pair>) -> anyhow::Result<()> {
        let mut senders = HashMap::new();
        for number in first..first + count {
            let port = FIRST_PORT + (number / CONNECTIONS_PER_PORT) as u16;
            let remote = SocketAddr::new(World::address(RECEIVER, false), port);
            let now = self.world.now();
            let sender = self
                .world
                .stack(SENDER)
                .connect(now, remote)
                .context("a connection of the benchmark")?;
            let local = self
                .world
                .stack_ref(SENDER)
                .info(sender)
                .context("a fresh socket")?
                .local;
            senders.insert((local, remote), sender);
        }
        let mut connected = 0;
        while !senders.is_empty() || connected < count {
            anyhow::ensure!(self.step(), "the connections did not come about");
            while let Some(event) = self.world.stack(SENDER).poll_event() {
                match event {
                    Event::Connected(_) => connected += 1,
                    Event::Closed(_, reason) => anyhow::bail!("a connection failed: {reason}"),
                    _ => {}
                }
            }
            while self.world.stack(RECEIVER).poll_event().is_some() {}
            for &listener in &self.listeners {
                while let Some(receiver) = self.world.stack(RECEIVER).accept(listener) {
                    let info = self
                        .world
                        .stack_ref(RECEIVER)
                        .info(receiver)
                        .context("an accepted socket")?;
                    let sender = senders
                        .remove(&(info.remote, info.local))
                        .context("a connection of ours")?;
                    pairs.push(Pair { sender, receiver });
                }
            }
        }
        Ok(())
    }

    /// Installs keys on both ends; everything in software for now.
    pub fn secure(&mut self, pairs: &[Pair], suite: Suite, seed: u64) -> anyhow::Result<()> {
        for (number, pair) in pairs.iter().enumerate() {
            let now = self.world.now();
            let [out, back] = [0, 1].map(|way| suite.keys(seed ^ ((number as u64) << 8) ^ way));
            self.world.stack(SENDER).install_tls(
                now,
                pair.sender,
                out.clone(),
                back.clone(),
                Offload::None,
            )?;
            self.world
                .stack(RECEIVER)
                .install_tls(now, pair.receiver, back, out, Offload::None)?;
        }
        Ok(())
    }

    /// Turns the offload on or off, of transmit at the sender and of receive at the receiver, and waits until that
    /// has come through.
    pub fn set_offload(&mut self, pairs: &[Pair], on: bool) -> anyhow::Result<()> {
        let choose = |offload| if on { offload } else { Offload::None };
        for some in pairs.chunks(256) {
            for pair in some {
                let now = self.world.now();
                self.world
                    .stack(SENDER)
                    .set_offload(now, pair.sender, choose(Offload::Tx))?;
                self.world
                    .stack(RECEIVER)
                    .set_offload(now, pair.receiver, choose(Offload::Rx))?;
            }
            self.settle();
        }
        Ok(())
    }

    /// Steps until all that was under way is done.
    pub fn settle(&mut self) {
        while self.world.step() {
            self.world.advance_to(self.world.now() + TICK);
        }
        for node in [SENDER, RECEIVER] {
            while self.world.stack(node).poll_event().is_some() {}
        }
    }
}
