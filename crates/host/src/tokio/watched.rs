//! Descriptors that a task waits on.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

/// A copy of the descriptor, for the task to wait until it is readable.
pub(super) fn watched(fd: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    let copy = fd.try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` keeps its descriptor, the same and open, as long as it lives; `AsyncFd` owns it.
    unsafe { AsyncFd::register_with_interest(copy, Interest::READABLE) }.map_err(io::Error::from)
}
