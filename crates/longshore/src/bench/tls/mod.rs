//! `longshore bench tls`: what TLS by the NIC saves the host.

mod case;
mod linux;
mod printed;
mod settings;
mod source;
mod transfer;
mod world;

#[cfg(test)]
mod tests;

use indicatif::ProgressBar;
use nic::ring::RegionId;
use serde::Serialize;
use sim::Suite;

use super::case::{Round, Unit};
use super::experiment::{Experiment, ReportOf, noted};
use super::parameters::Parameters;
use super::printed::cycles_heading;
use super::ratios::Ratios;
use super::rounds::{Rig, Turn};
use super::settings::Rounds;
use crate::report::{Page, bytes};
pub use case::{Case, Counted, Direction, Mode, Records, Resyncs, Side, over};
pub use printed::{cycles_table, host_bars, nic_bars, pcie_table, records_bars};
pub use settings::Settings;
use source::Source;
use transfer::{Connections, Load, transfer};
use world::{BenchWorld, SENDER};

/// A world, with connections without TLS and with it.
pub struct Wired {
    world: BenchWorld,
    plain: Connections,
    secured: Connections,
    source: Source,
    region: RegionId,
    /// Bytes that each connection sends in a round.
    share: u64,
    /// Bytes of a write.
    message: usize,
}

impl Rig for Wired {
    type Mode = Side;
    type Counted = Counted;

    fn turns(&self) -> Vec<Turn<Side>> {
        let turn = |mode: Mode| Turn {
            label: mode.label().into(),
            modes: Direction::BOTH
                .map(|direction| Side { direction, mode })
                .into(),
        };
        Mode::OURS.map(turn).into()
    }

    fn round(&mut self, turn: usize) -> anyhow::Result<Vec<Round<Counted>>> {
        let mode = Mode::OURS[turn];
        let connections = match mode.secured() {
            true => &mut self.secured,
            false => &mut self.plain,
        };
        if mode.secured() {
            let pairs = connections.pairs();
            self.world.set_offload(pairs, mode.offloaded())?;
        }
        let load = Load {
            mode,
            share: self.share,
            message: self.message,
            region: self.region,
        };
        transfer(&mut self.world, connections, &self.source, load)
    }
}

/// What is told beside the rows.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// Records that the receiver found when receive was offloaded, over the median rounds of both modes.
    records: Records,
}

impl Experiment for Settings {
    const NAME: &'static str = "tls";
    const UNIT: Unit = Unit::BYTE;
    const MEASURED: &'static str = "each host";
    type Rig = Wired;
    type Figures = Figures;

    fn run(&self) -> &Rounds {
        &self.run.rounds
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
            .fact("suite", Suite::DEFAULT.to_string())
            .size("record_bytes", self.record_bytes)
            .size("message_bytes", self.message_bytes)
            .size("bytes", self.bytes_of_a_round())
            .value("connections", self.connections)
            .value("loss", self.faults.loss)
            .value("reorder", self.faults.reorder)
            .value("seed", self.seed)
            .run(&self.run)
    }

    fn summary(&self) -> String {
        format!(
            "{}, records of {}, messages of {}, {} per round over {} connection{}, loss {}, reordering {}, seed {}.",
            Suite::DEFAULT,
            bytes(self.record_bytes.into()),
            bytes(self.message_bytes.into()),
            bytes(self.bytes_of_a_round()),
            self.connections,
            if self.connections == 1 { "" } else { "s" },
            self.faults.loss,
            self.faults.reorder,
            self.seed
        )
    }

    fn rig(&self, _notes: &mut Vec<String>) -> anyhow::Result<Wired> {
        let count = self.connections;
        let mut world = BenchWorld::new(self, count * 2)?;
        let plain = Connections::new(world.open(0, count)?);
        let secured = Connections::new(world.open(count, count)?);
        world.secure(secured.pairs(), Suite::DEFAULT, self.seed)?;
        let message = self.message_bytes as usize;
        let source = Source::new(self.seed, message);
        let sender = world.world.stack(SENDER);
        let region = sender.register(source.region(), "the benchmark's payload")?;
        world.impair(self);
        Ok(Wired {
            world,
            plain,
            secured,
            source,
            region,
            share: self.share_of_a_connection(),
            message,
        })
    }

