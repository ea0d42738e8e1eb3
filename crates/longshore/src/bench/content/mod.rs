//! `longshore bench content`: what it costs a host to search what it receives for patterns, and to decompress it, by itself and by its NIC.

mod case;
mod settings;
mod world;

#[cfg(test)]
mod tests;

use std::rc::Rc;

use indicatif::ProgressBar;
use serde::Serialize;

use super::case::{Mode as _, Round, Unit, over};
use super::experiment::{CaseOf, Experiment, ReportOf};
use super::parameters::Parameters;
use super::printed::{cycles_heading, host_bars, nic_bars, ratios_table, times};
use super::ratios::Ratios;
use super::rounds::{Rig, Turn};
use super::settings::Rounds;
use crate::report::{Column, Page, Rows, bytes};
use case::{Counted, Mode, Ratio};
pub use settings::Settings;
use world::{Content, ContentWorld};

/// A world for each mode.
pub struct Worlds(Vec<ContentWorld>);

impl Rig for Worlds {
    type Mode = Mode;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Mode>> {
        Mode::all().map(Turn::from).collect()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        Ok(vec![self.0[turn].round()?])
    }
}

/// Rows against each other.
#[derive(Default, Serialize)]
pub struct Figures {
    ratios: Vec<Ratio>,
}

impl Experiment for Settings {
    const NAME: &'static str = "content";
    const UNIT: Unit = Unit::BYTE;
    const MEASURED: &'static str = "the receiver";
    const VERIFIED: &'static str = "verified";
    type Rig = Worlds;
    type Figures = Figures;

    fn run(&self) -> &Rounds {
        &self.run.rounds
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
            .size("bytes", self.bytes)
            .value("patterns", self.patterns)
            .value("loss", self.loss)
            .value("seed", self.seed)
            .run(&self.run)
    }

    fn summary(&self) -> String {
        format!(
            "Content of {} per round, {} strings searched for, loss {}, seed {}. Inside TLS the NIC decrypts in every mode.",
            bytes(self.bytes),
            self.patterns,
            self.loss,
            self.seed
        )
    }

    fn rig(&self, _notes: &mut Vec<String>) -> anyhow::Result<Worlds> {
        let content = Rc::new(Content::new(self)?);
        let worlds = Mode::all().map(|mode| ContentWorld::new(self, mode, Rc::clone(&content)));
        Ok(Worlds(worlds.collect::<Result<_, _>>()?))
    }

    fn finish(
        &self,
        _rig: &mut Worlds,
        report: &mut ReportOf<Self>,
        _progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        let nic = Mode::all().filter(|mode| mode.by_nic);
        let ratio = |nic: Mode| {
            let by_nic = false;
            let software = Mode { by_nic, ..nic };
            Some(Ratio {
                work: nic.work,
                tls: nic.tls,
                nic_vs_software: over(&report.cases, nic, software)?,
            })
        };
        report.figures.ratios = nic.filter_map(ratio).collect();
        Ok(())
    }

    fn ratios(_cases: &[CaseOf<Self>]) -> Ratios {
        Ratios::default()
    }

    fn conclusion(report: &ReportOf<Self>) -> Option<String> {
        let ratios = report.figures.ratios.iter();
        let parts =
            ratios.map(|ratio| format!("{} {}", ratio.label(), times(ratio.nic_vs_software)));
        Some(format!(
            "Content per host cycle where the NIC works on it, over that where software does: {}.",
            parts.collect::<Vec<_>>().join(", ")
        ))
    }

    fn sections(&self, report: &ReportOf<Self>, page: &mut Page) {
        let cases = &report.cases;
        let cycles = Rows::of(cases)
            .column(Column::text("mode"), |case| case.mode.label())
            .column(Column::number("host", ""), |case| case.cost.host.total)
            .column(Column::number("content", ""), |case| {
                let host = &case.cost.host;
                host.app + host.copy + host.l5
            })
            .column(Column::number("TCP", ""), |case| case.cost.host.tcp)
            .column(Column::number("driver", ""), |case| case.cost.host.driver)
            .column(Column::number("NIC", ""), |case| case.cost.nic.total)
            .column(Column::number("per core", "Gbit/s"), |case| {
                case.cost.per_host_core
            })
            .column(Column::number("by the NIC", "%"), |case| {
                let done = &case.counted.done;
                100.0 * done.by_nic as f64 / (done.by_nic + done.by_software).max(1) as f64
            });
        let host = "Host cycles per byte of content";
        let ratios = report.figures.ratios.iter().map(|ratio| {
            let label = format!("{}, NIC over software", ratio.label());
            (label, Some(ratio.nic_vs_software))
        });
        page.heading(cycles_heading(
            "Receiver",
            "byte of content",
            self.run.rounds.count,
        ))
        .bars(host_bars(host, "application", Some("content"), cases))
        .bars(nic_bars("NIC cycles per byte of content", cases))
        .table(cycles)
        .heading("Content per host core")
        .table(ratios_table(ratios));
    }
}
