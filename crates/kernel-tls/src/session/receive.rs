//! Receiving: records out of the socket, content out of records.

mod decrypted;
mod decryption;
mod either;
mod offload;
mod target;

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use attachment::results::What;
use l5p::tls::{ContentType, HEADER_LEN, Location, Output, Piece, TlsError, Version, Violation};
use rustix::io::Errno;
use wire::SeqNum;

use super::{LockedReceiving, Session};
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::shared::MAX_RECORD;
use crate::socket::{self, WaitLimit, Want};
use decryption::Decryption;
use target::Target;

/// Bytes that one look into the socket sees.
const LOOK: usize = 64 << 10;
/// Record type of handshake messages, and the type of the message that changes keys (RFC 8446 §4).
const HANDSHAKE: u8 = 22;
const KEY_UPDATE: u8 = 24;
/// A low-water mark that no socket reaches.
const NEVER: i32 = i32::MAX;

/// What a call has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of content; 0 at the end of the stream.
    pub len: usize,
    /// Type of the record that they are of.
    pub record_type: u8,
    /// They end a record that is not application data: `MSG_EOR`.
    pub ends_record: bool,
}

thread_local! {
    static SEEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Session {
    /// Receives content of one record type, as `recvmsg(2)` does; application data of several records in one call. `control` tells that the caller
    /// has room for the record type: without it only application data are received.
    ///
    /// # Errors
    /// `EAGAIN`; `EIO` for another type without `control`; `EKEYEXPIRED` after the peer's key update until there are new keys; `EBADMSG` for a
    /// record that can't be opened, `EMSGSIZE` for one that is too long, `EINVAL` for one of another version, all for good; what the socket gives.
    pub fn receive(
        &self,
        fd: BorrowedFd<'_>,
        pieces: &mut [&mut [u8]],
        control: bool,
        flags: i32,
    ) -> Result<Received, Errno> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if self.is_behind.load(Relaxed) {
            self.is_called_by(fd);
        }
        let mut target = Target::new(pieces);
        let peeks = flags & libc::MSG_PEEK != 0;
        let waits_for_all = flags & libc::MSG_WAITALL != 0;
        let mut limit = WaitLimit::new(Want::Bytes, flags);
        while !(target.is_full() || peeks && target.len > 0) {
            let step = self.step(fd, &mut self.receiving(), &mut target, control, flags);
            let step = match step {
                Err(Errno::AGAIN) if target.len == 0 || waits_for_all => {
                    limit.wait(fd).map(|()| Step::Again)
                }
                other => other,
            };
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Enough) => break,
                Err(_) if target.len > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Received {
            len: target.len,
            record_type: target.record_type.unwrap_or(RECORD_TYPE_DATA),
            ends_record: target.ends_record,
        })
    }

    fn step(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        target: &mut Target<'_, '_>,
        control: bool,
        flags: i32,
    ) -> Result<Step, Errno> {
        if receiving.unread() > 0 {
            return deliver(fd, receiving, target, control, flags);
        }
        receiving.keys.check()?;
        if receiving.wants_keys {
            return Err(Errno::KEYEXPIRED);
        }
        let peeks = flags & libc::MSG_PEEK != 0;
        if receiving.device.flows
            && !peeks
            && let Some(step) = self.receive_decrypted(fd, receiving, target)?
        {
            return Ok(step);
        }
        SEEN.with(|seen| {
            let mut own = Vec::new();
            // A signal handler may receive in the middle of a call.
            let mut borrowed = seen.try_borrow_mut();
            let seen = match &mut borrowed {
                Ok(seen) => &mut **seen,
                Err(_) => &mut own,
            };
            seen.resize(LOOK, 0);
            let len = socket::look(fd, seen)?;
            if len == 0 {
                return Ok(Step::Enough);
            }
            self.take_in(fd, receiving, target, &mut seen[..len], control, flags)
        })
    }

    /// Takes what was seen in the socket out of it, as far as it is whole records that the caller gets, or the part of one.
    fn take_in(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        target: &mut Target<'_, '_>,
        seen: &mut [u8],
        control: bool,
        flags: i32,
    ) -> Result<Step, Errno> {
        let peeks = flags & libc::MSG_PEEK != 0;
        let mut done = 0;
        let unread = loop {
            let rest = &mut seen[done..];
            if rest.is_empty() || target.is_full() && target.len > 0 {
                break false;
            }
            let len = match self.record_len(receiving, rest) {
                Ok(len) => len,
                Err(error) => return Err(self.broken(fd, receiving, error)),
            };
            let here = len.map(|len| len - receiving.partial);
            let Some(here) = here.filter(|here| *here <= rest.len()) else {
                if here.is_some() && rest.len() == LOOK - done && done > 0 {
                    // The next look sees more of it.
                    break false;
                }
                done += self.keep_part(receiving, rest);
                break false;
            };
            let start = receiving.record_start(done);
            let opened = match self.open(receiving, start, &mut rest[..here], target, peeks) {
                Ok(opened) => opened,
                Err(error) => return Err(self.broken(fd, receiving, error)),
            };
            if opened {
                done += here;
            } else {
                // It waits for the caller in `unread`, its last byte in the socket.
                done += here - 1;
                receiving.left_last = true;
                break true;
            }
        };
        receiving.drop_received(fd, done)?;
        match unread {
            true => deliver(fd, receiving, target, control, flags),
            false => Ok(Step::Again),
        }
    }

    /// Length of the record that the part kept and `rest` begin with, as far as it is known.
    fn record_len(
        &self,
        receiving: &mut LockedReceiving<'_>,
        rest: &[u8],
    ) -> Result<Option<usize>, TlsError> {
        let mut header = [0; HEADER_LEN];
        let kept = receiving.partial.min(HEADER_LEN);
        header[..kept].copy_from_slice(&receiving.record[..kept]);
        let more = (HEADER_LEN - kept).min(rest.len());
        header[kept..kept + more].copy_from_slice(&rest[..more]);
        match receiving.parts() {
            Ok((reader, _)) => reader.next_len(&header[..kept + more]),
            Err(_) => Ok(None),
        }
    }

    /// Keeps the part of a record; answers how many bytes.
    fn keep_part(&self, receiving: &mut LockedReceiving<'_>, part: &[u8]) -> usize {
        let at = receiving.partial;
        let bytes = part.len().min(MAX_RECORD - at);
        receiving.record[at..at + bytes].copy_from_slice(&part[..bytes]);
        receiving.partial += bytes;
        bytes
    }

    /// Opens the record at `start`, `rest` being what of it was not kept before. True when its content went to the target; else it is what is unread.
    fn open(
        &self,
        receiving: &mut LockedReceiving<'_>,
        start: SeqNum,
        rest: &mut [u8],
        target: &mut Target<'_, '_>,
        peeks: bool,
    ) -> Result<bool, TlsError> {
        let results = self.results(receiving);
        let Ok((reader, state)) = receiving.parts() else {
            return Ok(false);
        };
        let kept = std::mem::take(&mut state.partial);
        let (first, len) = (&mut state.record[..kept], kept + rest.len());
        let offloaded = match results {
            Some(results) => {
                let device = &mut state.device;
                offload::note_record(results, device, reader, start);
                let offloaded = decryption::of(results, device, start, len);
                device.flows = matches!(offloaded, Decryption::Full(_));
                offloaded
            }
            None => Decryption::None,
        };
        let direct = match target.record_type {
            None | Some(RECORD_TYPE_DATA) if !peeks => target.contiguous(),
            _ => &mut [],
        };
        let output = match direct.is_empty() {
            true => Output::InPlace,
            false => Output::To(direct),
        };
        let epoch = state.keys.epoch;
        let mut joined = Vec::new();
        let opened = match offloaded {
            Decryption::Partial(spans)
                if spans
                    .iter()
                    .any(|span| matches!(span.what, What::Either(_))) =>
            {
                let record = &mut [&*first, &*rest].concat();
                let opened = either::open_either(reader, epoch, record, &spans, &mut joined)?;
                counters().add(Counter::RxDeviceEitherRecords, 1);
                opened
            }
            Decryption::Partial(spans) => {
                let tags: Vec<_> = spans
                    .iter()
                    .map(|span| match span.what {
                        What::Ciphertext => None,
                        What::Decrypted(tag) | What::Either(tag) => {
                            Some(decryption::reader_tag(reader, epoch, tag))
                        }
                    })
                    .collect();
                counters().add(Counter::RxDevicePartialRecords, 1);
                let mut pieces = decryption::cut([first, &mut *rest], &spans, &tags);
                reader.open(&mut pieces, output)?
            }
            Decryption::None | Decryption::Full(_) => {
                let decrypted = match offloaded {
                    Decryption::Full(tag) => {
                        counters().add(Counter::RxDeviceRecords, 1);
                        Some(decryption::reader_tag(reader, epoch, tag))
                    }
                    _ => None,
                };
                let mut pieces = [first, &mut *rest].map(|bytes| Piece {
                    data: bytes.into(),
                    decrypted,
                });
                let pieces = match kept {
                    0 => &mut pieces[1..],
                    _ => &mut pieces[..],
                };
                reader.open(pieces, output)?
            }
        };
        state.keys.sequence += 1;
        counters().add(Counter::RxRecords, 1);
        counters().add(Counter::RxBytes, opened.len() as u64);
        let record_type = opened.content_type;
        let content = match opened.content {
            Location::Output(len) if record_type == ContentType::APPLICATION_DATA => {
                target.advance(len);
                return Ok(true);
            }
            Location::Output(bytes) => {
                // Alerts and handshake messages end the caller's run of data: they wait.
                state.record[..bytes].copy_from_slice(&target.contiguous()[..bytes]);
                0..bytes
            }
            Location::Record(range) => {
                if !joined.is_empty() {
                    state.record[..range.len()].copy_from_slice(&joined[range.clone()]);
                    0..range.len()
                } else if kept == 0 {
                    state.record[..range.len()].copy_from_slice(&rest[range.clone()]);
                    0..range.len()
                } else {
                    state.record[kept..len].copy_from_slice(rest);
                    range
                }
            }
        };
        state.unread_type = record_type.0;
        (state.unread_from, state.unread_to) = (content.start, content.end);
        state.unread_whole = true;
        Ok(content.is_empty())
    }

    /// The direction has ended by what the peer has sent.
    fn broken(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        error: TlsError,
    ) -> Errno {
        counters().add(Counter::TlsDecryptError, 1);
        // It stays readable: every call gives the error.
        socket::set_low_water(fd, 1);
        receiving.keys.fail(match error.violation {
            Violation::TooLong(..) => Errno::MSGSIZE,
            Violation::Version(_) | Violation::ContentType(_) => Errno::INVAL,
            _ => Errno::BADMSG,
        })
    }
}

