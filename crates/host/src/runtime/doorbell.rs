//! What one side rings to wake the other: an eventfd.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

/// A doorbell. Clones ring the same bell.
#[derive(Clone, Debug)]
pub struct Doorbell {
    fd: Arc<OwnedFd>,
}

impl Doorbell {
    /// A silent bell.
    ///
    /// # Errors
    /// When the system has no descriptors to give.
    pub fn new() -> io::Result<Doorbell> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Doorbell { fd: Arc::new(fd) })
    }

    /// Wakes the thread that waits, now or when it next does.
    pub fn ring(&self) {
        // Full means rung four billion times and not answered: it is as good as rung.
        let _ = write(&*self.fd, &1u64.to_ne_bytes());
    }

    /// Silences the bell; whether it had been rung.
    pub fn answer(&self) -> bool {
        let mut count = [0; 8];
        loop {
            match read(&*self.fd, &mut count) {
                Err(Errno::INTR) => {}
                result => return result.is_ok(),
            }
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
