//! One round: commands in random order, so many at a time, and everything counted meanwhile.

use anyhow::Context;
use host::read_cycles;

use super::case::{Counted, Io};
use super::memory::{ChunkOrder, Memory};
use super::world::{DiskWorld, HOST, Protocol, SERVER};
use crate::bench::case::Round;
use crate::bench::cycle_sum::CycleSum;

/// What commands do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Read chunks to slots of other numbers, and check what comes.
    Read,
    /// Write what chunks hold from the slots of their numbers.
    Write,
    /// Make chunks zeroes.
    Clear,
}

impl Pass {
    /// What is measured.
    pub fn of(io: Io) -> Self {
        match io {
            Io::Read => Self::Read,
            Io::Write => Self::Write,
        }
    }
}

/// What to do in a round.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What commands do.
    pub pass: Pass,
    /// How many.
    pub commands: u64,
    /// How many at a time.
    pub depth: u16,
}

/// Commands in flight: by slot, and by the client's index.
struct Flight {
    busy: Vec<bool>,
    commands: Vec<Option<(u32, u32)>>,
    count: usize,
}

impl Flight {
    fn new(chunks: u32) -> Self {
        Self {
            busy: vec![false; chunks as usize],
            commands: Vec::new(),
            count: 0,
        }
    }

    fn add(&mut self, index: usize, chunk: u32, slot: u32) {
        if self.commands.len() <= index {
            self.commands.resize(index + 1, None);
        }
        self.commands[index] = Some((chunk, slot));
        self.busy[slot as usize] = true;
        self.count += 1;
    }

    fn remove(&mut self, index: usize) -> anyhow::Result<(u32, u32)> {
        let command = self.commands.get_mut(index).and_then(Option::take);
        let (chunk, slot) = command.context("a command has ended that was none")?;
        self.busy[slot as usize] = false;
        self.count -= 1;
        Ok((chunk, slot))
    }
}

/// Runs commands through one of the clients.
///
/// # Errors
/// When a command fails, or nothing moves any more.
pub fn run<P: Protocol>(
    world: &mut DiskWorld<P>,
    client: usize,
    memory: &Memory,
    order: &mut ChunkOrder,
    load: Load,
) -> anyhow::Result<Round<Counted>> {
    let before = world.counters();
    let mut cycles = CycleSum::start(&world.world);
    let mut flight = Flight::new(memory.chunks());
    let (mut submitted, mut completed, mut verified) = (0, 0, true);
    while completed < load.commands {
        let start = read_cycles();
        let mut aside = 0;
        world.poll_client(client);
        while let Some(index) = world.poll_done(client)? {
            let (chunk, slot) = flight.remove(index)?;
            completed += 1;
            if load.pass == Pass::Read {
                let checked = read_cycles();
                verified &= memory.holds(slot, chunk);
                aside += read_cycles() - checked;
            }
        }
        while submitted < load.commands && flight.count < usize::from(load.depth) {
            let own = load.pass != Pass::Read;
            let next = order.next(own, |slot| !flight.busy[slot as usize]);
            let Some((chunk, slot)) = next else {
                break;
            };
            let index = world.submit(client, load.pass, chunk, memory.slice(slot))?;
            flight.add(index, chunk, slot);
            submitted += 1;
        }
        // What was submitted goes out before the stack has its turn.
        world.poll_client(client);
        let app = read_cycles() - start - aside;
        let server = read_cycles();
        world.poll_server();
        let server = read_cycles() - server;
        anyhow::ensure!(world.step(client), "nothing is under way any more");
        cycles.step(&world.world, [app, server]);
    }
    world.settle(client);
    cycles.step(&world.world, [0; 2]);
    let after = world.counters();
    let bytes = load.commands * u64::from(memory.chunk_len());
    let taken = cycles.sum();
    Ok(Round {
        count: bytes,
        taken: taken[HOST],
        counted: Counted {
            controller_cycles_per_byte: taken[SERVER].host as f64 / bytes as f64,
            pcie_bytes: after.pcie - before.pcie,
            offloaded: after.offloaded - before.offloaded,
            retransmitted_bytes: after.retransmitted - before.retransmitted,
        },
        verified,
    })
}
