//! A timer of the system's. tokio's own tells milliseconds; the stack's are shorter, where a NIC has no room for some microseconds.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::Instant;

use ::tokio::io::unix::AsyncFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::watched::watched;

/// Rings once.
#[derive(Debug)]
pub(super) struct Timer {
    fd: AsyncFd<OwnedFd>,
    armed: Option<Instant>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer {
            fd: watched(fd.as_fd())?,
            armed: None,
        })
    }

    /// Sets it. If it is to ring earlier anyway, it does, for nothing: deadlines that only move on cost no call.
    pub(super) fn arm(&mut self, now: Instant, deadline: Option<Instant>) -> io::Result<()> {
        let Some(deadline) = deadline else {
            return Ok(());
        };
        if self.armed.is_some_and(|armed| armed <= deadline) {
            return Ok(());
        }
        let after = deadline.saturating_duration_since(now);
        let value = Timespec {
            tv_sec: after.as_secs().min(1 << 30) as i64,
            // Zero would switch it off.
            tv_nsec: i64::from(after.subsec_nanos().max(1)),
        };
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: value,
        };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        self.armed = Some(deadline);
        Ok(())
    }

    /// Ready when it has rung.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = std::task::ready!(self.fd.poll_read_ready(context))?;
        guard.clear_ready();
        // Setting it again takes the ring back.
        self.armed = None;
        Poll::Ready(Ok(()))
    }
}
