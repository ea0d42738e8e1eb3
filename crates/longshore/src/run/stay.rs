//! Waiting for the program.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, ExitStatus};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, wait,
};

use crate::signals::Signals;

/// Waits until the program ends; asks to end are passed on to it.
pub fn until_end(mut child: Child) -> Result<ExitStatus> {
    let signals = Signals::block().context("can't block signals")?;
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty()).context("can't watch the program")?;
    loop {
        let mut polled = [
            PollFd::new(&ended, PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        let _ = poll(&mut polled, None);
        if !polled[0].revents().is_empty() {
            return child.wait().context("can't wait for the program");
        }
        if signals.received() {
            let _ = pidfd_send_signal(&ended, Signal::TERM);
        }
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

/// The program's exit code; of one that a signal has ended 128 and its number, as shells have it.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
