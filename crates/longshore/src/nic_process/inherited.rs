//! Descriptors that a process is started with.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};

/// Descriptors of a process: of the control process three for each connection, and those of what is being closed; of a gate 64 files of memory for each
/// virtual machine, two for each of up to 17 vectors, and those of a message, for as many hosts as there can be.
const MOST_DESCRIPTORS: u64 = 32 << 10;

/// Has `command` start with these descriptors, which it is told the numbers of. They must stay open until it is started.
pub fn pass(command: &mut Command, descriptors: &[BorrowedFd<'_>]) {
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let named: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    command.arg("--inherited").arg(named.join(","));
    let keep = move || {
        for number in &numbers {
            // SAFETY: changes a flag of a descriptor in the child, where nothing else runs.
            if unsafe { libc::fcntl(*number, libc::F_SETFD, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(keep) };
}

/// Has the process that `command` starts be killed when this one ends, until it calls [`outlive_parent`].
pub fn end_with_parent(command: &mut Command) {
    let end = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only a system call is made.
    unsafe { command.pre_exec(end) };
}

/// Goes on when the process that has started this one ends.
///
/// # Errors
/// What the system gives.
pub fn outlive_parent() -> Result<()> {
    set_parent_process_death_signal(None).context("can't leave the supervisor")
}

/// As many descriptors as are needed, or as the system lets this process have.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let at_least = |most: Option<u64>| most.map(|most| most.max(MOST_DESCRIPTORS));
    let wanted = Rlimit {
        current: at_least(limit.current),
        maximum: at_least(limit.maximum),
    };
    let allowed = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, wanted).is_err() {
        let _ = setrlimit(Resource::Nofile, allowed);
    }
}

/// The descriptors that this process was started with. To be called once.
///
/// # Errors
/// When they are not as many, or not open.
pub fn take<const N: usize>(numbers: &[RawFd]) -> Result<[OwnedFd; N]> {
    let taken: Option<[OwnedFd; N]> = take_all(numbers)?.try_into().ok();
    taken.context("--inherited is internal: start `longshore nic` without it")
}

/// The same, however many they are.
///
/// # Errors
/// When they are not open.
pub fn take_all(numbers: &[RawFd]) -> Result<Vec<OwnedFd>> {
    for number in numbers {
        // SAFETY: asks, and changes a flag, by the number alone.
        let borrowed = unsafe { BorrowedFd::borrow_raw(*number) };
        fcntl_setfd(borrowed, FdFlags::CLOEXEC).context("an inherited descriptor is bad")?;
    }
    // SAFETY: they are open, and this process was started with them for this use alone.
    let take = |number: &RawFd| unsafe { OwnedFd::from_raw_fd(*number) };
    Ok(numbers.iter().map(take).collect())
}
