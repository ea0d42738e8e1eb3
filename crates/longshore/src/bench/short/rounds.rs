//! Rounds of every mode in turn, and the median of each.

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::case::{Asked, ByNic, Case, Latency, Mode, Ratios, Report};
use super::latency;
use super::linux::ShortRig;
use super::settings::Settings;
use super::world::{Round, ShortWorld, TICK};
use crate::bench::cycles::{Taken, cycles_per, per_host_core};
use crate::bench::cycles_per_second;
use crate::bench::tap::Linux;

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
    let mut notes = Vec::new();
    let mut linux = None;
    if settings.linux {
        let settings = settings.clone();
        match Linux::start(move |tap| ShortRig::new(&settings, tap)) {
            Ok(started) => {
                progress.inc_length(turns);
                linux = Some(started);
            }
            Err(error) => notes.push(format!("Linux was left out: {error:#}")),
        }
    }
    let mut all = run(settings, linux.as_mut(), &progress)?;
    let mut cases = Vec::new();
    let mut bytes_verified = true;
    for (mode, rounds) in Mode::OURS.into_iter().zip(&mut all.ours) {
        progress.set_message(format!("latency, {}", mode.label()));
        let (latency, verified) = latency::measure(settings, mode)
            .with_context(|| format!("latency, {}", mode.label()))?;
        progress.inc(1);
        bytes_verified &= verified && rounds.iter().all(|round| round.verified);
        cases.push(case(mode, rounds, latency));
    }
    if let Some(linux) = &mut linux {
        bytes_verified &= all.linux.iter().all(|round| round.verified);
        let latency = Latency::of(&linux.take_latency()?);
        cases.push(case(Mode::Linux, &mut all.linux, latency));
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(Report {
        settings: asked(settings),
        ratios: Ratios::of(&cases),
        cases,
        bytes_verified,
        notes,
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

/// Rounds by mode.
struct Rounds {
    ours: Vec<Vec<Round>>,
    linux: Vec<Round>,
}

/// For each mode its rounds. One more round than asked for goes first, to warm up; it is verified, but not counted.
fn run(
    settings: &Settings,
    mut linux: Option<&mut Linux>,
    progress: &ProgressBar,
) -> anyhow::Result<Rounds> {
    let mut worlds = Mode::OURS
        .into_iter()
        .map(|mode| ShortWorld::new(settings, mode, TICK))
        .collect::<Result<Vec<_>, _>>()?;
    let mut all = Rounds {
        ours: vec![Vec::new(); worlds.len()],
        linux: Vec::new(),
    };
    let (connections, transactions) = (settings.connections_of_a_round(), transactions(settings));
    for number in 0..=settings.rounds {
        let keep = |round: Round, mode: Mode, rounds: &mut Vec<Round>| {
            if number > 0 {
                rounds.push(round);
            } else {
                anyhow::ensure!(round.verified, "{}: bytes arrived wrong", mode.label());
            }
            progress.inc(1);
            Ok(())
        };
        let context = |mode: Mode| format!("round {number}, {}", mode.label());
        for (world, rounds) in worlds.iter_mut().zip(&mut all.ours) {
            progress.set_message(world.mode.label());
            let round = world.round(connections, transactions);
            let round = round.with_context(|| context(world.mode))?;
            keep(round, world.mode, rounds)?;
        }
        if let Some(linux) = &mut linux {
            progress.set_message(Mode::Linux.label());
            let measured = linux.round(connections);
            let measured = measured.with_context(|| context(Mode::Linux))?;
            let host = measured.cycles as u64;
            let round = Round {
                transactions,
                taken: Taken {
                    host,
                    tcp: host,
                    ..Taken::default()
                },
                by_nic: ByNic {
                    connections,
                    ..ByNic::default()
                },
                verified: measured.verified,
            };
            keep(round, Mode::Linux, &mut all.linux)?;
            if number == 0 {
                // What it took to warm up is left out.
                linux.take_latency()?;
            }
        }
    }
    Ok(all)
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
        by_nic: median.by_nic,
        latency_us,
    }
}
