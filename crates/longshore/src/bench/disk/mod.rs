//! `longshore bench nvme`, `nbd` and `iscsi`: what placement and digests by the NIC save the host, alone and inside TLS.

mod case;
mod latency;
mod load;
mod memory;
mod nvme;
mod printed;
mod remote;
mod rig;
pub mod settings;
mod world;

#[cfg(test)]
mod tests;

use indicatif::ProgressBar;
use serde::Serialize;

use super::case::Unit;
use super::experiment::{self, CaseOf, Experiment, ReportOf};
use super::parameters::Parameters;
use super::printed::cycles_heading;
use super::ratios::Ratios;
use super::settings::Rounds;
use crate::report::{Page, bytes};
use case::{Io, Latency, Mode, Offloaded, Stage};
use nvme::NvmeTcp;
use rig::Rigs;
use settings::{Digest, Settings};
use world::Protocol;

/// Measures NVMe/TCP, and prints what came of it. Answers whether every byte was the right one.
///
/// # Errors
/// When a command fails, or the report can't be written.
pub fn run_nvme(settings: &settings::Nvme) -> anyhow::Result<bool> {
    let settings::Nvme {
        digest,
        tls,
        workload,
    } = settings;
    experiment::run(&Settings::<NvmeTcp>::new(workload, *digest, *tls))
}

/// The same for NBD.
///
/// # Errors
/// As [`run_nvme`].
pub fn run_nbd(settings: &settings::Nbd) -> anyhow::Result<bool> {
    experiment::run(&Settings::<remote::Nbd>::new(
        &settings.workload,
        None,
        false,
    ))
}

/// The same for iSCSI.
///
/// # Errors
/// As [`run_nvme`].
pub fn run_iscsi(settings: &settings::Iscsi) -> anyhow::Result<bool> {
    let settings::Iscsi { digest, workload } = settings;
    experiment::run(&Settings::<remote::Iscsi>::new(workload, *digest, false))
}

/// What is told beside the rows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// What was measured: `nvme`, `nbd` or `iscsi`.
    protocol: &'static str,
    /// Of the data read with placement the share that the NIC placed.
    offloaded_bytes_share: f64,
    /// Of the packets that brought data with placement the share of which the NIC placed data.
    offloaded_packets_share: f64,
    /// Resynchronisations asked for, over the packets that came with placement.
    resync_share: f64,
    /// Latency of single reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    latency_us: Vec<Latency>,
}

impl<P: Protocol> Experiment for Settings<P> {
    const NAME: &'static str = P::NAME;
    const UNIT: Unit = Unit::BYTE;
    const MEASURED: &'static str = "the client";
    const ORIGINAL: &'static str = "what was written";
    type Rig = Rigs<P>;
    type Figures = Figures;

    fn run(&self) -> &Rounds {
        &self.workload.run.rounds
    }

    fn parameters(&self) -> Parameters {
        Parameters::default()
            .size("io_bytes", self.io_bytes)
            .value("depth", self.depth)
            .size("bytes", self.bytes_of_a_round())
            .size("working_set", self.working_set)
            .value("loss", self.faults.loss)
            .value("reorder", self.faults.reorder)
            .value("seed", self.seed)
            .run(&self.workload.run)
    }

    fn summary(&self) -> String {
        format!(
            "Commands of {}, {} in flight, {} per round, a disk and memory of {}, loss {}, reordering {}, seed {}.",
            bytes(self.io_bytes.into()),
            self.depth,
            bytes(self.bytes_of_a_round()),
            bytes(self.working_set),
            self.faults.loss,
            self.faults.reorder,
            self.seed
        )
    }

    fn rig(&self, _notes: &mut Vec<String>) -> anyhow::Result<Rigs<P>> {
        Rigs::new(self)
    }

    fn finish(
        &self,
        _rig: &mut Rigs<P>,
        report: &mut ReportOf<Self>,
        progress: &ProgressBar,
    ) -> anyhow::Result<()> {
        let (mut bytes, mut sum) = (0, Offloaded::default());
        for case in &report.cases {
            if case.mode.io == Io::Read && case.mode.stage >= Stage::Copy {
                bytes += case.cost.count;
                sum = sum + case.counted.offloaded;
            }
        }
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        report.figures = Figures {
            protocol: P::NAME,
            offloaded_bytes_share: share(sum.placed_bytes, bytes),
            offloaded_packets_share: share(sum.placed_packets, sum.packets),
            resync_share: share(sum.resyncs, sum.packets),
            latency_us: Vec::new(),
        };
        if self.latency {
            progress.set_message("latency");
            report.figures.latency_us = latency::measure(self)?;
        }
        Ok(())
    }

