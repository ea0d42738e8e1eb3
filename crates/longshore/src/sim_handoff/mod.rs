//! `longshore sim`: experiments in virtual time.

mod figures;
mod options;
mod paper;
mod runs;
mod single;

#[cfg(test)]
mod tests;

use clap::Subcommand;

pub use options::Options;

/// What can be simulated.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// A web server that hands connections to its NIC: one configuration, or all published ones
    #[command(after_help = options::EXAMPLES)]
    Handoff(Options),
}

/// Simulates, and prints what came of it.
///
/// # Errors
/// When the report can't be written.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Handoff(options) if options.paper => paper::run(options),
        Command::Handoff(options) => single::run(options),
    }
}
