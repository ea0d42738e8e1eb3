//! A file mapped shared: words of it as atomics, the rest as a region for the NIC.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nic::ring::Region;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// A mapped file.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to no thread. It is reached as atomics, and through a region's copies.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes, which the file has and keeps.
    pub(super) fn new(file: &OwnedFd, len: usize) -> Result<Mapping, Errno> {
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, len })
    }

    /// `count` words from byte `at` on.
    ///
    /// # Panics
    /// When they are not inside, or `at` is no multiple of 8.
    pub(super) fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8) && at + count * 8 <= self.len);
        // SAFETY: inside of the mapping, aligned, and for as long as it is there; everyone reaches these bytes as atomics.
        unsafe { std::slice::from_raw_parts(self.start.add(at).cast().as_ptr(), count) }
    }

    /// `len` bytes from `at` on, which nobody reaches as [`words`](Self::words).
    ///
    /// # Panics
    /// When they are not inside.
    pub(super) fn region(self: &Arc<Self>, at: usize, len: usize) -> Region {
        assert!(at + len <= self.len);
        // SAFETY: inside of the mapping, which the region keeps; no reference to its bytes is made but by the device.
        unsafe {
            let start = self.start.as_ptr().add(at);
            Region::from_raw_parts(start, len, Arc::clone(self) as _, true)
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing borrows from it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
