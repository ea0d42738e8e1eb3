//! The functions that make, copy and close descriptors.

use std::ffi::{c_int, c_uint};

use libc::{sockaddr, socklen_t};

use crate::next::next;
use crate::table;

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    forget(fd);
    next!(close(fd): fn(c_int) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
        table::taken(first, last).for_each(forget);
    }
    next!(close_range(first, last, flags): fn(c_uint, c_uint, c_int) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if how != libc::SHUT_RD
        && let Some(session) = table::sender(fd)
    {
        session.finish(table::borrow(&fd));
        session.wait_until_sent(table::borrow(&fd));
    }
    next!(shutdown(fd, how): fn(c_int, c_int) -> c_int)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    let new = next!(dup(fd): fn(c_int) -> c_int);
    share(fd, new)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd != to {
        forget(to);
    }
    let new = next!(dup2(fd, to): fn(c_int, c_int) -> c_int);
    share(fd, new)
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if fd != to {
        forget(to);
    }
    let new = next!(dup3(fd, to, flags): fn(c_int, c_int, c_int) -> c_int);
    share(fd, new)
}

/// # Safety
/// As of the C library's; `argument` is whatever the command takes, which fits in a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    let answer = next!(fcntl(fd, command, argument): fn(c_int, c_int, usize) -> c_int);
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => share(fd, answer),
        _ => answer,
    }
}

/// # Safety
/// As of the C library's; `argument` is whatever the command takes, which fits in a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the same function on 64-bit systems.
    unsafe { fcntl(fd, command, argument) }
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    fresh(next!(socket(domain, kind, protocol): fn(c_int, c_int, c_int) -> c_int))
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
    fresh(next!(accept(fd, from, len): fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int))
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    fresh(next!(accept4(fd, from, len, flags):
        fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int))
}

/// A descriptor is about to be closed.
fn forget(fd: c_int) {
    if let Some(session) = table::take(fd) {
        session.finish(table::borrow(&fd));
    }
}

/// A new descriptor: one of that number before was closed unseen.
fn fresh(fd: c_int) -> c_int {
    table::take(fd);
    fd
}

/// `new` stands for the same socket.
fn share(fd: c_int, new: c_int) -> c_int {
    if new >= 0 && new != fd {
        match table::get(fd) {
            Some(session) => table::put(new, session),
            None => drop(table::take(new)),
        }
    }
    new
}
