//! The other process: what it says, and whether it has ended.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use attachment::peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;

use super::line::Line;

/// The process at the other end of a line.
#[derive(Debug)]
pub(super) struct Other {
    pid: Pid,
    /// A pidfd: readable when it has ended.
    process: OwnedFd,
    /// `None` once one of the two has hung up.
    line: Option<Line>,
}

/// What there is of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard<T> {
    /// Nothing new. It may have hung up, and works on its queues.
    Nothing,
    Word(T),
    /// It has ended: it works on nothing any more.
    End,
}

impl Other {
    /// That which has connected to this one, or which listens where this one has connected.
    ///
    /// # Errors
    /// It has ended, or is in another PID namespace.
    pub(super) fn at(stream: UnixStream) -> Result<Other> {
        let pid = peer::pid(&stream)?.context("it is in another PID namespace")?;
        Other::of(pid, stream)
    }

    /// The one of this number. What it says from now on shows that the number is still its own.
    pub(super) fn of(pid: Pid, stream: UnixStream) -> Result<Other> {
        let process = pidfd_open(pid, PidfdFlags::empty());
        Ok(Other {
            pid,
            process: process.context("its process")?,
            line: Some(Line::new(stream)?),
        })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it may say something more: neither of the two has hung up.
    pub(super) fn is_heard(&self) -> bool {
        self.line.is_some()
    }

    /// The connection to it.
    ///
    /// # Errors
    /// One of the two has hung up.
    pub(super) fn line(&mut self) -> Result<&mut Line> {
        self.line.as_mut().context("it has hung up")
    }

    /// What it has said, if anything whole has come. If it says what is no word, this process hangs up. That it has hung up is not its end: it may
    /// still work on the queues that both have.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Heard<T> {
        match self.line.as_mut().map(Line::try_hear) {
            Some(Ok(Some(word))) => return Heard::Word(word),
            Some(Ok(None)) => return Heard::Nothing,
            Some(Err(error)) => self.hang_up(&format!("{error:#}")),
            None => {}
        }
        match self.has_ended() {
            true => Heard::End,
            false => Heard::Nothing,
        }
    }

    /// Neither says nor hears anything any more. Only the end of its process counts from here on.
    pub(super) fn hang_up(&mut self, why: &str) {
        self.line = None;
        if !self.has_ended() {
            let number = self.pid.as_raw_nonzero();
            tracing::warn!("no more is heard of process {number} but its end: {why}");
        }
    }

    fn has_ended(&self) -> bool {
        let mut process = [PollFd::new(&self.process, PollFlags::IN)];
        poll(&mut process, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Whether more can be heard at once, without a look at [`fd`](AsFd::as_fd).
    pub(super) fn has_more(&self) -> bool {
        self.line.as_ref().is_some_and(Line::has_more)
    }
}

/// What becomes readable when there is something to hear.
impl AsFd for Other {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            Some(line) => line.as_fd(),
            None => self.process.as_fd(),
        }
    }
}
