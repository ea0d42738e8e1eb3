//! Modes, and what is counted in them.

use host::Accel;
use serde::Serialize;

use crate::bench::case::{self, Case};
use crate::tally::tally;

/// Who opens and closes connections at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
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
}

impl case::Mode for Mode {
    fn label(&self) -> String {
        let label = match self {
            Self::Host => "host stack alone",
            Self::Setup => "setup by the NIC",
            Self::Teardown => "teardown by the NIC",
            Self::Both => "setup and teardown",
            Self::LazyTcb => "both, lazy TCB",
            Self::Linux => "Linux, epoll",
        };
        label.into()
    }

    fn over_label(&self, second: &Self) -> String {
        let comma = if *self == Self::LazyTcb { "," } else { "" };
        let second = match second {
            Self::Linux => "Linux with epoll".into(),
            second => second.label(),
        };
        format!("{}{comma} over {second}", self.label())
    }

    fn is_ours(&self) -> bool {
        *self != Self::Linux
    }
}

/// What is counted in a round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counted {
    /// What the NIC did.
    pub by_nic: ByNic,
}

tally! {
    /// Connections by what the NIC did for them.
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
}

/// Of all connections those that the NIC opened or closed, in percent.
pub fn share(case: &Case<Mode, Counted>, of: fn(&ByNic) -> u64) -> f64 {
    let by_nic = &case.counted.by_nic;
    100.0 * of(by_nic) as f64 / by_nic.connections.max(1) as f64
}
