//! Sending: content into records, records into the socket.

mod batch;
mod closing;
mod content;
mod device;
mod file;
mod frame;
mod hold;
mod open;
mod pipe;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use l5p::tls::ContentType;
use rustix::io::Errno;

use super::epoch::Records;
use super::{LockedSending, Session};
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::shared::Sending;
use crate::socket::{WaitLimit, Want};
use crate::{flusher, held, open_records, socket};
use content::{Content, Job};

/// What `send(2)` may be asked for.
const KNOWN_FLAGS: i32 = libc::MSG_MORE | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR;
/// Content of a record that goes on, and its end.
const MORE_AND_END: i32 = libc::MSG_MORE | libc::MSG_EOR;

impl Session {
    /// Sends the pieces as one run of content of a record type, as `sendmsg(2)` does; answers how many bytes were accepted. With `MSG_MORE` the
    /// last record is held open for what comes next, as long as that is of the same type and comes within 200 ms.
    ///
    /// # Errors
    /// `EAGAIN` when the socket takes nothing without waiting; `EOPNOTSUPP` for a flag that kernel TLS has not; `EINVAL` for `MSG_EOR` with `MSG_MORE`; what
    /// the socket gives. With `EPIPE` the thread gets `SIGPIPE`, unless the flags have `MSG_NOSIGNAL`.
    pub fn send(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        pieces: &[&[u8]],
        record_type: u8,
        flags: i32,
    ) -> Result<usize, Errno> {
        let sent = self.accept(fd, pieces, record_type, flags);
        if sent == Err(Errno::PIPE) && flags & libc::MSG_NOSIGNAL == 0 {
            signal_broken_pipe();
        }
        sent
    }

    fn accept(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        pieces: &[&[u8]],
        record_type: u8,
        flags: i32,
    ) -> Result<usize, Errno> {
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if flags & MORE_AND_END == MORE_AND_END {
            return Err(Errno::INVAL);
        }
        let more = flags & libc::MSG_MORE != 0;
        held::before_send(self, !more);
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let is_short = (1..=held::MOST).contains(&len) && record_type == RECORD_TYPE_DATA && !more;
        if is_short && held::is_wanted(self) && self.hold(fd, pieces, len)? {
            return Ok(len);
        }
        let sent = self.send_now(fd, pieces, record_type, flags)?;
        held::forget(self);
        held::sent(self, is_short && sent == len);
        Ok(sent)
    }

    /// As [`send`](Self::send), without holding anything back, and without a signal.
    fn send_now(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        pieces: &[&[u8]],
        record_type: u8,
        flags: i32,
    ) -> Result<usize, Errno> {
        let mut limit = WaitLimit::new(Want::Room, flags);
        let mut job = Job {
            content: Content { pieces, skip: 0 },
            record_type,
            more: flags & libc::MSG_MORE != 0,
            left: pieces.iter().map(|piece| piece.len()).sum(),
            accepted: 0,
        };
        loop {
            let mut sending = self.sending();
            let advanced = self.advance(fd, &mut sending, &mut job);
            if let (Err(error), 1..) = (advanced, job.accepted) {
                self.keep_error(error);
            }
            let waits_for_room = !sending.is_pushed();
            let opened = self.has_opened(fd, &sending);
            drop(sending);
            if let Some(record) = opened {
                open_records::watch(self, record);
            }
            let advanced = match advanced {
                Err(Errno::AGAIN) => match limit.wait(fd) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                other => other,
            };
            return match advanced {
                Err(error) if job.accepted == 0 => Err(self.or_pending(error)),
                // The records are made: what they hold is accepted, and leaves when there is room. An error is told to the next call.
                _ => {
                    if waits_for_room {
                        self.send_later(fd);
                    }
                    Ok(job.accepted)
                }
            };
        }
    }

    /// Sends what was accepted as far as there is room, after [`finish`](Self::finish) the record held open too; answers whether all of it
    /// is out. Behind it the sending direction is shut down, if that was asked for: also if it has failed, and nothing more of it can be sent.
    ///
    /// # Errors
    /// What ended the direction; what shutting it down gives.
    pub(crate) fn flush(&self, fd: BorrowedFd<'_>) -> Result<bool, Errno> {
        self.flush_locked(fd, &mut self.sending())
    }

    /// The same without waiting: `None` where a call is sending.
    pub(crate) fn try_flush(&self, fd: BorrowedFd<'_>) -> Option<Result<bool, Errno>> {
        Some(self.flush_locked(fd, &mut self.try_sending()?))
    }

    fn flush_locked(
        &self,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
    ) -> Result<bool, Errno> {
        let sent = self.send_unasked(fd, sending, self.closes.load(Relaxed));
        if sent == Err(Errno::AGAIN) {
            return Ok(false);
        }
        if self.shuts.load(Relaxed) {
            rustix::net::shutdown(fd, rustix::net::Shutdown::Write)?;
            return Ok(true);
        }
        sent.map(|()| true)
    }

