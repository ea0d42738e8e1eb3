//! Options of `longshore bench handoff`.

use clap::Args;
use host::handoff::policy::Selection;

use crate::bench::settings::Run;
use crate::size::between_u32;

/// Settings of `bench handoff`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct Settings {
    /// Keep-alive connections, up to 16384
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub connections: u32,

    /// Requests in flight; after each answer the client that has been idle longest sends the next one
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub at_once: u32,

    /// Size of a file, up to 1M; each response adds a header of about 130 bytes
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = between_u32(1, 1 << 20))]
    pub file_bytes: u32,

    /// Requests per round, over all connections
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub requests: u64,

    /// Connections to hand off: fcfs, predict, or t with a number of writes, as t4
    #[arg(long, value_name = "POLICY", default_value_t = Selection::Fcfs)]
    pub selection: Selection,

    /// Connections that fit in NIC memory [default: all]
    #[arg(long, value_name = "N")]
    pub nic_connections: Option<u32>,

    /// Random seed; the same seed gives the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub run: Run,
}

impl Settings {
    /// Connections that the NIC has memory for.
    pub fn hard_limit(&self) -> u32 {
        self.nic_connections.unwrap_or(self.connections)
    }
}