    fn ratios(cases: &[CaseOf<Self>]) -> Ratios {
        use Io::{Read, Write};
        use Stage::{Copy, Crc, Tls};
        let over_software = |io, tls, has_digest: bool, stage| {
            let rate = |stage| {
                let found = cases.iter().find(|case| {
                    let Mode {
                        io: of,
                        digest,
                        tls: inside,
                        stage: at,
                    } = case.mode;
                    (of, inside, at) == (io, tls, stage) && (digest != Digest::None) == has_digest
                });
                found.map(|case| case.cost.per_host_core)
            };
            Some(rate(stage)? / rate(Stage::Software)?)
        };
        // Inside TLS the last stage that was measured is everything.
        let all_in_tls = over_software(Read, true, true, Crc);
        let all_in_tls = all_in_tls.or_else(|| over_software(Read, true, false, Copy));
        Ratios::default()
            .with(
                "read_ddp_vs_software",
                "read: placement over software",
                over_software(Read, false, false, Copy),
            )
            .with(
                "read_ddp_crc_vs_software",
                "read, digest: placement + CRC over software",
                over_software(Read, false, true, Crc),
            )
            .with(
                "write_crc_vs_software",
                "write, digest: CRC over software",
                over_software(Write, false, true, Crc),
            )
            .with(
                "nvme_tls_only_vs_software",
                "read inside TLS: TLS over software",
                over_software(Read, true, true, Tls),
            )
            .with(
                "nvme_tls_ddp_vs_software",
                "read inside TLS: TLS + placement over software",
                over_software(Read, true, true, Copy),
            )
            .with(
                "nvme_tls_vs_software",
                "read inside TLS: all offloads over software",
                all_in_tls,
            )
            .with(
                "write_tls_crc_vs_software",
                "write inside TLS: TLS + CRC over software",
                over_software(Write, true, true, Crc),
            )
    }

    fn conclusion(report: &ReportOf<Self>) -> Option<String> {
        let ratios = &report.ratios;
        let parts = [
            ("reads", "read_ddp_vs_software"),
            ("reads with digests", "read_ddp_crc_vs_software"),
            ("writes with digests", "write_crc_vs_software"),
            ("reads inside TLS", "nvme_tls_vs_software"),
            ("writes inside TLS", "write_tls_crc_vs_software"),
        ];
        let measured = parts
            .into_iter()
            .filter(|(_, key)| ratios.get(key).is_some());
        let parts: Vec<_> = measured
            .map(|(what, key)| format!("{what} {}", ratios.times(key)))
            .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "Bytes per host cycle with all offloads, over those in software: {}.",
                parts.join(", ")
            )
        })
    }

    fn sections(&self, report: &ReportOf<Self>, page: &mut Page) {
        for (tls, title) in [(false, "without TLS"), (true, "inside TLS")] {
            let cases = report.cases.iter().filter(|case| case.mode.tls == tls);
            if cases.clone().next().is_some() {
                let whose = format!("Client, {title}");
                page.heading(cycles_heading(
                    &whose,
                    "byte",
                    self.workload.run.rounds.count,
                ))
                .bars(printed::host_bars(title, cases.clone()))
                .table(printed::cycle_rows(cases));
            }
        }
        let figures = &report.figures;
        page.heading("Throughput of one host core")
            .table(report.ratios.table())
            .paragraph(format!(
                "Reads with placement: the NIC placed {:.1} % of the bytes and data of {:.1} % of the packets; it asked to resynchronise for \
                 {:.2} % of the packets.",
                100.0 * figures.offloaded_bytes_share,
                100.0 * figures.offloaded_packets_share,
                100.0 * figures.resync_share
            ));
        if !figures.latency_us.is_empty() {
            page.heading("Latency of single reads")
                .explanation(
                    "\"Median\" is with NICs as fast as the link; \"one thread\" counts what the software NICs compute, too.",
                )
                .table(printed::latency_rows(&figures.latency_us));
        }
    }
}
