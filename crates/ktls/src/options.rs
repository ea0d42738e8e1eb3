//! `setsockopt` and `getsockopt`.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use kernel_tls::{Errno, SOL_TLS, Session, ULP_NAME};
use libc::{SOL_TCP, TCP_ULP, socklen_t};

use crate::next::interpose;
use crate::{answer, descriptors, streams, table};

interpose! {
    fn setsockopt(fd: c_int, level: c_int, option: c_int, value: *const c_void, len: socklen_t) -> c_int {
        let of_tls = (level, option) == (SOL_TCP, TCP_ULP) || level == SOL_TLS;
        if of_tls && !value.is_null() {
            // SAFETY: the caller's value has this length.
            let value = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len as usize) };
            if level == SOL_TLS {
                let Some(session) = table::get(fd) else {
                    return answer::fail(Errno::NOPROTOOPT);
                };
                return answer::status(session.set_option(table::borrow(&fd), option, value));
            }
            // As the kernel reads it: a C string, or as long as it says.
            let mut name = value.split(|byte| *byte == 0);
            if name.next() == Some(ULP_NAME.as_bytes()) {
                return answer::status(make_tls(fd));
            }
        }
        if (level, option) == (libc::SOL_SOCKET, libc::SO_RCVLOWAT)
            && !value.is_null()
            && len as usize >= size_of::<c_int>()
            && let Some(session) = table::receiver(fd)
        {
            // It counts content. The socket itself has to tell of each byte.
            // SAFETY: the caller's value has this length.
            session.set_low_water(unsafe { *value.cast::<c_int>() });
            return 0;
        }
        next(fd, level, option, value, len)
    }
}

fn make_tls(fd: c_int) -> Result<(), Errno> {
    // Another socket's was closed unseen.
    if table::get(fd).is_some_and(|session| session.is_of(table::borrow(&fd))) {
        return Err(Errno::EXIST);
    }
    if streams::may_use(fd) {
        return Err(Errno::OPNOTSUPP);
    }
    if !table::put(fd, Arc::new(Session::new(table::borrow(&fd))?)) {
        return Err(Errno::MFILE);
    }
    descriptors::close_on_exec(fd);
    Ok(())
}

interpose! {
    fn getsockopt(fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        let of_tls = (level, option) == (SOL_TCP, TCP_ULP) || level == SOL_TLS;
        if of_tls
            && !value.is_null()
            && !len.is_null()
            && let Some(session) = table::get(fd)
        {
            // SAFETY: the caller's value has room for the length that it says.
            let (room, len) = unsafe {
                let room = std::slice::from_raw_parts_mut(value.cast::<u8>(), *len as usize);
                (room, &mut *len)
            };
            let told = match level {
                SOL_TLS => session.option(option, room),
                _ => tell_name(room),
            };
            return answer::status(told.map(|bytes| *len = bytes as socklen_t));
        }
        if (level, option) == (libc::SOL_SOCKET, libc::SO_RCVLOWAT)
            && !value.is_null()
            && !len.is_null()
            && let Some(session) = table::receiver(fd)
        {
            // SAFETY: the caller's value has room for the length that it says.
            let told = unsafe {
                let room = std::slice::from_raw_parts_mut(value.cast::<u8>(), *len as usize);
                let told = session.low_water().to_ne_bytes();
                let bytes = told.len().min(room.len());
                room[..bytes].copy_from_slice(&told[..bytes]);
                bytes
            };
            // SAFETY: as above.
            unsafe { *len = told as socklen_t };
            return 0;
        }
        let answer = next(fd, level, option, value, len);
        if (level, option, answer) == (libc::SOL_SOCKET, libc::SO_ERROR, 0)
            && let Some(session) = table::get(fd)
        {
            // SAFETY: the kernel has written an error there, of as many bytes as it says.
            unsafe { tell_error(&session, value.cast(), *len) };
        }
        answer
    }
}

/// `SO_ERROR`: the error that the socket has told the library, if it has no other one.
///
/// # Safety
/// There are `len` bytes.
unsafe fn tell_error(session: &Session, error: *mut c_int, len: socklen_t) {
    if len as usize != size_of::<c_int>() {
        return;
    }
    // SAFETY: the caller's word.
    let told = unsafe { error.read_unaligned() };
    if told == 0
        && let Some(pending) = session.take_error()
    {
        // SAFETY: as above.
        unsafe { error.write_unaligned(pending.raw_os_error()) };
    }
}

fn tell_name(room: &mut [u8]) -> Result<usize, Errno> {
    let name = ULP_NAME.as_bytes();
    let bytes = room.len().min(name.len() + 1);
    for (to, from) in room.iter_mut().zip(name.iter().chain(&[0])) {
        *to = *from;
    }
    Ok(bytes)
}
