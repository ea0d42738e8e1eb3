//! `longshore sim`: experiments in virtual time.

mod figures;
mod options;
mod paper;
mod runs;
mod shard;
mod single;

#[cfg(test)]
mod tests;

use clap::Subcommand;

pub use options::{Merge, Options};

/// What can be simulated.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// A web server that hands connections to its NIC: one configuration, or all published ones
    #[command(after_help = options::EXAMPLES)]
    Handoff(Options),
    /// Put together what the shards of `sim handoff --paper` have written
    #[command(after_help = options::MERGE_EXAMPLES)]
    Merge(Merge),
}

/// Simulates, and prints what came of it.
///
/// # Errors
/// When the report can't be written, or shards do not make a whole.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Handoff(options) => match (&options.shard, &options.output) {
            (Some(shard), Some(output)) => shard::run(options, *shard, output),
            _ if options.paper => paper::run(options),
            _ => single::run(options),
        },
        Command::Merge(merge) => shard::merge(merge),
    }
}
