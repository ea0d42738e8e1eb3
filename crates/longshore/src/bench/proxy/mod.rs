//! `longshore bench proxy`: what a load balancer costs the host that relays, and one whose NIC splices.

mod case;
mod haproxy;
mod settings;
mod world;

#[cfg(test)]
mod tests;

use anyhow::Context as _;

use super::case::{Mode as _, Round, Unit};
use super::experiment::{CaseOf, Experiment, ReportOf, noted};
use super::parameters::Parameters;
use super::printed::{cycle_rows, cycles_heading, host_bars, nic_bars};
use super::ratios::Ratios;
use super::rounds::{Rig, Turn};
use super::settings::Rounds;
use super::tap::Linux;
use crate::report::{Column, Page, Rows, bytes};
use case::{Counted, Mode, Spliced};
use haproxy::HaproxyRig;
pub use settings::Settings;
use world::ProxyWorld;

/// A world for each mode of ours; and HAProxy, between the very same ends, where that was asked for.
pub struct Worlds {
    ours: Vec<ProxyWorld>,
    haproxy: Option<Linux>,
    connections: u64,
    messages: u64,
}

impl Worlds {
    fn measure(&mut self, turn: usize) -> anyhow::Result<Round<Spliced>> {
        if let Some(world) = self.ours.get_mut(turn) {
            return world.round(self.connections, self.messages);
        }
        let haproxy = self.haproxy.as_mut().context("a mode of HAProxy")?;
        let measured = haproxy.round(self.connections)?;
        let nothing = Spliced::default();
        Ok(Round::of_linux(self.messages, measured, nothing))
    }
}

impl Rig for Worlds {
    type Mode = Mode;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Mode>> {
        let haproxy = self.haproxy.as_ref().map(|_| Mode::Haproxy);
        let modes = Mode::OURS.into_iter().chain(haproxy);
        modes.map(Turn::from).collect()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        let round = self.measure(turn)?;
        let counted = Counted {
            connections: self.connections,
            host_cycles_per_connection: round.taken.host as f64 / self.connections as f64,
            spliced: round.counted,
        };
        Ok(vec![Round {
            count: round.count,
            taken: round.taken,
            counted,
            verified: round.verified,
        }])
    }
}

impl Experiment for Settings {
    const NAME: &'static str = "proxy";
    const UNIT: Unit = Unit::of("message", "messages_per_host_core");
    const MEASURED: &'static str = "the load balancer";
    type Rig = Worlds;
    type Figures = ();

    fn run(&self) -> &Rounds {
        &self.run.rounds
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
            .size("message_bytes", self.message_bytes)
            .value("messages_per_connection", self.messages_per_connection)
            .value("connections", self.connections)
            .value("messages", self.messages_of_a_round())
            .value("seed", self.seed)
            .run(&self.run)
    }

    fn summary(&self) -> String {
        format!(
            "Messages of {}, {} on each connection, {} clients at once, {} messages per round, seed {}.",
            bytes(self.message_bytes.into()),
            self.messages_per_connection,
            self.connections,
            self.messages_of_a_round(),
            self.seed
        )
    }

    fn rig(&self, notes: &mut Vec<String>) -> anyhow::Result<Worlds> {
        let made = self.clone();
        let haproxy = self
            .linux
            .then(|| Linux::start(move |tap| HaproxyRig::new(&made, tap)));
        let worlds = Mode::OURS.map(|mode| ProxyWorld::new(self, mode));
        Ok(Worlds {
            ours: worlds.into_iter().collect::<Result<_, _>>()?,
            haproxy: noted("HAProxy", haproxy, notes),
            connections: self.connections_of_a_round(),
            messages: self.messages_of_a_round(),
        })
    }

    fn ratios(cases: &[CaseOf<Self>]) -> Ratios {
        use Mode::{Haproxy, Relay, Splice};
        let modes = [
            ("splice_vs_host", Splice, Relay),
            ("splice_vs_haproxy", Splice, Haproxy),
            ("host_vs_haproxy", Relay, Haproxy),
        ];
        Ratios::between(cases, modes)
    }

    fn conclusion(report: &ReportOf<Self>) -> Option<String> {
        let ratios = &report.ratios;
        let haproxy = ratios.get("splice_vs_haproxy").map(|_| {
            let times = ratios.times("splice_vs_haproxy");
            format!(", and {times} as many as HAProxy on Linux")
        });
        Some(format!(
            "Spliced by the NIC, the load balancer forwards {} as many messages per host cycle as when the host relays them{}.",
            ratios.times("splice_vs_host"),
            haproxy.unwrap_or_default()
        ))
    }

    fn sections(&self, report: &ReportOf<Self>, page: &mut Page) {
        let cases = &report.cases;
        let per = "message and its answer";
        let cycles = cycle_rows(cases, "balancer", "messages/s\nper host core")
            .column(Column::rate("host per\nconnection"), |case| {
                case.counted.host_cycles_per_connection
            });
        let splices = Rows::of(cases)
            .column(Column::text("mode"), |case| case.mode.label())
            .column(Column::number("connections spliced", "%"), |case| {
                let (spliced, all) = (case.counted.spliced.connections, case.counted.connections);
                100.0 * spliced as f64 / all.max(1) as f64
            })
            .column(Column::count("splices refused"), |case| {
                case.counted.spliced.refused
            })
            .column(Column::count("packets by the NIC"), |case| {
                case.counted.spliced.packets
            });
        page.heading(cycles_heading("Load balancer", per, self.run.rounds.count))
            .bars(host_bars(
                &format!("Host cycles per {per}"),
                "load balancer",
                None,
                cases,
            ))
            .bars(nic_bars(&format!("NIC cycles per {per}"), cases))
            .table(cycles)
            .heading("What the NIC spliced")
            .table(splices)
            .heading("Messages per host core")
            .table(report.ratios.table());
    }
}
