//! Modes, and what is counted in them.

use serde::Serialize;

use crate::bench::case;
use crate::bench::pcie::PcieBytes;
use crate::tally::tally;

/// Which host is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The sender's.
    Tx,
    /// The receiver's.
    Rx,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Tx, Self::Rx];
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

/// One of the two hosts in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Which host is looked at.
    pub direction: Direction,
    /// How the bytes go.
    pub mode: Mode,
}

impl case::Mode for Side {
    fn label(&self) -> String {
        self.mode.label().into()
    }

    fn over_label(&self, second: &Self) -> String {
        let way = match self.direction {
            Direction::Tx => "transmit",
            Direction::Rx => "receive",
        };
        match (self.mode, second.mode) {
            (Mode::OffloadZerocopy, Mode::PlainZerocopy) => {
                format!("{way}: offloaded TLS over plain TCP, both zero-copy")
            }
            (first, second) => {
                let comma = if first.zero_copy() { "," } else { "" };
                let second = match second {
                    Mode::Linux => "Linux with rustls",
                    second => second.label(),
                };
                format!("{way}: {}{comma} over {second}", first.label())
            }
        }
    }

    fn is_ours(&self) -> bool {
        self.mode != Mode::Linux
    }
}

/// A row: a direction and a mode.
pub type Case = case::Case<Side, Counted>;

/// What is counted in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// What went over PCIe.
    pub pcie_bytes: PcieBytes,
    /// Records received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<Records>,
    /// Resynchronisations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resyncs: Option<Resyncs>,
    /// Payload bytes that TCP sent again.
    pub retransmitted_bytes: u64,
}

tally! {
    /// Records by how much of them the NIC did.
    pub struct Records {
        /// All of each.
        pub full: u64,
        /// A part of each.
        pub partial: u64,
        /// Nothing.
        pub none: u64,
    }
}

impl Records {
    /// Those of a connection.
    pub fn of(tls: &host::TlsInfo) -> Self {
        Self {
            full: tls.records_full,
            partial: tls.records_partial,
            none: tls.records_none,
        }
    }

    /// Each of these in percent of all; 0 of none.
    pub fn shares(&self) -> [f64; 3] {
        let all = self.full + self.partial + self.none;
        [self.full, self.partial, self.none].map(|count| 100.0 * count as f64 / all.max(1) as f64)
    }
}

tally! {
    /// Receive resynchronisations (Autonomous NIC offloads §4.3).
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
}

impl Resyncs {
    /// The NIC's counters of them.
    pub fn of(counters: &nic::Counters) -> Self {
        Self {
            asked: counters.named("rx_tls_resync_req_end"),
            confirmed: counters.named("rx_tls_resync_res_ok"),
            refused: counters.named("rx_tls_resync_res_retry"),
            late: counters.named("rx_tls_resync_res_skip"),
        }
    }
}

/// What a host core does of a direction in the first mode, over what it does in the second.
pub fn over(cases: &[Case], direction: Direction, first: Mode, second: Mode) -> Option<f64> {
    let side = |mode| Side { direction, mode };
    case::over(cases, side(first), side(second))
}
