//! Options of `longshore bench proxy`.

use clap::Args;

use crate::bench::settings::Run;
use crate::size::between_u32;

/// Settings of `bench proxy`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct Settings {
    /// Size of a message and of its answer, up to 1M
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = between_u32(1, 1 << 20))]
    pub message_bytes: u32,

    /// Messages on a connection, one after the other; then the server closes it
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub messages_per_connection: u32,

    /// Clients at once, up to 8192; another one connects when one ends
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub connections: u32,

    /// Messages per round, over all connections
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub messages: u64,

    /// Random seed; the same seed gives the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Also measure HAProxy on Linux TCP, over a TAP in a new network namespace (needs CAP_NET_ADMIN and CAP_SYS_ADMIN)
    #[arg(long)]
    pub linux: bool,

    #[command(flatten)]
    pub run: Run,
}

impl Settings {
    /// Connections of a round, as the client counts them.
    pub fn connections_of_a_round(&self) -> u64 {
        self.messages
            .div_ceil(u64::from(self.messages_per_connection))
    }

    /// Messages of a round: those of whole connections.
    pub fn messages_of_a_round(&self) -> u64 {
        self.connections_of_a_round() * u64::from(self.messages_per_connection)
    }
}
