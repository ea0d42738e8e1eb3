//! Descriptors of our own. The program does not know of them, and may close, or take the place of, all that it has not opened itself.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::*};

use rustix::io::Errno;

/// Descriptors up to here are known by their numbers.
const MOST: usize = 1 << 16;
/// They are numbered from here on, as far as the process may have as many: out of the way of programs that choose numbers.
const FIRST: i32 = 600;

static OURS: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

/// A descriptor of the library's own.
#[derive(Debug)]
pub(crate) struct Internal(OwnedFd);

impl Internal {
    /// Takes a descriptor out of the program's sight.
    pub(crate) fn new(fd: OwnedFd) -> Internal {
        Internal::of(fd.as_fd()).unwrap_or_else(|_| Internal::marked(fd))
    }

    /// A copy of a descriptor, out of the program's sight from the beginning.
    ///
    /// # Errors
    /// It is none, or the process may have no more.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Result<Internal, Errno> {
        let copy = rustix::io::fcntl_dupfd_cloexec(fd, FIRST);
        copy.or_else(|_| rustix::io::fcntl_dupfd_cloexec(fd, 0))
            .map(Internal::marked)
    }

    fn marked(fd: OwnedFd) -> Internal {
        mark(fd.as_fd());
        Internal(fd)
    }
}

impl AsFd for Internal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Internal {
    fn drop(&mut self) {
        unmark(self.0.as_fd());
    }
}

/// A descriptor is ours, where it is.
pub(crate) fn mark(fd: BorrowedFd<'_>) {
    if let Some((word, bit)) = place(fd.as_raw_fd()) {
        word.fetch_or(bit, AcqRel);
    }
}

/// It is no longer, or about to be closed.
pub(crate) fn unmark(fd: BorrowedFd<'_>) {
    if let Some((word, bit)) = place(fd.as_raw_fd()) {
        word.fetch_and(!bit, AcqRel);
    }
}

/// Whether a descriptor is the library's own, which a program has not opened.
#[inline]
pub fn is_internal(fd: i32) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Acquire) & bit != 0)
}

/// The library's own descriptors between two numbers, both included, in order.
pub fn internal_between(first: u32, last: u32) -> impl Iterator<Item = u32> {
    let last = last.min(MOST as u32 - 1);
    (first..=last).filter(|fd| is_internal(*fd as i32))
}

fn place(fd: i32) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((OURS.get(fd / 64)?, 1 << (fd % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_descriptor_has_a_bit_of_its_own() {
        let (end, _other) = rustix::pipe::pipe().expect("a pipe");
        let fd = rustix::io::fcntl_dupfd_cloexec(end, FIRST).expect("a descriptor");
        let number = fd.as_raw_fd();
        let place_of = |fd| place(fd).map(|(word, bit)| (word.as_ptr(), bit));
        // Another bit of its word, and its bit in other words.
        for other in [number ^ 1, number % 64, number + 64, number / 64] {
            assert_ne!(place_of(other), place_of(number));
        }
        mark(fd.as_fd());
        assert!(is_internal(number));
        unmark(fd.as_fd());
        assert!(!is_internal(number));
        assert!(!is_internal(-1) && !is_internal(MOST as i32));
    }
}
