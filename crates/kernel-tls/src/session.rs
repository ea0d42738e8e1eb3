//! One TLS socket: its options, and what each process has of its own.

mod epoch;
mod offload;
mod pending_error;
mod readable;
mod ready;
mod receive;
mod send;
mod takeover;

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering::*};

use l5p::tls::{CryptoInfo, Reader, Version, Writer};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::abi;
use crate::counters::{Counter, counters};
use crate::lock::Taken;
use crate::shared::{Guard, Guarded, Keys, Mapping, Receiving, Sending};

pub(crate) use epoch::{Agreement, DeviceEpoch, Permit};
pub(crate) use offload::NotResumed;
pub use receive::Received;

/// A TCP socket with the upper-layer protocol `tls`. Each direction is plain TCP until it is given keys.
///
/// Any thread may call it, and any process that a fork has given the socket to.
#[derive(Debug)]
pub struct Session {
    shared: Mapping,
    writer: Own<Writer>,
    reader: Own<Reader>,
    /// It is to be closed, or shut down: nothing is held open.
    closes: AtomicBool,
    /// Its sending direction is shut down once all is sent.
    shuts: AtomicBool,
    /// An [`UnsentIs`].
    unsent_is: AtomicU8,
    /// The process's [generation](crate::process::generation) that has made it: in others another process has the socket, too.
    made_in: (u32, u32),
    /// The process whose thread sends the record that is held open, if nothing is added to it. Changed with the direction locked.
    open_watched_by: AtomicU32,
    /// A file has followed its last short message, and may follow the next one.
    pub(crate) joins_files: AtomicBool,
    /// Calls on the socket wait, as far as it is known (`O_NONBLOCK`): [`UNKNOWN`], [`WAITS`] or [`DOES_NOT_WAIT`].
    waits: AtomicU8,
    zerocopy: AtomicI32,
    no_padding: AtomicI32,
    /// Bytes that a call waits for (`SO_RCVLOWAT`); 0 if the program has not said.
    low_water: AtomicI32,
    /// No NIC is asked to do its records.
    is_software: AtomicBool,
    /// The kernel's name of the socket.
    cookie: u64,
    /// The descriptor that it was last called by, or −1.
    fd: AtomicI32,
    /// The program's descriptors of it in this process.
    descriptors: AtomicU32,
    /// The process that its slot was claimed by.
    claimed_by: AtomicU32,
    /// The process that tells the NIC of it after a restart: this one once it has called on the socket. 0 after a restart that was missed for want of a
    /// descriptor.
    follower: AtomicU32,
}

/// What becomes of what was accepted and is unsent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum UnsentIs {
    /// It is sent when there is room.
    Kept,
    /// The program has closed the socket: it is sent if the peer makes room in time.
    Limited,
    /// Nothing of it is sent any more.
    Dropped,
}

const UNKNOWN: u8 = 0;
const WAITS: u8 = 1;
const DOES_NOT_WAIT: u8 = 2;

impl Drop for Session {
    fn drop(&mut self) {
        self.leave_nic();
    }
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
            let (epoch, first_nonce) = (keys.epoch, keys.first_nonce);
            *current = Some(Current {
                process,
                epoch,
                cipher: C::new(info, first_nonce, &self.guard.older_keys()),
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

    /// Keys before the present ones that are still needed, oldest first.
    fn older_keys(&self) -> Vec<CryptoInfo>;
}

impl Direction for Sending {
    fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }

    fn older_keys(&self) -> Vec<CryptoInfo> {
        Vec::new()
    }
}

impl Direction for Receiving {
    fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }

    fn older_keys(&self) -> Vec<CryptoInfo> {
        Receiving::older_keys(self).collect()
    }
}

/// What makes or opens a direction's records.
trait Cipher {
    /// `first_nonce` is that of record 0 where nonces are explicit.
    fn new(info: CryptoInfo, first_nonce: u64, older: &[CryptoInfo]) -> Self;

