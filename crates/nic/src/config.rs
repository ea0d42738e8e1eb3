//! What a device is configured with when it is made.

use std::time::{Duration, Instant};

/// What the wire port can do, so that the NIC need not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WireCapabilities {
    /// It cuts frames of up to 64 KiB into packets ([`FrameMeta::gso_size`](crate::FrameMeta::gso_size)).
    pub tso: bool,
    /// It makes checksums ([`FrameMeta::needs_checksum`](crate::FrameMeta::needs_checksum)).
    pub checksum: bool,
}

/// A NIC's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicConfig {
    /// Bytes of NIC memory that a context counts (Autonomous NIC offloads §6.5).
    pub context_bytes: u32,
    /// Bytes of NIC memory for contexts (Autonomous NIC offloads §6.5).
    pub context_memory: u64,
    /// Largest IP packet on the wire.
    pub mtu: u16,
    /// What the wire port can do.
    pub wire: WireCapabilities,
    /// Secret key of the flow hash: unpredictable to peers.
    pub secret: [u8; 16],
    /// What the clocks of SYN cookies count from; the first rule for a listener by default. With the same secret and the same epoch another NIC takes
    /// the cookies that this one has given.
    pub epoch: Option<Instant>,
    /// Connections that the NIC sets up, finishes or joins by itself.
    pub accel: AccelConfig,
    /// Connections that the NIC runs by itself.
    pub toe: ToeConfig,
    /// Bytes that what contexts of a function share may take ([`l5p::Resource`]), for each function; and bytes that its engines may take for
    /// themselves ([`l5p::Protocol::MEMORY`]).
    pub resource_bytes: usize,
}

impl NicConfig {
    /// The paper's NIC on a plain wire. `secret` keys the flow hash.
    pub fn new(secret: [u8; 16]) -> NicConfig {
        NicConfig {
            context_bytes: 208,
            context_memory: 4 << 20,
            mtu: 1500,
            wire: WireCapabilities::default(),
            secret,
            epoch: None,
            accel: AccelConfig::default(),
            toe: ToeConfig::default(),
            resource_bytes: 8 << 20,
        }
    }
}

/// How much of the device its connections may take. Nothing is allocated before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccelConfig {
    /// Listening rules of a function.
    pub listeners: u16,
    /// Connections in teardown or TIME-WAIT, of all functions together.
    pub closing: u32,
    /// Bytes of what these have still to send, or to have acknowledged, of all functions together.
    pub packet_memory: u64,
    /// Splices of all functions together.
    pub splices: u32,
    /// SYNs answered per second; beyond it they go to the hosts. `None`: as many as come.
    pub setups_per_second: Option<u32>,
    /// Bytes of memory for frames that the device has made and that have not left yet. What does not fit is lost, as on a full
    /// link.
    pub egress_bytes: u32,
}

impl Default for AccelConfig {
    fn default() -> Self {
        AccelConfig {
            listeners: 256,
            closing: 256 << 10,
            packet_memory: 64 << 20,
            splices: 64 << 10,
            setups_per_second: None,
            egress_bytes: 1 << 20,
        }
    }
}

/// How many connections the device runs for its hosts, and how much of its time they get (Connection handoff policies §3). Nothing is
/// allocated before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToeConfig {
    /// Hard_limit: connections of all functions together; 0 for a device that runs no connections.
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
