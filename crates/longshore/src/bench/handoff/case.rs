//! Modes, and what is counted in them.

use host::Handoff;
use host::handoff::policy::Selection;
use serde::Serialize;

use crate::bench::case;
use crate::tally::tally;

/// Who runs the connections of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
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
}

impl case::Mode for Mode {
    fn label(&self) -> String {
        let label = match self {
            Self::Host => "host stack alone",
            Self::Handoff => "handed off to the NIC",
        };
        label.into()
    }
}

/// What is counted in a round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counted {
    /// Who had the connections, and what moved between host and NIC.
    pub connections: Owned,
}

tally! {
    /// Connections by who runs them, and what host and NIC told each other.
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
}
