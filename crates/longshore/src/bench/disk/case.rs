//! What is measured: rows, and ratios between them.

use serde::Serialize;

use super::settings::{Digest, Settings};
use super::world::Disks;
use crate::bench::cycles::{HostCycles, NicCycles};
use crate::bench::pcie::PcieBytes;
use crate::bench::settings::Layout;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// Blocks come to the host.
    Read,
    /// Blocks go to the disk.
    Write,
}

/// What the NIC does of it; each stage with those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Nothing.
    Software,
    /// TLS.
    Tls,
    /// The copy of what is read: placement.
    Copy,
    /// The data digest.
    Crc,
}

/// How the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// Reads or writes.
    pub io: Io,
    /// The digests of the connection.
    pub digest: Digest,
    /// NVMe/TCP inside TLS 1.3.
    pub tls: bool,
    /// What the NIC does.
    pub stage: Stage,
}

impl Mode {
    /// The modes that the settings ask for, in the order in which a round goes through them.
    pub fn of<W: Disks>(settings: &Settings) -> Vec<Self> {
        let digest = settings.digest_of::<W>();
        let mut modes = Vec::new();
        for tls in [false, true] {
            for io in [Io::Read, Io::Write] {
                let chosen = match io {
                    Io::Read => !settings.write,
                    Io::Write => !settings.read,
                };
                if !chosen || settings.tls && !tls || tls && !W::TLS {
                    continue;
                }
                let without = io == Io::Read && !tls && digest != Digest::None;
                if without && settings.digest.is_none() {
                    modes.extend(Self::stages(io, Digest::None, tls));
                }
                modes.extend(Self::stages(io, digest, tls));
            }
        }
        modes
    }

    /// The stages that there are for this kind of connection.
    pub fn stages(io: Io, digest: Digest, tls: bool) -> impl Iterator<Item = Self> {
        let all = [Stage::Software, Stage::Tls, Stage::Copy, Stage::Crc];
        let exists = move |stage: &Stage| match stage {
            Stage::Software => true,
            Stage::Tls => tls,
            Stage::Copy => io == Io::Read,
            Stage::Crc => digest != Digest::None,
        };
        all.into_iter().filter(exists).map(move |stage| Self {
            io,
            digest,
            tls,
            stage,
        })
    }

    /// For tables and plots.
    pub fn label(&self) -> String {
        let io = match self.io {
            Io::Read => "read",
            Io::Write => "write",
        };
        let digest = match self.digest {
            Digest::None => "no digest",
            Digest::Data => "data digest",
            Digest::Both => "both digests",
        };
        let tls = if self.tls { "TLS, " } else { "" };
        format!("{io}, {tls}{digest}: {}", self.stage_label())
    }

    /// The same without digest and TLS, for tables that have them elsewhere.
    pub fn short_label(&self) -> String {
        let io = match self.io {
            Io::Read => "read",
            Io::Write => "write",
        };
        format!("{io}: {}", self.stage_label())
    }

    fn stage_label(&self) -> &'static str {
        match (self.stage, self.tls, self.io) {
            (Stage::Software, ..) => "software",
            (Stage::Tls, ..) => "TLS",
            (Stage::Copy, false, _) => "placement",
            (Stage::Copy, true, _) => "TLS + placement",
            (Stage::Crc, false, Io::Read) => "placement + CRC",
            (Stage::Crc, true, Io::Read) => "TLS + placement + CRC",
            (Stage::Crc, false, Io::Write) => "CRC",
            (Stage::Crc, true, Io::Write) => "TLS + CRC",
        }
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// How the bytes went.
    #[serde(flatten)]
    pub mode: Mode,
    /// Payload bytes of a round.
    pub bytes: u64,
    /// Cycles of the client's host per byte: `app` is the client of the disk and what uses it, `copy` and `l5` are PDUs and
    /// records, with all copies and digests.
    pub host_cycles_per_byte: HostCycles,
    /// Cycles of the client's NIC per byte.
    pub nic_cycles_per_byte: NicCycles,
    /// Cycles of the server's host per byte.
    pub controller_cycles_per_byte: f64,
    /// Throughput of one host core: bytes over host cycles, at the machine's clock.
    pub gbit_per_host_core: f64,
    /// Host cycles per byte of each round, to judge the spread.
    pub rounds: Vec<f64>,
    /// What the client's NIC moved over PCIe, in one round.
    pub pcie_bytes: PcieBytes,
    /// What the client's NIC did for the protocol, in one round.
    pub offloaded: Offloaded,
    /// Payload bytes that TCP sent again towards the client or from there, in one round.
    pub retransmitted_bytes: u64,
}

/// How much of what the client's NIC took in it did its work on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offloaded {
    /// Bytes of data that the NIC placed.
    pub placed_bytes: u64,
    /// Packets with data of which the NIC placed some.
    pub placed_packets: u64,
    /// Packets of which every digest was checked.
    pub digest_packets: u64,
    /// Packets with payload that came.
    pub packets: u64,
    /// Resynchronisations that the NIC asked for.
    pub resyncs: u64,
}

