//! One TLS socket: its options, and what each process has of its own.

mod receive;
mod send;

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use l5p::tls::{CryptoInfo, Reader, Version, Writer};
use rustix::io::Errno;

use crate::abi;
use crate::counters::{Counter, counters};
use crate::lock::Taken;
use crate::shared::{Guard, Guarded, Keys, Mapping, Receiving, Sending};

pub use receive::Received;

/// A TCP socket with the upper-layer protocol `tls`. Each direction is plain TCP until it is given keys.
///
/// Any thread may call it, and any process that a fork has given the socket to.
#[derive(Debug)]
pub struct Session {
    shared: Mapping,
    writer: Own<Writer>,
    reader: Own<Reader>,
    sends: AtomicBool,
    /// It is to be closed, or shut down: nothing is held open.
    closes: AtomicBool,
    receives: AtomicBool,
    zerocopy: AtomicI32,
    no_padding: AtomicI32,
}

/// What a process has of a direction. Reached while that direction is locked only.
#[derive(Debug)]
struct Own<C>(UnsafeCell<Option<Current<C>>>);

#[derive(Debug)]
struct Current<C> {
    /// Of the process that made it: a fork's copy may be from the middle of a call.
    process: u32,
    epoch: u32,
    cipher: C,
}

// SAFETY: reached through a `Locked` only, of which there is one at a time: it has the direction's guard.
unsafe impl<C: Send> Sync for Own<C> {}

impl<C> Own<C> {
    fn empty() -> Self {
        Own(UnsafeCell::new(None))
    }
}

/// A direction, locked, with this process's cipher.
#[derive(Debug)]
struct Locked<'a, S, C> {
    guard: Guard<'a, S>,
    own: &'a Own<C>,
}

impl<S: Direction, C: Cipher> Locked<'_, S, C> {
    /// The cipher for the keys that the direction has now, at the next record; and the direction.
    fn parts(&mut self) -> Result<(&mut C, &mut S), Errno> {
        let process = crate::process::id();
        // SAFETY: the guard is ours, and the answer borrows it mutably.
        let current = unsafe { &mut *self.own.0.get() };
        let keys = self.guard.keys();
        let fits = current.as_ref().is_some_and(|current| {
            current.process == process
                && current.epoch == keys.epoch
                && current.cipher.sequence() == keys.sequence
        });
        if !fits {
            let info = keys.info().ok_or(Errno::BADMSG)?;
            *current = Some(Current {
                process,
                epoch: keys.epoch,
                cipher: C::new(info, keys.first_nonce),
            });
        }
        let cipher = current.as_mut().map(|current| &mut current.cipher);
        Ok((cipher.ok_or(Errno::BADMSG)?, &mut *self.guard))
    }
}

impl<S, C> Deref for Locked<'_, S, C> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.guard
    }
}

impl<S, C> DerefMut for Locked<'_, S, C> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.guard
    }
}

/// What both directions have.
trait Direction {
    fn keys(&mut self) -> &mut Keys;
}

impl Direction for Sending {
    fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }
}

impl Direction for Receiving {
    fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }
}

/// What makes or opens a direction's records.
trait Cipher {
    /// `first_nonce` is that of record 0 where nonces are explicit.
    fn new(info: CryptoInfo, first_nonce: u64) -> Self;

    /// Number of the next record.
    fn sequence(&self) -> u64;
}

impl Cipher for Writer {
    fn new(info: CryptoInfo, first_nonce: u64) -> Self {
        let mut writer = Writer::new(info);
        writer.count_nonces_from(first_nonce);
        writer
    }

    fn sequence(&self) -> u64 {
        Writer::sequence(self)
    }
}

impl Cipher for Reader {
    fn new(info: CryptoInfo, _: u64) -> Self {
        Reader::new(info)
    }

    fn sequence(&self) -> u64 {
        self.record_index()
    }
}

type LockedSending<'a> = Locked<'a, Sending, Writer>;
type LockedReceiving<'a> = Locked<'a, Receiving, Reader>;

impl Session {
    /// What `setsockopt(TCP_ULP, "tls")` makes of an established socket.
    ///
    /// # Errors
    /// `ENOTCONN` for a socket that is not established; `ENOMEM`.
    pub fn new(fd: BorrowedFd<'_>) -> Result<Session, Errno> {
        rustix::net::getpeername(fd)?;
        Ok(Session {
            shared: Mapping::new()?,
            writer: Own::empty(),
            reader: Own::empty(),
            sends: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            receives: AtomicBool::new(false),
            zerocopy: AtomicI32::new(0),
            no_padding: AtomicI32::new(0),
        })
    }

    /// The direction of sending has keys.
    #[inline]
    pub fn sends(&self) -> bool {
        self.sends.load(Relaxed)
    }

    /// The direction of receiving has keys.
    #[inline]
    pub fn receives(&self) -> bool {
        self.receives.load(Relaxed)
    }

