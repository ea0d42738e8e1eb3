//! The functions that send.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use kernel_tls::{Errno, RECORD_TYPE_DATA, SOL_TLS, Session, TLS_SET_RECORD_TYPE};
use libc::{iovec, mmsghdr, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t};

use crate::next::{interpose, other_names};
use crate::{answer, table};

/// Most pieces of a call (`IOV_MAX`).
const MAX_PIECES: usize = 1024;

interpose! {
    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
        match table::sender(fd) {
            // SAFETY: the caller's data.
            Some(session) => answer::count(unsafe { send_one(&session, fd, data, len, 0) }),
            None => next(fd, data, len),
        }
    }

    fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        match table::sender(fd) {
            // SAFETY: the caller's data.
            Some(session) => answer::count(unsafe { send_one(&session, fd, data, len, flags) }),
            None => next(fd, data, len, flags),
        }
    }

    fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t {
        match table::sender(fd) {
            // A connected TCP socket takes no notice of an address.
            // SAFETY: as for `send`.
            Some(_) => unsafe { send(fd, data, len, flags) },
            None => next(fd, data, len, flags, to, to_len),
        }
    }

    fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        match table::sender(fd) {
            // SAFETY: the caller's pieces.
            Some(session) => answer::count(unsafe { send_vector(&session, fd, pieces, count, 0) }),
            None => next(fd, pieces, count),
        }
    }

    fn pwritev2(fd: c_int, pieces: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t {
        match table::sender(fd) {
            // Sockets have no places.
            Some(session) if offset == -1 => {
                // SAFETY: the caller's pieces.
                let sent = message_flags(flags)
                    .and_then(|flags| unsafe { send_vector(&session, fd, pieces, count, flags) });
                answer::count(sent)
            }
            _ => next(fd, pieces, count, offset, flags),
        }
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        match table::sender(fd) {
            // SAFETY: the caller's message.
            Some(session) => answer::count(unsafe { send_message(&session, fd, &*message, flags) }),
            None => next(fd, message, flags),
        }
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        let Some(session) = table::sender(fd) else {
            return next(fd, messages, count, flags);
        };
        // SAFETY: the caller's messages.
        let messages = unsafe { std::slice::from_raw_parts_mut(messages, count as usize) };
        for (done, message) in messages.iter_mut().enumerate() {
            // SAFETY: the caller's message.
            match unsafe { send_message(&session, fd, &message.msg_hdr, flags) } {
                Ok(sent) => message.msg_len = sent as c_uint,
                Err(error) if done == 0 => return answer::fail(error),
                Err(error) => {
                    session.keep_error(error);
                    return done as c_int;
                }
            }
        }
        count as c_int
    }

    fn sendfile64(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
        let Some(session) = table::sender(to) else {
            return next(to, from, offset, count);
        };
        if table::get(from).is_some() {
            // What would be read there are records, not what is in them.
            return answer::fail(Errno::INVAL) as ssize_t;
        }
        // SAFETY: the caller's offset, or none.
        let offset = unsafe { offset.as_mut() };
        let place = offset.as_deref().map(|offset| u64::try_from(*offset));
        let sent = match place.transpose() {
            Ok(place) => session.send_file(table::borrow(&to), table::borrow(&from), place, count),
            Err(_) => Err(Errno::INVAL),
        };
        if let (Some(offset), Ok(sent)) = (offset, &sent) {
            *offset += *sent as off64_t;
        }
        answer::count(sent)
    }
}

other_names! {
    fn __write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t = write;
    fn __send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t = send;
    fn pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t = pwritev2;
    fn sendfile(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t = sendfile64;
}

/// Sends application data.
fn send_all(
    session: &Arc<Session>,
    fd: c_int,
    pieces: &[&[u8]],
    flags: c_int,
) -> Result<usize, Errno> {
    session.send(table::borrow(&fd), pieces, RECORD_TYPE_DATA, flags)
}

/// # Safety
/// There are `len` bytes of data.
unsafe fn send_one(
    session: &Arc<Session>,
    fd: c_int,
    data: *const c_void,
    len: usize,
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: the caller's word.
    send_all(session, fd, &[unsafe { bytes(data, len) }?], flags)
}

/// # Safety
/// There are `count` pieces.
unsafe fn send_vector(
    session: &Arc<Session>,
    fd: c_int,
    pieces: *const iovec,
    count: c_int,
    flags: c_int,
) -> Result<usize, Errno> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // SAFETY: the caller's word.
    let pieces = unsafe { gather(pieces, count) }?;
    send_all(session, fd, &pieces, flags)
}

/// What the flags of `preadv2(2)` and `pwritev2(2)` are for a socket, in flags of `send(2)` and `recv(2)`. Those that are meant for files say nothing.
pub(crate) fn message_flags(flags: c_int) -> Result<c_int, Errno> {
    const RWF_NOSIGNAL: c_int = 0x100;
    const OF_FILES: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;
    if flags & !(OF_FILES | libc::RWF_NOWAIT | RWF_NOSIGNAL) != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let given = |flag, message_flag| if flags & flag != 0 { message_flag } else { 0 };
    Ok(given(libc::RWF_NOWAIT, libc::MSG_DONTWAIT) | given(RWF_NOSIGNAL, libc::MSG_NOSIGNAL))
}

/// # Safety
/// The message's pointers are as `sendmsg(2)` wants them.
unsafe fn send_message(
    session: &Arc<Session>,
    fd: c_int,
    message: &msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: the caller's control messages.
    let record_type = unsafe { record_type(message) }?;
    if record_type.is_some() && flags & libc::MSG_MORE != 0 {
        return Err(Errno::INVAL);
    }
    let record_type = record_type.unwrap_or(RECORD_TYPE_DATA);
    // SAFETY: the caller's pieces.
    let pieces = unsafe { gather(message.msg_iov, message.msg_iovlen) }?;
    session.send(table::borrow(&fd), &pieces, record_type, flags)
}

/// The record type that a control message asks for.
///
/// # Safety
/// The message's control messages are as `cmsg(3)` wants them.
unsafe fn record_type(message: &msghdr) -> Result<Option<u8>, Errno> {
    let mut found = None;
    // SAFETY: `cmsg(3)`: the macros walk what the caller has laid out.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while !control.is_null() {
            if (*control).cmsg_level == SOL_TLS {
                let is_type = (*control).cmsg_type == TLS_SET_RECORD_TYPE;
                if !is_type || (*control).cmsg_len < libc::CMSG_LEN(1) as usize {
                    return Err(Errno::INVAL);
                }
                found = Some(*libc::CMSG_DATA(control));
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
    Ok(found)
}

/// # Safety
/// There are `count` pieces, which live as long as the answer.
unsafe fn gather<'a>(pieces: *const iovec, count: usize) -> Result<Vec<&'a [u8]>, Errno> {
    if count > MAX_PIECES {
        return Err(Errno::INVAL);
    }
    // SAFETY: `bytes` has the caller's word for each, and there are `count`.
    let slice = |at| unsafe {
        let piece: &iovec = &*pieces.add(at);
        bytes(piece.iov_base, piece.iov_len)
    };
    (0..count).map(slice).collect()
}

/// The caller's data; `EFAULT` if there are some at no address.
///
/// # Safety
/// There are `len` bytes, which live as long as the answer, or the address is null.
unsafe fn bytes<'a>(data: *const c_void, len: usize) -> Result<&'a [u8], Errno> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::FAULT),
        // SAFETY: the caller's word.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) }),
    }
}
