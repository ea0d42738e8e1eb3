//! What is measured: rows, and ratios between them.

use host::Handoff;
use host::handoff::policy::Selection;
use serde::Serialize;

use super::moves::Moves;
use crate::bench::cycles::{HostCycles, NicCycles};
use crate::bench::latency::Latency;
use crate::bench::rounds::Median;
use crate::bench::settings::Layout;

/// Who runs the connections of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Our host stack alone.
    Host,
    /// The NIC runs those that the host hands off.
    Handoff,
}

impl Mode {
    /// The modes in the order in which a round goes through them.
    pub const ALL: [Self; 2] = [Self::Host, Self::Handoff];

    /// What the server's stack hands off, when `selection` is asked for.
    pub fn handoff(self, selection: Selection) -> Handoff {
        Handoff::new(match self {
            Self::Host => Selection::Off,
            Self::Handoff => selection,
        })
    }

    /// For tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            Self::Host => "host stack alone",
            Self::Handoff => "handed off to the NIC",
        }
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Who ran the connections.
    pub mode: Mode,
    /// Requests of a round.
    pub requests: u64,
    /// Cycles of the server's host per request, by component.
    pub host_cycles_per_request: HostCycles,
    /// Cycles of the server's NIC per request.
    pub nic_cycles_per_request: NicCycles,
    /// What one core of the host does that does nothing else, at the machine's clock.
    pub requests_per_host_core: f64,
    /// Host cycles per request of each round, to judge the spread.
    pub rounds: Vec<f64>,
    /// Who had the connections, and what moved between host and NIC in one round.
    pub connections: Owned,
    /// From request to response.
    pub latency_us: Latency,
}

/// Connections by who runs them, and what host and NIC told each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Owned {
    /// Connections that the host ran at the end.
    pub host: u64,
    /// Connections that the NIC ran at the end.
    pub nic: u64,
    /// Connections handed off.
    pub handed_off: u64,
    /// Connections that the NIC refused.
    pub refused: u64,
    /// Connections that came back.
    pub restored: u64,
    /// Packets of connections of the NIC that it received.
    pub nic_packets_received: u64,
    /// Packets of connections of the NIC that it sent.
    pub nic_packets_sent: u64,
    /// NIC packets that were lost for want of room.
    pub nic_queue_full: u64,
}

impl Owned {
    /// Who has the connections now, and what was counted since then.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            host: self.host,
            nic: self.nic,
            handed_off: self.handed_off - before.handed_off,
            refused: self.refused - before.refused,
            restored: self.restored - before.restored,
            nic_packets_received: self.nic_packets_received - before.nic_packets_received,
            nic_packets_sent: self.nic_packets_sent - before.nic_packets_sent,
            nic_queue_full: self.nic_queue_full - before.nic_queue_full,
        }
    }
}

impl Case {
    /// The row of a mode.
    pub fn new(mode: Mode, median: Median<Owned>, latency_us: Latency) -> Self {
        Self {
            mode,
            requests: median.round.count,
            host_cycles_per_request: median.host,
            nic_cycles_per_request: median.nic,
            requests_per_host_core: median.per_host_core,
            rounds: median.each,
            connections: median.round.counted,
            latency_us,
        }
    }
}

/// Requests per host core, first over second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// Connections handed off to the NIC over the host stack alone.
    pub handoff_vs_host: f64,
}

impl Ratios {
    /// The ratios between these cases; 0 where one is missing.
    pub fn of(cases: &[Case]) -> Self {
        let of = |mode| {
            let found = cases.iter().find(|case| case.mode == mode);
            found.map_or(0.0, |case| case.requests_per_host_core)
        };
        let host = of(Mode::Host);
        Self {
            handoff_vs_host: if host > 0.0 {
                of(Mode::Handoff) / host
            } else {
                0.0
            },
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
    /// What handing off and taking back cost the host.
    pub moves: Moves,
    /// Cycles of the NIC's load control for a packet that arrives.
    pub load_control_cycles_per_packet: f64,
    /// Whether every byte of every response was compared with the file, and was the same.
    pub bytes_verified: bool,
}

/// What was asked of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct RunParameters {
    /// Keep-alive connections.
    pub connections: u32,
    /// Requests under way at once.
    pub at_once: u32,
    /// Bytes of a file.
    pub file_bytes: u32,
    /// Requests of a round.
    pub requests: u64,
    /// Which connections are handed off.
    pub selection: String,
    /// Connections that the NIC has memory for.
    pub nic_connections: u32,
    /// Of all that is random.
    pub seed: u64,
    /// Rounds.
    pub rounds: u32,
    /// How hosts and NICs shared the machine.
    pub layout: Layout,
    /// Counts of the cycle counter in a second.
    pub cycles_per_second: f64,
}
