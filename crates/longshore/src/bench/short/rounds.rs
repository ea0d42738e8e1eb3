//! Rounds of every mode in turn, and the median of each.

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::case::{Asked, Case, Latency, Mode, Ratios, Report};
use super::latency;
use super::settings::Settings;
use super::world::{Round, ShortWorld, TICK};
use crate::bench::cycles_per_second;
use crate::bench::row::{cycles_per, per_host_core};

/// Measures as the settings say.
///
/// # Errors
/// When a connection fails.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    let turns = u64::from(settings.rounds) + 2;
    let progress = if settings.json {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(turns * Mode::OURS.len() as u64)
    };
    let mut rounds = run(settings, &progress)?;
    let mut cases = Vec::new();
    let mut bytes_verified = true;
    for (mode, rounds) in Mode::OURS.into_iter().zip(&mut rounds) {
        progress.set_message(format!("latency, {}", mode.label()));
        let (latency, verified) = latency::measure(settings, mode)
            .with_context(|| format!("latency, {}", mode.label()))?;
        progress.inc(1);
        bytes_verified &= verified && rounds.iter().all(|round| round.verified);
        cases.push(case(mode, rounds, latency));
    }
    progress.finish_and_clear();
    Ok(Report {
        settings: asked(settings),
        ratios: Ratios::of(&cases),
        cases,
        bytes_verified,
        notes: Vec::new(),
    })
}

fn asked(settings: &Settings) -> Asked {
    Asked {
        request_bytes: settings.request_bytes,
        response_bytes: settings.response_bytes,
        transactions_per_connection: settings.transactions_per_connection,
        connections: settings.connections,
        transactions: transactions(settings),
        seed: settings.seed,
        rounds: settings.rounds,
        layout: settings.layout,
        cycles_per_second: cycles_per_second(),
    }
}

fn transactions(settings: &Settings) -> u64 {
    settings.connections_of_a_round() * u64::from(settings.transactions_per_connection)
}

/// For each mode its rounds. One more round than asked for goes first, to warm up; it is verified, but not counted.
fn run(settings: &Settings, progress: &ProgressBar) -> anyhow::Result<Vec<Vec<Round>>> {
    let mut worlds = Mode::OURS
        .into_iter()
        .map(|mode| ShortWorld::new(settings, mode, TICK))
        .collect::<Result<Vec<_>, _>>()?;
    let mut rounds = vec![Vec::new(); worlds.len()];
    for number in 0..=settings.rounds {
        for (world, rounds) in worlds.iter_mut().zip(&mut rounds) {
            let label = world.mode.label();
            progress.set_message(label);
            let round = world
                .round(settings.connections_of_a_round(), transactions(settings))
                .with_context(|| format!("round {number}, {label}"))?;
            if number > 0 {
                rounds.push(round);
            } else {
                anyhow::ensure!(round.verified, "{label}: bytes arrived wrong");
            }
            progress.inc(1);
        }
    }
    Ok(rounds)
}

/// The round with the median of host cycles stands for all.
fn case(mode: Mode, rounds: &mut [Round], latency_us: Latency) -> Case {
    let per_transaction = |round: &Round| round.taken.host as f64 / round.transactions as f64;
    let each = rounds.iter().map(per_transaction).collect();
    rounds.sort_by(|a, b| per_transaction(a).total_cmp(&per_transaction(b)));
    let median = rounds[rounds.len() / 2];
    let (host, nic) = cycles_per(&median.taken, median.transactions);
    Case {
        mode,
        transactions: median.transactions,
        host_cycles_per_transaction: host,
        nic_cycles_per_transaction: nic,
        transactions_per_host_core: per_host_core(host.total),
        rounds: each,
        latency_us,
    }
}
