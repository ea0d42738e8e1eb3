//! The processes that the supervisor starts.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::inherited;
use super::super::sleep::until_readable;
use crate::config;

/// The exit code of a worker that ran, and can't go on: its wire or an interface is gone.
pub const FAILED: u8 = 75;
/// How long after a process's death the next one is started, first and at most.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A process that ran so long is one that works: the next one is started at once again.
const LONG: Duration = Duration::from_secs(10);

/// What a worker's end says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It ended as it was told, or there is no use in trying again.
    Over(u8),
    /// Start another one.
    Again,
}

/// What to do after a worker has ended; `has_run` when one ran before it, so that what is wrong may pass.
pub fn judge(status: ExitStatus, has_run: bool) -> Verdict {
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

/// A running process.
#[derive(Debug)]
pub struct Process {
    /// `None` for one that a predecessor has started: what its end says is not known.
    child: Option<Child>,
    pid: Pid,
    descriptor: OwnedFd,
}

impl Process {
    /// Starts this program again, with the same arguments, an option that says as what, and these descriptors.
    ///
    /// # Errors
    /// What the system gives.
    pub fn start(role: &str, descriptors: &[BorrowedFd<'_>]) -> Result<Process> {
        let mut arguments = config::arguments().iter();
        let program = arguments.next().cloned().unwrap_or_default();
        let mut command = Command::new("/proc/self/exe");
        // A group of its own: Ctrl-C is for the supervisor, which passes it on.
        command.arg0(program).args(arguments).process_group(0);
        command.arg(role).env_remove("NOTIFY_SOCKET");
        inherited::pass(&mut command, descriptors);
        inherited::end_with_parent(&mut command);
        let mut child = command.spawn().context("can't start the NIC's process")?;
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Process {
                child: Some(child),
                pid,
                descriptor,
            }),
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(error).context("can't watch the NIC's process")
            }
        }
    }

    /// One that a predecessor has started, by its descriptor.
    ///
    /// # Errors
    /// When it is no descriptor of a process.
    pub fn adopt(descriptor: OwnedFd) -> Result<Process> {
        let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
        let told = std::fs::read_to_string(path)?;
        let pid = told.lines().find_map(|line| line.strip_prefix("Pid:"));
        let pid = pid.and_then(|pid| pid.trim().parse().ok());
        let pid = pid.and_then(Pid::from_raw);
        Ok(Process {
            child: None,
            pid: pid.context("no process")?,
            descriptor,
        })
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// What the system gives.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => {
                let now = Instant::now();
                let has_ended = until_readable([self.descriptor.as_fd()], 0, now, Some(now));
                Ok(has_ended.then(|| ExitStatus::from_raw(Signal::KILL.as_raw())))
            }
        }
    }

    /// Whether it was killed, and only waits for threads that can't end yet.
    pub fn is_dying(&self) -> bool {
        let path = format!("/proc/{}/stat", self.pid);
        // The state is behind the name, which may have parentheses in it.
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        state.is_some_and(|rest| rest.starts_with(['Z', 'X']))
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        let _ = pidfd_send_signal(&self.descriptor, Signal::TERM);
    }

    /// Ends it. It may take its time: nothing waits for it.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.descriptor, Signal::KILL);
    }
}

impl AsFd for Process {
    /// Readable when it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// When a process may be started again.
#[derive(Debug)]
pub struct BackOff {
    pause: Duration,
    started: Instant,
}

impl BackOff {
    /// It is started now.
    pub fn new(now: Instant) -> BackOff {
        BackOff {
            pause: BACK_OFF.0,
            started: now,
        }
    }

    /// It is started now, not for the first time.
    pub fn start(&mut self, now: Instant) {
        self.started = now;
    }

    /// It has ended: how long to wait.
    pub fn pause(&mut self, now: Instant) -> Duration {
        if now.duration_since(self.started) > LONG {
            self.pause = BACK_OFF.0;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(BACK_OFF.1);
        pause
    }
}
