//! Rounds of every mode in turn, and the median of each.

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::case::{Case, Io, Mode, Offloaded, Ratios, Report, RunParameters, Stage};
use super::latency;
use super::load::{self, Load, Pass, Round};
use super::memory::{ChunkOrder, Memory};
use super::settings::Settings;
use super::world::{Disks, HOST, TICK};
use crate::bench::cycles::{cycles_per, gbit_per_host_core};
use crate::bench::cycles_per_second;

/// Measures as the settings say.
///
/// # Errors
/// When a connection breaks or a command fails.
pub fn measure<W: Disks>(settings: &Settings) -> anyhow::Result<Report> {
    let modes = Mode::of::<W>(settings);
    let progress = if settings.run.json {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(u64::from(settings.run.rounds + 1) * modes.len() as u64)
    };
    let rounds = run::<W>(settings, &modes, &progress)?;
    let bytes_verified = rounds.iter().flatten().all(|round| round.verified);
    let cases: Vec<Case> = modes
        .iter()
        .zip(&rounds)
        .map(|(mode, rounds)| case(*mode, rounds))
        .collect();
    let placed = cases
        .iter()
        .filter(|case| case.mode.io == Io::Read && case.mode.stage >= Stage::Copy)
        .map(|case| (case.bytes, case.offloaded));
    let (bytes, offloaded) = placed
        .fold((0, Offloaded::default()), |(bytes, sum), (more, next)| {
            (bytes + more, sum.plus(&next))
        });
    let share = |part: u64, all: u64| {
        if all == 0 {
            0.0
        } else {
            part as f64 / all as f64
        }
    };
    let latency_us = if settings.latency {
        progress.set_message("latency");
        latency::measure::<W>(settings)?
    } else {
        Vec::new()
    };
    progress.finish_and_clear();
    Ok(Report {
        protocol: W::NAME,
        settings: asked(settings),
        ratios: Ratios::of(&cases),
        cases,
        offloaded_bytes_share: share(offloaded.placed_bytes, bytes),
        offloaded_packets_share: share(offloaded.placed_packets, offloaded.packets),
        resync_share: share(offloaded.resyncs, offloaded.packets),
        latency_us,
        bytes_verified,
    })
}

fn asked(settings: &Settings) -> RunParameters {
    RunParameters {
        io_bytes: settings.io_bytes,
        depth: settings.depth,
        bytes: settings.commands() * u64::from(settings.io_bytes),
        working_set: settings.working_set,
        loss: settings.loss,
        reorder: settings.reorder,
        seed: settings.seed,
        rounds: settings.run.rounds,
        layout: settings.run.layout,
        cycles_per_second: cycles_per_second(),
    }
}

/// For each mode its rounds. One more round than asked for goes first, to warm up; it is verified, but not counted.
fn run<W: Disks>(
    settings: &Settings,
    modes: &[Mode],
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Vec<Round>>> {
    progress.set_message("connecting");
    let mut rigs = Vec::new();
    for tls in [false, true] {
        let some: Vec<usize> = (0..modes.len())
            .filter(|&at| modes[at].tls == tls)
            .collect();
        if !some.is_empty() {
            rigs.push(Rig::<W>::new(settings, modes, some)?);
        }
    }
    let mut rounds = vec![Vec::new(); modes.len()];
    for number in 0..=settings.run.rounds {
        for rig in &mut rigs {
            for client in 0..rig.modes.len() {
                let at = rig.modes[client];
                progress.set_message(modes[at].label());
                let round = rig
                    .round(settings, client, modes[at].io)
                    .with_context(|| format!("round {number}, {}", modes[at].label()))?;
                if number > 0 {
                    rounds[at].push(round);
                } else {
                    anyhow::ensure!(round.verified, "{}: bytes arrived wrong", modes[at].label());
                }
                progress.inc(1);
            }
        }
    }
    Ok(rounds)
}

/// A world, and what goes with it.
struct Rig<W> {
    world: W,
    memory: Memory,
    order: ChunkOrder,
    /// Of each client the mode, by its place among all.
    modes: Vec<usize>,
}

impl<W: Disks> Rig<W> {
    fn new(settings: &Settings, all: &[Mode], modes: Vec<usize>) -> anyhow::Result<Self> {
        let these: Vec<Mode> = modes.iter().map(|&at| all[at]).collect();
        let mut world = W::new(settings, &these, TICK)?;
        let stack = world.clocked().world.stack(HOST);
        let (bytes, chunk) = (settings.working_set, settings.io_bytes);
        let memory = Memory::new(stack, bytes, chunk, settings.seed)?;
        let order = ChunkOrder::new(settings.seed, memory.chunks());
        let mut rig = Self {
            world,
            memory,
            order,
            modes,
        };
        rig.pass(settings, 0, Pass::Write)
            .context("filling the disk")?;
        Ok(rig)
    }

    /// A measured round.
    fn round(&mut self, settings: &Settings, client: usize, io: Io) -> anyhow::Result<Round> {
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
    fn pass(&mut self, settings: &Settings, client: usize, pass: Pass) -> anyhow::Result<Round> {
        let load = self.load(settings, pass);
        self.run(client, load)
    }

    fn run(&mut self, client: usize, load: Load) -> anyhow::Result<Round> {
        let (world, memory, order) = (&mut self.world, &self.memory, &mut self.order);
        load::run(world, client, memory, order, load)
    }

    fn load(&self, settings: &Settings, pass: Pass) -> Load {
        Load {
            pass,
            commands: u64::from(self.memory.chunks()),
            depth: settings.depth,
        }
    }
}

/// The round with the median of host cycles stands for all.
fn case(mode: Mode, rounds: &[Round]) -> Case {
    let per_byte = |round: &Round| round.taken[HOST].host as f64 / round.bytes as f64;
    let mut sorted: Vec<&Round> = rounds.iter().collect();
    sorted.sort_by(|a, b| per_byte(a).total_cmp(&per_byte(b)));
    let median = sorted[sorted.len() / 2];
    let (host, nic) = cycles_per(&median.taken[0], median.bytes);
    let (controller, _) = cycles_per(&median.taken[1], median.bytes);
    Case {
        mode,
        bytes: median.bytes,
        host_cycles_per_byte: host,
        nic_cycles_per_byte: nic,
        controller_cycles_per_byte: controller.total,
        gbit_per_host_core: gbit_per_host_core(host.total),
        rounds: rounds.iter().map(per_byte).collect(),
        pcie_bytes: median.pcie,
        offloaded: median.offloaded,
        retransmitted_bytes: median.retransmitted,
    }
}
