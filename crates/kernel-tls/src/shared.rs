//! What all processes that have a socket share of its session.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};

use attachment::results::RxContextTag;
use l5p::tls::{Algorithm, CryptoInfo, Version};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::lock::{ProcessLock, Taken};
use crate::open_records::OpenRecord;
use crate::session::Agreement;

/// Bytes of the largest record.
pub(crate) const MAX_RECORD: usize = l5p::tls::MAX_PLAINTEXT + 256;
/// Records that one call makes before it sends them.
pub(crate) const BATCH: usize = 4;

/// Both directions of a session.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shared {
    /// The slot that stands for the socket where a NIC does records: its generation and index, as [`SlotName`](crate::offload::SlotName) has
    /// them; 0 for none.
    pub(crate) slot: AtomicU64,
    /// A NIC has taken keys of the socket: the slot is the NIC's to free.
    pub(crate) told: AtomicBool,
    /// Directions that have keys. Here, for they may be given them after a fork.
    pub(crate) sends: AtomicBool,
    pub(crate) receives: AtomicBool,
    /// The `errno` that the socket has told and no caller: see `pending_error`.
    pub(crate) pending_error: AtomicI32,
    pub(crate) sending: Guarded<Sending>,
    pub(crate) receiving: Guarded<Receiving>,
}

/// Keys of a direction, and the number of its next record.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Keys {
    /// The direction has keys.
    pub(crate) are_set: bool,
    /// Counts the keys of this direction, so that another process sees that they are others now.
    pub(crate) epoch: u32,
    info: [u8; CryptoInfo::ENCODED_LEN],
    /// They are TLS 1.3's.
    pub(crate) is_tls13: bool,
    /// Their records have explicit nonces (RFC 5288 §3).
    pub(crate) has_nonces: bool,
    /// The explicit nonce of record 0 in TLS 1.2, as Linux counts them.
    pub(crate) first_nonce: u64,
    /// Number of the next record.
    pub(crate) sequence: u64,
    /// The `errno` that ends this direction.
    pub(crate) failed: i32,
}

impl Keys {
    pub(crate) fn set(&mut self, info: &CryptoInfo) {
        self.are_set = true;
        self.epoch += 1;
        self.info = info.to_bytes();
        self.is_tls13 = info.version == Version::Tls13;
        self.has_nonces = !self.is_tls13 && info.algorithm != Algorithm::ChaCha20Poly1305;
        self.sequence = info.sequence;
        let explicit = info.iv[4..].try_into().expect("8 bytes");
        self.first_nonce = u64::from_be_bytes(explicit).wrapping_sub(info.sequence);
    }

    /// The keys with the number of the next record.
    pub(crate) fn info(&self) -> Option<CryptoInfo> {
        let mut info = CryptoInfo::from_bytes(&self.info).ok()?;
        info.sequence = self.sequence;
        self.are_set.then_some(info)
    }

    /// The same as a program is told them: with the explicit nonce of the next record, which Linux counts along.
    pub(crate) fn told(&self) -> Option<CryptoInfo> {
        let mut info = self.info()?;
        if self.has_nonces {
            let nonce = self.first_nonce.wrapping_add(self.sequence);
            info.iv[4..].copy_from_slice(&nonce.to_be_bytes());
        }
        Some(info)
    }

    /// Uses up the number of the next record.
    ///
    /// # Errors
    /// `EBADMSG` for good, as Linux, when no number is left. The last number is never used, so no number is used twice.
    pub(crate) fn take_number(&mut self) -> Result<(), Errno> {
        self.has_number()?;
        self.sequence = self.sequence.saturating_add(1);
        Ok(())
    }

    /// Whether another record has a number.
    ///
    /// # Errors
    /// As for [`take_number`](Self::take_number).
    pub(crate) fn has_number(&mut self) -> Result<(), Errno> {
        match self.numbers_left() {
            0 => Err(self.fail(Errno::BADMSG)),
            _ => Ok(()),
        }
    }

    /// Records that can be made yet.
    pub(crate) fn numbers_left(&self) -> u64 {
        u64::MAX - self.sequence
    }

    /// Fails if the direction has ended.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        match self.failed {
            0 => Ok(()),
            code => Err(Errno::from_raw_os_error(code)),
        }
    }

    /// Ends the direction.
    pub(crate) fn fail(&mut self, error: Errno) -> Errno {
        self.failed = error.raw_os_error();
        error
    }
}

