//! Options of `longshore bench linux`.

use clap::{Args, ValueEnum};

use crate::bench::parameters::Parameters;
use crate::bench::settings::Rounds;
use crate::size::between;

/// Settings of `bench linux`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Server to measure: nginx, or none to measure only how the NIC process forwards, and reading
    #[arg(long, value_enum, default_value_t = Program::Nginx, hide_possible_values = true)]
    pub program: Program,

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

impl Settings {
    /// What was asked, to run it again.
    pub fn parameters(&self) -> Parameters {
        Parameters::default()
            .value("program", self.program.name())
            .size("file_bytes", self.file_bytes)
            .value("connections", self.connections)
            .value("seconds", self.seconds)
            .rounds(&self.rounds)
    }
}

/// A server to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// The installed nginx
    Nginx,
    /// No server: measure only how the NIC process forwards plain bytes, and reading
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
