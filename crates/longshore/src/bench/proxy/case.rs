//! What is measured: rows, and ratios between them.

use host::Accel;
use serde::Serialize;

use crate::bench::cycles::{HostCycles, NicCycles};
use crate::bench::rounds::Median;
use crate::bench::settings::Layout;

/// Who relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Our load balancer, on the host.
    Relay,
    /// Our load balancer, whose NIC splices.
    Splice,
    /// HAProxy on Linux.
    Haproxy,
}

impl Mode {
    /// The modes of our own stack, in the order in which a round goes through them.
    pub const OURS: [Self; 2] = [Self::Relay, Self::Splice];

    /// What the load balancer's NIC is asked for.
    pub fn accel(self) -> Accel {
        Accel {
            splice: self == Self::Splice,
            ..Accel::NONE
        }
    }

    /// For tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            Self::Relay => "relayed by the host",
            Self::Splice => "spliced by the NIC",
            Self::Haproxy => "Linux, HAProxy",
        }
    }
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Who relayed.
    pub mode: Mode,
    /// Messages of a round, each with its answer.
    pub messages: u64,
    /// Clients of a round.
    pub connections: u64,
    /// Cycles of the load balancer's host per message and its answer, by component.
    pub host_cycles_per_message: HostCycles,
    /// Cycles of the load balancer's NIC per message and its answer.
    pub nic_cycles_per_message: NicCycles,
    /// Cycles of the load balancer's host per client.
    pub host_cycles_per_connection: f64,
    /// What one core of the host does that does nothing else, at the machine's clock.
    pub messages_per_host_core: f64,
    /// Host cycles per message of each round, to judge the spread.
    pub rounds: Vec<f64>,
    /// What the load balancer counted, in one round.
    pub spliced: Spliced,
}

impl Case {
    /// The row of a mode, with so many clients in a round.
    pub fn new(mode: Mode, median: Median<Spliced>, connections: u64) -> Self {
        Self {
            mode,
            messages: median.round.count,
            connections,
            host_cycles_per_message: median.host,
            nic_cycles_per_message: median.nic,
            host_cycles_per_connection: median.round.taken.host as f64 / connections as f64,
            messages_per_host_core: median.per_host_core,
            rounds: median.each,
            spliced: median.round.counted,
        }
    }
}

/// What the load balancer had its NIC do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spliced {
    /// Clients whose connections were spliced.
    pub connections: u64,
    /// Splices that were refused.
    pub refused: u64,
    /// Packets that the NIC forwarded, both ways.
    pub packets: u64,
}

impl Spliced {
    /// What was counted since then.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            connections: self.connections - before.connections,
            refused: self.refused - before.refused,
            packets: self.packets - before.packets,
        }
    }
}

/// Messages per host core, first over second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ratios {
    /// Spliced by the NIC over relayed by the host.
    pub splice_vs_host: f64,
    /// Spliced by the NIC over HAProxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub splice_vs_haproxy: Option<f64>,
    /// Relayed by the host over HAProxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_vs_haproxy: Option<f64>,
}

impl Ratios {
    /// All of them by what they compare.
    pub fn named(&self) -> [(&'static str, Option<f64>); 3] {
        [
            (
                "spliced by the NIC over relayed by the host",
                Some(self.splice_vs_host),
            ),
            (
                "spliced by the NIC over HAProxy on Linux",
                self.splice_vs_haproxy,
            ),
            (
                "relayed by the host over HAProxy on Linux",
                self.host_vs_haproxy,
            ),
        ]
    }

    /// The ratios between these cases; 0 where one is missing.
    pub fn of(cases: &[Case]) -> Self {
        let of = |mode| {
            let found = cases.iter().find(|case| case.mode == mode);
            found.map(|case| case.messages_per_host_core)
        };
        let maybe = |first, second| {
            let (first, second) = (of(first)?, of(second)?);
            (second > 0.0).then_some(first / second)
        };
        Self {
            splice_vs_host: maybe(Mode::Splice, Mode::Relay).unwrap_or(0.0),
            splice_vs_haproxy: maybe(Mode::Splice, Mode::Haproxy),
            host_vs_haproxy: maybe(Mode::Relay, Mode::Haproxy),
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
    /// Whether every byte of every message and answer was compared with what was sent, and was the same.
    pub bytes_verified: bool,
    /// What was left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What was asked of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct RunParameters {
    /// Bytes of a message.
    pub message_bytes: u32,
    /// Messages on a connection.
    pub messages_per_connection: u32,
    /// Clients at the same time.
    pub connections: u32,
    /// Messages of a round.
    pub messages: u64,
    /// Of all that is random.
    pub seed: u64,
    /// Rounds.
    pub rounds: u32,
    /// How hosts and NICs shared the machine.
    pub layout: Layout,
    /// Counts of the cycle counter in a second.
    pub cycles_per_second: f64,
}