/// Where a record begins, and its number.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Boundary {
    pub(crate) tcpsn: u32,
    pub(crate) index: u64,
}

/// What there is to know of a sending direction whose records the NIC makes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Device {
    /// Whether it makes them: what goes into the socket is framed content then.
    pub(crate) agreement: Agreement,
    /// It has not been told the keys of the next record.
    pub(crate) owes_keys: bool,
    /// It has taken keys: [`end`](Self::end) is known.
    pub(crate) has_begun: bool,
    /// Which NIC was told the keys; 0 for none. Another one in its place is told them by whatever process comes first.
    pub(crate) nic: u32,
    /// Behind the last byte of `made`: where the next record begins.
    pub(crate) end: u32,
    /// The record that the first byte of `made` is of.
    pub(crate) begun: Boundary,
    /// The keys before, under which bytes may be unacknowledged, the latest first: as many as the NIC takes.
    replaced: [Replaced; MOST_REPLACED],
    /// Where the present ones begin.
    pub(crate) newer_start: Boundary,
}

/// Sets of keys of a connection under which bytes may be unacknowledged at a time, as far as the NIC goes along.
const MOST_REPLACED: usize = 4;

/// Keys that were replaced.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Replaced {
    is_set: bool,
    info: [u8; CryptoInfo::ENCODED_LEN],
    end: Boundary,
}

impl Device {
    /// The NIC makes the records from this position on, the first of them with this number.
    pub(crate) fn begins(&mut self, tcpsn: u32, index: u64) {
        self.has_begun = true;
        self.end = tcpsn;
        self.newer_start = Boundary { tcpsn, index };
    }

    /// Whether a position that the NIC names is that behind the last record. If it is not, something else was written to the socket, or the NIC was told of it
    /// at another time.
    pub(crate) fn ends_at(&self, tcpsn: u32) -> bool {
        !self.has_begun || self.end == tcpsn
    }

    /// Remembers the keys that are replaced, or that the NIC has used to the end, if anything was made under them.
    pub(crate) fn replace(&mut self, keys: &Keys) {
        if self.end == self.newer_start.tcpsn {
            return;
        }
        self.replaced.rotate_right(1);
        self.replaced[0] = Replaced {
            is_set: true,
            info: keys.info,
            end: Boundary {
                tcpsn: self.end,
                index: keys.sequence,
            },
        };
    }

    /// The keys before under which bytes are unacknowledged, and where each end, oldest first. Others are forgotten.
    pub(crate) fn older(&mut self, acknowledged: u32) -> Vec<(CryptoInfo, Boundary)> {
        // Those before keys that it owes are the last that the NIC has, whatever was acknowledged under them.
        let forgettable = usize::from(self.owes_keys);
        for replaced in &mut self.replaced[forgettable..] {
            replaced.is_set &= (replaced.end.tcpsn.wrapping_sub(acknowledged) as i32) > 0;
        }
        self.all_older()
    }

    /// The keys before, and where each end, oldest first, as far as they are not forgotten.
    pub(crate) fn all_older(&self) -> Vec<(CryptoInfo, Boundary)> {
        let set = self.replaced.iter().rev().filter(|older| older.is_set);
        set.filter_map(|older| Some((CryptoInfo::from_bytes(&older.info).ok()?, older.end)))
            .collect()
    }

    /// Nothing that was made under them is sent again.
    pub(crate) fn forget_all_older(&mut self) {
        self.replaced
            .iter_mut()
            .for_each(|older| older.is_set = false);
    }

    /// The NIC has had no keys yet, as far as is known.
    pub(crate) fn owes_first_keys(&self) -> bool {
        self.owes_keys && self.last_older().is_none()
    }

    /// The keys before the present ones, and where they ended.
    pub(crate) fn last_older(&self) -> Option<(CryptoInfo, Boundary)> {
        let last = Some(&self.replaced[0]).filter(|last| last.is_set)?;
        Some((CryptoInfo::from_bytes(&last.info).ok()?, last.end))
    }

    /// Forgets keys under which nothing can be unacknowledged any more: no window is larger than 2^30 (RFC 7323 §2.3), and positions are compared
    /// within 2^31.
    pub(crate) fn forget_older(&mut self) {
        if self.owes_keys {
            return;
        }
        for replaced in &mut self.replaced {
            replaced.is_set &= self.end.wrapping_sub(replaced.end.tcpsn) <= 1 << 30;
        }
    }
}

