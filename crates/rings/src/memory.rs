//! Memory that has a descriptor: sealed memfds, and files in the page cache.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use nic::ring::{Backing, Block, Region};
use rustix::fs::{FileType, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::fault::{Guard, GuardError, Share, page_bytes};

/// What must not be possible any more with a memfd: memory that goes away under its reader would end its process.
const SEALS: SealFlags = SealFlags::SHRINK;
/// `TMPFS_MAGIC` of `linux/magic.h`: what a memfd without huge pages is made of.
const TMPFS: u32 = 0x0102_1994;
/// File systems of which a page comes from this machine's memory or disks: tmpfs, ramfs, ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs. A page of
/// FUSE's or of a network's file system comes when another process likes, and the NIC would wait for it; one of an overlay, of eCryptfs or of EROFS may come
/// from one of those. What can't be known is what the disk is: a loop device over a file of FUSE's, say, which takes root to mount.
const LOCAL: [u32; 8] = [
    TMPFS,
    0x8584_58f6,
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0xca45_1a4e,
];
/// Bytes that are unmapped at a time: other threads wait meanwhile when they map memory.
const UNMAPPED: usize = 64 << 20;

/// A file could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapFileError {
    /// The system refused.
    #[error(transparent)]
    Map(#[from] io::Error),
    /// No guard was left against the file's truncation.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

/// A memfd of so many zeroed bytes, whose size is for ever. Its pages are taken as they are used.
pub(crate) fn create(len: u64) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("longshore-rings", flags)?;
    rustix::fs::ftruncate(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SEALS | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// Whether a file that another process has made is a memfd that keeps its bytes up to `end`.
pub(crate) fn keeps(file: BorrowedFd<'_>, end: u64) -> bool {
    // Only files that can be sealed answer.
    let is_sealed = rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SEALS));
    is_sealed
        && rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type as u32 == TMPFS)
        && rustix::fs::fstat(file)
            .is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|size| end <= size))
}

/// Whether a file that another process has opened is one whose pages this machine has.
pub(crate) fn is_local_file(file: BorrowedFd<'_>) -> bool {
    is_regular(file)
        && rustix::fs::fstatfs(file).is_ok_and(|system| LOCAL.contains(&(system.f_type as u32)))
}

/// Whether a file that a VMM has passed may be memory of its machine: one of tmpfs, a memfd is one too. The first store to a page of a disk's
/// file waits for its file system, and for the disk when much is to be written.
pub fn is_guest_memory(file: BorrowedFd<'_>) -> bool {
    is_regular(file) && rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type as u32 == TMPFS)
}

fn is_regular(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
}

/// Maps the rings of a function, out of a memfd that [keeps] so many bytes.
pub(crate) fn map_block(file: BorrowedFd<'_>, len: usize) -> Result<Block, Errno> {
    let pages = Arc::new(Pages::map(
        file,
        0,
        len,
        ProtFlags::READ | ProtFlags::WRITE,
    )?);
    // SAFETY: mapped for reading and writing for as long as `pages` is there, which has one owner.
    Ok(unsafe { Block::from_raw_parts(pages.start.as_ptr(), len, pages) })
}

