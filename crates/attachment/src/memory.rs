//! Memory for data: a sealed file that the library makes, and that the NIC writes received data into.
#![allow(unsafe_code)]

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::slab::{BadSlab, make_sealed, sealed_size};

/// Unit in which mappings name places of it.
pub const PAGE: usize = 4096;
/// Bytes of the largest one.
const MOST: u64 = 64 << 30;

/// Mapped memory for data. Both sides have it mapped, and either may write to it at any time.
pub struct DataMemory {
    start: NonNull<u8>,
    len: usize,
    file: OwnedFd,
}

// SAFETY: plain memory that belongs to no thread; it is reached by raw pointers only, on whose users' terms.
unsafe impl Send for DataMemory {}
// SAFETY: as above.
unsafe impl Sync for DataMemory {}

impl fmt::Debug for DataMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataMemory")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl DataMemory {
    /// Zeroed memory of so many bytes, rounded up to whole pages, which are taken as they are used.
    ///
    /// # Errors
    /// `EINVAL` for none, or for more than 64 GiB; what the system gives.
    pub fn create(bytes: u64) -> Result<DataMemory, Errno> {
        if bytes == 0 || bytes > MOST {
            return Err(Errno::INVAL);
        }
        let bytes = bytes.next_multiple_of(PAGE as u64);
        DataMemory::map(make_sealed("longshore-data", bytes)?, bytes)
    }

    /// Memory that somebody else has made.
    ///
    /// # Errors
    /// See [`BadSlab`].
    pub fn open(file: OwnedFd) -> Result<DataMemory, BadSlab> {
        let size = sealed_size(file.as_fd())?;
        if size == 0 || size > MOST || !size.is_multiple_of(PAGE as u64) {
            return Err(BadSlab::MemorySize(size));
        }
        Ok(DataMemory::map(file, size)?)
    }

    fn map(file: OwnedFd, bytes: u64) -> Result<DataMemory, Errno> {
        let len = usize::try_from(bytes).map_err(|_| Errno::NOMEM)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place of the kernel's choice, of a file that keeps its size.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
                &file,
                0,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(DataMemory { start, len, file })
    }

    /// Its first byte, in this process.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes of it: whole pages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: it has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl AsFd for DataMemory {
    /// The file, for passing it on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for DataMemory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length; whoever reaches the memory by its pointer keeps this alive.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
