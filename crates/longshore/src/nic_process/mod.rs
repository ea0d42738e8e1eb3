//! `longshore nic`: a NIC as a process, with Linux's own TCP and stacks of ours in other processes as its hosts.
//!
//! A supervisor starts a worker, a control process and, for hosts on rings, a gate, and others when they die. The worker is one thread that moves
//! frames between TAP interfaces, rings in shared memory, the NIC and its wire; with `--cores` it is one for each, with a NIC and a wire of its own.
//! The control process answers at the control socket, and tells the
//! worker what concerns it; the gate answers at the sockets of hosts on rings, and hands the worker what is harmless of what they pass. Another gate
//! answers virtual machines, which can't come again as these hosts can: it outlives the worker, and goes on with the next one.

mod attachments;
mod channel;
mod control_process;
mod counters;
mod ending;
mod faults;
mod gate_process;
mod hosts;
pub mod inherited;
mod link;
mod meter;
mod options;
mod placement;
mod rings_hosts;
mod sleep;
mod state;
mod supervisor;
#[cfg(test)]
mod tests;
mod wire;
mod worker;

#[cfg(test)]
pub use meter::Meter;
pub use meter::PART_EXPLANATIONS;
pub use options::{EXAMPLES, Options, WireOption};

use std::process::ExitCode;

use anyhow::Result;

/// Runs the NIC until it is told to end.
///
/// # Errors
/// When something is missing to begin with; the message says what to do.
pub fn run(options: &Options) -> Result<ExitCode> {
    match options {
        Options { worker: true, .. } => worker::run(options),
        Options {
            control_process: true,
            ..
        } => control_process::run(options),
        Options { gate: true, .. } => gate_process::run(options),
        Options {
            guest_gate: true, ..
        } => gate_process::run_for_guests(options),
        _ => supervisor::run(options),
    }
}
