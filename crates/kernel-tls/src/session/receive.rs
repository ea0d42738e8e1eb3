//! Receiving: records out of the socket, content out of records.

mod decrypted;
mod decryption;
mod deliver;
mod either;
mod offload;
mod open;
mod peek;
mod target;

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use l5p::tls::{HEADER_LEN, TlsError, Violation};
use rustix::io::Errno;

use super::{LockedReceiving, Session};
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::shared::{MAX_RECORD, Stopped};
use crate::socket::{self, WaitLimit, Want};
use deliver::deliver;
use target::Target;

/// Bytes that one look into the socket sees.
const LOOK: usize = 64 << 10;

/// What a call has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of content; 0 at the end of the stream, and of a record without any.
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
    /// record that can't be opened, for good. An invalid header is reported once, and what follows it is dropped: `EMSGSIZE` if it names too
    /// long a record, `EBADMSG` too short a one, `EINVAL` another version. What the socket gives.
    pub fn receive(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        pieces: &mut [&mut [u8]],
        control: bool,
        flags: i32,
    ) -> Result<Received, Errno> {
        self.receive_record(fd, pieces, control, &mut None, flags)
    }

    /// As [`receive`](Self::receive); `record_type` gets the type of the record that was received. It stays unset at the end of the stream, also
    /// when only an empty record of application data came before the end.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_record(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        pieces: &mut [&mut [u8]],
        control: bool,
        record_type: &mut Option<u8>,
        flags: i32,
    ) -> Result<Received, Errno> {
        if flags & libc::MSG_OOB != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        self.take_over(fd);
        let mut target = Target::new(pieces);
        let received = self.receive_into(fd, &mut target, control, flags);
        *record_type = target.record_type;
        received?;
        Ok(Received {
            len: target.len,
            record_type: target.record_type.unwrap_or(RECORD_TYPE_DATA),
            ends_record: target.ends_record,
        })
    }

    fn receive_into(
        &self,
        fd: BorrowedFd<'_>,
        target: &mut Target<'_, '_>,
        control: bool,
        flags: i32,
    ) -> Result<(), Errno> {
        let peeks = flags & libc::MSG_PEEK != 0;
        let enough = match flags & libc::MSG_WAITALL {
            0 => usize::try_from(self.low_water.load(Relaxed)).unwrap_or(1),
            _ => usize::MAX,
        };
        let mut limit = WaitLimit::new(Want::Bytes, flags);
        while !(target.is_full() || peeks && target.len > 0) {
            let step = self.step(fd, &mut self.receiving(), target, control, flags);
            let step = match step {
                Err(Errno::AGAIN) if target.len < enough.max(1) => {
                    limit.wait(fd).map(|()| Step::Again)
                }
                other => other,
            };
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Enough) => break,
                Err(error) if target.len > 0 => {
                    self.keep_error(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if peeks && target.len > 0 {
            self.peek_on(fd, target, flags);
        }
        Ok(())
    }

    fn step(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        target: &mut Target<'_, '_>,
        control: bool,
        flags: i32,
    ) -> Result<Step, Errno> {
        if receiving.has_unread {
            return deliver(fd, receiving, target, control, flags);
        }
        receiving.keys.check()?;
        if receiving.has_stopped() {
            return self.past_the_end(fd, receiving, target);
        }
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
        with_room(|seen| {
            let len = self.look(fd, seen)?;
            if len == 0 {
                return Ok(Step::Enough);
            }
            self.take_in(fd, receiving, target, &mut seen[..len], control, flags)
        })
    }

    /// What comes behind a header that was none is dropped, once that is told.
    fn past_the_end(
        &self,
        fd: BorrowedFd<'_>,
        receiving: &mut LockedReceiving<'_>,
        target: &Target<'_, '_>,
    ) -> Result<Step, Errno> {
        if target.len > 0 {
            return Ok(Step::Enough);
        }
        receiving.stopped.tell()?;
        with_room(|seen| {
            loop {
                match self.look(fd, seen)? {
                    0 => return Ok(Step::Enough),
                    len => receiving.drop_received(fd, len)?,
                }
            }
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
                Err(error) => {
                    counters().add(Counter::TlsDecryptError, 1);
                    receiving.stopped = Stopped::by(errno(&error));
                    break false;
                }
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
    pub(super) fn record_len(
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
        receiving.keys.fail(errno(&error))
    }
}

/// The error that a program gets for an invalid record.
fn errno(error: &TlsError) -> Errno {
    match error.violation {
        Violation::TooLong(..) => Errno::MSGSIZE,
        Violation::Version(_) | Violation::ContentType(_) => Errno::INVAL,
        _ => Errno::BADMSG,
    }
}

/// Lends this thread's room for what is seen in a socket: [`LOOK`] bytes.
fn with_room<R>(mut use_it: impl FnMut(&mut [u8]) -> R) -> R {
    let lent = SEEN.try_with(|seen| {
        let mut seen = seen.try_borrow_mut().ok()?;
        seen.resize(LOOK, 0);
        Some(use_it(&mut seen))
    });
    // A signal handler may receive in the middle of a call, and a thread that ends when it has given back what it had.
    let lent = lent.ok().flatten();
    lent.unwrap_or_else(|| use_it(&mut vec![0; LOOK]))
}

/// What a step says of the next one.
enum Step {
    Again,
    Enough,
}
