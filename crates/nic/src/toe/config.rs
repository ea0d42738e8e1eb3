//! Limits of the connections that the device runs.

use std::time::Duration;

/// How many connections the device runs for its hosts, and how much of its time they get (Connection handoff policies §3). Nothing is
/// allocated before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToeConfig {
    /// Hard_limit: connections of all functions together; 0 for a device that runs none.
    pub hard_limit: u32,
    /// Most NIC packets in the receive queue; what comes beyond is dropped.
    pub queue: u32,
    /// Hiwat: NIC packets in the receive queue with which the device is overloaded.
    pub hiwat: u32,
    /// Lowat: NIC packets in the receive queue with which it has room for more connections.
    pub lowat: u32,
    /// NIC packets received, commands and segments sent in one turn, after which it is the hosts' packets' turn again; `None` for
    /// as many as there are; one at the least.
    pub packets_per_turn: Option<u32>,
    /// Least time between two turns: what the device is busy with the first for, when it is as slow as that. Zero: each
    /// flush ends a turn.
    pub turn: Duration,
    /// Soft_limit follows the load; else it is `hard_limit`.
    pub load_control: bool,
    /// Connections above Soft_limit are given back, those with the most packets first.
    pub active_restore: bool,
}

impl Default for ToeConfig {
    fn default() -> Self {
        ToeConfig {
            hard_limit: 4096,
            queue: 4096,
            hiwat: 1024,
            lowat: 256,
            packets_per_turn: Some(64),
            turn: Duration::ZERO,
            load_control: true,
            active_restore: true,
        }
    }
}