/// Maps part of a memfd that [keeps] it, for reading and writing.
pub(crate) fn map_shared(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Region, Errno> {
    let pages = Arc::new(Pages::map(
        file,
        offset,
        len,
        ProtFlags::READ | ProtFlags::WRITE,
    )?);
    // SAFETY: mapped for reading and writing for as long as `pages` is there. Which Rust references a host makes to its parts is
    // its own concern, in its own process; in this one the device alone makes any.
    Ok(unsafe { Region::from_raw_parts(pages.start.as_ptr(), len, pages, true) })
}

/// Maps part of a file read-only; `offset` is a whole number of pages. What lies beyond the file's end, now or when it has shrunk,
/// reads as zeroes and sets [`Region::faulted`]. The region has the file as its backing.
///
/// # Errors
/// When the system refuses, or [`MAX_GUARDED`](crate::fault::MAX_GUARDED) files are mapped.
pub fn map_file(file: OwnedFd, offset: u64, len: usize) -> Result<Arc<Region>, MapFileError> {
    let pages = Pages::read_only(file.as_fd(), offset, len)?;
    pages.guarded(len, false, None, |region| {
        region.backed_by(Backing { file, offset })
    })
}

/// The same, of a host's share, for a caller that does not pass the memory on.
pub(crate) fn map_passed_file(
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
    share: &Arc<Share>,
) -> Result<Arc<Region>, MapFileError> {
    Pages::read_only(file, offset, len)?.guarded(len, false, Some(share), |region| region)
}

/// Maps part of a file that is the memory of a virtual machine, whose VMM may cut it off at any time: the region is [faulted](Region::is_faulted) then.
pub(crate) fn map_guest(
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
    writable: bool,
    share: &Arc<Share>,
) -> Result<Arc<Region>, MapFileError> {
    let may = match writable {
        true => ProtFlags::READ | ProtFlags::WRITE,
        false => ProtFlags::READ,
    };
    let pages = Pages::with_one_more(file, offset, len, may)?;
    pages.guarded(len, writable, Some(share), |region| region)
}

/// The rings of a queue, in memory of a virtual machine. `None` where they are not in the region, or not aligned.
pub(crate) fn block_in(region: &Arc<Region>, offset: u64, len: usize) -> Option<Block> {
    let offset = usize::try_from(offset).ok()?;
    let end = offset.checked_add(len)?;
    let start = region.as_ptr().wrapping_add(offset);
    let is_possible = region.writable() && end <= region.len() && start.addr().is_multiple_of(128);
    let owner: Arc<dyn Any + Send + Sync> = Arc::<Region>::clone(region);
    // SAFETY: inside of the region, which is mapped for reading and writing as long as `owner` is there. The device reaches a region by address, on
    // one thread with the block, and makes no reference to it.
    is_possible.then(|| unsafe { Block::from_raw_parts(start, len, owner) })
}

/// Whether the file that a region maps has become too short for it.
pub fn has_shrunk(region: &Region) -> bool {
    let Some(backing) = region.backing() else {
        return false;
    };
    let end = backing.offset + region.len() as u64;
    rustix::fs::fstat(&backing.file)
        .is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|size| size < end))
}

/// A mapping.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    len: usize,
    guard: OnceLock<Guard>,
}

// SAFETY: an address range that belongs to no thread, and is unmapped once.
unsafe impl Send for Pages {}
// SAFETY: as above; nothing in it changes but the guard, once.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(file: BorrowedFd<'_>, offset: u64, len: usize, may: ProtFlags) -> Result<Pages, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                may,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        Ok(Pages {
            start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?,
            len,
            guard: OnceLock::new(),
        })
    }

    fn read_only(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Pages, MapFileError> {
        let pages = Pages::with_one_more(file, offset, len, ProtFlags::READ)?;
        // SAFETY: the range was mapped just now. Advice only: a refusal changes nothing.
        let _ = unsafe { madvise(pages.start.as_ptr().cast(), len, Advice::Sequential) };
        Ok(pages)
    }

    fn with_one_more(
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        may: ProtFlags,
    ) -> Result<Pages, MapFileError> {
        // A page more, which no reader comes to and no guard maps over: with it the mapping has the file, and who unmaps it closes that, not
        // who has run into a lost page.
        let page = page_bytes();
        let whole = len.checked_next_multiple_of(page);
        let whole = whole.and_then(|whole| whole.checked_add(page));
        let whole = whole.ok_or(io::Error::from(Errno::NOMEM))?;
        Ok(Pages::map(file, offset, whole, may).map_err(io::Error::from)?)
    }

    /// A region of the first `len` bytes of these pages, which are mapped for writing if `writable`, that survives the loss of some.
    fn guarded(
        self,
        len: usize,
        writable: bool,
        share: Option<&Arc<Share>>,
        finish: impl FnOnce(Region) -> Region,
    ) -> Result<Arc<Region>, MapFileError> {
        let pages = Arc::new(self);
        let owner: Arc<dyn Any + Send + Sync> = pages.clone();
        // SAFETY: the pages stay mapped until the owner is dropped, which the region holds; they are mapped for reading, or for writing
        // too, and the region says which. What others write to the file changes the bytes, which the NIC's check of retransmissions is there for.
        let region = unsafe { Region::from_raw_parts(pages.start.as_ptr(), len, owner, writable) };
        let region = Arc::new(finish(region));
        // SAFETY: the range is this mapping's own. The guard lives in the pages, which the region drops as one of its fields:
        // the flag, another field, is still in memory then.
        let guard = unsafe {
            Guard::new(
                pages.start.addr().get(),
                len,
                writable,
                &region.faulted,
                share,
            )
        }?;
        let _ = pages.guard.set(guard);
        Ok(region)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        drop(self.guard.take());
        for at in (0..self.len).step_by(UNMAPPED) {
            let len = UNMAPPED.min(self.len - at);
            // SAFETY: mapped by `map` with the whole length, of which `at` is a part's start, and unmapped only here, when nothing holds what
            // named it any more.
            let _ = unsafe { munmap(self.start.as_ptr().add(at).cast(), len) };
        }
    }
}
