//! The functions that receive.

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel_tls::{Errno, RECORD_TYPE_DATA, SOL_TLS, Session, TLS_GET_RECORD_TYPE};
use libc::{iovec, mmsghdr, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::next::{interpose, other_names};
use crate::send::message_flags;
use crate::{answer, descriptors, table};

/// Most pieces of a call (`IOV_MAX`).
const MAX_PIECES: usize = 1024;

interpose! {
    fn read(fd: c_int, room: *mut c_void, len: size_t) -> ssize_t {
        match reader(fd) {
            // SAFETY: the caller's room.
            Some(session) => answer::count(unsafe { receive_one(&session, fd, room, len, 0) }),
            None => next(fd, room, len),
        }
    }

    fn __read_chk(fd: c_int, room: *mut c_void, len: size_t, there: size_t) -> ssize_t {
        match reader(fd) {
            Some(session) if len <= there => {
                // SAFETY: the caller's room, as far as it is there.
                let received = unsafe { receive_one(&session, fd, room, len, 0) };
                answer::count(received)
            }
            _ => next(fd, room, len, there),
        }
    }

    fn recv(fd: c_int, room: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        match reader_of(fd, flags) {
            // SAFETY: the caller's room.
            Some(session) => answer::count(unsafe { receive_one(&session, fd, room, len, flags) }),
            None => next(fd, room, len, flags),
        }
    }

    fn __recv_chk(fd: c_int, room: *mut c_void, len: size_t, there: size_t, flags: c_int) -> ssize_t {
        match reader_of(fd, flags) {
            Some(session) if len <= there => {
                // SAFETY: the caller's room, as far as it is there.
                let received = unsafe { receive_one(&session, fd, room, len, flags) };
                answer::count(received)
            }
            _ => next(fd, room, len, there, flags),
        }
    }

    fn recvfrom(fd: c_int, room: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
        match reader_of(fd, flags) {
            Some(session) => {
                // A TCP socket tells no address.
                // SAFETY: the caller's length, or none, and room.
                unsafe {
                    if let Some(from_len) = from_len.as_mut() {
                        *from_len = 0;
                    }
                    answer::count(receive_one(&session, fd, room, len, flags))
                }
            }
            None => next(fd, room, len, flags, from, from_len),
        }
    }

    fn __recvfrom_chk(
        fd: c_int, room: *mut c_void, len: size_t, there: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t,
    ) -> ssize_t {
        match reader_of(fd, flags) {
            // SAFETY: the caller's room, as far as it is there.
            Some(_) if len <= there => unsafe { recvfrom(fd, room, len, flags, from, from_len) },
            _ => next(fd, room, len, there, flags, from, from_len),
        }
    }

    /// The argument is whatever the request takes, which fits in a word.
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        if request == libc::FIONREAD as c_ulong
            && let Some(session) = table::receiver(fd)
        {
            let readable = session.readable(table::borrow(&fd)).map(|bytes| {
                // SAFETY: the request takes the address of a number.
                unsafe { *(argument as *mut c_int) = bytes as c_int };
            });
            return answer::status(readable);
        }
        let answer = next(fd, request, argument);
        match request as _ {
            libc::FIONBIO => descriptors::flags_changed(fd),
            libc::FIONCLEX if table::get(fd).is_some() => descriptors::close_on_exec(fd),
            _ => {}
        }
        answer
    }

    fn preadv2(fd: c_int, pieces: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t {
        match reader(fd) {
            // Sockets have no places.
            Some(session) if offset == -1 => {
                // SAFETY: the caller's pieces.
                let received = message_flags(flags)
                    .and_then(|flags| unsafe { receive_vector(&session, fd, pieces, count, flags) });
                answer::count(received)
            }
            _ => next(fd, pieces, count, offset, flags),
        }
    }

    fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        match reader(fd) {
            // SAFETY: the caller's pieces.
            Some(session) => answer::count(unsafe { receive_vector(&session, fd, pieces, count, 0) }),
            None => next(fd, pieces, count),
        }
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        match reader_of(fd, flags) {
            Some(session) => {
                // SAFETY: the caller's message.
                let received = unsafe { receive_message(&session, fd, &mut *message, flags) };
                answer::count(received)
            }
            None => next(fd, message, flags),
        }
    }

    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        let Some(session) = reader_of(fd, flags) else {
            return next(fd, messages, count, flags, timeout);
        };
        // SAFETY: the caller's messages, and time, or none.
        let (messages, timeout) = unsafe {
            let messages = std::slice::from_raw_parts_mut(messages, count as usize);
            (messages, timeout.as_mut())
        };
        // SAFETY: the caller's messages.
        match unsafe { receive_messages(&session, fd, messages, flags, timeout) } {
            Ok(received) => received as c_int,
            Err(error) => answer::fail(error),
        }
    }
}

other_names! {
    fn __read(fd: c_int, room: *mut c_void, len: size_t) -> ssize_t = read;
    fn preadv64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t = preadv2;
}

/// The session of a descriptor that is about to be read, if it receives by it.
#[inline]
fn reader(fd: c_int) -> Option<Arc<Session>> {
    kernel_tls::send_held();
    table::receiver(fd)
}

/// The same, of a call with these flags. What is in the error queue (`MSG_ERRQUEUE`) is the kernel's to give: it is no content.
fn reader_of(fd: c_int, flags: c_int) -> Option<Arc<Session>> {
    reader(fd).filter(|_| flags & libc::MSG_ERRQUEUE == 0)
}