    /// Number of the next record.
    fn sequence(&self) -> u64;
}

impl Cipher for Writer {
    fn new(info: CryptoInfo, first_nonce: u64, _: &[CryptoInfo]) -> Self {
        let mut writer = Writer::new(info);
        writer.count_nonces_from(first_nonce);
        writer
    }

    fn sequence(&self) -> u64 {
        Writer::sequence(self)
    }
}

impl Cipher for Reader {
    fn new(info: CryptoInfo, _: u64, older: &[CryptoInfo]) -> Self {
        let mut epochs = older.iter().cloned().chain([info]);
        let mut reader = Reader::new(epochs.next().expect("there are present keys"));
        for info in epochs {
            reader.rekey(info);
        }
        reader.open_any_type();
        reader
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
    /// `ENOTCONN` for a socket that is not established; what the kernel answers for one that is not TCP's; `ENOMEM`.
    pub fn new(fd: BorrowedFd<'_>) -> Result<Session, Errno> {
        if !crate::socket::is_established(fd)? {
            return Err(Errno::NOTCONN);
        }
        // Before there is a session, so that its users have the slab.
        crate::offload::slab();
        Ok(Session {
            cookie: crate::socket::cookie(fd).ok_or(Errno::NOTSUP)?,
            fd: AtomicI32::new(fd.as_raw_fd()),
            descriptors: AtomicU32::new(0),
            claimed_by: AtomicU32::new(0),
            follower: AtomicU32::new(0),
            shared: Mapping::new()?,
            writer: Own::empty(),
            reader: Own::empty(),
            closes: AtomicBool::new(false),
            shuts: AtomicBool::new(false),
            unsent_is: AtomicU8::new(UnsentIs::Kept as u8),
            made_in: crate::process::generation(),
            open_watched_by: AtomicU32::new(0),
            joins_files: AtomicBool::new(false),
            waits: AtomicU8::new(UNKNOWN),
            zerocopy: AtomicI32::new(0),
            no_padding: AtomicI32::new(0),
            low_water: AtomicI32::new(0),
            is_software: AtomicBool::new(false),
        })
    }

    /// Has records made and opened here from the next direction on that is given keys: no NIC is asked, and nothing said of that.
    pub fn ask_no_nic(&self) {
        self.is_software.store(true, Relaxed);
    }

    /// Has calls that receive wait for so many bytes of content (`SO_RCVLOWAT`), beginning with the next one.
    pub fn set_low_water(&self, bytes: i32) {
        self.low_water.store(bytes.max(1), Relaxed);
    }

    /// Bytes of content that calls wait for.
    pub fn low_water(&self) -> i32 {
        self.low_water.load(Relaxed).max(1)
    }

    fn asks_no_nic(&self) -> bool {
        self.is_software.load(Relaxed)
    }

    /// The program has got another descriptor of the socket.
    pub fn opened(&self) {
        self.descriptors.fetch_add(1, Relaxed);
    }

    /// One of the program's descriptors is closed; true if it was the last one in this process.
    pub fn closed(&self) -> bool {
        self.descriptors.fetch_sub(1, AcqRel) == 1
    }

    /// To be called behind whatever has set or cleared `O_NONBLOCK`, once there is a session: it is not asked for with each file.
    pub fn flags_changed(&self) {
        self.waits.store(UNKNOWN, Relaxed);
    }

    /// Whether calls on the socket wait.
    fn waits(&self, fd: BorrowedFd<'_>) -> bool {
        let known = self.waits.load(Relaxed);
        if known != UNKNOWN {
            return known == WAITS;
        }
        let flags = rustix::fs::fcntl_getfl(fd);
        let waits = !flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        let now = if waits { WAITS } else { DOES_NOT_WAIT };
        self.waits.store(now, Relaxed);
        waits
    }

    /// Whether a descriptor is one of this socket.
    pub fn is_of(&self, fd: BorrowedFd<'_>) -> bool {
        crate::socket::cookie(fd) == Some(self.cookie)
    }

    /// The direction of sending has keys.
    #[inline]
    pub fn sends(&self) -> bool {
        self.shared.sends.load(Relaxed)
    }

    /// The direction of receiving has keys.
    #[inline]
    pub fn receives(&self) -> bool {
        self.shared.receives.load(Relaxed)
    }

    /// `setsockopt` at level [`SOL_TLS`](crate::SOL_TLS).
    ///
    /// # Errors
    /// `EINVAL` for a malformed structure or for keys of another cipher or version than before, or than the other direction's; `EBUSY` for a second set of keys before TLS 1.3, and for
    /// another limit of records while one is held open; `ENOENT` for a cipher that there is not;
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
            abi::TLS_TX_MAX_PAYLOAD_LEN => self.set_max_content(fd, value),
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
    /// `EBUSY` for keys that were not set; `EINVAL` when there is no room, or for an option of receiving in TLS 1.3 where that is not done; `ENOPROTOOPT`.
    pub fn option(&self, option: i32, value: &mut [u8]) -> Result<usize, Errno> {
        let keys = match option {
            abi::TLS_TX => self.sending().keys.told(),
            abi::TLS_RX => self.receiving().keys.told(),
            abi::TLS_TX_ZEROCOPY_RO => return tell_flag(&self.zerocopy, value),
            abi::TLS_TX_MAX_PAYLOAD_LEN => {
                let most = (self.sending().max_content() as u16).to_ne_bytes();
                let room = value.get_mut(..most.len()).ok_or(Errno::INVAL)?;
                room.copy_from_slice(&most);
                return Ok(most.len());
            }
            abi::TLS_RX_EXPECT_NO_PAD => {
                let keys = self.receiving().keys.info();
                return match keys.map(|info| info.version) {
                    Some(Version::Tls13) => tell_flag(&self.no_padding, value),
                    _ => Err(Errno::INVAL),
                };
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

    /// `TLS_TX_MAX_PAYLOAD_LEN`: as the peer's `record_size_limit` (RFC 8449), of which a byte is for the type in TLS 1.3.
    fn set_max_content(self: &Arc<Self>, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        const LEAST_LIMIT: u16 = 64;
        let most = u16::from_ne_bytes(value.try_into().map_err(|_| Errno::INVAL)?);
        let mut sending = self.sending();
        let least = LEAST_LIMIT - u16::from(sending.keys.is_tls13);
        if most < least || usize::from(most) > l5p::tls::MAX_PLAINTEXT {
            return Err(Errno::INVAL);
        }
        if sending.is_held {
            self.seal_rest(fd, &mut sending)?;
        }
        if sending.open > 0 {
            return Err(Errno::BUSY);
        }
        sending.limit = most;
        drop(sending);
        self.send_later(fd);
        Ok(())
    }

    fn set_transmit(self: &Arc<Self>, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        let info = abi::parse(value)?;
        let other = self.receiving().keys.info();
        let mut sending = self.sending();
        let first = !sending.keys.are_set;
        if !first {
            // What is held open goes under the old keys.
            self.seal_rest(fd, &mut sending)?;
            if sending.device.owes_keys {
                self.settle(fd, &mut sending)?;
            }
        }
        let taken = fits(&sending.keys, other, &info);
        if taken.is_ok() {
            self.take_sending_keys(&mut sending, &info);
        }
        let (ok, failed) = (Counter::TlsTxRekeyOk, Counter::TlsTxRekeyError);
        count_keys(&taken, first, ok, failed);
        if first && taken.is_ok() {
            self.offload_sending(fd, &mut sending);
        }
        drop(sending);
        self.send_later(fd);
        taken?;
        self.shared.sends.store(true, Relaxed);
        Ok(())
    }

    fn take_sending_keys(&self, sending: &mut Sending, info: &CryptoInfo) {
        if sending.device.agreement.is_with_device() {
            sending.device.replace(&sending.keys);
            // Once all that was made under the old ones is in the socket.
            sending.device.owes_keys = true;
        }
        sending.keys.set(info);
    }

    fn set_receive(self: &Arc<Self>, fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
        let info = abi::parse(value)?;
        let other = self.sending().keys.info();
        let mut receiving = self.receiving();
        let first = !receiving.keys.are_set;
        let taken = fits(&receiving.keys, other, &info);
        let (ok, failed) = (Counter::TlsRxRekeyOk, Counter::TlsRxRekeyError);
        count_keys(&taken, first, ok, failed);
        taken?;
        receiving.set_keys(&info);
        // Whatever the NIC says: what is in the socket from here on is no content of the caller's.
        self.shared.receives.store(true, Relaxed);
        self.is_called_by(fd);
        let offloaded = self.offload_receiving(fd, &mut receiving, first);
        let mut tells_late = std::mem::take(&mut receiving.wants_keys);
        if first && let Ok(bytes @ 2..) = crate::socket::low_water(fd) {
            // What the program has said of bytes is meant of content from here on.
            self.set_low_water(bytes);
            tells_late = true;
        }
        if tells_late {
            crate::socket::set_low_water(fd, 1);
        }
        offloaded
    }

    fn sending(&self) -> LockedSending<'_> {
        locked(self.shared.sending.lock(), &self.writer)
    }

    /// The same, unless a call holds it: that may wait for the NIC.
    fn try_sending(&self) -> Option<LockedSending<'_>> {
        try_lock(&self.shared.sending, &self.writer)
    }

    fn receiving(&self) -> LockedReceiving<'_> {
        locked(self.shared.receiving.lock(), &self.reader)
    }

    fn try_receiving(&self) -> Option<LockedReceiving<'_>> {
        try_lock(&self.shared.receiving, &self.reader)
    }
}

