//! `longshore nic`: a NIC as a process, with Linux's own TCP and stacks of ours in other processes as its hosts.
//!
//! A supervisor starts a worker and a control process, and others when they die. The worker is one thread that moves frames between TAP interfaces,
//! rings in shared memory, the NIC and its wire. The control process answers at the control socket, and tells the worker what concerns it.

mod attachments;
mod channel;
mod control_process;
mod counters;
mod ending;
mod hosts;
mod inherited;
mod link;
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
    match (options.worker, options.control_process) {
        (true, _) => worker::run(options),
        (_, true) => control_process::run(options),
        _ => supervisor::run(options),
    }
}
