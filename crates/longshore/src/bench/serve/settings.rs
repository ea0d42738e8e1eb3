//! Options of `longshore bench serve`.

use clap::Args;

use crate::bench::settings::Rounds;
use crate::size::between;

/// Settings of `bench serve`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct Settings {
    /// Size of the file to request, up to 1G
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = between(1, 1 << 30))]
    pub file_bytes: u64,

    /// Connections open at once, up to 20000, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,

    /// Seconds per mode and round, up to 600
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,

    #[command(flatten)]
    pub rounds: Rounds,
}
