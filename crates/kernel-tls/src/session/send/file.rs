//! Sending files.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{FileType, SeekFrom, Stat};
use rustix::io::Errno;

use super::batch::MOST_RECORDS;
use super::content::Job;
use super::device::took;
use super::frame::{Frame, MAX_FRAME, Part, fill_rest, took_front};
use super::{Session, pipe, signal_broken_pipe};
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::mapped_files::{self, WINDOW};
use crate::session::DeviceEpoch;
use crate::session::epoch::Records;
use crate::shared::BATCH;
use crate::socket::{WaitLimit, Want};
use crate::{held, offload, socket};

/// What Linux transfers in one call.
const MOST: usize = 0x7fff_f000;
/// Fewer bytes than this are read and sent: looking for the file's mapping costs more.
const WORTH_MAPPING: usize = 32 << 10;
/// Pages of a record's content that begins in the middle of one, and the header before it.
const PAGES_PER_RECORD: usize = 6;
/// Pages of what is around all records, beyond that.
const PAGES_OF_FRAME: usize = 3;

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

    /// Sends from memory that the file is mapped to, for the NIC to make records of.
    fn send_mapped(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
        stat: &Stat,
        from: u64,
        count: usize,
    ) -> Result<usize, Unsent> {
        // A socket that waits would wait with the lock held.
        let zerocopy = (self.zerocopy.load(Relaxed) != 0 || offload::zerocopy()) && !self.waits(fd);
        let mut limit = WaitLimit::new(Want::Room, 0);
        let mut accepted = 0;
        while accepted < count {
            let at = from + accepted as u64;
            let in_window = (WINDOW - at % WINDOW) as usize;
            let Some(window) = mapped_files::window(file, stat, at) else {
                break;
            };
            let part = Part {
                file,
                window: &window,
                at,
                len: in_window.min(count - accepted),
                zerocopy,
            };
            let mut sending = self.sending();
            let sent = match self.settle(fd, &mut sending) {
                Ok(Records::Device(mut epoch)) => self.send_part(fd, &mut epoch, &part),
                // It has stopped: what is left is read, and made records here.
                Ok(Records::Software(_)) => break,
                Err(error) => Err(Unsent::Socket(error)),
            };
            let is_full = !sending.is_pushed();
            drop(sending);
            if is_full {
                self.send_later(fd);
            }
            match sent {
                Ok(0) => break,
                Ok(sent) => accepted += sent,
                Err(Unsent::Socket(Errno::AGAIN)) => match limit.wait(fd) {
                    Ok(()) => {}
                    Err(error) if accepted == 0 => return Err(Unsent::Socket(error)),
                    Err(_) => break,
                },
                Err(error) if accepted == 0 => return Err(error),
                Err(Unsent::Socket(error)) => {
                    self.keep_error(error);
                    break;
                }
                Err(Unsent::Signalled | Unsent::Memory) => break,
            }
        }
        Ok(accepted)
    }

    /// Sends records with the part's first bytes; gives how many bytes of it were accepted.
    fn send_part(
        &self,
        fd: BorrowedFd<'_>,
        epoch: &mut DeviceEpoch<'_>,
        part: &Part<'_>,
    ) -> Result<usize, Unsent> {
        if epoch.open > 0 && epoch.open_type != RECORD_TYPE_DATA {
            self.frame_open(epoch).map_err(Unsent::Socket)?;
            self.push(fd, epoch).map_err(Unsent::Socket)?;
        }
        let state = &mut **epoch;
        let goes_before = state.is_held && state.open <= held::MOST;
        if state.open > 0 && !goes_before {
            // The record that is held open goes on with the file's bytes.
            let len = part.len.min(state.max_content() - state.open);
            let (open, at) = (state.open, part.at);
            let got = rustix::io::pread(part.file, &mut state.content[open..open + len], at);
            state.open += got.map_err(Unsent::Socket)?;
            let taken = state.open - open;
            self.frame_open(epoch).map_err(Unsent::Socket)?;
            return Ok(taken);
        }
        if part.zerocopy {
            match self.splice_part(fd, epoch, part) {
                Ok(sent) => {
                    counters().add(Counter::TxZerocopyBytes, sent as u64);
                    return Ok(sent);
                }
                // No pipe, or one without room: with a copy.
                Err(Unsent::Memory) => {}
                Err(unsent) => return Err(unsent),
            }
        }
        let frame = Frame::new(epoch, part.len, MOST_RECORDS);
        let frame = frame.ok_or(Unsent::Socket(Errno::BADMSG))?;
        let mut room = [0; MAX_FRAME];
        let framing = &mut room[..frame.len()];
        frame.write(epoch, framing);
        let mut pieces = Vec::new();
        part.put_pieces(&frame, framing, &mut pieces);
        match socket::send_pieces(frame.batch.permit(), fd, &pieces) {
            Ok(sent) => self.record_sent(fd, epoch, &frame, part, framing, sent),
            Err(Errno::FAULT) => Err(Unsent::Memory),
            Err(error) => Err(Unsent::Socket(error)),
        }
    }

    /// The same from the file's pages.
    fn splice_part(
        &self,
        fd: BorrowedFd<'_>,
        epoch: &mut DeviceEpoch<'_>,
        part: &Part<'_>,
    ) -> Result<usize, Unsent> {
        let sent = pipe::with(|pipe, arena, pieces| {
            let most = pipe.room().saturating_sub(PAGES_OF_FRAME) / PAGES_PER_RECORD;
            let frame = match Frame::new(epoch, part.len, most.min(MOST_RECORDS)) {
                Some(frame) if frame.batch.records() > 0 => frame,
                _ => return (Err(Unsent::Memory), 0),
            };
            let Some(framing) = arena.take(frame.len()) else {
                return (Err(Unsent::Memory), 0);
            };
            frame.write(epoch, framing);
            part.put_pieces(&frame, framing, pieces);
            let put = pipe.fill(pieces);
            if put == 0 {
                return (Err(Unsent::Memory), 0);
            }
            match pipe.empty_into(frame.batch.permit(), fd, put) {
                Ok(sent) => (
                    self.record_sent(fd, epoch, &frame, part, framing, sent),
                    put - sent,
                ),
                Err(Errno::PIPE) => (Err(Unsent::Signalled), put),
                Err(error) => (Err(Unsent::Socket(error)), put),
            }
        });
        sent.unwrap_or(Err(Unsent::Memory))
    }

    /// The socket has taken the frame's first `sent` bytes with what is between them: keeps the rest of the record that they end in. Gives how much of
    /// the part is accepted.
    fn record_sent(
        &self,
        fd: BorrowedFd<'_>,
        state: &mut DeviceEpoch<'_>,
        frame: &Frame<'_>,
        part: &Part<'_>,
        framing: &[u8],
        sent: usize,
    ) -> Result<usize, Unsent> {
        let (front, framing) = framing.split_at(frame.front_len());
        let Some(sent) = took_front(state, frame, front, sent) else {
            return Err(Unsent::Socket(Errno::AGAIN));
        };
        let batch = &frame.batch;
        let begun = batch.begun(sent);
        let rest = batch.len_of(begun) - sent;
        let mut accepted = batch.content_of(begun);
        if rest > 0 {
            let missing = fill_rest(state, batch, part, begun - 1, framing, rest);
            if missing > 0 && !batch.can_pad() {
                // The file has become shorter than the header says, which is out.
                socket::reset(fd);
                return Err(Unsent::Socket(state.keys.fail(Errno::CONNRESET)));
            }
            accepted -= missing;
        }
        took(state, batch, begun, rest);
        Ok(accepted)
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
