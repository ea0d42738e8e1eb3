//! Starts the worker, and another one when it dies.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::options::Options;
use super::sleep::until_readable;
use crate::signals::Signals;

/// The exit code of a worker that ran, and can't go on: its wire or an interface is gone.
pub const FAILED: u8 = 75;
/// How long after a worker's death the next one is started, first and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A worker that ran so long is one that works: the next one is started at once again.
const LONG: Duration = Duration::from_secs(10);

/// What a worker's end says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It ended as it was told, or there is no use in trying again.
    Over(u8),
    /// Start another one.
    Again,
}

/// Keeps a worker running until it is told to end.
///
/// # Errors
/// When none can be started.
pub fn run(_options: &Options) -> Result<ExitCode> {
    let signals = Signals::block().context("signals can't be taken over")?;
    let mut has_run = false;
    let mut back_off = BACK_OFF.0;
    loop {
        let started = Instant::now();
        let mut worker = start()?;
        let (status, asked_to_end) = wait(&mut worker, &signals)?;
        match judge(status, has_run) {
            // It may have died before it was told.
            Verdict::Again if asked_to_end => return Ok(ExitCode::SUCCESS),
            Verdict::Over(code) => return Ok(ExitCode::from(code)),
            Verdict::Again => {}
        }
        has_run = true;
        if started.elapsed() > LONG {
            back_off = BACK_OFF.0;
        }
        eprintln!("longshore: the NIC has died ({status}); it is started again in {back_off:?}");
        let until = Instant::now() + back_off;
        back_off = (back_off * 2).min(BACK_OFF.1);
        while Instant::now() < until {
            until_readable([signals.as_fd()], 0, Instant::now(), Some(until));
            if signals.received() {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// What to do after a worker has ended; `has_run` when one ran before it, so that what is wrong may pass.
pub(super) fn judge(status: ExitStatus, has_run: bool) -> Verdict {
    match status.code() {
        Some(0) => Verdict::Over(0),
        Some(code) if code != i32::from(FAILED) && !has_run => {
            Verdict::Over(u8::try_from(code).unwrap_or(1))
        }
        Some(_) => Verdict::Again,
        // Ended by somebody who meant it, before it listened to that.
        None if status.signal() == Some(Signal::TERM.as_raw()) => Verdict::Over(0),
        None => Verdict::Again,
    }
}

/// This program again, with the same arguments.
fn start() -> Result<Child> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    // A group of its own: Ctrl-C is for the supervisor, which passes it on.
    Command::new("/proc/self/exe")
        .arg0(program)
        .args(arguments)
        .arg("--worker")
        .process_group(0)
        .spawn()
        .context("the NIC's process can't be started")
}

/// Waits for its end; asks to end are passed on, and told.
fn wait(worker: &mut Child, signals: &Signals) -> Result<(ExitStatus, bool)> {
    let ended = pidfd_open(Pid::from_child(worker), PidfdFlags::empty())
        .context("the NIC's process can't be watched")?;
    let mut asked_to_end = false;
    loop {
        until_readable([ended.as_fd(), signals.as_fd()], 0, Instant::now(), None);
        if signals.received() {
            asked_to_end = true;
            let _ = pidfd_send_signal(&ended, Signal::TERM);
        }
        if let Some(status) = worker.try_wait()? {
            return Ok((status, asked_to_end));
        }
    }
}
