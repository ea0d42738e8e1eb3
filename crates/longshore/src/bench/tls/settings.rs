//! Options of `longshore bench tls`.

use clap::Args;

use crate::bench::settings::{Faults, Run};
use crate::size::{between, between_u32};

/// Settings of `bench tls`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct Settings {
    /// Plaintext in a TLS record, 512 to 16K
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = between_u32(512, 16_384))]
    pub record_bytes: u32,

    /// Size of each write of the application, up to 16M
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = between_u32(1, 16 << 20))]
    pub message_bytes: u32,

    /// Payload per round, over all connections; each connection sends at least one record
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = between(1, 1 << 50))]
    pub bytes: u64,

    /// Connections that share the payload, up to 131072
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub connections: u32,

    #[command(flatten)]
    pub faults: Faults,

    /// Random seed; the same seed gives the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Also measure Linux TCP with rustls, over a TAP in a new network namespace (needs CAP_NET_ADMIN)
    #[arg(long)]
    pub linux: bool,

    #[command(flatten)]
    pub run: Run,
}

impl Settings {
    /// Bytes that each connection sends in a round.
    pub fn share_of_a_connection(&self) -> u64 {
        self.bytes
            .div_ceil(u64::from(self.connections))
            .max(u64::from(self.record_bytes))
    }

    /// Bytes that all of them send in a round.
    pub fn bytes_of_a_round(&self) -> u64 {
        self.share_of_a_connection() * u64::from(self.connections)
    }
}
