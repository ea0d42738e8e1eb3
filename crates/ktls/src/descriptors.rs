//! The functions that make, copy and close descriptors.

use std::ffi::{c_int, c_uint};

use kernel_tls::{Errno, internal_between, is_internal};
use libc::{sockaddr, socklen_t};
use rustix::io::FdFlags;

use crate::next::{interpose, next, other_names};
use crate::{answer, epolls, streams, table};

interpose! {
    fn close(fd: c_int) -> c_int {
        if is_internal(fd) {
            return answer::fail(Errno::BADF);
        }
        forget(fd);
        next(fd)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        const KNOWN: c_uint = libc::CLOSE_RANGE_CLOEXEC | libc::CLOSE_RANGE_UNSHARE;
        if flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0 || flags & !(KNOWN as c_int) != 0 {
            return next(first, last, flags);
        }
        table::taken(first, last).for_each(forget);
        streams::closed_between(first, last);
        epolls::closed_between(first, last);
        let mut first = first;
        for ours in internal_between(first, last) {
            if first < ours && next(first, ours - 1, flags) != 0 {
                return -1;
            }
            first = ours + 1;
        }
        match first <= last {
            true => next(first, last, flags),
            false => 0,
        }
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        let sender = match how {
            libc::SHUT_WR | libc::SHUT_RDWR => table::sender(fd),
            _ => None,
        };
        let Some(session) = sender else {
            return next(fd, how);
        };
        let shut = session.shut_sending(table::borrow(&fd));
        if how == libc::SHUT_RDWR && shut.is_ok() {
            // A connection that is over by now has nothing to shut.
            next(fd, libc::SHUT_RD);
        }
        answer::status(shut)
    }

    fn dup(fd: c_int) -> c_int {
        let new = match table::get(fd) {
            Some(_) => next!(fcntl(fd, libc::F_DUPFD_CLOEXEC, 0): fn(c_int, c_int, usize) -> c_int),
            None => next(fd),
        };
        share(fd, new)
    }

    fn dup2(fd: c_int, to: c_int) -> c_int {
        if let Err(error) = make_way(fd, to) {
            return answer::fail(error);
        }
        let new = match table::get(fd).filter(|_| fd != to) {
            Some(_) => next!(dup3(fd, to, libc::O_CLOEXEC): fn(c_int, c_int, c_int) -> c_int),
            None => next(fd, to),
        };
        share(fd, new)
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        let way = match flags & !libc::O_CLOEXEC {
            0 if fd != to => make_way(fd, to),
            _ => Err(Errno::INVAL),
        };
        if let Err(error) = way {
            return answer::fail(error);
        }
        let closes = table::get(fd).map_or(0, |_| libc::O_CLOEXEC);
        share(fd, next(fd, to, flags | closes))
    }

    /// The argument is whatever the request takes, which fits in a word.
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        let (command, argument) = match command {
            libc::F_SETFD if table::get(fd).is_some() => {
                (command, argument | libc::FD_CLOEXEC as usize)
            }
            libc::F_DUPFD if table::get(fd).is_some() => (libc::F_DUPFD_CLOEXEC, argument),
            _ => (command, argument),
        };
        let answer = next(fd, command, argument);
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => share(fd, answer),
            libc::F_SETFL => {
                flags_changed(fd);
                answer
            }
            _ => answer,
        }
    }

    fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
        const FAMILY: usize = size_of::<libc::sa_family_t>();
        // SAFETY: the caller's address has this length.
        let ends = len as usize >= FAMILY && unsafe { (*to).sa_family } == libc::AF_UNSPEC as u16;
        // The next connection of the socket would have this one's keys, and no NIC that makes its records. Linux refuses it too.
        if ends && table::get(fd).is_some_and(|session| session.is_of(table::borrow(&fd))) {
            return answer::fail(Errno::OPNOTSUPP);
        }
        next(fd, to, len)
    }

    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        fresh(next(domain, kind, protocol))
    }

    fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
        kernel_tls::send_held();
        fresh(next(fd, from, len))
    }

    fn accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        kernel_tls::send_held();
        fresh(next(fd, from, len, flags))
    }
}

/// Another descriptor is about to take a number, if it is one.
fn make_way(fd: c_int, to: c_int) -> Result<(), Errno> {
    if is_internal(to) {
        return Err(Errno::BUSY);
    }
    if fd != to && table::get(fd).is_some() && streams::may_use(to) {
        return Err(Errno::OPNOTSUPP);
    }
    let is_socket = table::get(to).is_some();
    if fd != to && (is_socket || epolls::may_know(to)) {
        // What stays where it is stays known.
        rustix::io::fcntl_getfd(table::borrow(&fd))?;
        match is_socket {
            true => forget(to),
            false => epolls::closed(to),
        }
    }
    Ok(())
}

interpose! {
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
        let made = next(domain, kind, protocol, pair);
        if made == 0 {
            // SAFETY: the caller's room for two, which were put there.
            let pair = unsafe { std::slice::from_raw_parts(pair, 2) };
            pair.iter().for_each(|fd| {
                fresh(*fd);
            });
        }
        made
    }
}

other_names! {
    fn __close(fd: c_int) -> c_int = close;
    fn __dup2(fd: c_int, to: c_int) -> c_int = dup2;
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int = fcntl;
    fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = fcntl;
    fn __connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int = connect;
}

/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: as of the caller.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// What `O_NONBLOCK` says of a descriptor's file may be another thing now.
pub(crate) fn flags_changed(fd: c_int) {
    if let Some(session) = table::get(fd) {
        session.flags_changed();
    }
}

/// A program that this one becomes has not the keys: what it would write would go in clear. So it has not the socket either.
pub(crate) fn close_on_exec(fd: c_int) {
    // A descriptor that was closed meanwhile needs it no more.
    let _ = rustix::io::fcntl_setfd(table::borrow(&fd), FdFlags::CLOEXEC);
}

/// A descriptor is about to be closed.
fn forget(fd: c_int) {
    streams::closed(fd);
    epolls::closed(fd);
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
            // What is written to one that a stream uses, or that has no place in the table, would go in clear.
            Some(session) if !streams::may_use(new) && table::put(new, session.clone()) => {
                close_on_exec(new);
            }
            Some(_) => {
                next!(close(new): fn(c_int) -> c_int);
                return answer::fail(Errno::OPNOTSUPP);
            }
            None => drop(table::take(new)),
        }
    }
    new
}
