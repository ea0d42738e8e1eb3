//! What is measured: rows, and ratios between them.

use serde::Serialize;

use crate::bench::cycles::{HostCycles, NicCycles};
use crate::bench::rounds::Median;
use crate::bench::settings::Layout;

/// What is done with the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// It is searched for patterns.
    Search,
    /// It is decompressed, from gzip.
    Gzip,
    /// It is decompressed, from zstd.
    Zstd,
}

/// How content is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// What is done with it.
    pub work: Work,
    /// Inside TLS 1.3, which the NIC decrypts in any case.
    pub tls: bool,
    /// By the NIC, as far as it can; else by software.
    pub by_nic: bool,
}

impl Mode {
    /// All of them, in the order in which a round goes through them.
    pub fn all() -> impl Iterator<Item = Mode> {
        let works = [Work::Search, Work::Gzip, Work::Zstd].into_iter();
        let kinds = works.flat_map(|work| [false, true].map(|tls| (work, tls)));
        kinds.flat_map(|(work, tls)| [false, true].map(|by_nic| Mode { work, tls, by_nic }))
    }

    /// For tables and plots.
    pub fn label(self) -> &'static str {
        match (self.work, self.tls, self.by_nic) {
            (Work::Search, false, false) => "search: software",
            (Work::Search, false, true) => "search: NIC",
            (Work::Search, true, false) => "TLS, search: software",
            (Work::Search, true, true) => "TLS, search: NIC",
            (Work::Gzip, false, false) => "gzip: software",
            (Work::Gzip, false, true) => "gzip: NIC",
            (Work::Gzip, true, false) => "TLS, gzip: software",
            (Work::Gzip, true, true) => "TLS, gzip: NIC",
            (Work::Zstd, false, false) => "zstd: software",
            (Work::Zstd, false, true) => "zstd: NIC",
            (Work::Zstd, true, false) => "TLS, zstd: software",
            (Work::Zstd, true, true) => "TLS, zstd: NIC",
        }
    }

    /// The name of the ratio of the NIC over software.
    pub fn ratio_label(self) -> &'static str {
        match (self.work, self.tls) {
            (Work::Search, false) => "search, NIC over software",
            (Work::Search, true) => "search inside TLS, NIC over software",
            (Work::Gzip, false) => "gzip, NIC over software",
            (Work::Gzip, true) => "gzip inside TLS, NIC over software",
            (Work::Zstd, false) => "zstd, NIC over software",
            (Work::Zstd, true) => "zstd inside TLS, NIC over software",
        }
    }
}

/// What was counted in a round.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Done {
    /// Bytes of content that the NIC has searched or made.
    pub by_nic: u64,
    /// Bytes of content that software has searched or made.
    pub by_software: u64,
    /// Bytes on the way, without TLS.
    pub sent: u64,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// How content was received.
    #[serde(flatten)]
    pub mode: Mode,
    /// Bytes of content of a round.
    pub bytes: u64,
    /// Cycles of the host per byte of content, by component; the work on it is in `l5`.
    pub host_cycles_per_byte: HostCycles,
    /// Cycles of its NIC per byte of content.
    pub nic_cycles_per_byte: NicCycles,
    /// What one core of the host receives that does nothing else.
    pub gbit_per_host_core: f64,
    /// Host cycles per byte of each round, to judge the spread.
    pub rounds: Vec<f64>,
    /// What was counted in one round.
    pub done: Done,
}

impl Case {
    /// The row of a mode.
    pub fn new(mode: Mode, median: Median<Done>) -> Self {
        Self {
            mode,
            bytes: median.round.count,
            host_cycles_per_byte: median.host,
            nic_cycles_per_byte: median.nic,
            gbit_per_host_core: median.per_host_core * 8.0 / 1e9,
            rounds: median.each,
            done: median.round.counted,
        }
    }
}

/// Content per host core, the NIC over software.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratio {
    /// Of what work.
    pub work: Work,
    /// Inside TLS.
    pub tls: bool,
    /// How many times as much.
    pub nic_vs_software: f64,
}

impl Ratio {
    /// The ratios between these cases.
    pub fn of(cases: &[Case]) -> Vec<Ratio> {
        let by_nic = cases.iter().filter(|case| case.mode.by_nic);
        let ratio = |nic: &Case| {
            let in_software = Mode {
                by_nic: false,
                ..nic.mode
            };
            let software = cases.iter().find(|case| case.mode == in_software)?;
            let cycles = |case: &Case| case.host_cycles_per_byte.total;
            Some(Ratio {
                work: nic.mode.work,
                tls: nic.mode.tls,
                nic_vs_software: cycles(software) / cycles(nic),
            })
        };
        by_nic.filter_map(ratio).collect()
    }

    /// What it compares.
    pub fn label(&self) -> &'static str {
        let (work, tls, by_nic) = (self.work, self.tls, true);
        Mode { work, tls, by_nic }.ratio_label()
    }
}

/// All that came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked, to run it again.
    pub settings: RunParameters,
    /// A row per mode.
    pub cases: Vec<Case>,
    /// Rows against each other.
    pub ratios: Vec<Ratio>,
    /// Whether every byte was compared with what was sent, and every match with a search of the whole, and all were the same.
    pub verified: bool,
}

/// What was asked of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct RunParameters {
    /// Bytes of content of a round.
    pub bytes: u64,
    /// Strings that were searched for.
    pub patterns: u32,
    /// Share of packets lost.
    pub loss: f64,
    /// Of all that is random.
    pub seed: u64,
    /// Rounds.
    pub rounds: u32,
    /// How hosts and NICs shared the machine.
    pub layout: Layout,
    /// Counts of the cycle counter in a second.
    pub cycles_per_second: f64,
}
