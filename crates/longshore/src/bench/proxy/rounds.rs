//! All modes against each other.

use super::case::{Case, Mode, Ratios, Report, RunParameters, Spliced};
use super::haproxy::HaproxyRig;
use super::settings::Settings;
use super::world::ProxyWorld;
use crate::bench::cycles_per_second;
use crate::bench::rounds::{Contestant, Round, Rounds, progress, take_turns};
use crate::bench::tap::Linux;

/// Measures as the settings say.
///
/// # Errors
/// When a connection fails.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    let turns = u64::from(settings.run.rounds) + 1;
    let progress = progress(settings.run.json, turns * Mode::OURS.len() as u64);
    let mut notes = Vec::new();
    let mut haproxy = None;
    let connections = settings.connections_of_a_round();
    if settings.linux {
        let made = settings.clone();
        match Linux::start(move |tap| HaproxyRig::new(&made, tap)) {
            Ok(linux) => {
                progress.inc_length(turns);
                haproxy = Some(OnLinux {
                    linux,
                    connections,
                    messages: settings.messages_of_a_round(),
                });
            }
            Err(error) => notes.push(format!("HAProxy was left out: {error:#}")),
        }
    }
    let mut worlds = Mode::OURS
        .into_iter()
        .map(|mode| ProxyWorld::new(settings, mode))
        .collect::<Result<Vec<_>, _>>()?;
    let ours = worlds
        .iter_mut()
        .map(|world| world as &mut dyn Contestant<_>);
    let theirs = haproxy
        .as_mut()
        .map(|haproxy| haproxy as &mut dyn Contestant<_>);
    let mut all: Vec<_> = ours.chain(theirs).collect();
    let rounds = take_turns(&mut all, settings.run.rounds, &progress)?;
    progress.finish_and_clear();
    let bytes_verified = rounds.iter().all(Rounds::verified);
    let cases: Vec<Case> = MODES
        .into_iter()
        .zip(rounds)
        .map(|(mode, rounds)| Case::new(mode, rounds.median(), connections))
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

fn asked(settings: &Settings) -> RunParameters {
    RunParameters {
        message_bytes: settings.message_bytes,
        messages_per_connection: settings.messages_per_connection,
        connections: settings.connections,
        messages: settings.messages_of_a_round(),
        seed: settings.seed,
        rounds: settings.run.rounds,
        layout: settings.run.layout,
        cycles_per_second: cycles_per_second(),
    }
}

/// HAProxy, between the very same ends.
struct OnLinux {
    linux: Linux,
    connections: u64,
    messages: u64,
}

impl Contestant<Spliced> for OnLinux {
    fn label(&self) -> &'static str {
        Mode::Haproxy.label()
    }

    fn round(&mut self) -> anyhow::Result<Round<Spliced>> {
        let measured = self.linux.round(self.connections)?;
        let nothing = Spliced::default();
        Ok(Round::of_linux(self.messages, measured, nothing))
    }
}
