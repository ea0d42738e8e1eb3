//! Options of `longshore bench linux`.

use clap::{Args, ValueEnum};

use crate::bench::parameters::Parameters;
use crate::bench::settings::Rounds;
use crate::bench::web::requests::Requests;

/// Settings of `bench linux`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Server to measure: nginx, or none to measure only how the NIC process forwards, and reading
    #[arg(long, value_enum, default_value_t = Program::Nginx, hide_possible_values = true)]
    pub program: Program,

    #[command(flatten)]
    pub requests: Requests,

    #[command(flatten)]
    pub rounds: Rounds,
}

impl Settings {
    /// What was asked, to run it again.
    pub fn parameters(&self) -> Parameters {
        Parameters::default()
            .value("program", self.program.name())
            .requests(&self.requests)
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
