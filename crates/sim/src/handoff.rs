//! Connection handoff to a NIC, in virtual time (Connection handoff policies): the experiments of §5, on a host core and a NIC core with costs.
//!
//! [`workload`] is who asks for what; a [`Config`] is one of the seed's configurations; [`run`] is the experiment, and an [`Outcome`]
//! what it gives; [`costs`] is what operations cost; [`paper`] is what the seed has published.

mod config;
pub mod costs;
mod model;
mod outcome;
pub mod paper;
pub mod workload;

pub use config::{Config, UnknownConfig};
pub use costs::Costs;
pub use outcome::{Outcome, Sample};
pub use workload::Workload;

/// How long a run is, in packets received and sent by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Packets before anything is counted.
    pub warm_up: u64,
    /// Packets in which it is counted.
    pub measured: u64,
}

impl Default for Run {
    /// As in the seed (§4.2).
    fn default() -> Self {
        Self {
            warm_up: 400_000,
            measured: 600_000,
        }
    }
}

/// Runs the experiment of a configuration, as long and with the costs that all of them have. `progress` is told the packets so far, and
/// how many there will be.
pub fn run(config: &Config, mut progress: impl FnMut(u64, u64)) -> Outcome {
    run_with(config, &Costs::default(), Run::default(), &mut progress)
}

/// As [`run`], with other costs, or for another time: what would it be like if?
pub fn run_with(
    config: &Config,
    costs: &Costs,
    run: Run,
    progress: &mut dyn FnMut(u64, u64),
) -> Outcome {
    model::run(config, costs, run, progress)
}
