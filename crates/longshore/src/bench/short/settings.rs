//! What `longshore bench short` may be asked.

use clap::Args;

use crate::bench::settings::Run;

/// Settings of `bench short`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Bytes of a request, 1 to 1 MiB
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub request_bytes: u32,

    /// Bytes of a response, 1 to 1 MiB
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub response_bytes: u32,

    /// Requests on a connection, each after the response to the one before; then the server closes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub transactions_per_connection: u32,

    /// Connections at the same time, up to 16384; a new one is opened when one has ended
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub connections: u32,

    /// Transactions in each measured round, over all connections
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub transactions: u64,

    /// Seed of all that is random
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Adds an epoll server on Linux's TCP, over a TAP in a network namespace of its own (needs CAP_NET_ADMIN and
    /// CAP_SYS_ADMIN)
    #[arg(long)]
    pub linux: bool,

    #[command(flatten)]
    pub run: Run,
}

impl Settings {
    /// Connections of a round.
    pub fn connections_of_a_round(&self) -> u64 {
        self.transactions
            .div_ceil(u64::from(self.transactions_per_connection))
    }

    /// Transactions of a round: those of whole connections.
    pub fn transactions_of_a_round(&self) -> u64 {
        self.connections_of_a_round() * u64::from(self.transactions_per_connection)
    }
}
