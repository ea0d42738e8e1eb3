//! What an end of a link sleeps on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An eventfd, or nothing.
#[derive(Debug)]
pub(crate) struct Wake(Option<OwnedFd>);

impl Wake {
    pub(crate) fn new(with_eventfd: bool) -> io::Result<Wake> {
        if !with_eventfd {
            return Ok(Wake(None));
        }
        Ok(Wake(Some(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?)))
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Makes the eventfd readable.
    pub(crate) fn wake(&self) {
        if let Some(fd) = &self.0 {
            // It fails only if the counter is full; then the eventfd is readable already.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }

    /// Makes the eventfd unreadable.
    pub(crate) fn clear(&self) {
        if let Some(fd) = &self.0 {
            // It fails if the counter is 0: nothing to clear.
            let _ = rustix::io::read(fd, &mut [0u8; 8]);
        }
    }
}
