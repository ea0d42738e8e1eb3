//! What `longshore bench linux` may be asked.

use clap::{Args, ValueEnum};
use serde::Serialize;

/// Settings of `bench linux`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// The server that is measured
    #[arg(long, value_enum, default_value_t = Program::Nginx)]
    pub program: Program,

    /// Bytes of the file that is asked for, 1 to 1 GiB
    #[arg(long, value_name = "N", default_value_t = 262_144, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub file_bytes: u64,

    /// Connections at the same time, up to 20,000, each with one request after the other
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub connections: u32,

    /// Seconds that a mode is asked for files in each round
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,

    /// Rounds of which each figure is the median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// Prints JSON and nothing else
    #[arg(long)]
    pub json: bool,

    /// Writes a page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<std::path::PathBuf>,
}

/// A server that others have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// nginx, as it is installed
    Nginx,
    /// No server: only what forwarding plain bytes costs the NIC's process
    None,
}

impl Program {
    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::None => "none",
        }
    }
}
