//! Waiting for the program.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, ExitStatus};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, wait,
};

use crate::signals::{self, Signals};

/// How often processes that the program has left behind are looked at whether they have ended.
const LOOK: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Waits until the program ends; asks to end, or to read files again, are passed on to it, and what it leaves behind is waited for too.
pub fn until_end(child: Child) -> Result<ExitStatus> {
    let signals = Signals::block().context("can't block signals")?;
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty()).context("can't watch the program")?;
    loop {
        let mut polled = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        let _ = poll(&mut polled, Some(&LOOK));
        while let Some((ended, status)) = next_ended()? {
            if ended == pid {
                return Ok(ExitStatus::from_raw(status.as_raw()));
            }
        }
        if let Some(signal) = signals.next() {
            let _ = pidfd_send_signal(&ended, passed_on(signal));
        }
    }
}

/// What the program gets in this process's place.
fn passed_on(signal: signals::Signal) -> Signal {
    match signal {
        signals::Signal::End => Signal::TERM,
        // nginx reads its files again too. What does not know it ends.
        signals::Signal::Reload => Signal::HUP,
    }
}

/// Has processes of the program's that outlive it, as a daemon's do, become children of this one.
pub fn adopt() {
    // Without it a daemon's summary is of what it has done up to here.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Whether processes of the program's have outlived it.
pub fn goes_on() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// A process that has ended and was not told yet.
fn next_ended() -> Result<Option<(Pid, WaitStatus)>> {
    match wait(WaitOptions::NOHANG) {
        Err(Errno::INTR) => Ok(None),
        told => told.context("can't wait for the program"),
    }
}

/// The program's exit code; of one that a signal has ended 128 and its number, as shells have it.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_without_a_terminal_does_not_end_the_program() {
        assert_eq!(passed_on(signals::Signal::Reload), Signal::HUP);
        assert_eq!(passed_on(signals::Signal::End), Signal::TERM);
    }
}
