//! What is measured: rows, ratios between them, and how many records were offloaded.

use serde::Serialize;

use crate::bench::cycles::{HostCycles, NicCycles};
use crate::bench::pcie::PcieBytes;
use crate::bench::settings::Layout;

/// Which host is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The sender's.
    Tx,
    /// The receiver's.
    Rx,
}

/// How the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// TCP alone; the application's bytes are copied.
    Plain,
    /// TCP alone, not copied.
    PlainZerocopy,
    /// TLS by the host, copied on the way through the cipher.
    Software,
    /// TLS by the NIC; the application's bytes are copied.
    Offload,
    /// TLS by the NIC, not copied.
    OffloadZerocopy,
    /// Linux's TCP with rustls.
    Linux,
}

impl Mode {
    /// The modes of our own stack, in the order in which a round goes through them.
    pub const OURS: [Self; 5] = [
        Self::Plain,
        Self::PlainZerocopy,
        Self::Software,
        Self::Offload,
        Self::OffloadZerocopy,
    ];

    /// Whether the application's bytes are sent and read in place.
    pub fn zero_copy(self) -> bool {
        matches!(self, Self::PlainZerocopy | Self::OffloadZerocopy)
    }

    /// Whether there is TLS on the connection.
    pub fn secured(self) -> bool {
        !matches!(self, Self::Plain | Self::PlainZerocopy)
    }

    /// Whether the NIC does the cryptography.
    pub fn offloaded(self) -> bool {
        matches!(self, Self::Offload | Self::OffloadZerocopy)
    }

    /// For tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            Self::Plain => "plain TCP",
            Self::PlainZerocopy => "plain TCP, zero-copy",
            Self::Software => "software TLS",
            Self::Offload => "offloaded TLS",
            Self::OffloadZerocopy => "offloaded TLS, zero-copy",
            Self::Linux => "Linux TCP, rustls",
        }
    }
}

/// Records by how much of them the NIC did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Records {
    /// All of each.
    pub full: u64,
    /// A part of each.
    pub partial: u64,
    /// Nothing.
    pub none: u64,
}

impl Records {
    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            full: self.full + other.full,
            partial: self.partial + other.partial,
            none: self.none + other.none,
        }
    }

    /// Records since then.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            full: self.full - before.full,
            partial: self.partial - before.partial,
            none: self.none - before.none,
        }
    }

    /// Of all records the share that was offloaded fully; 0 of none.
    pub fn share_full(&self) -> f64 {
        let all = self.full + self.partial + self.none;
        if all == 0 {
            0.0
        } else {
            self.full as f64 / all as f64
        }
    }
}

/// Receive resynchronisations (Autonomous NIC offloads §4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resyncs {
    /// Questions the NIC asked.
    pub asked: u64,
    /// Answers that there is a record.
    pub confirmed: u64,
    /// Answers that there is none.
    pub refused: u64,
    /// Answers, of either kind, that came when the NIC had found its way already.
    pub late: u64,
}

impl Resyncs {
    /// Questions and answers since then.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            asked: self.asked - before.asked,
            confirmed: self.confirmed - before.confirmed,
            refused: self.refused - before.refused,
            late: self.late - before.late,
        }
    }
}

/// One row: a direction and a mode.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Which host is looked at.
    pub direction: Direction,
    /// How the bytes went.
    pub mode: Mode,
    /// Payload bytes of a round.
    pub bytes: u64,
    /// Host cycles per byte.
    pub host_cycles_per_byte: HostCycles,
    /// NIC cycles per byte.
    pub nic_cycles_per_byte: NicCycles,
    /// Throughput of one host core: bytes over host cycles, at the machine's clock.
    pub gbit_per_host_core: f64,
    /// Host cycles per byte of each round, to judge the spread.
    pub rounds: Vec<f64>,
    /// What went over PCIe, in one round.
    pub pcie_bytes: PcieBytes,
    /// Records received, in one round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<Records>,
    /// Resynchronisations, in one round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resyncs: Option<Resyncs>,
    /// Payload bytes that TCP sent again, in one round.
    pub retransmitted_bytes: u64,
}

/// Throughput of one host core, first over second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// Transmit: offload over software.
    pub tx_offload_vs_software: f64,
    /// Transmit: offload over plain TCP.
    pub tx_offload_vs_plain: f64,
    /// Transmit: offload with zero-copy over software.
    pub tx_zerocopy_vs_software: f64,
    /// Transmit: offload with zero-copy over plain TCP, which copies.
    pub tx_zerocopy_vs_plain: f64,
    /// Transmit: offload with zero-copy over plain TCP with zero-copy.
    pub tx_zerocopy_vs_plain_zerocopy: f64,
    /// Receive: offload over software.
    pub rx_offload_vs_software: f64,
    /// Receive: offload over plain TCP.
    pub rx_offload_vs_plain: f64,
    /// Receive: offload read in place, over software.
    pub rx_zerocopy_vs_software: f64,
    /// Receive: offload read in place, over plain TCP read in place.
    pub rx_zerocopy_vs_plain_zerocopy: f64,
    /// Transmit: offload over Linux with rustls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_offload_vs_linux: Option<f64>,
    /// Transmit: offload with zero-copy over Linux with rustls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_zerocopy_vs_linux: Option<f64>,
    /// Receive: offload over Linux with rustls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_offload_vs_linux: Option<f64>,
    /// Receive: offload read in place, over Linux with rustls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rx_zerocopy_vs_linux: Option<f64>,
}

