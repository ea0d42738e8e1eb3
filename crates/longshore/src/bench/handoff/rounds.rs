//! All modes against each other.

use anyhow::Context as _;
use nic::ToeConfig;
use nic::toe::load::LoadConfig;

use super::case::{Case, Mode, Ratios, Report, RunParameters};
use super::load_control;
use super::moves;
use super::settings::Settings;
use super::world::{HandoffWorld, TICK};
use crate::bench::cycles_per_second;
use crate::bench::latency::{self, Latency};
use crate::bench::rounds::{Contestant, Rounds, progress, take_turns};

/// Requests at most that are timed, a quarter as many of which go before to warm up.
const TIMED: u64 = 32_768;

/// Measures as the settings say.
///
/// # Errors
/// When a connection fails, or one can't be moved.
pub fn measure(settings: &Settings) -> anyhow::Result<Report> {
    let turns = u64::from(settings.run.rounds) + 2;
    let progress = progress(settings.run.json, turns * Mode::ALL.len() as u64);
    let mut worlds = Mode::ALL
        .into_iter()
        .map(|mode| HandoffWorld::new(settings, mode, TICK))
        .collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<_> = worlds
        .iter_mut()
        .map(|world| world as &mut dyn Contestant<_>)
        .collect();
    let rounds = take_turns(&mut all, settings.run.rounds, &progress)?;
    let mut bytes_verified = rounds.iter().all(Rounds::verified);
    let mut cases = Vec::new();
    for (mode, rounds) in Mode::ALL.into_iter().zip(rounds) {
        progress.set_message(format!("latency, {}", mode.label()));
        let (latency, verified) =
            timed(settings, mode).with_context(|| format!("latency, {}", mode.label()))?;
        progress.inc(1);
        bytes_verified &= verified;
        cases.push(Case::new(mode, rounds.median(), latency));
    }
    progress.finish_and_clear();
    let moves = match worlds.last_mut() {
        Some(world) => moves::measure(world)?,
        None => moves::Moves::default(),
    };
    let toe = ToeConfig::default();
    let load = LoadConfig {
        hard_limit: settings.hard_limit(),
        hiwat: toe.hiwat,
        lowat: toe.lowat,
    };
    Ok(Report {
        settings: asked(settings),
        ratios: Ratios::of(&cases),
        cases,
        moves,
        load_control_cycles_per_packet: load_control::cycles_per_packet(load, settings.seed),
        bytes_verified,
    })
}

/// Latency with as many requests at once as were asked for. Answers whether every byte was right, too.
fn timed(settings: &Settings, mode: Mode) -> anyhow::Result<(Latency, bool)> {
    let mut world = HandoffWorld::new(settings, mode, latency::TICK)?;
    latency::set_link(world.world());
    let requests = TIMED
        .min(settings.requests)
        .max(u64::from(settings.connections) * 4);
    world.clients().ask_for(requests / 4);
    latency::run(&mut world)?;
    world.clients().latency().reset();
    world.clients().ask_for(requests);
    latency::run(&mut world)?;
    let latency = Latency::of(world.clients().latency());
    Ok((latency, world.verified()))
}

fn asked(settings: &Settings) -> RunParameters {
    RunParameters {
        connections: settings.connections,
        at_once: settings.at_once,
        file_bytes: settings.file_bytes,
        requests: settings.requests,
        selection: settings.selection.to_string(),
        nic_connections: settings.hard_limit(),
        seed: settings.seed,
        rounds: settings.run.rounds,
        layout: settings.run.layout,
        cycles_per_second: cycles_per_second(),
    }
}