/// # Safety
/// There is room for `len` bytes.
unsafe fn receive_one(
    session: &Arc<Session>,
    fd: c_int,
    room: *mut c_void,
    len: usize,
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: the caller's word.
    let mut pieces = [unsafe { bytes(room, len) }?];
    let received = session.receive(table::borrow(&fd), &mut pieces, false, flags)?;
    Ok(received.len)
}

/// # Safety
/// There are `count` pieces.
unsafe fn receive_vector(
    session: &Arc<Session>,
    fd: c_int,
    pieces: *const iovec,
    count: c_int,
    flags: c_int,
) -> Result<usize, Errno> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // SAFETY: the caller's word.
    let mut pieces = unsafe { scatter(pieces, count) }?;
    let received = session.receive(table::borrow(&fd), &mut pieces, false, flags)?;
    Ok(received.len)
}

/// # Safety
/// The message's pointers are as `recvmsg(2)` wants them.
unsafe fn receive_message(
    session: &Arc<Session>,
    fd: c_int,
    message: &mut msghdr,
    flags: c_int,
) -> Result<usize, Errno> {
    // SAFETY: the caller's pieces.
    let mut pieces = unsafe { scatter(message.msg_iov, message.msg_iovlen) }?;
    // SAFETY: arithmetic only.
    let (needed, len) = unsafe { (libc::CMSG_SPACE(1) as usize, libc::CMSG_LEN(1) as usize) };
    let control = !message.msg_control.is_null() && message.msg_controllen >= len;
    let mut record_type = None;
    let fd = table::borrow(&fd);
    let received = session.receive_record(fd, &mut pieces, control, &mut record_type, flags);
    if let Some(record_type) = record_type.filter(|_| control) {
        // As the kernel, which tells the type of an empty record also when there is nothing behind it.
        // SAFETY: there is room for one control message with a byte.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = SOL_TLS;
            (*header).cmsg_type = TLS_GET_RECORD_TYPE;
            (*header).cmsg_len = len;
            *libc::CMSG_DATA(header) = record_type;
        }
    }
    let received = received?;
    message.msg_namelen = 0;
    message.msg_flags = 0;
    if received.ends_record && received.record_type != RECORD_TYPE_DATA {
        message.msg_flags |= libc::MSG_EOR;
    }
    message.msg_controllen = match record_type.filter(|_| control) {
        Some(_) => needed.min(message.msg_controllen),
        None => 0,
    };
    Ok(received.len)
}

/// Receives messages, all of which are waited for, or with `MSG_WAITFORONE` the first one. The time is looked at behind each (recvmmsg(2)); what is left of it is
/// put there.
///
/// # Safety
/// The messages' pointers are as `recvmsg(2)` wants them.
unsafe fn receive_messages(
    session: &Arc<Session>,
    fd: c_int,
    messages: &mut [mmsghdr],
    flags: c_int,
    mut timeout: Option<&mut timespec>,
) -> Result<usize, Errno> {
    let time = timeout.as_deref().map(duration).transpose()?;
    let end = time.and_then(|time| Instant::now().checked_add(time));
    let first = flags & !libc::MSG_WAITFORONE;
    let later = match flags & libc::MSG_WAITFORONE {
        0 => first,
        _ => first | libc::MSG_DONTWAIT,
    };
    for (done, message) in messages.iter_mut().enumerate() {
        let flags = if done == 0 { first } else { later };
        // SAFETY: the caller's message.
        match unsafe { receive_message(session, fd, &mut message.msg_hdr, flags) } {
            // The end, which is told by the next call too.
            Ok(0) if done > 0 && message.msg_hdr.msg_controllen == 0 => return Ok(done),
            Ok(received) => message.msg_len = received as c_uint,
            Err(error) if done == 0 => return Err(error),
            Err(error) => {
                session.keep_error(error);
                return Ok(done);
            }
        }
        if let (Some(end), Some(left)) = (end, timeout.as_deref_mut()) {
            let rest = end.saturating_duration_since(Instant::now());
            left.tv_sec = rest.as_secs() as libc::time_t;
            left.tv_nsec = rest.subsec_nanos().into();
            if rest.is_zero() {
                return Ok(done + 1);
            }
        }
    }
    Ok(messages.len())
}

fn duration(time: &timespec) -> Result<Duration, Errno> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    match u32::try_from(time.tv_nsec) {
        Ok(nanoseconds @ 0..1_000_000_000) => Ok(Duration::new(seconds, nanoseconds)),
        _ => Err(Errno::INVAL),
    }
}

/// The caller's room, up to the first piece at no address: what comes before is received, as Linux does.
///
/// # Safety
/// There are `count` pieces, which live as long as the answer and do not overlap.
unsafe fn scatter<'a>(pieces: *const iovec, count: usize) -> Result<Vec<&'a mut [u8]>, Errno> {
    if count > MAX_PIECES {
        return Err(Errno::INVAL);
    }
    let mut room: Vec<&mut [u8]> = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: `bytes` has the caller's word for each, and there are `count`.
        let piece = unsafe {
            let piece: &iovec = &*pieces.add(at);
            bytes(piece.iov_base, piece.iov_len)
        };
        match piece {
            Ok(piece) => room.push(piece),
            Err(_) if room.iter().any(|piece| !piece.is_empty()) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(room)
}

/// The caller's room; `EFAULT` if it has some at no address.
///
/// # Safety
/// There is room for `len` bytes, which lives as long as the answer, or the address is null.
unsafe fn bytes<'a>(room: *mut c_void, len: usize) -> Result<&'a mut [u8], Errno> {
    match (room.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno::FAULT),
        // SAFETY: the caller's word.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(room.cast(), len) }),
    }
}