/// The sending direction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sending {
    pub(crate) keys: Keys,
    pub(crate) device: Device,
    /// Most bytes of content in a record, as the program has said; 0 if it has not.
    pub(crate) limit: u16,
    /// Type of the record that is held open for more.
    pub(crate) open_type: u8,
    /// Bytes of content that it has.
    pub(crate) open: usize,
    /// The program did not ask for it to be held open.
    pub(crate) is_held: bool,
    /// Records that were made and are not sent yet: bytes of `made`.
    pub(crate) made_from: usize,
    pub(crate) made_to: usize,
    /// The content of the open record.
    pub(crate) content: [u8; l5p::tls::MAX_PLAINTEXT],
    pub(crate) made: [u8; BATCH * MAX_RECORD],
}

impl Sending {
    /// Nothing waits for room in the socket.
    pub(crate) fn is_pushed(&self) -> bool {
        self.made_from == self.made_to
    }

    /// The record that is held open because more was announced.
    pub(crate) fn open_record(&self) -> Option<OpenRecord> {
        let is_open = self.open > 0 && !self.is_held;
        is_open.then_some(OpenRecord {
            number: self.keys.sequence,
            len: self.open,
        })
    }

    /// The content that was held open is made a record: its bytes.
    pub(crate) fn take_open(&mut self) -> usize {
        self.is_held = false;
        std::mem::take(&mut self.open)
    }

    /// The newest record's beginning that is not behind what the socket has.
    pub(crate) fn boundary(&self) -> Boundary {
        match self.is_pushed() {
            true => Boundary {
                tcpsn: self.device.end,
                index: self.keys.sequence,
            },
            false => self.device.begun,
        }
    }

    /// Most bytes of content in a record.
    pub(crate) fn max_content(&self) -> usize {
        match self.limit {
            0 => l5p::tls::MAX_PLAINTEXT,
            limit => limit.into(),
        }
    }

    /// Another record can be made.
    pub(crate) fn has_room_for_record(&self) -> bool {
        self.made.len() - self.made_to >= MAX_RECORD
    }
}

/// Sets of keys before the present ones under which a NIC may have decrypted what is read next.
pub(crate) const OLDER_KEYS: usize = RxContextTag::EPOCHS as usize - 1;

/// What there is to know of a receiving direction whose records a NIC opens, or did.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ReceiveDevice {
    /// It was given keys: what it tells of received bytes counts.
    pub(crate) is_on: bool,
    /// Which NIC that was. Another one in its place is told them by whatever process comes first.
    pub(crate) nic: u32,
    /// The [slot](Shared::slot) in which it tells.
    pub(crate) slot: u64,
    /// The position of the next byte in the socket.
    pub(crate) position: u32,
    /// The last record was all decrypted by it: the next one is likely to be.
    pub(crate) flows: bool,
    /// Where its last run was.
    pub(crate) hint: usize,
    /// How many runs that may be in either form were all cleared.
    pub(crate) eithers: u64,
    /// Its question that a reader has taken last, and whether that is still open.
    pub(crate) question: u32,
    pub(crate) asks: bool,
    /// Number of the first record under the present keys.
    began: u64,
    older: [OlderKeys; OLDER_KEYS],
}

/// Keys that were replaced.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct OlderKeys {
    is_set: bool,
    info: [u8; CryptoInfo::ENCODED_LEN],
    /// The number that a context that goes on under them gives to the first record under the present keys.
    next: u64,
}

impl Receiving {
    /// New keys, in the place of those that there are.
    pub(crate) fn set_keys(&mut self, info: &CryptoInfo) {
        let device = &mut self.device;
        if device.is_on && self.keys.are_set {
            let passed = self.keys.sequence - device.began;
            for older in &mut device.older {
                older.next += passed;
            }
            device.older.rotate_right(1);
            device.older[0] = OlderKeys {
                is_set: true,
                info: self.keys.info,
                next: self.keys.sequence,
            };
        }
        device.began = info.sequence;
        device.flows = false;
        device.asks = false;
        self.keys.set(info);
    }
}

