//! System calls on the socket itself. They go to the kernel directly, not by functions that a preloaded library replaces.

use std::io::IoSlice;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};

use crate::direct;
use crate::session::Permit;

/// What every call that sends asks for: whether there is a signal is decided by who has been called by the program.
const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Sends bytes as far as there is room.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    retried(|| {
        // SAFETY: the bytes are borrowed for the call.
        unsafe {
            direct::syscall()(
                libc::SYS_sendto,
                fd.as_raw_fd(),
                bytes.as_ptr(),
                bytes.len(),
                SEND_FLAGS,
                0,
                0,
            )
        }
    })
}

/// Most pieces that the kernel takes at once.
const MOST_PIECES: usize = libc::UIO_MAXIOV as usize;

/// Sends framed content as far as there is room.
pub(crate) fn send_slices(
    _: Permit<'_>,
    fd: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
) -> Result<usize, Errno> {
    send_vector(fd, slices.as_ptr().cast(), slices.len())
}

/// As [`send_slices`], for memory that may be gone: `EFAULT` if its first byte is.
pub(crate) fn send_pieces(
    _: Permit<'_>,
    fd: BorrowedFd<'_>,
    pieces: &[libc::iovec],
) -> Result<usize, Errno> {
    send_vector(fd, pieces.as_ptr(), pieces.len())
}

fn send_vector(
    fd: BorrowedFd<'_>,
    pieces: *const libc::iovec,
    count: usize,
) -> Result<usize, Errno> {
    // SAFETY: a message without name and control messages is all zeros.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.cast_mut();
    message.msg_iovlen = count.min(MOST_PIECES);
    retried(|| {
        // SAFETY: the pieces are borrowed for the call, and the kernel only reads through them; an `IoSlice` is an `iovec`.
        unsafe {
            direct::syscall()(
                libc::SYS_sendmsg,
                fd.as_raw_fd(),
                &raw const message,
                SEND_FLAGS,
            )
        }
    })
}

/// Ends the connection with RST; what is unsent is not sent.
pub(crate) fn reset(fd: BorrowedFd<'_>) {
    let nowhere = libc::sockaddr {
        sa_family: libc::AF_UNSPEC as u16,
        sa_data: [0; 14],
    };
    // SAFETY: the address is borrowed for the call, with its size.
    unsafe {
        direct::syscall()(
            libc::SYS_connect,
            fd.as_raw_fd(),
            &raw const nowhere,
            size_of::<libc::sockaddr>(),
        )
    };
}

/// Bytes in the socket that the peer has not acknowledged.
pub(crate) fn unacknowledged(fd: BorrowedFd<'_>) -> u32 {
    let mut bytes = 0_i32;
    // SAFETY: the answer's place is borrowed for the call.
    let asked = unsafe {
        direct::syscall()(
            libc::SYS_ioctl,
            fd.as_raw_fd(),
            libc::TIOCOUTQ,
            &raw mut bytes,
        )
    };
    if asked == 0 { bytes.max(0) as u32 } else { 0 }
}

/// How long the program lets sent bytes be unacknowledged (`TCP_USER_TIMEOUT`), if it has said.
pub(crate) fn user_timeout(fd: BorrowedFd<'_>) -> Option<Duration> {
    let milliseconds = sockopt::tcp_user_timeout(fd).ok()?;
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()))
}

/// What tells one socket from all others of the system.
pub(crate) fn cookie(fd: BorrowedFd<'_>) -> Option<u64> {
    sockopt::socket_cookie(fd).ok()
}

/// States of `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const CLOSE: u8 = 7;

/// Whether it is a TCP socket, and whether its connection is established.
pub(crate) fn is_established(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(state(fd)? == ESTABLISHED)
}

/// Whether no packet of its connection with data will leave any more: it was reset, or both sides have ended and have acknowledged it. What has come
/// may be unread still.
pub(crate) fn is_over(fd: BorrowedFd<'_>) -> bool {
    state(fd) == Ok(CLOSE)
}

fn state(fd: BorrowedFd<'_>) -> Result<u8, Errno> {
    let mut state = 0_u8;
    let mut len = size_of::<u8>() as libc::socklen_t;
    // SAFETY: the answer's place is borrowed for the call, with its size: `tcp_info` begins with the state.
    let asked = unsafe {
        direct::syscall()(
            libc::SYS_getsockopt,
            fd.as_raw_fd(),
            libc::SOL_TCP,
            libc::TCP_INFO,
            &raw mut state,
            &raw mut len,
        )
    };
    answer(asked).map(|_| state)
}