    fn finish(
        &self,
        _rig: &mut Wired,
        report: &mut ReportOf<Self>,
        progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        report
            .cases
            .sort_by_key(|case| case.mode.direction == Direction::Rx);
        let offloaded = report
            .cases
            .iter()
            .filter(|case| case.mode.mode.offloaded());
        let records = offloaded.filter_map(|case| case.counted.records);
        report.figures.records = records.fold(Records::default(), |sum, records| sum + records);
        let linux = self.linux.then(|| linux::measure(self, progress));
        if let Some((cases, verified)) = noted("Linux", linux, &mut report.notes) {
            report.cases.extend(cases);
            report.verified &= verified;
        }
        Ok(())
    }

    fn ratios(cases: &[Case]) -> Ratios {
        use Direction::{Rx, Tx};
        use Mode::{Linux, Offload, OffloadZerocopy, Plain, PlainZerocopy, Software};
        let tx = |mode| Side {
            direction: Tx,
            mode,
        };
        let rx = |mode| Side {
            direction: Rx,
            mode,
        };
        let modes = [
            ("tx_offload_vs_software", tx(Offload), tx(Software)),
            ("tx_offload_vs_plain", tx(Offload), tx(Plain)),
            ("tx_zerocopy_vs_software", tx(OffloadZerocopy), tx(Software)),
            ("tx_zerocopy_vs_plain", tx(OffloadZerocopy), tx(Plain)),
            (
                "tx_zerocopy_vs_plain_zerocopy",
                tx(OffloadZerocopy),
                tx(PlainZerocopy),
            ),
            ("tx_offload_vs_linux", tx(Offload), tx(Linux)),
            ("tx_zerocopy_vs_linux", tx(OffloadZerocopy), tx(Linux)),
            ("rx_offload_vs_software", rx(Offload), rx(Software)),
            ("rx_offload_vs_plain", rx(Offload), rx(Plain)),
            ("rx_zerocopy_vs_software", rx(OffloadZerocopy), rx(Software)),
            (
                "rx_zerocopy_vs_plain_zerocopy",
                rx(OffloadZerocopy),
                rx(PlainZerocopy),
            ),
            ("rx_offload_vs_linux", rx(Offload), rx(Linux)),
            ("rx_zerocopy_vs_linux", rx(OffloadZerocopy), rx(Linux)),
        ];
        Ratios::between(cases, modes)
    }

    fn conclusion(report: &ReportOf<Self>) -> Option<String> {
        let times = |key| report.ratios.times(key);
        Some(format!(
            "Offloaded TLS with zero-copy sends {} as many bytes per host cycle as software TLS, and {} as many as plain TCP with \
             zero-copy; it receives {} and {} as many.",
            times("tx_zerocopy_vs_software"),
            times("tx_zerocopy_vs_plain_zerocopy"),
            times("rx_zerocopy_vs_software"),
            times("rx_zerocopy_vs_plain_zerocopy")
        ))
    }

    fn sections(&self, report: &ReportOf<Self>, page: &mut Page) {
        let cases = &report.cases;
        for direction in Direction::BOTH {
            let whose = direction.title();
            page.heading(cycles_heading(whose, "byte", self.run.rounds.count))
                .bars(host_bars(cases, direction))
                .bars(nic_bars(cases, direction))
                .table(cycles_table(cases, direction));
        }
        page.heading("Throughput of one host core")
            .table(report.ratios.table());
        for direction in Direction::BOTH {
            page.heading(format!("{}: PCIe traffic of one round", direction.title()))
                .table(pcie_table(cases, direction));
        }
        let records = report.figures.records;
        let [full, ..] = records.shares();
        page.heading("Records received with offload")
            .bars(records_bars(cases))
            .paragraph(format!(
                "The NIC decrypted {} records whole ({full:.1} %) and {} in part; the host decrypted {}.",
                records.full, records.partial, records.none
            ));
    }
}
