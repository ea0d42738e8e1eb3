//! System calls on the socket itself. They go to the kernel directly, not by functions that a preloaded library replaces.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};

/// Sends bytes as far as there is room; `flags` as for `send(2)`.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8], flags: i32) -> Result<usize, Errno> {
    retried(|| {
        // SAFETY: the bytes are borrowed for the call.
        unsafe {
            libc::syscall(
                libc::SYS_sendto,
                fd.as_raw_fd(),
                bytes.as_ptr(),
                bytes.len(),
                flags | libc::MSG_DONTWAIT,
                0,
                0,
            )
        }
    })
}

/// Looks at received bytes, without taking them and without waiting for them.
pub(crate) fn look(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
    retried(|| {
        // SAFETY: the bytes are borrowed mutably for the call.
        unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                fd.as_raw_fd(),
                bytes.as_mut_ptr(),
                bytes.len(),
                libc::MSG_PEEK | libc::MSG_DONTWAIT,
                0,
                0,
            )
        }
    })
}

/// What a call on a socket waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Bytes to receive.
    Bytes,
    /// Room to send.
    Room,
}

/// How long a call waits: as the socket and its flags say. The socket itself is asked when it comes to that.
#[derive(Debug)]
pub(crate) struct Patience {
    want: Want,
    never: bool,
    end: Option<Option<Instant>>,
}

impl Patience {
    /// Of a call with these flags, as of `send(2)` and `recv(2)`.
    pub(crate) fn new(want: Want, flags: i32) -> Patience {
        Patience {
            want,
            never: flags & libc::MSG_DONTWAIT != 0,
            end: None,
        }
    }

    /// Waits until the socket is ready. To be called without a lock.
    ///
    /// # Errors
    /// `EAGAIN` when the call does not wait, or has waited for long enough; `EINTR`.
    pub(crate) fn wait(&mut self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.never || rustix::fs::fcntl_getfl(fd)?.contains(OFlags::NONBLOCK) {
            return Err(Errno::AGAIN);
        }
        let (side, flags) = match self.want {
            Want::Bytes => (Timeout::Recv, PollFlags::IN),
            Want::Room => (Timeout::Send, PollFlags::OUT),
        };
        let end = match self.end {
            Some(end) => end,
            None => {
                let time = sockopt::socket_timeout(fd, side)?;
                *self.end.insert(time.map(|time| Instant::now() + time))
            }
        };
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(Errno::AGAIN);
        }
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], left.as_ref())? {
            0 => Err(Errno::AGAIN),
            _ => Ok(()),
        }
    }
}

/// Drops `len` received bytes, which have been seen there, without copying them.
pub(crate) fn drop_received(fd: BorrowedFd<'_>, mut len: usize) -> Result<(), Errno> {
    while len > 0 {
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        let dropped = retried(|| {
            // SAFETY: with MSG_TRUNC, TCP writes nothing to the buffer (tcp(7)).
            unsafe {
                libc::syscall(
                    libc::SYS_recvfrom,
                    fd.as_raw_fd(),
                    std::ptr::null_mut::<u8>(),
                    len,
                    flags,
                    0,
                    0,
                )
            }
        })?;
        if dropped == 0 {
            break;
        }
        len -= dropped;
    }
    Ok(())
}

/// From how many bytes on the socket counts as readable.
pub(crate) fn set_low_water(fd: BorrowedFd<'_>, bytes: i32) {
    // Without it callers are woken more often than need be.
    // SAFETY: the value is borrowed for the call, with its size.
    unsafe {
        libc::syscall(
            libc::SYS_setsockopt,
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            &raw const bytes,
            size_of::<i32>(),
        )
    };
}

/// Calls again what a signal interrupted before it did anything: nothing waits here.
fn retried(mut call: impl FnMut() -> i64) -> Result<usize, Errno> {
    loop {
        match answer(call()) {
            Err(Errno::INTR) => continue,
            other => return other,
        }
    }
}

fn answer(result: i64) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}
