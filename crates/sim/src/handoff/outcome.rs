//! What a run gives.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Figures of the measured part of a run, named as in the seed's tables and figures. Shares are between 0 and 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Requests answered per second, as the clients see them.
    pub requests_per_second: f64,
    /// Packets received and sent by the server's NIC per second.
    pub packets_per_second: f64,
    /// Connections established per second.
    pub connections_per_second: f64,
    /// Bytes of HTTP responses that clients got, in Mbit/s.
    pub http_mbps: f64,
    /// Share of the host's cycles in the application.
    pub host_user: f64,
    /// Share of the host's cycles in the kernel.
    pub host_os: f64,
    /// Share of the host's cycles below the system calls: the network stack and the driver. Part of `host_os`.
    pub host_stack: f64,
    /// Share of the host's cycles in which it had nothing to do.
    pub host_idle: f64,
    /// The same of the NIC's core.
    pub nic_idle: f64,
    /// Share of the connections that ended that had been handed off.
    pub nic_connection_share: f64,
    /// Share of the packets that were received or sent by connections while the NIC ran them.
    pub nic_packet_share: f64,
    /// Time for a received packet of a host connection to cross the NIC: from its arrival to the host's memory, in the mean.
    pub host_delay_mean_rx: Duration,
    /// The same, half of the packets.
    pub host_delay_median_rx: Duration,
    /// Time for a packet to cross the NIC that the host sends: from the ring to the wire, in the mean.
    pub host_delay_mean_tx: Duration,
    /// The same, half of the packets.
    pub host_delay_median_tx: Duration,
    /// Time from a request's leaving the client to the end of its response, in the mean.
    pub response_time_mean: Duration,
    /// Requests answered.
    pub requests: u64,
    /// Connections established.
    pub connections: u64,
    /// Packets.
    pub packets: u64,
    /// Received packets that found their queue full.
    pub dropped: u64,
    /// Connections that the NIC took.
    pub handoffs: u64,
    /// Connections that it gave back.
    pub restores: u64,
    /// Connections that it refused.
    pub refused: u64,
    /// Virtual time of the measured part.
    pub measured: Duration,
    /// The load control's parameters from the beginning of the run.
    pub timeline: Vec<Sample>,
}

/// The parameters of load control at a time (Connection handoff policies, Figure 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Time since the beginning of the run.
    pub t: Duration,
    /// Soft_limit.
    pub soft_limit: u32,
    /// Cnum: connections on the NIC.
    pub cnum: u32,
    /// Qlen: NIC packets in the receive queue.
    pub qlen: u32,
}
