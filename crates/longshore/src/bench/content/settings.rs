//! Options of `longshore bench content`.

use clap::Args;

use crate::bench::settings::{Run, share};
use crate::size;

/// Settings of `bench content`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct Settings {
    /// Content of a round, before compression
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = size::between(64 << 10, 1 << 30))]
    pub bytes: u64,

    /// Strings that are searched for, up to 1000
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub patterns: u32,

    /// Share of packets lost on their way to the host
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub loss: f64,

    /// Random seed; the same seed gives the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub run: Run,
}