    /// Sends what was made, and what is held open if `all` is to leave, where no caller asks for it who would be told an error: the next one is.
    fn send_unasked(
        &self,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
        all: bool,
    ) -> Result<(), Errno> {
        sending.keys.check()?;
        if socket::is_over(fd) {
            // The socket tells its error to its next user.
            return Err(Errno::PIPE);
        }
        let sealed = match all {
            true => self.seal_rest(fd, sending),
            false => Ok(()),
        };
        let sent = sealed.and_then(|()| self.push(fd, sending));
        if let Err(error) = sent {
            self.keep_error(error);
        }
        sent
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
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        sending: &mut LockedSending<'_>,
        job: &mut Job<'_, '_>,
    ) -> Result<(), Errno> {
        let mut records = self.settle(fd, sending)?;
        if records.open > 0 && records.open_type != job.record_type {
            self.make_open(&mut records)?;
            self.push(fd, &mut records)?;
        }
        self.send_job(fd, records, job)
    }

    fn send_job(
        &self,
        fd: BorrowedFd<'_>,
        records: Records<'_, '_>,
        job: &mut Job<'_, '_>,
    ) -> Result<(), Errno> {
        let sending = match records {
            Records::Device(mut epoch) => return self.advance_device(fd, &mut epoch, job),
            Records::Software(sending) => sending,
        };
        while job.left > 0 || !job.more && sending.open > 0 {
            self.fill(sending, job)?;
            self.push(fd, sending)?;
        }
        Ok(())
    }

    /// Sends what was made before, and agrees with the NIC on who makes what comes next.
    pub(super) fn settle<'a, 'g>(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        sending: &'a mut LockedSending<'g>,
    ) -> Result<Records<'a, 'g>, Errno> {
        sending.keys.check()?;
        if self.shuts.load(Relaxed) {
            return Err(Errno::PIPE);
        }
        self.push(fd, sending)?;
        if sending.device.agreement.is_with_device() {
            self.agree(fd, sending)?;
        }
        sending.keys.has_number()?;
        sending.records()
    }

    /// Makes as many records as there is room for; the last one stays open with `MSG_MORE`.
    fn fill(&self, sending: &mut LockedSending<'_>, job: &mut Job<'_, '_>) -> Result<(), Errno> {
        let most = sending.max_content();
        while sending.has_room_for_record() {
            let len = job.left.min(most);
            let whole = sending.open == 0 && len > 0 && (len == most || !job.more);
            if whole && let Some(bytes) = job.content.take(len) {
                self.seal(sending, job.record_type, bytes)?;
                job.accept(len);
                continue;
            }
            let at = sending.open;
            let len = len.min(most - at);
            job.content.copy(&mut sending.content[at..at + len]);
            sending.open += len;
            sending.open_type = job.record_type;
            job.accept(len);
            let is_full = sending.open == most;
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
    ) -> Result<(), Errno> {
        if sending.open == 0 {
            return Ok(());
        }
        if !sending.has_room_for_record() {
            self.push(fd, sending)?;
        }
        self.make_open(&mut sending.records()?)
    }

    fn make_open(&self, records: &mut Records<'_, '_>) -> Result<(), Errno> {
        match records {
            Records::Device(epoch) => self.frame_open(epoch),
            Records::Software(sending) => self.seal_open(sending),
        }
    }

    fn seal_open(&self, sending: &mut LockedSending<'_>) -> Result<(), Errno> {
        let (writer, state) = sending.parts()?;
        // Counted before it is made: whatever happens, the number is used up.
        state.keys.take_number()?;
        let open = state.take_open();
        let (content, made) = (&state.content[..open], &mut state.made[state.made_to..]);
        state.made_to += writer.seal_into(ContentType(state.open_type), &[content], made);
        count_record(1, open);
        Ok(())
    }

    fn seal(
        &self,
        sending: &mut LockedSending<'_>,
        record_type: u8,
        content: &[u8],
    ) -> Result<(), Errno> {
        let (writer, state) = sending.parts()?;
        state.keys.take_number()?;
        let made = &mut state.made[state.made_to..];
        state.made_to += writer.seal_into(ContentType(record_type), &[content], made);
        count_record(1, content.len());
        Ok(())
    }

    /// Sends what is made. Framed content is among it only as long as the NIC makes records: see `device_ends`.
    fn push(&self, fd: BorrowedFd<'_>, sending: &mut Sending) -> Result<(), Errno> {
        sending.keys.check()?;
        while sending.made_from < sending.made_to {
            let made = &sending.made[sending.made_from..sending.made_to];
            match socket::send(fd, made) {
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

/// Tells the thread what `EPIPE` says, as Linux does (send(2)). No lock is held, for a handler may call on the socket: so the socket itself is told to raise
/// no signal.
fn signal_broken_pipe() {
    // SAFETY: a signal to this thread.
    unsafe { libc::raise(libc::SIGPIPE) };
}

fn count_record(records: usize, bytes: usize) {
    counters().add(Counter::TxRecords, records as u64);
    counters().add(Counter::TxBytes, bytes as u64);
}
