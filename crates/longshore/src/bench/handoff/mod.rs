//! `longshore bench handoff`: what keep-alive connections cost the host, run by itself and handed off to the NIC.

mod case;
mod client;
mod load_control;
mod moves;
mod pages;
mod server;
mod settings;
mod world;

#[cfg(test)]
mod tests;

use anyhow::Context as _;
use indicatif::ProgressBar;
use nic::ToeConfig;
use nic::toe::load::LoadConfig;
use serde::Serialize;

use super::case::{Mode as _, Round, Unit};
use super::experiment::{CaseOf, Experiment, ReportOf};
use super::hosts::TICK;
use super::latency::{self, Timed as _};
use super::parameters::Parameters;
use super::printed::{cycle_rows, cycles_heading, host_bars, latency_rows, nic_bars};
use super::ratios::Ratios;
use super::rounds::{Rig, Turn};
use super::settings::Rounds;
use crate::report::{Column, Page, Rows, Table, bytes, significant};
use case::{Counted, Mode, Owned};
use moves::Moves;
pub use settings::Settings;
use world::HandoffWorld;

/// Requests at most that are timed, a quarter as many of which go before to warm up.
const TIMED: u64 = 32_768;

/// A world for each mode.
pub struct Worlds(Vec<HandoffWorld>);

impl Rig for Worlds {
    type Mode = Mode;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Mode>> {
        Mode::ALL.map(Turn::from).into()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        Ok(vec![self.0[turn].round()?])
    }
}

/// What is told beside the rows.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// What handing off and taking back cost the host.
    moves: Moves,
    /// Cycles of the NIC's load control for a packet that arrives.
    load_control_cycles_per_packet: f64,
}

impl Experiment for Settings {
    const NAME: &'static str = "handoff";
    const UNIT: Unit = Unit::of("request", "requests_per_host_core");
    const MEASURED: &'static str = "the server";
    const ORIGINAL: &'static str = "the files";
    type Rig = Worlds;
    type Figures = Figures;

    fn run(&self) -> &Rounds {
        &self.run.rounds
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
            .value("connections", self.connections)
            .value("at_once", self.at_once)
            .size("file_bytes", self.file_bytes)
            .value("requests", self.requests)
            .value("selection", self.selection.to_string())
            .value("nic_connections", self.hard_limit())
            .value("seed", self.seed)
            .run(&self.run)
    }

    fn summary(&self) -> String {
        format!(
            "{} keep-alive connections, {} requests at once, files of {}, {} requests per round, selection {}, at most {} connections on \
             the NIC, seed {}.",
            self.connections,
            self.at_once,
            bytes(self.file_bytes.into()),
            self.requests,
            self.selection,
            self.hard_limit(),
            self.seed
        )
    }

    fn rig(&self, _notes: &mut Vec<String>) -> anyhow::Result<Worlds> {
        let worlds = Mode::ALL.map(|mode| HandoffWorld::new(self, mode, TICK));
        Ok(Worlds(worlds.into_iter().collect::<Result<_, _>>()?))
    }

    fn finish(
        &self,
        rig: &mut Worlds,
        report: &mut ReportOf<Self>,
        progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        let requests = TIMED.min(self.requests);
        let requests = requests.max(u64::from(self.connections) * 4);
        for case in &mut report.cases {
            let label = format!("latency, {}", case.mode.label());
            progress.set_message(label.clone());
            let world = HandoffWorld::new(self, case.mode, latency::TICK);
            let timed = world.and_then(|mut world| world.time(requests / 4, requests));
            let (latency, verified) = timed.context(label)?;
            report.verified &= verified;
            case.latency_us = Some(latency);
        }
        if let Some(world) = rig.0.last_mut() {
            report.figures.moves = moves::measure(world)?;
        }
        let toe = ToeConfig::default();
        let load = LoadConfig {
            hard_limit: self.hard_limit(),
            hiwat: toe.hiwat,
            lowat: toe.lowat,
        };
        report.figures.load_control_cycles_per_packet =
            load_control::cycles_per_packet(load, self.seed);
        Ok(())
    }

    fn ratios(cases: &[CaseOf<Self>]) -> Ratios {
        Ratios::between(cases, [("handoff_vs_host", Mode::Handoff, Mode::Host)])
    }

    fn conclusion(report: &ReportOf<Self>) -> Option<String> {
        Some(format!(
            "With connections handed off to the NIC, the server answers {} as many requests per host cycle as with the host stack alone.",
            report.ratios.times("handoff_vs_host")
        ))
    }

    fn sections(&self, report: &ReportOf<Self>, page: &mut Page) {
        let cases = &report.cases;
        page.heading(cycles_heading("Server", "request", self.run.rounds.count))
            .bars(host_bars(
                "Host cycles per request",
                "application",
                None,
                cases,
            ))
            .bars(nic_bars("NIC cycles per request", cases))
            .table(cycle_rows(cases, "app", "requests/s\nper host core"))
            .heading("Connections at the end of a round, and the NIC's packets in it")
            .table(owned_rows(cases))
            .heading("Cost of moving a connection")
            .table(moves_table(&report.figures.moves))
            .paragraph(format!(
                "Load control takes the NIC {} cycles per packet.",
                significant(report.figures.load_control_cycles_per_packet)
            ))
            .heading("Time from request to response")
            .table(latency_rows(cases));
    }
}

fn owned_rows(cases: &[CaseOf<Settings>]) -> Rows<'_, CaseOf<Settings>> {
    let of = |of: fn(&Owned) -> u64| move |case: &CaseOf<Settings>| of(&case.counted.connections);
    Rows::of(cases)
        .column(Column::text("mode"), |case| case.mode.label())
        .column(Column::count("run by\nthe host"), of(|owned| owned.host))
        .column(Column::count("run by\nthe NIC"), of(|owned| owned.nic))
        .column(Column::count("handed\noff"), of(|owned| owned.handed_off))
        .column(Column::count("refused"), of(|owned| owned.refused))
        .column(Column::count("restored"), of(|owned| owned.restored))
        .column(
            Column::count("packets\nin"),
            of(|owned| owned.nic_packets_received),
        )
        .column(
            Column::count("packets\nout"),
            of(|owned| owned.nic_packets_sent),
        )
        .column(
            Column::count("dropped,\nqueue full"),
            of(|owned| owned.nic_queue_full),
        )
}

fn moves_table(moves: &Moves) -> Table {
    let mut table = Table::new([
        Column::text("per connection"),
        Column::number("host", "µs"),
        Column::number("NIC", "cycles"),
    ]);
    table.numbers("handoff", [moves.handoff_us, moves.handoff_nic_cycles]);
    table.numbers("restore", [moves.restore_us, moves.restore_nic_cycles]);
    table
}
