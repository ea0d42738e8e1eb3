//! Rounds of every mode in turn, and the median of each.

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::case::{Asked, Case, Mode, Ratios, Report, Spliced};
use super::haproxy::HaproxyRig;
use super::settings::Settings;
use super::world::{ProxyWorld, Round};
use crate::bench::cycles::{Taken, cycles_per, per_host_core};
use crate::bench::cycles_per_second;
use crate::bench::tap::Linux;

/// Measures as the settings say.
///
/// # Errors
/// When a connection fails.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    let turns = u64::from(settings.rounds) + 1;
    let progress = if settings.json {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(turns * Mode::OURS.len() as u64)
    };
    let mut notes = Vec::new();
    let mut haproxy = None;
    if settings.linux {
        let settings = settings.clone();
        match Linux::start(move |tap| HaproxyRig::new(&settings, tap)) {
            Ok(started) => {
                progress.inc_length(turns);
                haproxy = Some(started);
            }
            Err(error) => notes.push(format!("HAProxy was left out: {error:#}")),
        }
    }
    let mut rounds = run(settings, haproxy.as_mut(), &progress)?;
    progress.finish_and_clear();
    let bytes_verified = rounds.iter().flatten().all(|round| round.verified);
    let cases: Vec<Case> = MODES
        .into_iter()
        .zip(&mut rounds)
        .filter(|(_, rounds)| !rounds.is_empty())
        .map(|(mode, rounds)| case(mode, rounds))
        .collect();
    Ok(Report {
        settings: asked(settings),
        ratios: Ratios::of(&cases),
        cases,
        bytes_verified,
        notes,
    })
}

/// Every mode, in the order of the rows.
const MODES: [Mode; 3] = [Mode::Relay, Mode::Splice, Mode::Haproxy];

fn asked(settings: &Settings) -> Asked {
    Asked {
        message_bytes: settings.message_bytes,
        messages_per_connection: settings.messages_per_connection,
        connections: settings.connections,
        messages: messages(settings),
        seed: settings.seed,
        rounds: settings.rounds,
        layout: settings.layout,
        cycles_per_second: cycles_per_second(),
    }
}

fn messages(settings: &Settings) -> u64 {
    settings.connections_of_a_round() * u64::from(settings.messages_per_connection)
}

/// For each mode its rounds. One more round than asked for goes first, to warm up; it is verified, but not counted.
fn run(
    settings: &Settings,
    mut haproxy: Option<&mut Linux>,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Vec<Round>>> {
    let mut worlds = Mode::OURS
        .into_iter()
        .map(|mode| ProxyWorld::new(settings, mode))
        .collect::<Result<Vec<_>, _>>()?;
    let mut all = vec![Vec::new(); MODES.len()];
    let (connections, messages) = (settings.connections_of_a_round(), messages(settings));
    for number in 0..=settings.rounds {
        for (mode, rounds) in MODES.into_iter().zip(&mut all) {
            let measured = match (mode, &mut haproxy) {
                (Mode::Haproxy, None) => continue,
                (Mode::Haproxy, Some(haproxy)) => {
                    progress.set_message(mode.label());
                    haproxy.round(connections).map(|measured| {
                        let host = measured.cycles as u64;
                        Round {
                            messages,
                            connections,
                            taken: Taken {
                                host,
                                tcp: host,
                                ..Taken::default()
                            },
                            spliced: Spliced::default(),
                            verified: measured.verified,
                        }
                    })
                }
                (mode, _) => {
                    progress.set_message(mode.label());
                    let world = worlds.iter_mut().find(|world| world.mode == mode);
                    let world = world.context("each mode of ours has a world")?;
                    world.round(connections, messages)
                }
            };
            let round = measured.with_context(|| format!("round {number}, {}", mode.label()))?;
            if number > 0 {
                rounds.push(round);
            } else {
                anyhow::ensure!(round.verified, "{}: bytes arrived wrong", mode.label());
            }
            progress.inc(1);
        }
    }
    Ok(all)
}

/// The round with the median of host cycles stands for all.
fn case(mode: Mode, rounds: &mut [Round]) -> Case {
    let per_message = |round: &Round| round.taken.host as f64 / round.messages as f64;
    let each = rounds.iter().map(per_message).collect();
    rounds.sort_by(|a, b| per_message(a).total_cmp(&per_message(b)));
    let median = rounds[rounds.len() / 2];
    let (host, nic) = cycles_per(&median.taken, median.messages);
    Case {
        mode,
        messages: median.messages,
        connections: median.connections,
        host_cycles_per_message: host,
        nic_cycles_per_message: nic,
        host_cycles_per_connection: median.taken.host as f64 / median.connections as f64,
        messages_per_host_core: per_host_core(host.total),
        rounds: each,
        spliced: median.spliced,
    }
}
