//! System calls on the socket itself. They go to the kernel directly, not by functions that a preloaded library replaces.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Sends bytes; `flags` as for `send(2)`.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8], flags: i32) -> Result<usize, Errno> {
    retried(|| {
        // SAFETY: the bytes are borrowed for the call.
        unsafe {
            libc::syscall(
                libc::SYS_sendto,
                fd.as_raw_fd(),
                bytes.as_ptr(),
                bytes.len(),
                flags,
                0,
                0,
            )
        }
    })
}

/// Receives bytes; `flags` as for `recv(2)`.
pub(crate) fn receive(fd: BorrowedFd<'_>, bytes: &mut [u8], flags: i32) -> Result<usize, Errno> {
    // SAFETY: the bytes are borrowed mutably for the call.
    let got = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            fd.as_raw_fd(),
            bytes.as_mut_ptr(),
            bytes.len(),
            flags,
            0,
            0,
        )
    };
    answer(got)
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

/// Calls again what a signal interrupted before it did anything, where the bytes are accepted already.
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
