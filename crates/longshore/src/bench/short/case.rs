//! What is measured: rows, and ratios between them.

use host::Accel;
use serde::Serialize;

use crate::bench::cycles::{HostCycles, NicCycles};
use crate::bench::latency::Latency;
use crate::bench::rounds::Median;
use crate::bench::settings::Layout;

/// Who opens and closes connections at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Our host stack alone.
    Host,
    /// The NIC opens.
    Setup,
    /// The NIC closes.
    Teardown,
    /// The NIC opens and closes.
    Both,
    /// The NIC opens and closes, and the host has no control block until it needs one.
    LazyTcb,
    /// Linux's TCP and an epoll server.
    Linux,
}

impl Mode {
    /// The modes of our own stack, in the order in which a round goes through them.
    pub const OURS: [Self; 5] = [
        Self::Host,
        Self::Setup,
        Self::Teardown,
        Self::Both,
        Self::LazyTcb,
    ];

    /// What the server's NIC is asked for.
    pub fn accel(self) -> Accel {
        Accel {
            setup: matches!(self, Self::Setup | Self::Both | Self::LazyTcb),
            teardown: matches!(self, Self::Teardown | Self::Both | Self::LazyTcb),
            lazy_tcb: self == Self::LazyTcb,
            splice: false,
        }
    }

    /// For tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            Self::Host => "host stack alone",
            Self::Setup => "setup by the NIC",
            Self::Teardown => "teardown by the NIC",
            Self::Both => "setup and teardown",
            Self::LazyTcb => "both, lazy TCB",
            Self::Linux => "Linux, epoll",
        }
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Who opened and closed.
    pub mode: Mode,
    /// Transactions of a round.
    pub transactions: u64,
    /// Cycles of the server's host per transaction, by component.
    pub host_cycles_per_transaction: HostCycles,
    /// Cycles of the server's NIC per transaction.
    pub nic_cycles_per_transaction: NicCycles,
    /// What one core of the host does that does nothing else, at the machine's clock.
    pub transactions_per_host_core: f64,
    /// Host cycles per transaction of each round, to judge the spread.
    pub rounds: Vec<f64>,
    /// What the NIC did, in one round.
    pub by_nic: ByNic,
    /// From request to response; for the first request of a connection from the connection's beginning.
    pub latency_us: Latency,
}

impl Case {
    /// The row of a mode.
    pub fn new(mode: Mode, median: Median<ByNic>, latency_us: Latency) -> Self {
        Self {
            mode,
            transactions: median.round.count,
            host_cycles_per_transaction: median.host,
            nic_cycles_per_transaction: median.nic,
            transactions_per_host_core: median.per_host_core,
            rounds: median.each,
            by_nic: median.round.counted,
            latency_us,
        }
    }
}

/// Connections by what the NIC did for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByNic {
    /// Connections in all.
    pub connections: u64,
    /// Connections that the NIC opened.
    pub set_up: u64,
    /// Connections that the NIC closed.
    pub torn_down: u64,
    /// Connections that came without a control block and were given one.
    pub promoted: u64,
}

impl ByNic {
    /// What was done since then.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            connections: self.connections - before.connections,
            set_up: self.set_up - before.set_up,
            torn_down: self.torn_down.saturating_sub(before.torn_down),
            promoted: self.promoted - before.promoted,
        }
    }
}

/// Transactions per host core, first over second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// Setup, teardown and lazy control blocks over the host stack alone.
    pub accel_vs_host: f64,
    /// Setup alone.
    pub setup_vs_host: f64,
    /// Teardown alone.
    pub teardown_vs_host: f64,
    /// Setup and teardown, with full control blocks.
    pub both_vs_host: f64,
    /// Setup, teardown and lazy control blocks over Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accel_vs_linux: Option<f64>,
    /// The host stack alone over Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_vs_linux: Option<f64>,
}

impl Ratios {
    /// All of them by what they compare.
    pub fn named(&self) -> [(&'static str, Option<f64>); 6] {
        [
            (
                "setup by the NIC over host stack alone",
                Some(self.setup_vs_host),
            ),
            (
                "teardown by the NIC over host stack alone",
                Some(self.teardown_vs_host),
            ),
            (
                "setup and teardown over host stack alone",
                Some(self.both_vs_host),
            ),
            (
                "both, lazy TCB, over host stack alone",
                Some(self.accel_vs_host),
            ),
            ("both, lazy TCB, over Linux with epoll", self.accel_vs_linux),
            ("host stack alone over Linux with epoll", self.host_vs_linux),
        ]
    }

    /// The ratios between these cases; 0 where one is missing.
    pub fn of(cases: &[Case]) -> Self {
        let of = |mode| {
            let found = cases.iter().find(|case| case.mode == mode);
            found.map(|case| case.transactions_per_host_core)
        };
        let maybe = |first, second| {
            let (first, second) = (of(first)?, of(second)?);
            (second > 0.0).then_some(first / second)
        };
        let over_host = |mode| maybe(mode, Mode::Host).unwrap_or(0.0);
        Self {
            accel_vs_host: over_host(Mode::LazyTcb),
            setup_vs_host: over_host(Mode::Setup),
            teardown_vs_host: over_host(Mode::Teardown),
            both_vs_host: over_host(Mode::Both),
            accel_vs_linux: maybe(Mode::LazyTcb, Mode::Linux),
            host_vs_linux: maybe(Mode::Host, Mode::Linux),
        }
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
    pub ratios: Ratios,
    /// Whether every byte of every request and response was compared with what was sent, and was the same.
    pub bytes_verified: bool,
    /// What was left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What was asked of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct RunParameters {
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of a response.
    pub response_bytes: u32,
    /// Requests on a connection.
    pub transactions_per_connection: u32,
    /// Connections at the same time.
    pub connections: u32,
    /// Transactions of a round.
    pub transactions: u64,
    /// Of all that is random.
    pub seed: u64,
    /// Rounds.
    pub rounds: u32,
    /// How hosts and NICs shared the machine.
    pub layout: Layout,
    /// Counts of the cycle counter in a second.
    pub cycles_per_second: f64,
}
