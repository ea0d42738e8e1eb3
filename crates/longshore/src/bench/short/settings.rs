//! Options of `longshore bench short`.

use clap::Args;

use crate::bench::exchange::Messages;
use crate::bench::settings::Run;
use crate::size::between_u32;

/// Settings of `bench short`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct Settings {
    /// Size of a request, up to 1M
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = between_u32(1, 1 << 20))]
    pub request_bytes: u32,

    /// Size of a response, up to 1M
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = between_u32(1, 1 << 20))]
    pub response_bytes: u32,

    /// Requests on a connection, one after the other; then the server closes it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub transactions_per_connection: u32,

    /// Connections open at once, up to 16384; another one opens when one ends
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub connections: u32,

    /// Transactions per round, over all connections
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub transactions: u64,

    /// Random seed; the same seed gives the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Also measure an epoll server on Linux TCP, over a TAP in a new network namespace (needs CAP_NET_ADMIN and
    /// CAP_SYS_ADMIN)
    #[arg(long)]
    pub linux: bool,

    #[command(flatten)]
    pub run: Run,
}

impl Settings {
    /// What is exchanged.
    pub fn messages(&self) -> Messages {
        let (request, response) = (self.request_bytes, self.response_bytes);
        Messages::new(self.seed, request as usize, response as usize)
    }

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
