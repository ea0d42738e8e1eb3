//! A file mapped shared: words of it as atomics, the rest as a region for the NIC.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};
use nic::ring::Region;
use rustix::io::Errno;

/// A mapped file, which is reached as atomics and through a region's copies.
#[derive(Debug)]
pub(super) struct Mapping(MmapRaw);

impl Mapping {
    /// Maps the first `len` bytes, which the file has and keeps.
    pub(super) fn new(file: &OwnedFd, len: usize) -> Result<Mapping, Errno> {
        let mapped = MmapOptions::new().len(len).map_raw(file);
        let error = |error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
        mapped.map(Mapping).map_err(error)
    }

    /// `count` words from byte `at` on.
    ///
    /// # Panics
    /// When they are not inside, or `at` is no multiple of 8.
    pub(super) fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        assert!(at.is_multiple_of(8) && at + count * 8 <= self.0.len());
        // SAFETY: inside of the mapping, aligned, and for as long as it is there; everyone reaches these bytes as atomics.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at).cast(), count) }
    }

    /// `len` bytes from `at` on, which are not reached as [`words`](Self::words).
    ///
    /// # Panics
    /// When they are not inside.
    pub(super) fn region(self: &Arc<Self>, at: usize, len: usize) -> Region {
        assert!(at + len <= self.0.len());
        // SAFETY: inside of the mapping, which the region keeps; no reference to its bytes is made but by the device.
        unsafe {
            let start = self.0.as_mut_ptr().add(at);
            Region::from_raw_parts(start, len, Arc::clone(self) as _, true)
        }
    }
}
