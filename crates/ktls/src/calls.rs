//! System calls by number: `syscall(2)`, which is a function of the C library too. Those that read from descriptors, write to them, make, copy or close them
//! go the way of the functions that are named like them.

use std::ffi::{c_int, c_long, c_ulong};

use kernel_tls::Errno;
use libc::{iovec, msghdr};

use crate::next::interpose;
use crate::{answer, descriptors, files, options, receive, send, start, table};

interpose! {
    /// Each call takes as many arguments as it has, and the others are not looked at.
    fn syscall(number: c_long, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong, e: c_ulong, f: c_ulong) -> c_long {
        if number == libc::SYS_exit_group {
            start::end_at_once();
        }
        // SAFETY: the caller's arguments.
        let answered = unsafe { of_descriptor(number, [a, b, c, d, e, f]) };
        answered.unwrap_or_else(|| next(number, a, b, c, d, e, f))
    }
}

/// The answer of a call that concerns a TLS socket, or may have to do with the number of one; `None` of others.
///
/// # Safety
/// The arguments are as the call of this number takes them.
unsafe fn of_descriptor(number: c_long, arguments: [c_ulong; 6]) -> Option<c_long> {
    let fd = arguments[0] as c_int;
    // SAFETY: as of the caller.
    unsafe {
        match number {
            libc::SYS_close
            | libc::SYS_close_range
            | libc::SYS_dup
            | libc::SYS_dup3
            | libc::SYS_fcntl => Some(on_numbers(number, arguments)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => Some(descriptors::dup2(fd, arguments[1] as c_int).into()),
            libc::SYS_splice => Some(on_files(number, arguments)),
            libc::SYS_sendfile => Some(on_files(number, arguments)),
            libc::SYS_io_submit => refused(arguments),
            _ if table::get(fd).is_some() => on_socket(number, arguments),
            _ => None,
        }
    }
}

/// # Safety
/// As of [`of_descriptor`].
unsafe fn on_numbers(number: c_long, [a, b, c, ..]: [c_ulong; 6]) -> c_long {
    let (fd, other, flags) = (a as c_int, b as c_int, c as c_int);
    // SAFETY: as of the caller.
    let done = unsafe {
        match number {
            libc::SYS_close => descriptors::close(fd),
            libc::SYS_close_range => descriptors::close_range(a as u32, b as u32, flags),
            libc::SYS_dup => descriptors::dup(fd),
            libc::SYS_dup3 => descriptors::dup3(fd, other, flags),
            _ => descriptors::fcntl(fd, other, c as usize),
        }
    };
    done.into()
}

/// # Safety
/// As of [`of_descriptor`].
unsafe fn on_files(number: c_long, [a, b, c, d, e, f]: [c_ulong; 6]) -> c_long {
    // SAFETY: as of the caller.
    let moved = unsafe {
        match number {
            libc::SYS_splice => files::splice(
                a as c_int,
                b as *mut _,
                c as c_int,
                d as *mut _,
                e as usize,
                f as u32,
            ),
            _ => send::sendfile64(a as c_int, b as c_int, c as *mut _, d as usize),
        }
    };
    moved as c_long
}

/// # Safety
/// As of [`of_descriptor`].
unsafe fn on_socket(number: c_long, arguments: [c_ulong; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    let (fd, data, length, flags) = (a as c_int, b as *mut _, c as usize, d as c_int);
    let (pieces, count) = (b as *const iovec, c as c_int);
    // SAFETY: as of the caller.
    let moved = unsafe {
        match number {
            libc::SYS_write => send::write(fd, data, length),
            libc::SYS_sendto => send::send(fd, data, length, flags),
            libc::SYS_writev => send::writev(fd, pieces, count),
            libc::SYS_pwritev2 => send::pwritev2(fd, pieces, count, d as i64, f as c_int),
            libc::SYS_sendmsg => send::sendmsg(fd, b as *const msghdr, c as c_int),
            libc::SYS_sendmmsg => send::sendmmsg(fd, b as *mut _, c as u32, flags) as isize,
            libc::SYS_read => receive::read(fd, data, length),
            libc::SYS_recvfrom => {
                receive::recvfrom(fd, data, length, flags, e as *mut _, f as *mut _)
            }
            libc::SYS_readv => receive::readv(fd, pieces, count),
            libc::SYS_preadv2 => receive::preadv2(fd, pieces, count, d as i64, f as c_int),
            libc::SYS_recvmsg => receive::recvmsg(fd, b as *mut msghdr, c as c_int),
            libc::SYS_recvmmsg => {
                receive::recvmmsg(fd, b as *mut _, c as u32, flags, e as *mut _) as isize
            }
            _ => return on_its_state(number, arguments),
        }
    };
    Some(moved as c_long)
}

/// # Safety
/// As of [`of_descriptor`].
unsafe fn on_its_state(number: c_long, [a, b, c, d, e, _]: [c_ulong; 6]) -> Option<c_long> {
    let fd = a as c_int;
    // SAFETY: as of the caller.
    let done = unsafe {
        match number {
            libc::SYS_shutdown => descriptors::shutdown(fd, b as c_int),
            libc::SYS_connect => descriptors::connect(fd, b as *const _, c as u32),
            libc::SYS_ioctl => receive::ioctl(fd, b, c as usize),
            libc::SYS_setsockopt => {
                options::setsockopt(fd, b as c_int, c as c_int, d as *const _, e as u32)
            }
            libc::SYS_getsockopt => {
                options::getsockopt(fd, b as c_int, c as c_int, d as *mut _, e as *mut _)
            }
            _ => return None,
        }
    };
    Some(done.into())
}

/// `struct iocb` of Linux's (`io_submit(2)`), as far as it names a descriptor.
#[repr(C)]
struct Submitted {
    _before: [u32; 5],
    descriptor: u32,
}

/// Refuses requests of which one names a TLS socket: nothing of them is done.
///
/// # Safety
/// As of [`of_descriptor`].
unsafe fn refused([_, count, requests, ..]: [c_ulong; 6]) -> Option<c_long> {
    let requests = requests as *const *const Submitted;
    if requests.is_null() {
        return None;
    }
    // SAFETY: the caller's requests, as many as it says.
    let is_tls = |at| unsafe {
        let request = *requests.add(at);
        !request.is_null() && table::get((*request).descriptor as c_int).is_some()
    };
    let count = (count as usize).min(MOST_SUBMITTED);
    (0..count)
        .any(is_tls)
        .then(|| answer::fail(Errno::OPNOTSUPP).into())
}

/// Requests that one call of `io_submit` can have: as many as all processes together may have (`fs.aio-max-nr`) by default.
const MOST_SUBMITTED: usize = 1 << 16;