fn tell_flag(flag: &AtomicI32, value: &mut [u8]) -> Result<usize, Errno> {
    let bytes = flag.load(Relaxed).to_ne_bytes();
    let room = value.get_mut(..bytes.len()).ok_or(Errno::INVAL)?;
    room.copy_from_slice(&bytes);
    Ok(bytes.len())
}

/// Locks a direction if no call has it. That of a process that has died is waited for, 200 ms.
fn try_lock<'a, S: Direction, C>(
    guarded: &'a Guarded<S>,
    own: &'a Own<C>,
) -> Option<Locked<'a, S, C>> {
    let abandoned = || guarded.is_abandoned().then(|| guarded.lock());
    let guard = guarded.try_lock().or_else(abandoned)?;
    Some(locked(guard, own))
}

/// A direction that has just been locked. One that a process has died in the middle of has ended: a record number could be used twice.
fn locked<'a, S: Direction, C>(mut guard: Guard<'a, S>, own: &'a Own<C>) -> Locked<'a, S, C> {
    if guard.taken == Taken::FromTheDead {
        guard.keys().fail(Errno::PIPE);
    }
    Locked { guard, own }
}

/// Whether a direction can take keys in the place of those that it has, beside those of the `other` direction: both have one version and one cipher.
fn fits(keys: &Keys, other: Option<CryptoInfo>, info: &CryptoInfo) -> Result<(), Errno> {
    let own = keys.info();
    if own
        .as_ref()
        .is_some_and(|own| own.version != Version::Tls13)
    {
        return Err(Errno::BUSY);
    }
    let is_another =
        |set: CryptoInfo| (set.version, set.algorithm) != (info.version, info.algorithm);
    match own.into_iter().chain(other).any(is_another) {
        true => Err(Errno::INVAL),
        false => Ok(()),
    }
}

fn count_keys(taken: &Result<(), Errno>, first: bool, ok: Counter, failed: Counter) {
    match (taken, first) {
        (Ok(()), false) => counters().add(ok, 1),
        (Err(_), false) => counters().add(failed, 1),
        (_, true) => {}
    }
}

#[cfg(test)]
mod tests;
