//! What `longshore bench tls` may be asked.

use clap::Args;

use crate::bench::settings::{Run, share};

/// Settings of `bench tls`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Plaintext bytes of a TLS record, 512 to 16384
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(512..=16_384))]
    pub record_bytes: u32,

    /// Bytes that the application writes at a time
    #[arg(long, value_name = "N", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1..=(16 << 20)))]
    pub message_bytes: u32,

    /// Bytes in each measured round, over all connections; each connection sends one record at least
    #[arg(long, value_name = "N", default_value_t = 256 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub bytes: u64,

    /// Connections that share the bytes, up to 131072
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub connections: u32,

    /// Share of the data packets that the link loses, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    pub loss: f64,

    /// Share of the data packets that the link delivers late, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    pub reorder: f64,

    /// Seed of payload, keys, loss and reordering
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    /// Adds Linux's TCP with rustls, over a TAP in a network namespace of its own (needs CAP_NET_ADMIN)
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
}
