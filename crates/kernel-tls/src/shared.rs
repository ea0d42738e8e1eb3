//! What all processes that have a socket share of its session.

mod guarded;
mod keys;
mod receiving;
mod sending;

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

pub(crate) use guarded::{Guard, Guarded};
pub(crate) use keys::Keys;
pub(crate) use receiving::{ReceiveDevice, Receiving, Stopped};
pub(crate) use sending::{Boundary, Sending};

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
