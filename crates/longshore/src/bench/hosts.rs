//! Worlds of two hosts and a link in memory: clients on the one, what is measured on the other.
//!
//! One thread steps host, NIC, link, NIC and host in turn, in batches. So whatever the host's counter of cycles says was
//! the host's doing, and equal seeds give equal packets, lost and late ones too. The clock is virtual: it goes on by one
//! tick for each batch, and jumps when there is nothing to do.

use std::time::Duration;

use host::{Stack, read_cycles};
use sim::{NodeConfig, World, WorldConfig};

use super::cycle_sum::CycleSum;
use super::cycles::Taken;
use super::settings::Run;

/// The host of the clients.
pub const CLIENTS: usize = 0;
/// The host that is measured.
pub const MEASURED: usize = 1;

/// Virtual time of a batch when throughput is measured.
pub const TICK: Duration = Duration::from_micros(20);
/// Bytes on the wire in each direction at most: what a batch is at 100 Gbit/s.
pub const WIRE_BYTES: usize = 256 << 10;
/// Payload memory of a host.
const ARENA: u64 = 256 << 20;

/// A host whose cycles are counted by component, and its NIC.
pub fn node() -> NodeConfig {
    let mut node = NodeConfig::default();
    node.stack.meter = true;
    node.stack.memory = ARENA;
    node
}

/// The same, with room in its rings for all that so many connections may send in a batch.
pub fn node_for(connections: u32) -> NodeConfig {
    let mut node = node();
    let packets = (4 * connections).next_power_of_two();
    node.function.receive_entries = packets.clamp(2048, 8192);
    node.function.small_entries = node.function.receive_entries;
    node
}

/// A world of these hosts, whose clock goes on by `granularity` at least.
pub fn config(run: &Run, seed: u64, granularity: Duration, nodes: Vec<NodeConfig>) -> WorldConfig {
    WorldConfig {
        seed,
        nodes,
        granularity,
        nic_thread: run.has_nic_thread(),
        cycle_counter: Some(read_cycles),
        ..WorldConfig::default()
    }
}

/// A counter of a stack.
pub fn counter(stack: &Stack, name: &str) -> u64 {
    let named = stack.counters().filter(|(of, _)| *of == name);
    named.map(|(_, count)| count).sum()
}

/// A world with its applications.
pub trait Hosts {
    /// How often both hosts and the link have their turn before nothing is under way: a NIC may tell its host something
    /// without a frame that moves.
    const TURNS: u32 = 1;

    /// The world.
    fn world(&mut self) -> &mut World;

    /// Whether all is done that was asked for.
    fn is_done(&self) -> bool;

    /// The clients' host has its turn, then the one that is measured. Answers whether there was anything to do, and the
    /// cycles of the latter.
    ///
    /// # Errors
    /// When a connection fails.
    fn step_hosts(&mut self) -> anyhow::Result<(bool, u64)>;

    /// One batch, and one tick of the clock if anything moved.
    ///
    /// # Errors
    /// When a connection fails.
    fn step(&mut self, cycles: &mut CycleSum) -> anyhow::Result<bool> {
        for _ in 0..Self::TURNS {
            let (mut moved, taken) = self.step_hosts()?;
            let world = self.world();
            moved |= world.step_wires();
            cycles.step(world, [0, taken]);
            if moved {
                world.advance_to(world.now() + TICK);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on until all is done and at rest. Answers what the measured host and its NIC took.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    fn run(&mut self) -> anyhow::Result<Taken> {
        let mut cycles = CycleSum::start(self.world());
        while !self.is_done() {
            let is_under_way = self.step(&mut cycles)? || self.world().advance();
            anyhow::ensure!(is_under_way, "nothing is under way any more");
        }
        // The last acknowledgements belong to the round.
        while self.step(&mut cycles)? {}
        Ok(cycles.sum()[MEASURED])
    }
}
