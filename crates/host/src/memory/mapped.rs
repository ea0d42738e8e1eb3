//! A file in the page cache as a registered region.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nic::ring::{Region, RegionId, Slice};
use rings::fault::GuardError;
use rings::memory::{MapFileError, map_file};

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
        match region_of(file, len) {
            Ok(region) => Ok(MappedFile { region, len, path }),
            Err(MapFileError::Map(source)) => Err(MapError::Map { path, source }),
            Err(MapFileError::Guard(source)) => Err(MapError::Guard { path, source }),
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

fn region_of(file: &File, len: u64) -> Result<Arc<Region>, MapFileError> {
    let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    map_file(OwnedFd::from(file.try_clone()?), 0, len)
}