/// Looks at received bytes, without taking them and without waiting for them.
pub(crate) fn look(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
    retried(|| {
        // SAFETY: the bytes are borrowed mutably for the call.
        unsafe {
            direct::syscall()(
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

/// Takes received bytes out of the socket, without waiting for them; 0 at the stream's end.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    // SAFETY: all zeros are a message header without anything.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = buffers.as_mut_ptr().cast();
    header.msg_iovlen = buffers.len() as _;
    retried(|| {
        // SAFETY: the header names buffers that are borrowed mutably for the call; `IoSliceMut` is an `iovec`.
        unsafe {
            direct::syscall()(
                libc::SYS_recvmsg,
                fd.as_raw_fd(),
                &raw mut header,
                libc::MSG_DONTWAIT,
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
pub(crate) struct WaitLimit {
    want: Want,
    never: bool,
    end: Option<Option<Instant>>,
}

impl WaitLimit {
    /// Of a call with these flags, as of `send(2)` and `recv(2)`.
    pub(crate) fn new(want: Want, flags: i32) -> WaitLimit {
        WaitLimit {
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
        if let (None, Want::Bytes) = (end, self.want) {
            return wait_for_bytes(fd);
        }
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

/// Waits for bytes, or the end of the stream, in the kernel's own call: after a signal it goes on if the handler was installed to that end (`SA_RESTART`).
fn wait_for_bytes(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut byte = [0_u8];
    // SAFETY: the byte is borrowed mutably for the call.
    let seen = unsafe {
        direct::syscall()(
            libc::SYS_recvfrom,
            fd.as_raw_fd(),
            byte.as_mut_ptr(),
            byte.len(),
            libc::MSG_PEEK,
            0,
            0,
        )
    };
    answer(seen).map(drop)
}

/// Waits until more than so many bytes are in the socket, as long as it has calls wait.
///
/// # Errors
/// `EAGAIN` if no more have come; what the socket gives.
pub(crate) fn wait_for_more_than(fd: BorrowedFd<'_>, bytes: usize) -> Result<(), Errno> {
    let mut room = vec![0_u8; bytes + 1];
    // SAFETY: the room is borrowed mutably for the call.
    let seen = unsafe {
        direct::syscall()(
            libc::SYS_recvfrom,
            fd.as_raw_fd(),
            room.as_mut_ptr(),
            room.len(),
            libc::MSG_PEEK | libc::MSG_WAITALL,
            0,
            0,
        )
    };
    match answer(seen)? {
        seen if seen > bytes => Ok(()),
        _ => Err(Errno::AGAIN),
    }
}

/// How many bytes are in the socket to be received.
pub(crate) fn received(fd: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut bytes = 0_i32;
    // SAFETY: the answer's place is borrowed for the call.
    let asked = unsafe {
        direct::syscall()(
            libc::SYS_ioctl,
            fd.as_raw_fd(),
            libc::FIONREAD,
            &raw mut bytes,
        )
    };
    answer(asked)?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Drops `len` received bytes, which have been seen there, without copying them.
pub(crate) fn drop_received(fd: BorrowedFd<'_>, mut len: usize) -> Result<(), Errno> {
    while len > 0 {
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        let dropped = retried(|| {
            // SAFETY: with MSG_TRUNC, TCP writes nothing to the buffer (tcp(7)).
            unsafe {
                direct::syscall()(
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
        direct::syscall()(
            libc::SYS_setsockopt,
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            &raw const bytes,
            size_of::<i32>(),
        )
    };
}

/// From how many bytes on the socket counts as readable: as the program, or [`set_low_water`], has said.
///
/// # Errors
/// What the socket gives.
pub(crate) fn low_water(fd: BorrowedFd<'_>) -> Result<i32, Errno> {
    let (mut bytes, mut len) = (1_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the value and its size are borrowed for the call.
    let asked = unsafe {
        direct::syscall()(
            libc::SYS_getsockopt,
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            &raw mut bytes,
            &raw mut len,
        )
    };
    answer(asked)?;
    Ok(bytes)
}

/// Wakes all that wait to send, also those that are woken by changes only.
pub(crate) fn wake_senders(fd: BorrowedFd<'_>) {
    let (mut value, mut len) = (0_i32, size_of::<i32>() as libc::socklen_t);
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    // SAFETY: the value is borrowed for each call, with its size.
    unsafe {
        let asked = direct::syscall()(
            libc::SYS_getsockopt,
            fd.as_raw_fd(),
            level,
            name,
            &raw mut value,
            &raw mut len,
        );
        if asked == 0 {
            // Setting it is what wakes them, also to what it was.
            direct::syscall()(
                libc::SYS_setsockopt,
                fd.as_raw_fd(),
                level,
                name,
                &raw const value,
                len,
            );
        }
    }
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
