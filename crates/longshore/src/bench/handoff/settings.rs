//! What `longshore bench handoff` may be asked.

use clap::Args;
use host::handoff::policy::Selection;

use crate::bench::settings::Run;

/// Settings of `bench handoff`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Keep-alive connections, 1 to 16384
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub connections: u32,

    /// Requests under way at once: whenever one is answered, the client asks that has been quiet for the longest time
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub at_once: u32,

    /// Bytes of a file, 1 to 1 MiB; each response has a head of some 130 bytes before it
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub file_bytes: u32,

    /// Requests in each measured round, over all connections
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub requests: u64,

    /// Which connections are handed off: fcfs, predict, or t4 and the like: at the fourth write
    #[arg(long, value_name = "POLICY", default_value_t = Selection::Fcfs)]
    pub selection: Selection,

    /// Connections that the NIC has memory for [default: all]
    #[arg(long, value_name = "N")]
    pub nic_connections: Option<u32>,

    /// Seed of all that is random
    #[arg(long, value_name = "S", default_value_t = 1)]
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
