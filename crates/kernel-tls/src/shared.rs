//! What all processes that have a socket share of its session.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use l5p::tls::CryptoInfo;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::lock::{ProcessLock, Taken};

/// Bytes of the largest record.
pub(crate) const MAX_RECORD: usize = l5p::tls::MAX_PLAINTEXT + 256;
/// Records that one call makes before it sends them.
pub(crate) const BATCH: usize = 4;

/// Both directions of a session.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shared {
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

/// The sending direction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Sending {
    pub(crate) keys: Keys,
    /// Type of the record that is held open for more.
    pub(crate) open_type: u8,
    /// Bytes of content that it has.
    pub(crate) open: usize,
    /// Records that were made and are not sent yet: bytes of `made`.
    pub(crate) made_from: usize,
    pub(crate) made_to: usize,
    /// The content of the open record.
    pub(crate) content: [u8; l5p::tls::MAX_PLAINTEXT],
    pub(crate) made: [u8; BATCH * MAX_RECORD],
}

impl Sending {
    /// Another record can be made.
    pub(crate) fn has_room_for_record(&self) -> bool {
        self.made.len() - self.made_to >= MAX_RECORD
    }
}

/// The receiving direction.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Receiving {
    pub(crate) keys: Keys,
    /// The peer goes on under keys that we have not been given yet.
    pub(crate) wants_keys: bool,
    /// Bytes of a record that has come in part.
    pub(crate) partial: usize,
    /// Content of a record that was opened and not wholly read: bytes of `record`.
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

impl Receiving {
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
