//! Sending: content into records, records into the socket.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use l5p::tls::{ContentType, MAX_PLAINTEXT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{LockedSending, Session};
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::shared::{BATCH, MAX_RECORD};
use crate::{flusher, socket};

/// How long a `shutdown` waits for a peer that takes nothing.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const STEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Flags of `send(2)` that the socket itself is given.
const PASSED_ON: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

impl Session {
    /// Sends the pieces as one run of content of a record type, as `sendmsg(2)` does; answers how many bytes were accepted. With `MSG_MORE` the
    /// last record is held open for what comes next, as long as that is of the same type.
    ///
    /// # Errors
    /// `EAGAIN` when the socket takes nothing without waiting; `EOPNOTSUPP` for `MSG_OOB`; what the socket gives.
    pub fn send(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        pieces: &[&[u8]],
        record_type: u8,
        flags: i32,
    ) -> Result<usize, Errno> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let mut sending = self.sending();
        sending.keys.check()?;
        self.push(fd, &mut sending, flags)?;
        if sending.open > 0 && sending.open_type != record_type {
            self.close_record(fd, &mut sending, flags)?;
        }
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut content = Content { pieces, skip: 0 };
        let mut accepted = 0;
        // A record held open ends here also when nothing is added to it.
        let ends_open = sending.open > 0 && flags & libc::MSG_MORE == 0;
        while accepted < total || (ends_open && sending.open > 0) {
            let before = accepted;
            let sent = self.fill(
                &mut sending,
                &mut content,
                record_type,
                (total, &mut accepted),
                flags,
            );
            let result = sent.and_then(|()| self.push(fd, &mut sending, flags));
            match result {
                Ok(()) if accepted == total => break,
                Ok(()) if accepted == before => break,
                Ok(()) => {}
                // The records are made: what they hold is accepted, and leaves when there is room.
                Err(_) if accepted > 0 || total == 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.send_later(fd, &sending);
        Ok(accepted)
    }

    /// Sends up to `count` bytes that `read` gives, as `sendfile(2)` does; answers how many were accepted. `read` fills the front of the buffer that
    /// it is given, and gives 0 at the end of the file.
    ///
    /// # Errors
    /// As [`send`](Self::send), and what `read` gives when nothing was accepted.
    pub fn send_file(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        count: usize,
        mut read: impl FnMut(&mut [u8], usize) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut buffer = vec![0; count.min(BATCH * MAX_PLAINTEXT)];
        let mut accepted = 0;
        while accepted < count {
            let want = (count - accepted).min(buffer.len());
            if !self.has_room(fd)? {
                return if accepted > 0 {
                    Ok(accepted)
                } else {
                    Err(Errno::AGAIN)
                };
            }
            let got = match read(&mut buffer[..want], accepted) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if accepted == 0 => return Err(error),
                Err(_) => break,
            };
            let more = if accepted + got < count {
                libc::MSG_MORE
            } else {
                0
            };
            match self.send(fd, &[&buffer[..got]], RECORD_TYPE_DATA, more) {
                Ok(sent) => {
                    accepted += sent;
                    if sent < got {
                        break;
                    }
                }
                Err(error) if accepted == 0 => return Err(error),
                Err(_) => break,
            }
        }
        // The file may have been shorter than `count`.
        if accepted < count {
            let _ = self.send(fd, &[], RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
        }
        Ok(accepted)
    }

    /// Sends what was accepted, the record held open too, as far as there is room; answers whether all of it is out.
    ///
    /// # Errors
    /// What the socket gives.
    pub(crate) fn flush(&self, fd: BorrowedFd<'_>, closes: bool) -> Result<bool, Errno> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let mut sending = self.sending();
        sending.keys.check()?;
        let result = match closes {
            true => self.close_record(fd, &mut sending, flags),
            false => self.push(fd, &mut sending, flags),
        };
        match result {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What is held open is made a record, and sent as far as there is room. For `close` and `shutdown`.
    pub fn finish(self: &Arc<Self>, fd: BorrowedFd<'_>) {
        if self.sends() && self.flush(fd, true) == Ok(false) {
            flusher::watch(self, fd);
        }
    }

    /// Waits until what was accepted is in the socket, at most five seconds.
    pub fn wait_until_sent(&self, fd: BorrowedFd<'_>) {
        let end = Instant::now() + LONGEST_WAIT;
        while self.flush(fd, false) == Ok(false) && Instant::now() < end {
            let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
            let _ = poll(&mut polled, Some(&STEP));
        }
    }

    /// Whether what was accepted before is out; waits for that where the socket waits.
    fn has_room(&self, fd: BorrowedFd<'_>) -> Result<bool, Errno> {
        let mut sending = self.sending();
        sending.keys.check()?;
        match self.push(fd, &mut sending, 0) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Has what waits for room sent by and by.
    fn send_later(self: &Arc<Self>, fd: BorrowedFd<'_>, sending: &LockedSending<'_>) {
        if sending.made_from < sending.made_to {
            flusher::watch(self, fd);
        }
    }

    /// Makes as many records as there is room for; the last one stays open with `MSG_MORE`.
    fn fill(
        &self,
        sending: &mut LockedSending<'_>,
        content: &mut Content<'_, '_>,
        record_type: u8,
        (total, accepted): (usize, &mut usize),
        flags: i32,
    ) -> Result<(), Errno> {
        let more = flags & libc::MSG_MORE != 0;
        loop {
            let left = total - *accepted;
            if sending.made.len() - sending.made_to < MAX_RECORD {
                return Ok(());
            }
            let len = left.min(MAX_PLAINTEXT);
            let whole = sending.open == 0 && (left >= MAX_PLAINTEXT || left > 0 && !more);
            if whole && let Some(bytes) = content.take(len) {
                self.seal(sending, record_type, bytes)?;
                *accepted += len;
                continue;
            }
            let room = (MAX_PLAINTEXT - sending.open).min(left);
            let at = sending.open;
            content.copy(&mut sending.content[at..at + room]);
            sending.open += room;
            sending.open_type = record_type;
            *accepted += room;
            let is_full = sending.open == MAX_PLAINTEXT;
            if sending.open > 0 && (is_full || !more && *accepted == total) {
                self.seal_open(sending)?;
            }
            if *accepted == total {
                return Ok(());
            }
        }
    }

    /// Makes the record that is held open, if there is one, and sends what is made.
    pub(super) fn close_record(
        &self,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
        flags: i32,
    ) -> Result<(), Errno> {
        if sending.open > 0 {
            if sending.made.len() - sending.made_to < MAX_RECORD {
                self.push(fd, sending, flags)?;
            }
            self.seal_open(sending)?;
        }
        self.push(fd, sending, flags)
    }

    fn seal_open(&self, sending: &mut LockedSending<'_>) -> Result<(), Errno> {
        let (writer, state) = sending.parts()?;
        let open = std::mem::take(&mut state.open);
        let (content, made) = (&state.content[..open], &mut state.made[state.made_to..]);
        // Counted before it is made: whatever happens, the number is used up.
        state.keys.sequence += 1;
        state.made_to += writer.seal_into(ContentType(state.open_type), &[content], made);
        count_record(open);
        Ok(())
    }

    fn seal(
        &self,
        sending: &mut LockedSending<'_>,
        record_type: u8,
        content: &[u8],
    ) -> Result<(), Errno> {
        let (writer, state) = sending.parts()?;
        state.keys.sequence += 1;
        let made = &mut state.made[state.made_to..];
        state.made_to += writer.seal_into(ContentType(record_type), &[content], made);
        count_record(content.len());
        Ok(())
    }

    /// Sends what is made.
    fn push(
        &self,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
        flags: i32,
    ) -> Result<(), Errno> {
        while sending.made_from < sending.made_to {
            let made = &sending.made[sending.made_from..sending.made_to];
            match socket::send(fd, made, flags & PASSED_ON) {
                Ok(sent) => sending.made_from += sent,
                Err(Errno::AGAIN) => {
                    // Room at the end is room for another record.
                    let (from, to) = (sending.made_from, sending.made_to);
                    sending.made.copy_within(from..to, 0);
                    (sending.made_from, sending.made_to) = (0, to - from);
                    return Err(Errno::AGAIN);
                }
                Err(error) => return Err(error),
            }
        }
        (sending.made_from, sending.made_to) = (0, 0);
        Ok(())
    }
}

fn count_record(bytes: usize) {
    counters().add(Counter::TxRecords, 1);
    counters().add(Counter::TxBytes, bytes as u64);
}

/// What is left of a call's content.
struct Content<'p, 'c> {
    pieces: &'p [&'c [u8]],
    /// Bytes of the first piece that are done with.
    skip: usize,
}

impl<'c> Content<'_, 'c> {
    /// Takes the next `len` bytes, if they lie together.
    fn take(&mut self, len: usize) -> Option<&'c [u8]> {
        while let Some((first, rest)) = self.pieces.split_first()
            && self.skip == first.len()
        {
            (self.pieces, self.skip) = (rest, 0);
        }
        let taken = self.pieces.first()?.get(self.skip..self.skip + len)?;
        self.skip += len;
        Some(taken)
    }

    /// Takes as many bytes as `to` has room for, which there are.
    fn copy(&mut self, mut to: &mut [u8]) {
        while !to.is_empty()
            && let Some(first) = self.pieces.first()
        {
            let bytes = (first.len() - self.skip).min(to.len());
            let (now, later) = to.split_at_mut(bytes);
            now.copy_from_slice(&first[self.skip..self.skip + bytes]);
            to = later;
            self.skip += bytes;
            if self.skip == first.len() {
                (self.pieces, self.skip) = (&self.pieces[1..], 0);
            }
        }
    }
}
