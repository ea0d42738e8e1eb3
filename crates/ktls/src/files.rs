//! `splice`: between a socket and a pipe.

use std::ffi::{c_int, c_uint};
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use kernel_tls::{Errno, RECORD_TYPE_DATA};
use libc::{loff_t, size_t, ssize_t};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::next::interpose;
use crate::{answer, table};

/// Bytes moved by one call at most.
const MOST: usize = 64 << 10;

interpose! {
    fn splice(from: c_int, from_offset: *mut loff_t, to: c_int, to_offset: *mut loff_t, len: size_t, flags: c_uint) -> ssize_t {
        kernel_tls::send_held();
        let moved = match (table::receiver(from), table::sender(to)) {
            (None, None) => {
                return next(from, from_offset, to, to_offset, len, flags);
            }
            // One end must be a pipe.
            (Some(_), Some(_)) => Err(Errno::INVAL),
            (Some(_), None) if !from_offset.is_null() || !to_offset.is_null() => Err(Errno::SPIPE),
            (None, Some(_)) if !from_offset.is_null() || !to_offset.is_null() => Err(Errno::SPIPE),
            (Some(_), None) => out_of(from, to, len, flags),
            (None, Some(_)) => into(from, to, len, flags),
        };
        answer::count(moved)
    }
}

/// From the socket to a pipe: what the pipe takes is taken from the socket.
fn out_of(from: c_int, to: c_int, len: usize, flags: c_uint) -> Result<usize, Errno> {
    let session = table::receiver(from).ok_or(Errno::BADF)?;
    let how = wait_flag(flags);
    let mut buffer = vec![0; len.min(MOST)];
    let fd = table::borrow(&from);
    let seen = session.receive(fd, &mut [&mut buffer[..]], true, how | libc::MSG_PEEK)?;
    if seen.record_type != RECORD_TYPE_DATA {
        // A pipe has no types: the record stays where it is.
        return Err(Errno::INVAL);
    }
    let written = put(table::borrow(&to), &buffer[..seen.len], flags)?;
    let mut taken = 0;
    while taken < written {
        let rest = &mut buffer[taken..written];
        taken += session
            .receive(fd, &mut [rest], false, libc::MSG_DONTWAIT)?
            .len;
    }
    Ok(written)
}

/// From a pipe to the socket.
fn into(from: c_int, to: c_int, len: usize, flags: c_uint) -> Result<usize, Errno> {
    let session = table::sender(to).ok_or(Errno::BADF)?;
    let more = match flags & libc::SPLICE_F_MORE {
        0 => 0,
        _ => libc::MSG_MORE,
    };
    let fd = table::borrow(&to);
    // Nothing is taken out of the pipe that the socket would not take.
    session.send(fd, &[], RECORD_TYPE_DATA, libc::MSG_MORE | wait_flag(flags))?;
    let mut buffer = vec![0; len.min(MOST)];
    if flags & libc::SPLICE_F_NONBLOCK != 0 {
        let now = rustix::event::Timespec::default();
        let pipe = table::borrow(&from);
        if poll(
            &mut [PollFd::from_borrowed_fd(pipe, PollFlags::IN)],
            Some(&now),
        )? == 0
        {
            return Err(Errno::AGAIN);
        }
    }
    let read = rustix::io::read(table::borrow(&from), &mut buffer[..])?;
    let mut sent = 0;
    while sent < read {
        // Its records are made; what finds no room leaves later.
        match session.send(fd, &[&buffer[sent..read]], RECORD_TYPE_DATA, more) {
            Ok(bytes) => sent += bytes,
            Err(Errno::AGAIN) => session.wait_until_sent(fd),
            Err(error) if sent == 0 => return Err(error),
            Err(error) => {
                session.keep_error(error);
                break;
            }
        }
    }
    Ok(sent)
}

/// Puts into a pipe what there is room for, which is waited for as the flags say.
fn put(pipe: BorrowedFd<'_>, bytes: &[u8], flags: c_uint) -> Result<usize, Errno> {
    loop {
        // The caller may be the one that empties the pipe: never all of it is waited for.
        let written = put_now(pipe, bytes);
        if written != Err(Errno::AGAIN)
            || flags & libc::SPLICE_F_NONBLOCK != 0
            || rustix::fs::fcntl_getfl(pipe)?.contains(OFlags::NONBLOCK)
        {
            return written;
        }
        poll(&mut [PollFd::from_borrowed_fd(pipe, PollFlags::OUT)], None)?;
    }
}

/// Puts into a pipe what there is room for now.
fn put_now(pipe: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let buffers = [IoSlice::new(bytes)];
    match rustix::io::pwritev2(pipe, &buffers, u64::MAX, ReadWriteFlags::NOWAIT) {
        // Linux has it for no pipe before 6.4, and since then for none that was spliced from or to: it goes through one of ours.
        Err(Errno::OPNOTSUPP) => {
            let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
            let (from, to) = rustix::pipe::pipe_with(flags)?;
            let len = rustix::io::write(&to, bytes)?;
            rustix::pipe::splice(&from, None, pipe, None, len, SpliceFlags::NONBLOCK)
        }
        written => written,
    }
}

fn wait_flag(flags: c_uint) -> c_int {
    match flags & libc::SPLICE_F_NONBLOCK {
        0 => 0,
        _ => libc::MSG_DONTWAIT,
    }
}
