//! Streams (`FILE *`) of the C library's: they read and write by a way of its own, which can't be seen. So a TLS socket has none, and what has one does not
//! become a TLS socket.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering::*};

use kernel_tls::Errno;
use libc::FILE;

use crate::next::{interpose, other_names};
use crate::{answer, table};

/// Descriptors up to here can be TLS sockets.
const MOST: usize = 1 << 20;
/// `stdin`, `stdout` and `stderr` are there always.
const LAST_STANDARD: c_int = 2;

/// Descriptors that streams were made of.
static STREAMS: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

interpose! {
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        if table::get(fd).is_some() {
            answer::fail(Errno::OPNOTSUPP);
            return std::ptr::null_mut();
        }
        let stream = next(fd, mode);
        if !stream.is_null()
            && let Some((word, bit)) = place(fd)
        {
            word.fetch_or(bit, AcqRel);
        }
        stream
    }

    fn _IO_file_attach(stream: *mut FILE, fd: c_int) -> *mut FILE {
        match table::get(fd) {
            Some(_) => {
                answer::fail(Errno::OPNOTSUPP);
                std::ptr::null_mut()
            }
            None => next(stream, fd),
        }
    }

    fn fclose(stream: *mut FILE) -> c_int {
        // SAFETY: the caller's stream.
        closed(unsafe { libc::fileno(stream) });
        next(stream)
    }
}

other_names! {
    fn _IO_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = fdopen;
}

/// A descriptor is closed, or about to be: what has its number next has no stream.
pub(crate) fn closed(fd: c_int) {
    let Some((word, bit)) = place(fd) else { return };
    // The child of a `vfork` closes descriptors of its own; the streams are its parent's.
    if word.load(Relaxed) & bit != 0 && !kernel_tls::borrows_memory() {
        word.fetch_and(!bit, AcqRel);
    }
}

/// The same of all descriptors between two numbers, both included.
pub(crate) fn closed_between(first: u32, last: u32) {
    let words = STREAMS.iter().zip((0_u32..).step_by(64));
    for (_, base) in words.filter(|(word, _)| word.load(Relaxed) != 0) {
        let inside = first.max(base)..=last.min(base + 63);
        inside.for_each(|fd| closed(fd as c_int));
    }
}

/// Whether a stream may read from a descriptor and write to it.
pub(crate) fn may_use(fd: c_int) -> bool {
    let is_used = |(word, bit): (&AtomicU64, u64)| word.load(Acquire) & bit != 0;
    fd <= LAST_STANDARD || place(fd).is_some_and(is_used)
}

fn place(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((STREAMS.get(fd / 64)?, 1 << (fd % 64)))
}