/// All that came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked, to run it again.
    pub settings: RunParameters,
    /// A row per direction and mode.
    pub cases: Vec<Case>,
    /// Rows against each other.
    pub ratios: Ratios,
    /// Records that the receiver found when receive was offloaded, over the median rounds of both modes.
    pub records: Records,
    /// Whether every byte of every round was compared with what was sent, and was the same.
    pub bytes_verified: bool,
    /// What was left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What was asked of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct RunParameters {
    /// Version and cipher.
    pub suite: String,
    /// Plaintext bytes of a record.
    pub record_bytes: u32,
    /// Bytes of a write.
    pub message_bytes: u32,
    /// Bytes of a round.
    pub bytes: u64,
    /// Connections.
    pub connections: u32,
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

impl Ratios {
    /// All of them by what they compare.
    pub fn named(&self) -> [(&'static str, Option<f64>); 13] {
        [
            (
                "transmit: offloaded TLS over software TLS",
                Some(self.tx_offload_vs_software),
            ),
            (
                "transmit: offloaded TLS over plain TCP",
                Some(self.tx_offload_vs_plain),
            ),
            (
                "transmit: offloaded TLS, zero-copy, over software TLS",
                Some(self.tx_zerocopy_vs_software),
            ),
            (
                "transmit: offloaded TLS, zero-copy, over plain TCP",
                Some(self.tx_zerocopy_vs_plain),
            ),
            (
                "transmit: offloaded TLS over plain TCP, both zero-copy",
                Some(self.tx_zerocopy_vs_plain_zerocopy),
            ),
            (
                "transmit: offloaded TLS over Linux with rustls",
                self.tx_offload_vs_linux,
            ),
            (
                "transmit: offloaded TLS, zero-copy, over Linux with rustls",
                self.tx_zerocopy_vs_linux,
            ),
            (
                "receive: offloaded TLS over software TLS",
                Some(self.rx_offload_vs_software),
            ),
            (
                "receive: offloaded TLS over plain TCP",
                Some(self.rx_offload_vs_plain),
            ),
            (
                "receive: offloaded TLS, zero-copy, over software TLS",
                Some(self.rx_zerocopy_vs_software),
            ),
            (
                "receive: offloaded TLS over plain TCP, both zero-copy",
                Some(self.rx_zerocopy_vs_plain_zerocopy),
            ),
            (
                "receive: offloaded TLS over Linux with rustls",
                self.rx_offload_vs_linux,
            ),
            (
                "receive: offloaded TLS, zero-copy, over Linux with rustls",
                self.rx_zerocopy_vs_linux,
            ),
        ]
    }

    /// The ratios between these cases; 0 where one is missing.
    pub fn of(cases: &[Case]) -> Self {
        use Direction::{Rx, Tx};
        use Mode::{Linux, Offload, OffloadZerocopy, Plain, PlainZerocopy, Software};
        let throughput = |direction, mode| {
            let found = cases
                .iter()
                .find(|case| case.direction == direction && case.mode == mode);
            found.map(|case| case.gbit_per_host_core)
        };
        let maybe = |direction, first, second| {
            let (first, second) = (
                throughput(direction, first)?,
                throughput(direction, second)?,
            );
            (second > 0.0).then_some(first / second)
        };
        let ratio = |direction, first, second| maybe(direction, first, second).unwrap_or(0.0);
        Self {
            tx_offload_vs_software: ratio(Tx, Offload, Software),
            tx_offload_vs_plain: ratio(Tx, Offload, Plain),
            tx_zerocopy_vs_software: ratio(Tx, OffloadZerocopy, Software),
            tx_zerocopy_vs_plain: ratio(Tx, OffloadZerocopy, Plain),
            tx_zerocopy_vs_plain_zerocopy: ratio(Tx, OffloadZerocopy, PlainZerocopy),
            rx_offload_vs_software: ratio(Rx, Offload, Software),
            rx_offload_vs_plain: ratio(Rx, Offload, Plain),
            rx_zerocopy_vs_software: ratio(Rx, OffloadZerocopy, Software),
            rx_zerocopy_vs_plain_zerocopy: ratio(Rx, OffloadZerocopy, PlainZerocopy),
            tx_offload_vs_linux: maybe(Tx, Offload, Linux),
            tx_zerocopy_vs_linux: maybe(Tx, OffloadZerocopy, Linux),
            rx_offload_vs_linux: maybe(Rx, Offload, Linux),
            rx_zerocopy_vs_linux: maybe(Rx, OffloadZerocopy, Linux),
        }
    }
}
