//! Sending a file from memory that it is mapped to, or from its pages, for the NIC to make records of.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::super::batch::MOST_RECORDS;
use super::super::device::took;
use super::super::frame::{Frame, MAX_FRAME, Part, fill_rest, took_front};
use super::super::{Session, pipe};
use super::Unsent;
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::mapped_files::{self, WINDOW};
use crate::session::DeviceEpoch;
use crate::session::epoch::Records;
use crate::socket::{WaitLimit, Want};
use crate::{held, offload, socket};

/// Pages of a record's content that begins in the middle of one, and the header before it.
const PAGES_PER_RECORD: usize = 6;
/// Pages of what is around all records, beyond that.
const PAGES_OF_FRAME: usize = 3;

impl Session {
    /// Sends from memory that the file is mapped to, for the NIC to make records of.
    pub(super) fn send_mapped(
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
