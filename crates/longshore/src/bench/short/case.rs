//! What is measured: rows, and ratios between them.

use serde::Serialize;

use super::super::{HostCycles, Layout, NicCycles};

/// Who opens and closes connections at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Our host stack alone.
    Host,
}

impl Mode {
    /// The modes of our own stack, in the order in which a round goes through them.
    pub const OURS: [Self; 1] = [Self::Host];

    /// For tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            Self::Host => "host stack alone",
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
    /// From request to response.
    pub latency_us: Latency,
}

/// Microseconds from a request to the end of its response, with as many connections at once as were asked for; for the
/// first request of a connection from the connection's beginning.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The longest but for one of ten.
    pub p90: f64,
    /// The longest but for one of a hundred.
    pub p99: f64,
    /// The longest but for one of a thousand.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// Transactions per host core, first over second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {}

impl Ratios {
    /// The ratios between these cases.
    pub fn of(_cases: &[Case]) -> Self {
        Self {}
    }
}

/// All that came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked, to run it again.
    pub settings: Asked,
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
pub struct Asked {
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
