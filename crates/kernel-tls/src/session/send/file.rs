//! Sending files.

mod mapped;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;

use super::content::Job;
use super::{Session, signal_broken_pipe};
use crate::abi::RECORD_TYPE_DATA;
use crate::held;
use crate::shared::BATCH;
use crate::socket::{WaitLimit, Want};

/// What Linux transfers in one call.
const MOST: usize = 0x7fff_f000;
/// Fewer bytes than this are read and sent: looking for the file's mapping costs more.
const WORTH_MAPPING: usize = 32 << 10;

impl Session {
    /// Sends up to `count` bytes of a file, from `offset` or from where the file stands, as `sendfile(2)` does; answers how many were accepted.
    ///
    /// # Errors
    /// As [`send`](Self::send) without flags, and what reading gives, when nothing was accepted.
    pub fn send_file(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        offset: Option<u64>,
        count: usize,
    ) -> Result<usize, Errno> {
        let count = count.min(MOST);
        let place = match offset {
            Some(offset) => Place::At(offset),
            // What has no place, as a pipe, is read as it comes.
            None => rustix::fs::seek(file, SeekFrom::Current(0)).map_or(Place::Next, Place::At),
        };
        held::before_file(self);
        let sent = match self.send_from(fd, Source { file, place }, count) {
            Ok(sent) => sent,
            Err(Unsent::Signalled) => return Err(Errno::PIPE),
            Err(Unsent::Memory) => return Err(Errno::FAULT),
            Err(Unsent::Socket(error)) => {
                let error = self.or_pending(error);
                if error == Errno::PIPE {
                    signal_broken_pipe();
                }
                return Err(error);
            }
        };
        if sent > 0 {
            held::forget(self);
        }
        if let (None, Place::At(from)) = (offset, place) {
            rustix::fs::seek(file, SeekFrom::Start(from + sent as u64))?;
        }
        Ok(sent)
    }

    fn send_from(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        source: Source<'_>,
        count: usize,
    ) -> Result<usize, Unsent> {
        if count >= WORTH_MAPPING
            && self.sending().device.agreement.is_with_device()
            && let Place::At(from) = source.place
        {
            let stat = rustix::fs::fstat(source.file)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                let left = (stat.st_size as u64).saturating_sub(from);
                let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
                let sent = match self.send_mapped(fd, source.file, &stat, from, count) {
                    Ok(sent) => sent,
                    Err(Unsent::Memory) => 0,
                    Err(unsent) => return Err(unsent),
                };
                if sent > 0 || count == 0 {
                    return Ok(sent);
                }
            }
        }
        if count <= self.sending().max_content()
            && let Place::At(from) = source.place
            && let Some(sent) = self.send_short(fd, source.file, from, count)?
        {
            return Ok(sent);
        }
        Ok(self.send_read(fd, source, count)?)
    }

    /// Sends what a record has room for. `None` if it hasn't, or if it must be waited for.
    fn send_short(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        from: u64,
        count: usize,
    ) -> Result<Option<usize>, Errno> {
        let mut sending = self.sending();
        let mut records = match self.settle(fd, &mut sending) {
            Err(Errno::AGAIN) => return Ok(None),
            other => other?,
        };
        let open = records.open;
        let fits = open + count <= records.max_content();
        if !fits || open > 0 && records.open_type != RECORD_TYPE_DATA {
            return Ok(None);
        }
        let got = rustix::io::pread(file, &mut records.content[open..open + count], from)?;
        if got == 0 {
            return Ok(Some(0));
        }
        records.open += got;
        records.open_type = RECORD_TYPE_DATA;
        match self.send_job(fd, records, &mut Job::end(RECORD_TYPE_DATA)) {
            Ok(()) => {}
            // Nothing of it has left.
            Err(error) if sending.open > 0 => {
                sending.open = open;
                return match error {
                    Errno::AGAIN => Ok(None),
                    _ => Err(error),
                };
            }
            // The record is made, and leaves when there is room. An error is told to the next call.
            Err(error) => {
                self.keep_error(error);
                drop(sending);
                self.send_later(fd);
            }
        }
        Ok(Some(got))
    }

    /// Reads and sends.
    fn send_read(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        source: Source<'_>,
        count: usize,
    ) -> Result<usize, Errno> {
        let mut buffer = Vec::new();
        let mut accepted = 0;
        while accepted < count {
            // No more than is accepted for certain once there is room: what was read of a pipe can't be put back.
            let room = match self.wait_for_room(fd) {
                Err(error) if accepted == 0 => return Err(error),
                Err(error) => {
                    self.keep_error(error);
                    break;
                }
                Ok((open, most)) => BATCH * most - open,
            };
            buffer.resize(room.min(count - accepted), 0);
            let got = match source.from(accepted).read(&mut buffer) {
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
            match self.send_now(fd, &[&buffer[..got]], RECORD_TYPE_DATA, more) {
                Ok(sent) => {
                    accepted += sent;
                    if sent < got {
                        break;
                    }
                }
                Err(error) if accepted == 0 => return Err(error),
                Err(error) => {
                    self.keep_error(error);
                    break;
                }
            }
        }
        // The file may have been shorter than `count`.
        if accepted < count {
            let _ = self.send_now(fd, &[], RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
        }
        Ok(accepted)
    }

    /// Waits until what was accepted before is out; gives how much is held open, and how much a record takes.
    fn wait_for_room(self: &Arc<Self>, fd: BorrowedFd<'_>) -> Result<(usize, usize), Errno> {
        let mut limit = WaitLimit::new(Want::Room, 0);
        loop {
            let mut sending = self.sending();
            match self.settle(fd, &mut sending) {
                Err(Errno::AGAIN) => {
                    drop(sending);
                    limit.wait(fd)?;
                }
                other => return other.map(|records| (records.open, records.max_content())),
            }
        }
    }
}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug)]
enum Unsent {
    /// What the socket says.
    Socket(Errno),
    /// `EPIPE`, with which the kernel has raised `SIGPIPE`: `splice` has no way to ask for none.
    Signalled,
    /// The file is not where it was mapped.
    Memory,
}

impl From<Errno> for Unsent {
    fn from(error: Errno) -> Unsent {
        Unsent::Socket(error)
    }
}

/// Where the next byte is read.
#[derive(Clone, Copy, Debug)]
enum Place {
    At(u64),
    /// Where the file stands.
    Next,
}

#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    file: BorrowedFd<'a>,
    place: Place,
}

impl<'a> Source<'a> {
    /// The same, so many bytes on, which were read.
    fn from(self, bytes: usize) -> Source<'a> {
        let place = match self.place {
            Place::At(offset) => Place::At(offset + bytes as u64),
            Place::Next => Place::Next,
        };
        Source { place, ..self }
    }

    fn read(self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self.place {
            Place::At(offset) => rustix::io::pread(self.file, buffer, offset),
            Place::Next => rustix::io::read(self.file, buffer),
        }
    }
}