/// The receiving direction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Receiving {
    pub(crate) keys: Keys,
    pub(crate) device: ReceiveDevice,
    /// The peer goes on under keys that we have not been given yet.
    pub(crate) wants_keys: bool,
    /// Bytes of a record that has come in part.
    pub(crate) partial: usize,
    /// What comes is no record.
    pub(crate) stopped: Stopped,
    /// A record was opened and has not been wholly read.
    pub(crate) has_unread: bool,
    /// Its content: bytes of `record`.
    pub(crate) unread_from: usize,
    pub(crate) unread_to: usize,
    /// Type of that record.
    pub(crate) unread_type: u8,
    /// Nothing of it was read.
    pub(crate) unread_whole: bool,
    /// Its last byte is still in the socket.
    pub(crate) left_last: bool,
    pub(crate) record: [u8; MAX_RECORD],
}

/// Whether a header was none, so that nothing behind it is one for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Stopped(i32);

impl Stopped {
    /// It was not.
    pub(crate) const NOT: Stopped = Stopped(0);
    const TOLD: Stopped = Stopped(-1);

    /// This is to be told.
    pub(crate) fn by(error: Errno) -> Stopped {
        Stopped(error.raw_os_error())
    }

    /// Something is to be told.
    pub(crate) fn is_to_be_told(self) -> bool {
        self.0 > 0
    }

    /// Tells what is to be told, once.
    pub(crate) fn tell(&mut self) -> Result<(), Errno> {
        match std::mem::replace(self, Stopped::TOLD) {
            Stopped(code @ 1..) => Err(Errno::from_raw_os_error(code)),
            _ => Ok(()),
        }
    }
}

impl Receiving {
    /// The keys before the present ones, oldest first, each with the number that goes on under them with the next record.
    pub(crate) fn older_keys(&self) -> impl Iterator<Item = CryptoInfo> {
        let passed = self.keys.sequence - self.device.began;
        let older = self.device.older.iter().rev().filter(|older| older.is_set);
        older.filter_map(move |older| {
            let mut info = CryptoInfo::from_bytes(&older.info).ok()?;
            info.sequence = older.next + passed;
            Some(info)
        })
    }

    /// Nothing behind is a record.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped != Stopped::NOT
    }

    /// Bytes of content not read yet.
    pub(crate) fn unread(&self) -> usize {
        self.unread_to - self.unread_from
    }
}

/// A direction behind its lock.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Guarded<T> {
    lock: ProcessLock,
    state: UnsafeCell<T>,
}

// SAFETY: `state` is reached through a `Guard` only, of which there is one at a time.
unsafe impl<T: Send> Sync for Guarded<T> {}

/// A direction, locked.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    guarded: &'a Guarded<T>,
    /// The process that had it before has died with it.
    pub(crate) taken: Taken,
}

impl<T> Guarded<T> {
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard {
            taken: self.lock.lock(),
            guarded: self,
        }
    }

    /// `None` if another has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.lock.try_lock().then(|| Guard {
            taken: Taken::Orderly,
            guarded: self,
        })
    }

    /// Whether the process that has it has died.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock.is_abandoned()
    }
}

impl<T> Guard<'_, T> {
    /// What this process does from here on leaves the direction in order, also if it dies in the middle.
    pub(crate) fn keep_order(&self) {
        self.guarded.lock.keep_order();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is ours.
        unsafe { &*self.guarded.state.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is ours, and the guard borrowed mutably.
        unsafe { &mut *self.guarded.state.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.guarded.lock.unlock();
    }
}

/// A mapping with a [`Shared`] in it, which children of this process keep.
#[derive(Debug)]
pub(crate) struct Mapping(NonNull<Shared>);

// SAFETY: the memory belongs to no thread, and what is in it is behind locks.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A session without keys. Memory is taken as far as it is used.
    pub(crate) fn new() -> Result<Mapping, Errno> {
        let len = size_of::<Shared>();
        // SAFETY: a new mapping at a place of the kernel's choice.
        let at = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }?;
        // All zeros are a `Shared` without keys: every field is a number, a flag or an array of bytes.
        NonNull::new(at.cast()).map(Mapping).ok_or(Errno::NOMEM)
    }
}

impl Deref for Mapping {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        // SAFETY: mapped until dropped, and zeroed memory is a `Shared`.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing borrows from it any more, and it was mapped with this length.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<Shared>()) };
    }
}
