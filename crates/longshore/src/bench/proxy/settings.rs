//! What `longshore bench proxy` may be asked.

use clap::Args;

use crate::bench::settings::Run;

/// Settings of `bench proxy`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Bytes of a message, 1 to 1 MiB; the server answers each with one of the same size
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub message_bytes: u32,

    /// Messages on a connection, each after the answer to the one before; then the server closes
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub messages_per_connection: u32,

    /// Clients at the same time, up to 8192; a new one comes when one has gone
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub connections: u32,

    /// Messages in each measured round, over all connections
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub messages: u64,

    /// Seed of all that is random
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Adds HAProxy on Linux's TCP, over a TAP in a network namespace of its own (needs CAP_NET_ADMIN and CAP_SYS_ADMIN)
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
