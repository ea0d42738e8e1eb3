//! One list of commands to an NVMe namespace, driven through NVMe/TCP with all that the NICs can do and through plain
//! software: each read must give what was written before it, wherever its bytes came by, and no byte beside a command's
//! memory may change.

mod help;
mod memory;
mod model;
mod outcome;
mod run;
mod scenario;
mod setup;

pub use help::Help;
pub use outcome::{Mismatch, Outcome};
pub use run::run;
pub use scenario::{Command, Pieces, Scenario};

/// Drives a scenario without any help and then with each of `helps`. Gives the outcomes, the one in software first.
///
/// # Errors
/// At the first command that does not do what it should.
pub fn compare(scenario: &Scenario, helps: &[Help]) -> Result<Vec<Outcome>, Mismatch> {
    std::iter::once(&Help::NONE)
        .chain(helps)
        .map(|help| run(scenario, help))
        .collect()
}
