//! What was accepted and is unsent when the program closes the socket, or shuts it down.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::session::{Session, UnsentIs};
use crate::{flusher, held, socket};

/// How long a caller waits for a peer that takes nothing.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const STEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

impl Session {
    /// What is held open is made a record, and sent as far as there is room, the rest by and by, unless the peer takes nothing for 100 s, or the socket's
    /// `TCP_USER_TIMEOUT`: then the connection is reset, but for one that another process may go on with. With a linger time of 0 the rest is dropped, as Linux does (socket(7), `SO_LINGER`). For `close`.
    pub fn finish(self: &Arc<Self>, fd: BorrowedFd<'_>) {
        held::forget(self);
        if !self.sends() {
            return;
        }
        self.closes.store(true, Relaxed);
        let is_sent = self.flush(fd) != Ok(false);
        if is_sent || sockopt::socket_linger(fd) == Ok(Some(Duration::ZERO)) {
            if !is_sent {
                self.set_unsent(UnsentIs::Dropped);
            }
            return flusher::let_go(self);
        }
        if self.made_in == crate::process::generation() {
            self.set_unsent(UnsentIs::Limited);
        }
        flusher::watch(self, fd);
        // It may be watched already, as an open one.
        flusher::wake();
    }

    /// The peer has taken nothing for too long: what is unsent is dropped, and the connection reset with its last descriptor.
    pub(crate) fn drop_unsent(&self, fd: BorrowedFd<'_>) {
        self.set_unsent(UnsentIs::Dropped);
        // Without it the peer would take the part that it gets for all.
        let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
    }

    /// What becomes of what is unsent.
    pub(crate) fn unsent_is(&self) -> UnsentIs {
        match self.unsent_is.load(Relaxed) {
            unsent if unsent == UnsentIs::Kept as u8 => UnsentIs::Kept,
            unsent if unsent == UnsentIs::Limited as u8 => UnsentIs::Limited,
            _ => UnsentIs::Dropped,
        }
    }

    fn set_unsent(&self, unsent_is: UnsentIs) {
        self.unsent_is.store(unsent_is as u8, Relaxed);
    }

    /// Bytes that were made and that the peer has not acknowledged; `None` while a call sends.
    pub(crate) fn unacknowledged(&self, fd: BorrowedFd<'_>) -> Option<usize> {
        let sending = self.try_sending()?;
        let made = sending.made_to - sending.made_from;
        Some(made + socket::unacknowledged(fd) as usize)
    }

    /// Shuts the sending direction down behind what was accepted: at once, or as soon as that is out. For `shutdown`.
    ///
    /// # Errors
    /// What shutting it down at once gives.
    pub fn shut_sending(self: &Arc<Self>, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.shuts.store(true, Relaxed);
        self.closes.store(true, Relaxed);
        if !self.flush(fd)? {
            flusher::watch(self, fd);
        }
        Ok(())
    }

    /// Waits until what was accepted is in the socket, at most five seconds.
    pub fn wait_until_sent(&self, fd: BorrowedFd<'_>) {
        let end = Instant::now() + LONGEST_WAIT;
        while self.flush(fd) == Ok(false) && Instant::now() < end {
            let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
            let _ = poll(&mut polled, Some(&STEP));
        }
    }
}
