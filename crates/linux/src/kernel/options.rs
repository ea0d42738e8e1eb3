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

/// Where `struct tcp_info` has its state, its options, `tcpi_bytes_acked`, `tcpi_bytes_received`, `tcpi_rcv_ooopack` (Linux 5.4) and `tcpi_rcv_wnd`
/// (Linux 6.2).
const INFO_STATE: usize = 0;
const INFO_OPTIONS: usize = 5;
const INFO_ACKED: usize = 120;
const INFO_RECEIVED: usize = 128;
const INFO_REORDERED: usize = 224;
const INFO_WINDOW: usize = 232;
const INFO_LEN: usize = 256;
/// `TCPI_OPT_TIMESTAMPS`.
const WITH_TIMESTAMPS: u8 = 1;
/// `SO_BINDTOIFINDEX` of `asm-generic/socket.h`.
const SO_BINDTOIFINDEX: i32 = 62;

/// `struct tcp_info`, as far as it says what a socket's connection has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) acknowledged: u64,
    pub(super) received: u64,
    /// 0 where Linux does not say.
    pub(super) window: u32,
    pub(super) has_reordered: bool,
    pub(super) peer_has_ended: bool,
    pub(super) with_timestamps: bool,
}

/// What a connection has come to.
///
/// # Errors
/// `ENOTCONN` when it has none, or carries no data any more.
pub(super) fn progress(socket: BorrowedFd<'_>) -> Result<Progress, Errno> {
    let info: [u8; INFO_LEN] = get(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    let peer_has_ended = match info[INFO_STATE] {
        ESTABLISHED | FIN_WAIT_1 | FIN_WAIT_2 => false,
        // What we have sent may be unacknowledged still.
        CLOSE_WAIT | LAST_ACK | CLOSING => true,
        _ => return Err(Errno::NOTCONN),
    };
    let count = |at: usize| {
        let bytes = info[at..].first_chunk();
        u64::from_ne_bytes(*bytes.expect("it is inside"))
    };
    let short = |at: usize| {
        let bytes = info[at..].first_chunk();
        u32::from_ne_bytes(*bytes.expect("it is inside"))
    };
    Ok(Progress {
        acknowledged: count(INFO_ACKED),
        received: count(INFO_RECEIVED),
        window: short(INFO_WINDOW),
        has_reordered: short(INFO_REORDERED) != 0,
        peer_has_ended,
        with_timestamps: info[INFO_OPTIONS] & WITH_TIMESTAMPS != 0,
    })
}

/// What the socket would put into a segment's timestamp now.
pub(super) fn timestamp(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    let value: i32 = get(socket, libc::IPPROTO_TCP, libc::TCP_TIMESTAMP)?;
    Ok(value as u32)
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

/// Bytes that were written and not acknowledged.
pub(super) fn unacknowledged(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    ask(socket, libc::TIOCOUTQ)
}

/// Bytes that were received and not read.
pub(super) fn unread(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    ask(socket, libc::FIONREAD)
}

/// Lets it send and receive by this interface only. One that is bound already can't be bound to another by a process without privileges.
///
/// # Errors
/// `ENODEV` for a socket that is bound to another one.
pub(super) fn bind_to(socket: BorrowedFd<'_>, interface: u32) -> Result<(), Errno> {
    let bound: i32 = get(socket, libc::SOL_SOCKET, SO_BINDTOIFINDEX)?;
    match bound {
        0 => set(socket, libc::SOL_SOCKET, SO_BINDTOIFINDEX, interface as i32),
        bound if bound as u32 == interface => Ok(()),
        _ => Err(Errno::NODEV),
    }
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