    /// `setsockopt` at level [`SOL_TLS`](crate::SOL_TLS).
    ///
    /// # Errors
    /// `EINVAL` for a structure that is none or for keys of another cipher or version than before; `EBUSY` for a second set of keys before TLS 1.3;
    /// `ENOPROTOOPT` for an option that there is not; what sending gives when a record that was held open can't be sent.
    pub fn set_option(
        self: &Arc<Self>,
        fd: BorrowedFd<'_>,
        option: i32,
        value: &[u8],
    ) -> Result<(), Errno> {
        match option {
            abi::TLS_TX => self.set_transmit(fd, value),
            abi::TLS_RX => self.set_receive(fd, value),
            abi::TLS_TX_ZEROCOPY_RO => self.set_flag(&self.zerocopy, value),
            abi::TLS_RX_EXPECT_NO_PAD => {
                let keys = self.receiving();
                let version = keys.keys.info().map(|info| info.version);
                drop(keys);
                match version {
                    Some(Version::Tls13) => self.set_flag(&self.no_padding, value),
                    _ => Err(Errno::INVAL),
                }
            }
            _ => Err(Errno::NOPROTOOPT),
        }
    }

    /// `getsockopt` at level [`SOL_TLS`](crate::SOL_TLS): writes the value and answers its length.
    ///
    /// # Errors
    /// `EBUSY` for keys that were not set; `EINVAL` when there is no room; `ENOPROTOOPT`.
    pub fn option(&self, option: i32, value: &mut [u8]) -> Result<usize, Errno> {
        let keys = match option {
            abi::TLS_TX => self.sending().keys.info(),
            abi::TLS_RX => self.receiving().keys.info(),
            abi::TLS_TX_ZEROCOPY_RO | abi::TLS_RX_EXPECT_NO_PAD => {
                let flag = match option {
                    abi::TLS_TX_ZEROCOPY_RO => &self.zerocopy,
                    _ => &self.no_padding,
                };
                let bytes = flag.load(Relaxed).to_ne_bytes();
                let room = value.get_mut(..4).ok_or(Errno::INVAL)?;
                room.copy_from_slice(&bytes);
                return Ok(4);
            }
            _ => return Err(Errno::NOPROTOOPT),
        };
        let info = keys.ok_or(Errno::BUSY)?;
        let (bytes, len) = abi::emit(&info);
        if value.len() == 4 {
            // Version and cipher alone.
            value.copy_from_slice(&bytes[..4]);
            return Ok(4);
        }
        if value.len() != len {
            return Err(Errno::INVAL);
        }
        value.copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn set_flag(&self, flag: &AtomicI32, value: &[u8]) -> Result<(), Errno> {
        let bytes: [u8; 4] = value.try_into().map_err(|_| Errno::INVAL)?;
        match i32::from_ne_bytes(bytes) {
            on @ (0 | 1) => {
                flag.store(on, Relaxed);
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn set_transmit(self: &Arc<Self>, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        let info = abi::parse(value)?;
        let mut sending = self.sending();
        let first = !sending.keys.are_set;
        if !first {
            // What is held open goes under the old keys.
            self.seal_rest(fd, &mut sending, 0)?;
        }
        let taken = take_keys(&mut sending.keys, &info);
        let (ok, failed) = (Counter::TlsTxRekeyOk, Counter::TlsTxRekeyError);
        count_keys(&taken, first, [Counter::TlsTxSw, ok, failed]);
        drop(sending);
        self.send_later(fd);
        taken?;
        self.sends.store(true, Relaxed);
        Ok(())
    }

    fn set_receive(&self, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        let info = abi::parse(value)?;
        let mut receiving = self.receiving();
        let first = !receiving.keys.are_set;
        let taken = take_keys(&mut receiving.keys, &info);
        let (ok, failed) = (Counter::TlsRxRekeyOk, Counter::TlsRxRekeyError);
        count_keys(&taken, first, [Counter::TlsRxSw, ok, failed]);
        taken?;
        if std::mem::take(&mut receiving.wants_keys) {
            crate::socket::set_low_water(fd, 1);
        }
        drop(receiving);
        self.receives.store(true, Relaxed);
        Ok(())
    }

    fn sending(&self) -> LockedSending<'_> {
        lock(&self.shared.sending, &self.writer)
    }

    fn receiving(&self) -> LockedReceiving<'_> {
        lock(&self.shared.receiving, &self.reader)
    }
}

/// Locks a direction. One that a process has died in the middle of has ended: a record number could be used twice.
fn lock<'a, S: Direction, C>(guarded: &'a Guarded<S>, own: &'a Own<C>) -> Locked<'a, S, C> {
    let mut guard = guarded.lock();
    if guard.taken == Taken::FromTheDead {
        guard.keys().fail(Errno::PIPE);
    }
    Locked { guard, own }
}

fn take_keys(keys: &mut Keys, info: &CryptoInfo) -> Result<(), Errno> {
    if let Some(old) = keys.info() {
        if old.version != Version::Tls13 {
            return Err(Errno::BUSY);
        }
        if (old.version, old.algorithm) != (info.version, info.algorithm) {
            return Err(Errno::INVAL);
        }
    }
    keys.set(info);
    Ok(())
}

fn count_keys(taken: &Result<(), Errno>, first: bool, [new, ok, failed]: [Counter; 3]) {
    match (taken, first) {
        (Ok(()), true) => counters().add(new, 1),
        (Ok(()), false) => counters().add(ok, 1),
        (Err(_), true) => {}
        (Err(_), false) => counters().add(failed, 1),
    }
}

#[cfg(test)]
mod tests;
