//! All modes against each other.

use anyhow::Context as _;

use super::case::{ByNic, Case, Mode, Ratios, Report, RunParameters};
use super::latency;
use super::linux::ShortRig;
use super::settings::Settings;
use super::world::{ShortWorld, TICK};
use crate::bench::cycles_per_second;
use crate::bench::latency::Latency;
use crate::bench::rounds::{Contestant, Round, Rounds, progress, take_turns};
use crate::bench::tap::Linux;

/// Measures as the settings say.
///
/// # Errors
/// When a connection fails.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    let turns = u64::from(settings.run.rounds) + 2;
    let progress = progress(settings.run.json, turns * Mode::OURS.len() as u64);
    let mut notes = Vec::new();
    let mut linux = None;
    if settings.linux {
        let made = settings.clone();
        match Linux::start(move |tap| ShortRig::new(&made, tap)) {
            Ok(started) => {
                progress.inc_length(turns);
                linux = Some(OnLinux {
                    linux: started,
                    connections: settings.connections_of_a_round(),
                    transactions: settings.transactions_of_a_round(),
                });
            }
            Err(error) => notes.push(format!("Linux was left out: {error:#}")),
        }
    }
    let mut worlds = Mode::OURS
        .into_iter()
        .map(|mode| ShortWorld::new(settings, mode, TICK))
        .collect::<Result<Vec<_>, _>>()?;
    let ours = worlds
        .iter_mut()
        .map(|world| world as &mut dyn Contestant<_>);
    let theirs = linux.as_mut().map(|linux| linux as &mut dyn Contestant<_>);
    let mut all: Vec<_> = ours.chain(theirs).collect();
    let rounds = take_turns(&mut all, settings.run.rounds, &progress)?;
    let mut bytes_verified = rounds.iter().all(Rounds::verified);
    let mut cases = Vec::new();
    for (mode, rounds) in MODES.into_iter().zip(rounds) {
        progress.set_message(format!("latency, {}", mode.label()));
        let latency = match &mut linux {
            Some(on) if mode == Mode::Linux => Latency::of(&on.linux.take_latency()?),
            _ => {
                let (latency, verified) = latency::measure(settings, mode)
                    .with_context(|| format!("latency, {}", mode.label()))?;
                bytes_verified &= verified;
                latency
            }
        };
        progress.inc(1);
        cases.push(Case::new(mode, rounds.median(), latency));
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

/// Every mode, in the order of the rows.
const MODES: [Mode; 6] = [
    Mode::Host,
    Mode::Setup,
    Mode::Teardown,
    Mode::Both,
    Mode::LazyTcb,
    Mode::Linux,
];

fn asked(settings: &Settings) -> RunParameters {
    RunParameters {
        request_bytes: settings.request_bytes,
        response_bytes: settings.response_bytes,
        transactions_per_connection: settings.transactions_per_connection,
        connections: settings.connections,
        transactions: settings.transactions_of_a_round(),
        seed: settings.seed,
        rounds: settings.run.rounds,
        layout: settings.run.layout,
        cycles_per_second: cycles_per_second(),
    }
}

/// Linux's server, with the very same client.
struct OnLinux {
    linux: Linux,
    connections: u64,
    transactions: u64,
}

impl Contestant<ByNic> for OnLinux {
    fn label(&self) -> &'static str {
        Mode::Linux.label()
    }

    fn round(&mut self) -> anyhow::Result<Round<ByNic>> {
        let by_nic = ByNic {
            connections: self.connections,
            ..ByNic::default()
        };
        let measured = self.linux.round(self.connections)?;
        Ok(Round::of_linux(self.transactions, measured, by_nic))
    }

    fn warmed_up(&mut self) -> anyhow::Result<()> {
        self.linux.take_latency().map(drop)
    }
}
