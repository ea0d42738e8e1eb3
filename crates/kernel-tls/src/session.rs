//! One TLS socket: its options, and what each process has of its own.

mod receive;
mod send;

use std::os::fd::BorrowedFd;
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
    receives: AtomicBool,
    zerocopy: AtomicI32,
    no_padding: AtomicI32,
}

/// What a process has of a direction. Reached while that direction is locked only.
#[derive(Debug)]
struct Own<T> {
    state: std::cell::UnsafeCell<Option<Current<T>>>,
}

#[derive(Debug)]
struct Current<T> {
    /// Of the process that made it: a fork's copy may be from the middle of a call.
    process: u32,
    epoch: u32,
    cipher: T,
}

// SAFETY: reached through `Own::get` with the guard of its direction, of which there is one at a time.
unsafe impl<T: Send> Sync for Own<T> {}

impl<T> Own<T> {
    fn empty() -> Self {
        Own {
            state: std::cell::UnsafeCell::new(None),
        }
    }

    /// The cipher for the keys that the direction has now, `sequence` records into them.
    ///
    /// # Safety
    /// The direction's guard must be held as long as the answer is used.
    #[allow(clippy::mut_from_ref)] // the guard makes it the only one
    unsafe fn get(
        &self,
        keys: &Keys,
        sequence: impl Fn(&T) -> u64,
        make: impl FnOnce(CryptoInfo) -> T,
    ) -> Result<&mut T, Errno> {
        let process = crate::process::id();
        // SAFETY: the caller holds the direction's guard.
        let state = unsafe { &mut *self.state.get() };
        let fits = state.as_ref().is_some_and(|current| {
            current.process == process
                && current.epoch == keys.epoch
                && sequence(&current.cipher) == keys.sequence
        });
        if !fits {
            let info = keys.info().ok_or(Errno::BADMSG)?;
            *state = Some(Current {
                process,
                epoch: keys.epoch,
                cipher: make(info),
            });
        }
        state
            .as_mut()
            .map(|current| &mut current.cipher)
            .ok_or(Errno::BADMSG)
    }
}

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
    pub fn set_option(&self, fd: BorrowedFd<'_>, option: i32, value: &[u8]) -> Result<(), Errno> {
        match option {
            abi::TLS_TX => self.set_transmit(fd, value),
            abi::TLS_RX => self.set_receive(fd, value),
            abi::TLS_TX_ZEROCOPY_RO => self.set_flag(&self.zerocopy, value),
            abi::TLS_RX_EXPECT_NO_PAD => {
                let keys = self.receiving()?;
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
            abi::TLS_TX => self.sending()?.keys.info(),
            abi::TLS_RX => self.receiving()?.keys.info(),
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

    fn set_transmit(&self, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        let info = abi::parse(value)?;
        let mut sending = self.sending()?;
        let first = !sending.keys.are_set;
        if !first {
            // What is held open goes under the old keys.
            self.close_record(fd, &mut sending, 0)?;
        }
        let taken = take_keys(&mut sending.keys, &info);
        let (ok, failed) = (Counter::TlsTxRekeyOk, Counter::TlsTxRekeyError);
        count_keys(&taken, first, [Counter::TlsTxSw, ok, failed]);
        taken?;
        drop(sending);
        self.sends.store(true, Relaxed);
        Ok(())
    }

    fn set_receive(&self, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        let info = abi::parse(value)?;
        let mut receiving = self.receiving()?;
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

    fn sending(&self) -> Result<Guard<'_, Sending>, Errno> {
        lock(&self.shared.sending, |sending| &mut sending.keys)
    }

    fn receiving(&self) -> Result<Guard<'_, Receiving>, Errno> {
        lock(&self.shared.receiving, |receiving| &mut receiving.keys)
    }

    fn writer(&self, sending: &mut Guard<'_, Sending>) -> Result<&mut Writer, Errno> {
        let keys = &sending.keys;
        let make = |info| {
            let mut writer = Writer::new(info);
            writer.count_nonces_from(keys.first_nonce);
            writer
        };
        // SAFETY: the guard is held, mutably borrowed by the caller for the call; callers use the writer under it.
        unsafe { self.writer.get(keys, Writer::sequence, make) }
    }

    fn reader(&self, receiving: &mut Guard<'_, Receiving>) -> Result<&mut Reader, Errno> {
        // SAFETY: as in `writer`.
        unsafe {
            self.reader
                .get(&receiving.keys, Reader::record_index, Reader::new)
        }
    }
}

/// Locks a direction. One that a process has died in the middle of is not trusted: a record number could be used twice.
fn lock<T>(
    guarded: &Guarded<T>,
    keys: impl Fn(&mut T) -> &mut Keys,
) -> Result<Guard<'_, T>, Errno> {
    let mut guard = guarded.lock();
    if guard.taken == Taken::FromTheDead {
        keys(&mut guard).fail(Errno::PIPE);
    }
    Ok(guard)
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
