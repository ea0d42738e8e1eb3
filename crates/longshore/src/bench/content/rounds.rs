//! All modes against each other.

use super::case::{Case, Mode, Ratio, Report, RunParameters};
use super::settings::Settings;
use super::world::{Content, ContentWorld};
use crate::bench::cycles_per_second;
use crate::bench::rounds::{Contestant, Rounds, progress, take_turns};

/// Measures as the settings say.
///
/// # Errors
/// When a connection fails.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    let modes: Vec<Mode> = Mode::all().collect();
    let turns = (u64::from(settings.run.rounds) + 1) * modes.len() as u64;
    let progress = progress(settings.run.json, turns);
    progress.set_message("compressing");
    let content = Content::new(settings)?;
    let mut worlds = modes
        .iter()
        .map(|mode| ContentWorld::new(settings, *mode, &content))
        .collect::<Result<Vec<_>, _>>()?;
    let contestants = worlds.iter_mut();
    let mut all: Vec<_> = contestants
        .map(|world| world as &mut dyn Contestant<_>)
        .collect();
    let rounds = take_turns(&mut all, settings.run.rounds, &progress)?;
    progress.finish_and_clear();
    let verified = rounds.iter().all(Rounds::verified);
    let cases: Vec<Case> = modes
        .into_iter()
        .zip(rounds)
        .map(|(mode, rounds)| Case::new(mode, rounds.median()))
        .collect();
    Ok(Report {
        settings: RunParameters {
            bytes: settings.bytes,
            patterns: settings.patterns,
            loss: settings.loss,
            seed: settings.seed,
            rounds: settings.run.rounds,
            layout: settings.run.layout,
            cycles_per_second: cycles_per_second(),
        },
        ratios: Ratio::of(&cases),
        cases,
        verified,
    })
}
