//! Modes, and what is counted in them.

use host::Accel;
use serde::Serialize;

use crate::bench::case;
use crate::tally::tally;

/// Who relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
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
}

impl case::Mode for Mode {
    fn label(&self) -> String {
        let label = match self {
            Self::Relay => "relayed by the host",
            Self::Splice => "spliced by the NIC",
            Self::Haproxy => "Linux, HAProxy",
        };
        label.into()
    }

    fn over_label(&self, second: &Self) -> String {
        let second = match second {
            Self::Haproxy => "HAProxy on Linux".into(),
            second => second.label(),
        };
        format!("{} over {second}", self.label())
    }

    fn is_ours(&self) -> bool {
        *self != Self::Haproxy
    }
}

/// What is counted in a round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counted {
    /// Clients.
    pub connections: u64,
    /// Cycles of the load balancer's host per client.
    pub host_cycles_per_connection: f64,
    /// What the load balancer counted.
    pub spliced: Spliced,
}

tally! {
    /// What the load balancer had its NIC do.
    pub struct Spliced {
        /// Clients whose connections were spliced.
        pub connections: u64,
        /// Splices that were refused.
        pub refused: u64,
        /// Packets that the NIC forwarded, both ways.
        pub packets: u64,
    }
}
