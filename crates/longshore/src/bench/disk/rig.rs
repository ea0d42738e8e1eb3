//! Worlds with the clients of all modes, and their rounds.

use anyhow::Context as _;

use super::case::{Counted, Io, Mode};
use super::load::{self, Load, Pass};
use super::memory::{ChunkOrder, Memory};
use super::settings::{Settings, Workload};
use super::world::{DiskWorld, HOST, Protocol};
use crate::bench::case::Round;
use crate::bench::hosts::TICK;
use crate::bench::rounds::{Rig, Turn};

/// The worlds without TLS and inside of it.
pub struct Rigs<P: Protocol> {
    workload: Workload,
    /// By turn, with the client in its world.
    modes: Vec<(Mode, usize)>,
    /// By [`Mode::tls`].
    worlds: [Option<Filled<P>>; 2],
}

impl<P: Protocol> Rigs<P> {
    /// Clients of all modes, connected to disks that are filled.
    ///
    /// # Errors
    /// When there is no connection, or a command fails.
    pub fn new(settings: &Settings<P>) -> anyhow::Result<Self> {
        let modes = Mode::of(settings);
        let mut numbered = Vec::new();
        let mut worlds = [None, None];
        for tls in [false, true] {
            let some = modes.iter().filter(|mode| mode.tls == tls);
            let some: Vec<Mode> = some.copied().collect();
            numbered.extend(some.iter().copied().zip(0..));
            if !some.is_empty() {
                worlds[usize::from(tls)] = Some(Filled::new(settings, &some)?);
            }
        }
        Ok(Self {
            workload: settings.workload.clone(),
            modes: numbered,
            worlds,
        })
    }
}

impl<P: Protocol> Rig for Rigs<P> {
    type Mode = Mode;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Mode>> {
        self.modes
            .iter()
            .map(|(mode, _)| Turn::from(*mode))
            .collect()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        let (mode, client) = self.modes[turn];
        let world = self.worlds[usize::from(mode.tls)].as_mut();
        let world = world.context("a world of every mode")?;
        Ok(vec![world.round(&self.workload, client, mode.io)?])
    }
}

/// A world with the memory that its disk is read into and was filled from.
struct Filled<P: Protocol> {
    world: DiskWorld<P>,
    memory: Memory,
    order: ChunkOrder,
}

impl<P: Protocol> Filled<P> {
    fn new(settings: &Workload, modes: &[Mode]) -> anyhow::Result<Self> {
        let mut world = DiskWorld::new(settings, modes, TICK)?;
        let stack = world.world.stack(HOST);
        let (bytes, chunk) = (settings.working_set, settings.io_bytes);
        let memory = Memory::new(stack, bytes, chunk, settings.seed)?;
        let order = ChunkOrder::new(settings.seed, memory.chunks());
        let mut filled = Self {
            world,
            memory,
            order,
        };
        filled
            .pass(settings, 0, Pass::Write)
            .context("filling the disk")?;
        Ok(filled)
    }

    /// A measured round.
    fn round(
        &mut self,
        settings: &Workload,
        client: usize,
        io: Io,
    ) -> anyhow::Result<Round<Counted>> {
        if io == Io::Write {
            if !self.world.clear() {
                self.pass(settings, client, Pass::Clear)?;
            }
            self.memory.reset();
        }
        self.world.impair(settings, io);
        let load = Load {
            commands: settings.commands(),
            ..self.load(settings, Pass::of(io))
        };
        let mut round = self.run(client, load)?;
        self.world.calm();
        if io == Io::Write {
            round.verified = self.pass(settings, client, Pass::Read)?.verified;
        }
        Ok(round)
    }

    /// Goes over the whole namespace once.
    fn pass(
        &mut self,
        settings: &Workload,
        client: usize,
        pass: Pass,
    ) -> anyhow::Result<Round<Counted>> {
        let load = self.load(settings, pass);
        self.run(client, load)
    }

    fn run(&mut self, client: usize, load: Load) -> anyhow::Result<Round<Counted>> {
        let (world, memory, order) = (&mut self.world, &self.memory, &mut self.order);
        load::run(world, client, memory, order, load)
    }

    fn load(&self, settings: &Workload, pass: Pass) -> Load {
        Load {
            pass,
            commands: u64::from(self.memory.chunks()),
            depth: settings.depth,
        }
    }
}
