//! Opening a file or a block device as a store.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::StoreInfo;
use super::file::{ALIGNMENT, FileStore};
use super::opened::Opened;

/// A store could not be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused.
    #[error("can't open {}: {error}", path.display())]
    Open {
        /// What was to be opened.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It is a directory, a pipe, ….
    #[error("{} is not a file or a block device", .0.display())]
    Kind(PathBuf),
    /// Another program has it.
    #[error("{} is in use; stop the other target, or unmount it", .0.display())]
    InUse(PathBuf),
    /// Not one block fits.
    #[error("{0} is smaller than one block; enlarge it, as by `truncate -s 1G {0}`")]
    TooSmall(String),
    /// Blocks of this size are not possible there.
    #[error("{} has blocks of {least} bytes; {asked} is not possible", path.display())]
    BlockSize {
        /// What was to be opened.
        path: PathBuf,
        /// Its own blocks.
        least: u32,
        /// What was asked for.
        asked: u32,
    },
    /// There is not so much memory.
    #[error("no memory for {0}")]
    NoMemory(String),
}

/// The size of blocks for a store of `bytes`, where nothing else decides it: 4 KiB, or 512 bytes if it isn't made of those.
pub(super) fn block_shift_for(bytes: u64) -> u8 {
    if bytes.is_multiple_of(4096) { 12 } else { 9 }
}

/// How a store is opened.
struct Opening<'a> {
    path: &'a Path,
    is_device: bool,
    read_only: bool,
}

impl Opening<'_> {
    fn failed(&self, error: io::Error) -> OpenError {
        let path = self.path.to_owned();
        match Errno::from_io_error(&error) {
            Some(Errno::BUSY | Errno::AGAIN) => OpenError::InUse(path),
            _ => OpenError::Open { path, error },
        }
    }

    /// Opens and locks it; with `O_DIRECT` past the page cache.
    fn open(&self, direct: i32) -> io::Result<File> {
        // A device that is mounted refuses O_EXCL.
        let exclusive = match self.is_device && !self.read_only {
            true => libc::O_EXCL,
            false => 0,
        };
        OpenOptions::new()
            .read(true)
            .write(!self.read_only)
            .custom_flags(exclusive | direct)
            .open(self.path)
    }

    fn lock(&self, file: &File) -> Result<(), OpenError> {
        let lock = match self.read_only {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        flock(file, lock).map_err(|errno| self.failed(errno.into()))
    }

    /// The size of the store's blocks, if they are to be `asked`.
    fn block_shift(&self, file: &File, size: u64, asked: Option<u8>) -> Result<u8, OpenError> {
        let least = match self.is_device {
            true => rustix::fs::ioctl_blksszget(file).map_err(|errno| self.failed(errno.into()))?,
            false => 512,
        };
        match asked {
            Some(shift) if 1u64 << shift < u64::from(least) => Err(OpenError::BlockSize {
                path: self.path.to_owned(),
                least,
                asked: 1 << shift,
            }),
            Some(shift) => Ok(shift),
            None if self.is_device => Ok(least.ilog2() as u8),
            None => Ok(block_shift_for(size)),
        }
    }
}

impl FileStore {
    pub(super) fn open(
        path: &Path,
        block_shift: Option<u8>,
        read_only: bool,
    ) -> Result<FileStore, OpenError> {
        let mut opening = Opening {
            path,
            is_device: false,
            read_only,
        };
        let kind = std::fs::metadata(path).map_err(|error| opening.failed(error))?;
        opening.is_device = kind.file_type().is_block_device();
        if !opening.is_device && !kind.is_file() {
            return Err(OpenError::Kind(path.to_owned()));
        }
        let failed = |error| opening.failed(error);
        let direct = opening.open(libc::O_DIRECT);
        let is_direct = direct.is_ok();
        let mut file = match direct {
            Ok(file) => file,
            Err(_) => opening.open(0).map_err(failed)?,
        };
        opening.lock(&file)?;
        let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let block_shift = opening.block_shift(&file, size, block_shift)?;
        let bytes = size >> block_shift << block_shift;
        if bytes == 0 {
            return Err(OpenError::TooSmall(path.display().to_string()));
        }
        let info = StoreInfo {
            bytes,
            block_shift,
            read_only,
            volatile_cache: true,
            deallocate: !read_only,
            direct: is_direct,
        };
        let mut opened = Opened {
            file,
            info,
            bytes: AtomicU64::new(bytes),
            path: path.to_owned(),
            sync_failed: AtomicBool::new(false),
        };
        if is_direct && !opened.reads_one_block() {
            // It wants larger pieces than our blocks are. The lock goes with the file.
            drop(opened.file);
            opened.file = opening.open(0).map_err(failed)?;
            opening.lock(&opened.file)?;
            opened.info.direct = false;
        }
        Ok(FileStore::new(opened))
    }
}

impl Opened {
    /// Whether a read of one block is possible, past the page cache.
    fn reads_one_block(&self) -> bool {
        let mut memory = vec![0; (1 << self.info.block_shift) + ALIGNMENT];
        let shift = memory.as_ptr().align_offset(ALIGNMENT);
        let block = &mut memory[shift..shift + (1 << self.info.block_shift)];
        rustix::io::pread(&self.file, block, 0).is_ok()
    }
}