/// Gives the caller what is unread of the last record.
fn deliver(
    fd: BorrowedFd<'_>,
    receiving: &mut LockedReceiving<'_>,
    target: &mut Target<'_, '_>,
    control: bool,
    flags: i32,
) -> Result<Step, Errno> {
    let record_type = receiving.unread_type;
    if target
        .record_type
        .is_some_and(|so_far| so_far != record_type)
    {
        return Ok(Step::Enough);
    }
    let is_data = record_type == RECORD_TYPE_DATA;
    if !is_data && !control {
        return Err(Errno::IO);
    }
    if !is_data && target.len > 0 {
        return Ok(Step::Enough);
    }
    let (from, to) = (receiving.unread_from, receiving.unread_to);
    let begins_update = !is_data
        && record_type == HANDSHAKE
        && receiving.unread_whole
        && receiving.record.get(from) == Some(&KEY_UPDATE)
        && receiving
            .keys
            .info()
            .is_some_and(|info| info.version == Version::Tls13);
    let bytes = target.copy(&receiving.record[from..to], record_type);
    if flags & libc::MSG_PEEK != 0 {
        return Ok(Step::Enough);
    }
    receiving.unread_from += bytes;
    receiving.unread_whole = false;
    let ended = receiving.unread() == 0;
    if ended && std::mem::take(&mut receiving.left_last) {
        receiving.drop_received(fd, 1)?;
    }
    if begins_update {
        counters().add(Counter::TlsRxRekeyReceived, 1);
        receiving.wants_keys = true;
        // What comes is of no use to the caller before there are keys.
        socket::set_low_water(fd, NEVER);
    }
    if is_data {
        return Ok(Step::Again);
    }
    target.ends_record = ended;
    Ok(Step::Enough)
}

/// What a step says of the next one.
enum Step {
    Again,
    Enough,
}
