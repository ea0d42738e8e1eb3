//! Sending: content into records, records into the socket.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use l5p::tls::{ContentType, MAX_PLAINTEXT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{LockedSending, Session};
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::shared::BATCH;
use crate::socket::{Patience, Want};
use crate::{flusher, socket};

/// How long a `shutdown` waits for a peer that takes nothing.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const STEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

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
        let mut patience = Patience::new(Want::Room, flags);
        let mut job = Job {
            content: Content { pieces, skip: 0 },
            record_type,
            more: flags & libc::MSG_MORE != 0,
            flags: flags & libc::MSG_NOSIGNAL,
            left: pieces.iter().map(|piece| piece.len()).sum(),
            accepted: 0,
        };
        loop {
            let advanced = self.advance(fd, &mut self.sending(), &mut job);
            let advanced = match advanced {
                Err(Errno::AGAIN) => match patience.wait(fd) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                other => other,
            };
            return match advanced {
                Err(error) if job.accepted == 0 => Err(error),
                // The records are made: what they hold is accepted, and leaves when there is room. An error is told to the next call.
                _ => {
                    self.send_later(fd);
                    Ok(job.accepted)
                }
            };
        }
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
            match self.wait_for_room(fd) {
                Err(error) if accepted == 0 => return Err(error),
                Err(_) => break,
                Ok(()) => {}
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

    /// Sends what was accepted as far as there is room, after [`finish`](Self::finish) the record held open too; answers whether all of it
    /// is out.
    ///
    /// # Errors
    /// What the socket gives.
    pub(crate) fn flush(&self, fd: BorrowedFd<'_>) -> Result<bool, Errno> {
        let mut sending = self.sending();
        sending.keys.check()?;
        let sealed = match self.closes.load(Relaxed) {
            true => self.seal_rest(fd, &mut sending, libc::MSG_NOSIGNAL),
            false => Ok(()),
        };
        match sealed.and_then(|()| self.push(fd, &mut sending, libc::MSG_NOSIGNAL)) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What is held open is made a record, and sent as far as there is room, the rest by and by. For `close` and `shutdown`.
    pub fn finish(self: &Arc<Self>, fd: BorrowedFd<'_>) {
        if self.sends() {
            self.closes.store(true, Relaxed);
            if self.flush(fd) == Ok(false) {
                flusher::watch(self, fd);
            }
        }
    }

    /// Waits until what was accepted is in the socket, at most five seconds.
    pub fn wait_until_sent(&self, fd: BorrowedFd<'_>) {
        let end = Instant::now() + LONGEST_WAIT;
        while self.flush(fd) == Ok(false) && Instant::now() < end {
            let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
            let _ = poll(&mut polled, Some(&STEP));
        }
    }

    /// Waits until what was accepted before is out.
    fn wait_for_room(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut patience = Patience::new(Want::Room, 0);
        loop {
            let mut sending = self.sending();
            sending.keys.check()?;
            match self.push(fd, &mut sending, 0) {
                Err(Errno::AGAIN) => {
                    drop(sending);
                    patience.wait(fd)?;
                }
                other => return other,
            }
        }
    }

    /// Has what waits for room sent by and by.
    pub(super) fn send_later(self: &Arc<Self>, fd: BorrowedFd<'_>) {
        let sending = self.sending();
        if sending.made_from < sending.made_to {
            flusher::watch(self, fd);
        }
    }

    /// Makes records and sends them, until all of the job is accepted or there is no room.
    fn advance(
        &self,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
        job: &mut Job<'_, '_>,
    ) -> Result<(), Errno> {
        sending.keys.check()?;
        self.push(fd, sending, job.flags)?;
        if sending.open > 0 && sending.open_type != job.record_type {
            self.seal_rest(fd, sending, job.flags)?;
        }
        while job.left > 0 || !job.more && sending.open > 0 {
            self.fill(sending, job)?;
            self.push(fd, sending, job.flags)?;
        }
        Ok(())
    }

    /// Makes as many records as there is room for; the last one stays open with `MSG_MORE`.
    fn fill(&self, sending: &mut LockedSending<'_>, job: &mut Job<'_, '_>) -> Result<(), Errno> {
        while sending.has_room_for_record() {
            let len = job.left.min(MAX_PLAINTEXT);
            let whole = sending.open == 0 && len > 0 && (len == MAX_PLAINTEXT || !job.more);
            if whole && let Some(bytes) = job.content.take(len) {
                self.seal(sending, job.record_type, bytes)?;
                job.accept(len);
                continue;
            }
            let at = sending.open;
            let len = len.min(MAX_PLAINTEXT - at);
            job.content.copy(&mut sending.content[at..at + len]);
            sending.open += len;
            sending.open_type = job.record_type;
            job.accept(len);
            let is_full = sending.open == MAX_PLAINTEXT;
            if sending.open > 0 && (is_full || !job.more && job.left == 0) {
                self.seal_open(sending)?;
            }
            if job.left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Makes the record that is held open, if there is one.
    pub(super) fn seal_rest(
        &self,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
        flags: i32,
    ) -> Result<(), Errno> {
        if sending.open == 0 {
            return Ok(());
        }
        if !sending.has_room_for_record() {
            self.push(fd, sending, flags)?;
        }
        self.seal_open(sending)
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
            match socket::send(fd, made, flags) {
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

/// What a call has still to send.
struct Job<'p, 'c> {
    content: Content<'p, 'c>,
    record_type: u8,
    /// The last record is held open.
    more: bool,
    /// For the socket.
    flags: i32,
    /// Bytes that are still to be accepted.
    left: usize,
    accepted: usize,
}

impl Job<'_, '_> {
    fn accept(&mut self, len: usize) {
        self.left -= len;
        self.accepted += len;
    }
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
