//! A file in the page cache as a registered region.

use std::any::Any;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use nic::ring::{Region, RegionId, Slice};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::fault::{Guard, GuardError};

/// A file could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// An empty file has no pages to map.
    #[error("{path} is empty; there is nothing to map")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path} could not be mapped: {source}")]
    Map {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No guard was left against the file's truncation.
    #[error("{path} could not be guarded against truncation: {source}")]
    Guard {
        /// The file.
        path: PathBuf,
        /// Why.
        source: GuardError,
    },
}

/// A file, mapped read-only for as long as its region is in use.
///
/// Reading beyond the end of a file that shrank gives zeroes and sets [`MappedFile::faulted`].
#[derive(Debug)]
pub struct MappedFile {
    region: Arc<Region>,
    len: u64,
    path: PathBuf,
}

impl MappedFile {
    /// Maps the first `len` bytes of `file`. The path is for messages only.
    ///
    /// # Errors
    /// When `len` is zero, the system refuses, or [`super::MAX_GUARDED`] files are mapped.
    pub fn map(file: &File, len: u64, path: &Path) -> Result<MappedFile, MapError> {
        let path = path.to_path_buf();
        if len == 0 {
            return Err(MapError::Empty { path });
        }
        let pages = match Pages::map(file, len) {
            Ok(pages) => Arc::new(pages),
            Err(source) => return Err(MapError::Map { path, source }),
        };
        let owner: Arc<dyn Any + Send + Sync> = pages.clone();
        // SAFETY: the pages stay mapped until the owner is dropped, which the region holds; they
        // are mapped for reading, and the region says so. What other processes write to the
        // file changes the bytes, which the NIC's check of retransmissions is there for.
        let region = Arc::new(unsafe {
            Region::from_raw_parts(pages.address.as_ptr(), pages.len, owner, false)
        });
        // SAFETY: the range is this mapping's own. The guard lives in the pages, which the region
        // drops as one of its fields: the flag, another field, is still in memory then.
        let guard =
            unsafe { Guard::new(pages.address.as_ptr() as usize, pages.len, &region.faulted) };
        match guard {
            Ok(guard) => {
                let _ = pages.guard.set(guard);
                Ok(MappedFile { region, len, path })
            }
            Err(source) => Err(MapError::Guard { path, source }),
        }
    }

    /// The region, to be registered with a stack.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Bytes of the file that are mapped.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never: an empty file is not mapped.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a page was lost, because the file shrank, while something read it.
    pub fn faulted(&self) -> bool {
        self.region.is_faulted()
    }

    /// `[offset, offset + len)` of the file, registered as `id`, as a descriptor names it.
    ///
    /// # Panics
    /// When the range is beyond the mapped bytes.
    pub fn slice(&self, id: RegionId, offset: u64, len: u32) -> Slice {
        assert!(
            offset
                .checked_add(u64::from(len))
                .is_some_and(|end| end <= self.len),
            "{offset}+{len} is beyond the {} bytes of {}",
            self.len,
            self.path.display()
        );
        Slice {
            region: id,
            offset,
            len,
        }
    }
}

/// The mapping itself.
#[derive(Debug)]
struct Pages {
    address: NonNull<u8>,
    len: usize,
    /// Kept here and not in [`MappedFile`]: the NIC may read the region for longer than that lives.
    guard: OnceLock<Guard>,
}

// SAFETY: an address range; reading it is safe from any thread, and it is unmapped once.
unsafe impl Send for Pages {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(file: &File, len: u64) -> io::Result<Pages> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        // SAFETY: the range was mapped just now. Advice only: a refusal changes nothing.
        let _ = unsafe { madvise(address, len, Advice::Sequential) };
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Pages {
            address,
            len,
            guard: OnceLock::new(),
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        drop(self.guard.take());
        // SAFETY: the range was mapped by `map` and is unmapped only here; nobody holds the
        // region that named it any more.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.len) };
    }
}
