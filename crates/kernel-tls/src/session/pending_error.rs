//! Errors that the socket has told to a call that does not pass them on: one that has done a part of its work, one that only looks, or one of the library's own
//! thread. A socket tells each of its errors once, and then an end that looks like an orderly one. So the next call that would be told that end, or nothing,
//! is told the error.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::Session;
use crate::socket;

/// What ends a connection. All else is told again by the call that comes to it next.
const TOLD_ONCE: [Errno; 8] = [
    Errno::CONNRESET,
    Errno::CONNABORTED,
    Errno::CONNREFUSED,
    Errno::TIMEDOUT,
    Errno::HOSTUNREACH,
    Errno::HOSTDOWN,
    Errno::NETUNREACH,
    Errno::NETDOWN,
];

impl Session {
    /// An error that a call had and does not pass on: what the socket tells once is told by the next one.
    pub fn keep_error(&self, error: Errno) {
        if TOLD_ONCE.contains(&error) {
            let pending = &self.shared.pending_error;
            pending.store(error.raw_os_error(), Relaxed);
        }
    }

    /// The error that is to be told, once. For `SO_ERROR` too.
    pub fn take_error(&self) -> Option<Errno> {
        if !self.has_pending_error() {
            return None;
        }
        match self.shared.pending_error.swap(0, Relaxed) {
            0 => None,
            code => Some(Errno::from_raw_os_error(code)),
        }
    }

    /// An error is to be told.
    pub(super) fn has_pending_error(&self) -> bool {
        self.shared.pending_error.load(Relaxed) != 0
    }

    /// What a caller is told that can't send.
    pub(super) fn or_pending(&self, error: Errno) -> Errno {
        match error {
            Errno::PIPE => self.take_error().unwrap_or(error),
            _ => error,
        }
    }

    /// Looks at received bytes, as [`socket::look`]. An error that is to be told comes behind them.
    pub(super) fn look(&self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
        let seen = socket::look(fd, bytes);
        match seen {
            Ok(0) | Err(Errno::AGAIN) => self.take_error().map_or(seen, Err),
            _ => seen,
        }
    }
}
