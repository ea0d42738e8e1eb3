//! System calls on a TCP socket that never blocks.
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Memory of a call: where it begins, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
}

impl Part {
    /// Bytes to be sent.
    pub(crate) fn of(bytes: &[u8]) -> Part {
        Part {
            start: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
        }
    }

    /// Bytes to be received into.
    pub(crate) fn of_mut(bytes: &mut [u8]) -> Part {
        Part {
            start: bytes.as_mut_ptr(),
            len: bytes.len(),
        }
    }
}

/// Begins to connect.
pub(crate) fn connect(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Capsules must not wait for the acknowledgement of what was sent before.
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// What has become of an attempt to connect that is over.
pub(crate) fn connected(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    sockopt::socket_error(socket)?
}

/// Has the socket send RST when it is closed.
pub(crate) fn abort_at_close(socket: BorrowedFd<'_>) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// Receives into these parts, one after the other; 0 at the stream's end.
///
/// # Safety
/// The parts are memory that may be written to, and to which there are no references.
pub(crate) unsafe fn receive(socket: BorrowedFd<'_>, parts: [Part; 2]) -> Result<usize, Errno> {
    let mut pieces = parts.map(piece);
    let mut message = message(&mut pieces);
    retried(|| {
        // SAFETY: the message names memory of which the caller says that it may be written to.
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) }
    })
}

/// Drops up to `len` received bytes, without copying them; gives how many, 0 at the stream's end (tcp(7), `MSG_TRUNC`).
pub(crate) fn drop_received(socket: BorrowedFd<'_>, len: usize) -> Result<usize, Errno> {
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    retried(|| {
        // SAFETY: TCP writes nothing to the memory then.
        unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), len, flags) }
    })
}

/// Sends parts as far as there is room.
///
/// # Safety
/// The parts are memory that may be read.
pub(crate) unsafe fn send(socket: BorrowedFd<'_>, parts: &[Part]) -> Result<usize, Errno> {
    const MOST: usize = 64;
    let mut pieces = [piece(Part::of(&[])); MOST];
    let count = parts.len().min(MOST);
    for (piece, part) in pieces.iter_mut().zip(parts) {
        *piece = self::piece(*part);
    }
    let message = message(&mut pieces[..count]);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    retried(|| {
        // SAFETY: the message names memory of which the caller says that it may be read.
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) }
    })
}

fn piece(part: Part) -> libc::iovec {
    libc::iovec {
        iov_base: part.start.cast(),
        iov_len: part.len,
    }
}

fn message(pieces: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: a message without name and control messages is all zeros.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = pieces.len();
    message
}

fn retried(mut call: impl FnMut() -> libc::ssize_t) -> Result<usize, Errno> {
    loop {
        match usize::try_from(call()) {
            Ok(len) => return Ok(len),
            Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                Some(Errno::INTR) => {}
                Some(error) => return Err(error),
                None => return Err(Errno::IO),
            },
        }
    }
}
