//! `longshore bench short`: what short connections cost the host, with setup and teardown done by the NIC and without.

mod case;
mod linux;
mod settings;
mod world;

#[cfg(test)]
mod tests;

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::case::{Mode as _, Round, Unit};
use super::experiment::{CaseOf, Experiment, ReportOf, noted};
use super::hosts::TICK;
use super::latency::{self, Latency, Timed as _};
use super::parameters::Parameters;
use super::printed::{cycle_rows, cycles_heading, host_bars, latency_rows, nic_bars};
use super::ratios::Ratios;
use super::rounds::{Rig, Turn};
use super::settings::Rounds;
use super::tap::Linux;
use crate::report::{Column, Page, bytes};
use case::{ByNic, Counted, Mode, share};
use linux::ShortRig;
pub use settings::Settings;
use world::ShortWorld;

/// Transactions whose latency is measured at most, the first quarter of which only warms up.
const TIMED: u64 = 32_768;

/// A world for each mode of ours; and Linux's server, with the very same client, where that was asked for.
pub struct Worlds {
    ours: Vec<ShortWorld>,
    linux: Option<Linux>,
    connections: u64,
    transactions: u64,
}

impl Rig for Worlds {
    type Mode = Mode;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Mode>> {
        let linux = self.linux.as_ref().map(|_| Mode::Linux);
        Mode::OURS
            .into_iter()
            .chain(linux)
            .map(Turn::from)
            .collect()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        if let Some(world) = self.ours.get_mut(turn) {
            return Ok(vec![world.round()?]);
        }
        let linux = self.linux.as_mut().context("a mode of Linux")?;
        let by_nic = ByNic {
            connections: self.connections,
            ..ByNic::default()
        };
        let measured = linux.round(self.connections)?;
        let counted = Counted { by_nic };
        Ok(vec![Round::of_linux(self.transactions, measured, counted)])
    }

    fn warmed_up(&mut self, turn: usize) -> anyhow::Result<()> {
        match &mut self.linux {
            Some(linux) if turn == self.ours.len() => linux.take_latency().map(drop),
            _ => Ok(()),
        }
    }
}

impl Experiment for Settings {
    const NAME: &'static str = "short";
    const UNIT: Unit = Unit::of("transaction", "transactions_per_host_core");
    const MEASURED: &'static str = "the server";
    type Rig = Worlds;
    type Figures = ();

    fn run(&self) -> &Rounds {
        &self.run.rounds
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
            .size("request_bytes", self.request_bytes)
            .size("response_bytes", self.response_bytes)
            .value(
                "transactions_per_connection",
                self.transactions_per_connection,
            )
            .value("connections", self.connections)
            .value("transactions", self.transactions_of_a_round())
            .value("seed", self.seed)
            .run(&self.run)
    }

    fn summary(&self) -> String {
        format!(
            "Requests of {}, responses of {}, {} on each connection, {} connections at once, {} transactions per round, seed {}.",
            bytes(self.request_bytes.into()),
            bytes(self.response_bytes.into()),
            self.transactions_per_connection,
            self.connections,
            self.transactions_of_a_round(),
            self.seed
        )
    }

    fn rig(&self, notes: &mut Vec<String>) -> anyhow::Result<Worlds> {
        let made = self.clone();
        let linux = self
            .linux
            .then(|| Linux::start(move |tap| ShortRig::new(&made, tap)));
        let worlds = Mode::OURS.map(|mode| ShortWorld::new(self, mode, TICK));
        Ok(Worlds {
            ours: worlds.into_iter().collect::<Result<_, _>>()?,
            linux: noted("Linux", linux, notes),
            connections: self.connections_of_a_round(),
            transactions: self.transactions_of_a_round(),
        })
    }

    fn finish(
        &self,
        rig: &mut Worlds,
        report: &mut ReportOf<Self>,
        progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        let each = u64::from(self.transactions_per_connection);
        let connections = TIMED.min(self.transactions).div_ceil(each);
        let connections = connections.max(u64::from(self.connections) * 4);
        let warm_up = connections.div_ceil(4);
        for case in &mut report.cases {
            let label = format!("latency, {}", case.mode.label());
            progress.set_message(label.clone());
            case.latency_us = Some(match &mut rig.linux {
                Some(linux) if case.mode == Mode::Linux => Latency::of(&linux.take_latency()?),
                _ => {
                    let world = ShortWorld::new(self, case.mode, latency::TICK);
                    let timed =
                        world.and_then(|mut world| world.time(warm_up, connections - warm_up));
                    let (latency, verified) = timed.context(label)?;
                    report.verified &= verified;
                    latency
                }
            });
        }
        Ok(())
    }

    fn ratios(cases: &[CaseOf<Self>]) -> Ratios {
        use Mode::{Both, Host, LazyTcb, Linux, Setup, Teardown};
        let modes = [
            ("setup_vs_host", Setup, Host),
            ("teardown_vs_host", Teardown, Host),
            ("both_vs_host", Both, Host),
            ("accel_vs_host", LazyTcb, Host),
            ("accel_vs_linux", LazyTcb, Linux),
            ("host_vs_linux", Host, Linux),
        ];
        Ratios::between(cases, modes)
    }

    fn conclusion(report: &ReportOf<Self>) -> Option<String> {
        let ratios = &report.ratios;
        let linux = ratios.get("accel_vs_linux").map(|_| {
            let times = ratios.times("accel_vs_linux");
            format!(", and {times} as many as Linux with epoll")
        });
        Some(format!(
            "With setup and teardown by the NIC and lazy control blocks, the server completes {} as many transactions per host cycle as \
             with the host stack alone{}.",
            ratios.times("accel_vs_host"),
            linux.unwrap_or_default()
        ))
    }

    fn sections(&self, report: &ReportOf<Self>, page: &mut Page) {
        let cases = &report.cases;
        let cycles = cycle_rows(cases, "app", "transactions/s\nper host core")
            .column(Column::number("opened\nby NIC", "%"), |case| {
                share(case, |by_nic| by_nic.set_up)
            })
            .column(Column::number("closed\nby NIC", "%"), |case| {
                share(case, |by_nic| by_nic.torn_down)
            });
        page.heading(cycles_heading(
            "Server",
            "transaction",
            self.run.rounds.count,
        ))
        .bars(host_bars(
            "Host cycles per transaction",
            "application",
            None,
            cases,
        ))
        .bars(nic_bars("NIC cycles per transaction", cases))
        .table(cycles)
        .heading("Transactions per host core")
        .table(report.ratios.table())
        .heading("Time from request to response")
        .table(latency_rows(cases));
    }
}
