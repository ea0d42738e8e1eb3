//! Rounds of every mode in turn, and the median of each.

use anyhow::Context as _;
use indicatif::ProgressBar;
use sim::Suite;

use super::row::{Node, row};
use super::source::Source;
use super::transfer::{Connections, Load, Round, transfer};
use super::world::{BenchWorld, RECEIVER, SENDER};
use super::{Case, Direction, Mode, Ratios, Records, Report, RunParameters, Settings, linux};
use crate::bench::cycles_per_second;

/// Measures as the settings say.
///
/// # Errors
/// When a connection breaks.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    let progress = if settings.run.json {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(u64::from(settings.run.rounds + 1) * Mode::OURS.len() as u64)
    };
    let rounds = run(settings, &progress)?;
    let mut bytes_verified = rounds.iter().flatten().all(|round| round.verified);
    let mut cases = Vec::new();
    for direction in [Direction::Tx, Direction::Rx] {
        for (mode, rounds) in Mode::OURS.into_iter().zip(&rounds) {
            cases.push(case(direction, mode, rounds));
        }
    }
    let records = cases
        .iter()
        .filter(|case| case.direction == Direction::Rx && case.mode.offloaded())
        .filter_map(|case| case.records)
        .fold(Records::default(), |sum, records| sum.plus(&records));

    let mut notes = Vec::new();
    if settings.linux {
        match linux::measure(settings, &progress) {
            Ok(measured) => {
                bytes_verified &= measured.verified;
                cases.extend(measured.cases);
            }
            Err(error) => notes.push(format!("Linux was left out: {error:#}")),
        }
    }
    progress.finish_and_clear();
    Ok(Report {
        settings: asked(settings),
        ratios: Ratios::of(&cases),
        cases,
        records,
        bytes_verified,
        notes,
    })
}

fn asked(settings: &Settings) -> RunParameters {
    RunParameters {
        suite: Suite::DEFAULT.to_string(),
        record_bytes: settings.record_bytes,
        message_bytes: settings.message_bytes,
        bytes: settings.share_of_a_connection() * u64::from(settings.connections),
        connections: settings.connections,
        loss: settings.loss,
        reorder: settings.reorder,
        seed: settings.seed,
        rounds: settings.run.rounds,
        layout: settings.run.layout,
        cycles_per_second: cycles_per_second(),
    }
}

/// For each mode its rounds. One more round than asked for goes first, to warm up and to grow the windows; it is
/// verified, but not counted.
fn run(settings: &Settings, progress: &ProgressBar) -> anyhow::Result<Vec<Vec<Round>>> {
    let count = settings.connections;
    progress.set_message("connecting");
    let mut world = BenchWorld::new(settings, count * 2)?;
    let mut plain = Connections::new(world.open(0, count)?);
    let mut secured = Connections::new(world.open(count, count)?);
    world.secure(secured.pairs(), Suite::DEFAULT, settings.seed)?;
    let source = Source::new(settings.seed, settings.message_bytes as usize);
    let region = world
        .world
        .stack(SENDER)
        .register(source.region(), "the benchmark's payload")?;
    world.impair(settings);

    let mut rounds = vec![Vec::new(); Mode::OURS.len()];
    for number in 0..=settings.run.rounds {
        for (mode, rounds) in Mode::OURS.into_iter().zip(&mut rounds) {
            progress.set_message(mode.label());
            if mode.secured() {
                world.set_offload(secured.pairs(), mode.offloaded())?;
            }
            let connections = if mode.secured() {
                &mut secured
            } else {
                &mut plain
            };
            let load = Load {
                mode,
                share: settings.share_of_a_connection(),
                message: settings.message_bytes as usize,
                region,
            };
            let round = transfer(&mut world, connections, &source, load)
                .with_context(|| format!("round {number}, {}", mode.label()))?;
            if number > 0 {
                rounds.push(round);
            } else {
                anyhow::ensure!(round.verified, "{}: bytes arrived wrong", mode.label());
            }
            progress.inc(1);
        }
    }
    Ok(rounds)
}

/// The round with the median of host cycles stands for all.
fn case(direction: Direction, mode: Mode, rounds: &[Round]) -> Case {
    let node = match direction {
        Direction::Tx => SENDER,
        Direction::Rx => RECEIVER,
    };
    let per_byte = |round: &Round| round.taken[node].host as f64 / round.bytes as f64;
    let mut sorted: Vec<&Round> = rounds.iter().collect();
    sorted.sort_by(|a, b| per_byte(a).total_cmp(&per_byte(b)));
    let median = sorted[sorted.len() / 2];
    let receives = direction == Direction::Rx && mode.secured();
    let node = Node {
        taken: median.taken[node],
        pcie: median.pcie[node],
    };
    Case {
        rounds: rounds.iter().map(per_byte).collect(),
        records: receives.then_some(median.records),
        resyncs: (receives && mode.offloaded()).then_some(median.resyncs),
        retransmitted_bytes: if direction == Direction::Tx {
            median.retransmitted
        } else {
            0
        },
        ..row(direction, mode, median.bytes, &node)
    }
}
