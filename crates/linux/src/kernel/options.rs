//! Options of a TCP socket.

use std::os::fd::BorrowedFd;

use attachment::Errno;

use super::{last_error, raw};

/// `TCP_*` states of `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const FIN_WAIT_1: u8 = 4;
const FIN_WAIT_2: u8 = 5;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;

/// Values of `TCP_REPAIR`: on, and off without a window probe (Linux 4.19).
const REPAIR_ON: i32 = 1;
const REPAIR_OFF_NO_WP: i32 = -1;
/// Where `struct tcp_info` has its state, and `tcpi_rcv_ooopack` (Linux 5.4).
const INFO_STATE: usize = 0;
const INFO_REORDERED: usize = 224;
const INFO_LEN: usize = 256;

/// A queue of a socket in repair mode.
#[derive(Clone, Copy, Debug)]
pub(super) enum Queue {
    Receive = 1,
    Send = 2,
}

/// A socket in repair mode, until dropped.
#[derive(Debug)]
pub(super) struct Repair<'a> {
    socket: BorrowedFd<'a>,
    /// Leaving repair mode clears it.
    reuse: i32,
}

impl<'a> Repair<'a> {
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN over the socket's namespace, or in a state that can't be repaired; `ENOPROTOOPT` for a kernel without.
    pub(super) fn begin(socket: BorrowedFd<'a>) -> Result<Repair<'a>, Errno> {
        let reuse = get(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
        set(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, REPAIR_ON)?;
        Ok(Repair { socket, reuse })
    }

    /// From now on, also when repair mode has ended, [`position`] is this queue's.
    pub(super) fn select(&self, queue: Queue) -> Result<(), Errno> {
        let level = libc::IPPROTO_TCP;
        set(self.socket, level, libc::TCP_REPAIR_QUEUE, queue as i32)
    }
}

/// Whether somebody has put it into repair mode.
pub(super) fn is_in_repair(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    let repair: i32 = get(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR)?;
    Ok(repair != 0)
}

/// Where the next byte of a queue is put: of the one that was selected last.
///
/// # Errors
/// `EINVAL` when none was.
pub(super) fn position(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    let position: i32 = get(socket, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ)?;
    Ok(position as u32)
}

impl Drop for Repair<'_> {
    /// The send queue stays selected: its position can be asked for without repair mode from now on.
    fn drop(&mut self) {
        let _ = self.select(Queue::Send);
        let _ = set(
            self.socket,
            libc::IPPROTO_TCP,
            libc::TCP_REPAIR,
            REPAIR_OFF_NO_WP,
        );
        let _ = set(
            self.socket,
            libc::SOL_SOCKET,
            libc::SO_REUSEADDR,
            self.reuse,
        );
    }
}

/// What the socket speaks.
pub(super) fn protocol(socket: BorrowedFd<'_>) -> Result<i32, Errno> {
    get(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL)
}

/// Which network namespace it is of.
pub(super) fn namespace(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    get(socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE)
}

/// What tells it from all others.
pub(super) fn cookie(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    get(socket, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// Whether its peer's FIN has come; `None` when there is no connection, or no data on it any more.
pub(super) fn peer_has_ended(socket: BorrowedFd<'_>) -> Result<Option<bool>, Errno> {
    Ok(match info(socket)?[INFO_STATE] {
        ESTABLISHED | FIN_WAIT_1 | FIN_WAIT_2 => Some(false),
        // What we have sent may be unacknowledged still.
        CLOSE_WAIT | LAST_ACK | CLOSING => Some(true),
        _ => None,
    })
}

/// Whether bytes came beyond a gap at any time.
pub(super) fn has_reordered(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    let info = info(socket)?;
    Ok(info[INFO_REORDERED..INFO_REORDERED + 4] != [0; 4])
}

/// Bytes that were written and not acknowledged.
pub(super) fn unacknowledged(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    ask(socket, libc::TIOCOUTQ)
}

/// Bytes that were received and not read.
pub(super) fn unread(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    ask(socket, libc::FIONREAD)
}

/// Lets it send and receive by this interface only.
pub(super) fn bind_to(socket: BorrowedFd<'_>, interface: &str) -> Result<(), Errno> {
    let name = interface.as_bytes();
    // SAFETY: the name is borrowed for the call, with its length.
    let result = unsafe {
        libc::setsockopt(
            raw(socket),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as u32,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

fn info(socket: BorrowedFd<'_>) -> Result<[u8; INFO_LEN], Errno> {
    get(socket, libc::IPPROTO_TCP, libc::TCP_INFO)
}

/// A type of which any bytes are a value.
trait Plain: Copy {
    const ZERO: Self;
}

impl Plain for i32 {
    const ZERO: i32 = 0;
}

impl Plain for u64 {
    const ZERO: u64 = 0;
}

impl Plain for [u8; INFO_LEN] {
    const ZERO: Self = [0; INFO_LEN];
}

fn get<T: Plain>(socket: BorrowedFd<'_>, level: i32, option: i32) -> Result<T, Errno> {
    let mut value = T::ZERO;
    let mut len = size_of::<T>() as u32;
    // SAFETY: at most `len` bytes are written to `value`, any bytes of which are right.
    let result = unsafe {
        libc::getsockopt(
            raw(socket),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(value),
        _ => Err(last_error()),
    }
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> Result<(), Errno> {
    let len = size_of::<i32>() as u32;
    // SAFETY: the value is borrowed for the call, with its size.
    let result =
        unsafe { libc::setsockopt(raw(socket), level, option, (&raw const value).cast(), len) };
    match result {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

fn ask(socket: BorrowedFd<'_>, request: libc::c_ulong) -> Result<u32, Errno> {
    let mut value = 0;
    // SAFETY: the request writes an `int`.
    match unsafe { libc::ioctl(raw(socket), request, &raw mut value) } {
        0 => Ok(i32::max(value, 0) as u32),
        _ => Err(last_error()),
    }
}

/// Whether addresses may be used again.
#[cfg(test)]
pub(super) fn reuse(socket: BorrowedFd<'_>) -> Result<i32, Errno> {
    get(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR)
}
