//! `longshore nic`: a NIC as a process, with Linux's own TCP and stacks of ours in other processes as its hosts.
//!
//! A supervisor starts a worker and starts another one when that dies. The worker is one thread that moves frames between
//! TAP interfaces, rings in shared memory, the NIC and its wire, and answers at the control socket.

mod attachments;
mod counters;
mod hosts;
mod meter;
mod options;
mod rings_hosts;
mod sleep;
mod state;
mod supervisor;
#[cfg(test)]
mod tests;
mod wire;
mod worker;

pub use options::{EXAMPLES, Options};

use std::process::ExitCode;

use anyhow::Result;

/// Runs the NIC until it is told to end.
///
/// # Errors
/// When something is missing to begin with; the message says what to do.
pub fn run(options: &Options) -> Result<ExitCode> {
    match options.worker {
        true => worker::run(options),
        false => supervisor::run(options),
    }
}