impl Offloaded {
    /// What was counted since then.
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, |now, before| now - before)
    }

    /// These and those.
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    fn with(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            placed_bytes: f(self.placed_bytes, other.placed_bytes),
            placed_packets: f(self.placed_packets, other.placed_packets),
            digest_packets: f(self.digest_packets, other.digest_packets),
            packets: f(self.packets, other.packets),
            resyncs: f(self.resyncs, other.resyncs),
        }
    }
}

/// Throughput of one host core, first over second. Left out where a mode was not measured.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// Reads without digest: placement over software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ddp_vs_software: Option<f64>,
    /// Reads with digest: placement and digest over software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ddp_crc_vs_software: Option<f64>,
    /// Writes with digest: digest over software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_crc_vs_software: Option<f64>,
    /// Reads inside TLS: everything over software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvme_tls_vs_software: Option<f64>,
    /// Reads inside TLS: TLS alone over software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvme_tls_only_vs_software: Option<f64>,
    /// Reads inside TLS: TLS and placement over software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvme_tls_ddp_vs_software: Option<f64>,
    /// Writes inside TLS: everything over software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_tls_crc_vs_software: Option<f64>,
}

impl Ratios {
    /// All of them by what they compare.
    pub fn named(&self) -> [(&'static str, Option<f64>); 7] {
        [
            ("read: placement over software", self.read_ddp_vs_software),
            (
                "read, digest: placement + CRC over software",
                self.read_ddp_crc_vs_software,
            ),
            (
                "write, digest: CRC over software",
                self.write_crc_vs_software,
            ),
            (
                "read inside TLS: TLS over software",
                self.nvme_tls_only_vs_software,
            ),
            (
                "read inside TLS: TLS + placement over software",
                self.nvme_tls_ddp_vs_software,
            ),
            (
                "read inside TLS: all offloads over software",
                self.nvme_tls_vs_software,
            ),
            (
                "write inside TLS: TLS + CRC over software",
                self.write_tls_crc_vs_software,
            ),
        ]
    }

    /// The ratios between these cases.
    pub fn of(cases: &[Case]) -> Self {
        let of = |io, tls, digested: bool, stage| {
            let throughput = |stage| {
                let found = cases.iter().find(|case| {
                    case.mode.io == io
                        && case.mode.tls == tls
                        && (case.mode.digest != Digest::None) == digested
                        && case.mode.stage == stage
                });
                found.map(|case| case.gbit_per_host_core)
            };
            let software = throughput(Stage::Software)?;
            throughput(stage).map(|offloaded| offloaded / software)
        };
        use Io::{Read, Write};
        // Inside TLS the last stage that was measured is everything.
        let all_in_tls =
            of(Read, true, true, Stage::Crc).or_else(|| of(Read, true, false, Stage::Copy));
        Self {
            read_ddp_vs_software: of(Read, false, false, Stage::Copy),
            read_ddp_crc_vs_software: of(Read, false, true, Stage::Crc),
            write_crc_vs_software: of(Write, false, true, Stage::Crc),
            nvme_tls_vs_software: all_in_tls,
            nvme_tls_only_vs_software: of(Read, true, true, Stage::Tls),
            nvme_tls_ddp_vs_software: of(Read, true, true, Stage::Copy),
            write_tls_crc_vs_software: of(Write, true, true, Stage::Crc),
        }
    }
}

/// All that came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was measured: `nvme`, `nbd` or `iscsi`.
    pub protocol: &'static str,
    /// What was asked, to run it again.
    pub settings: RunParameters,
    /// A row per mode.
    pub cases: Vec<Case>,
    /// Rows against each other.
    pub ratios: Ratios,
    /// Of the data read with placement the share that the NIC placed.
    pub offloaded_bytes_share: f64,
    /// Of the packets that brought data with placement the share of which the NIC placed data.
    pub offloaded_packets_share: f64,
    /// Resynchronisations asked for, over the packets that came with placement.
    pub resync_share: f64,
    /// Latency of single reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency_us: Vec<Latency>,
    /// Whether every byte of every round was compared with what was written, and was the same.
    pub bytes_verified: bool,
}

/// How long single reads take, one at a time, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// How the bytes go.
    #[serde(flatten)]
    pub mode: Mode,
    /// Bytes of a read.
    pub io_bytes: u32,
    /// From submission to completion, the median, with NICs that work as fast as the link.
    pub median_us: f64,
    /// The longest but for one of a hundred.
    pub p99_us: f64,
    /// Of the median, what the client's host took.
    pub host_us: f64,
    /// The median with hosts and NICs taking turns on one thread: all that is computed.
    pub one_thread_us: f64,
    /// `median_us` over that of software.
    pub vs_software: f64,
    /// `one_thread_us` over that of software.
    pub one_thread_vs_software: f64,
}

/// What was asked of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct RunParameters {
    /// Bytes of each command.
    pub io_bytes: u32,
    /// Commands in flight.
    pub depth: u16,
    /// Bytes of a round.
    pub bytes: u64,
    /// Bytes of the disk and of the memory.
    pub working_set: u64,
    /// Share of data packets lost.
    pub loss: f64,
    /// Share of data packets late.
    pub reorder: f64,
    /// Of all that is random.
    pub seed: u64,
    /// Rounds.
    pub rounds: u32,
    /// How hosts and NICs shared the machine.
    pub layout: Layout,
    /// Counts of the cycle counter in a second.
    pub cycles_per_second: f64,
}
