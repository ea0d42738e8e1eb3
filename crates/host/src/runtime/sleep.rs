//! Waiting for the first of several file descriptors, or a time.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Sleeps until one of `fds` is readable or the deadline has come. A signal ends the sleep too. The times
/// of our timers are fractions of a millisecond, which `poll`'s nanoseconds hold.
pub(super) fn sleep(
    fds: &mut Vec<PollFd<'_>>,
    now: Instant,
    deadline: Option<Instant>,
) -> io::Result<()> {
    let timeout = deadline.map(|deadline| timespec(deadline.saturating_duration_since(now)));
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A descriptor to wait on.
pub(super) fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// The earlier of two times that may not be there.
pub(super) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().min(1 << 30) as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
