//! Waiting for the first of several file descriptors, or a time.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Sleeps until one of `fds` is readable or the deadline has come. A signal may end the sleep too. Says whether one of the first
/// `asked` of them is readable.
pub fn until_readable<'a>(
    fds: impl IntoIterator<Item = BorrowedFd<'a>>,
    asked: usize,
    now: Instant,
    deadline: Option<Instant>,
) -> bool {
    let mut fds: Vec<_> = fds
        .into_iter()
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let timeout = deadline.map(|deadline| timespec(deadline.saturating_duration_since(now)));
    // Woken for no reason is awake, too.
    let ready = matches!(poll(&mut fds, timeout.as_ref()), Ok(1..));
    let mut asked = fds.iter().take(asked);
    ready && asked.any(|fd| !fd.revents().is_empty())
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().min(1 << 30) as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
