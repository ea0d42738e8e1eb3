//! Memory for data: a sealed file that the library makes, and that the NIC writes received data into.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::mapping::Mapping;
use crate::slab::{BadSlab, make_sealed, sealed_size};

/// Unit in which mappings name places of it.
pub const PAGE: usize = 4096;
/// Bytes of the largest one.
const MOST: u64 = 64 << 30;

/// Mapped memory for data. Both sides have it mapped, and either may write to it at any time.
pub struct DataMemory(Mapping);

impl fmt::Debug for DataMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataMemory")
            .field("len", &self.len())
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
        Ok(DataMemory(Mapping::new(file, len)?))
    }

    pub(crate) fn mapping_mut(&mut self) -> &mut Mapping {
        &mut self.0
    }

    /// Its first byte, in this process.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.start().as_ptr()
    }

    /// Bytes of it: whole pages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: it has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl AsFd for DataMemory {
    /// The file, for passing it on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
