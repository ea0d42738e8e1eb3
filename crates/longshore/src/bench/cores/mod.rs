//! `longshore bench cores`: what a transaction takes where a machine has a stack and a NIC on each of several cores.

mod case;
mod settings;
mod world;

#[cfg(test)]
mod tests;

use indicatif::ProgressBar;
use serde::Serialize;

use super::case::{Round, Unit};
use super::experiment::{CaseOf, Experiment, ReportOf};
use super::parameters::Parameters;
use super::printed::{cycle_rows, cycles_heading, host_bars, nic_bars};
use super::ratios::Ratios;
use super::rounds::{Rig, Turn};
use super::settings::Rounds;
use crate::report::{Column, Page, Rows};
use case::{Counted, Mode, Scaling};
pub use settings::Settings;
use world::CoresWorld;

/// A world for each workload and number of cores.
pub struct Worlds(Vec<(Mode, CoresWorld)>);

impl Rig for Worlds {
    type Mode = Mode;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Mode>> {
        self.0.iter().map(|(mode, _)| Turn::from(*mode)).collect()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        Ok(vec![self.0[turn].1.round()?])
    }
}

/// What is told beside the rows.
#[derive(Default, Serialize)]
pub struct Figures {
    scaling: Vec<Scaling>,
}

impl Settings {
    fn modes(&self) -> Vec<Mode> {
        let mut modes = Vec::new();
        for &workload in &self.workloads {
            for &cores in &self.cores {
                let mode = Mode { workload, cores };
                if !modes.contains(&mode) {
                    modes.push(mode);
                }
            }
        }
        modes
    }
}

impl Experiment for Settings {
    const NAME: &'static str = "cores";
    const UNIT: Unit = Unit::of("transaction", "transactions_per_host_core");
    const MEASURED: &'static str = "the server";
    type Rig = Worlds;
    type Figures = Figures;

    fn run(&self) -> &Rounds {
        &self.run.rounds
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
            .value("cores", self.list_of_cores())
            .value("workloads", self.names_of_workloads())
            .value("connections", self.connections)
            .value("transactions", self.transactions)
            .value("seed", self.seed)
            .run(&self.run)
    }

    fn summary(&self) -> String {
        format!(
            "For each core {} connections at once and {} transactions per round, an eighth as many with TLS, seed {}. The cores take turns on one \
             thread, so that they share the caches of one core; frames come by the queue of the core that they are for.",
            self.connections, self.transactions, self.seed
        )
    }

    fn rig(&self, _notes: &mut Vec<String>) -> anyhow::Result<Worlds> {
        let modes = self.modes().into_iter();
        let worlds = modes.map(|mode| Ok((mode, CoresWorld::new(self, mode)?)));
        Ok(Worlds(worlds.collect::<anyhow::Result<_>>()?))
    }

    fn finish(
        &self,
        _rig: &mut Worlds,
        report: &mut ReportOf<Self>,
        _progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        report.figures.scaling = Scaling::of(&report.cases, self.cores[0]);
        Ok(())
    }

    fn ratios(_cases: &[CaseOf<Self>]) -> Ratios {
        Ratios::default()
    }

    fn conclusion(report: &ReportOf<Self>) -> Option<String> {
        let worst = report.figures.scaling.iter();
        let worst = worst.max_by(|a, b| a.both.total_cmp(&b.both))?;
        Some(format!(
            "Host and NIC together take {:.2} times the cycles per transaction at most ({}, cores).",
            worst.both,
            worst.label()
        ))
    }

    fn sections(&self, report: &ReportOf<Self>, page: &mut Page) {
        let cases = &report.cases;
        let cycles = cycle_rows(cases, "app", "transactions/s\nper host core")
            .column(Column::number("busiest core\nover its share", ""), |case| {
                case.counted.most_over_share
            });
        let scaling = Rows::of(&report.figures.scaling)
            .column(Column::text("cores"), Scaling::label)
            .column(Column::number("host", ""), |it| it.host)
            .column(Column::number("NIC", ""), |it| it.nic)
            .column(Column::number("both", ""), |it| it.both);
        page.heading(cycles_heading(
            "Server",
            "transaction",
            self.run.rounds.count,
        ))
        .bars(host_bars(
            "Host cycles per transaction",
            "application",
            Some("TLS"),
            cases,
        ))
        .bars(nic_bars("NIC cycles per transaction", cases))
        .table(cycles);
        if !report.figures.scaling.is_empty() {
            page.heading("Cycles per transaction, many cores over few")
                .table(scaling);
        }
    }
}
