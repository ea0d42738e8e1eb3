//! Memory that a host registers with its function.
//!
//! A region holds its owner, which keeps it mapped; see [`Regions`](super::Regions) for who holds the region.
//!
//! The device makes no reference to it, since the host, other mappings of the same file, or other processes may write to it at any
//! time, and a reference promises that they don't. A read may give any mixture of old bytes and new ones. So ciphers, digests, copies
//! and the wire get [addresses](shared), each byte is read once, and what was read is what is acted on: what is sent, what a digest is
//! of, and what a decision is made by. No decision that memory safety depends on is made by the bytes of a region.

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shared::{SharedSlice, SharedSliceMut};

use super::layout;

/// A region of a function, as descriptors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u16);

/// A range of registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Bytes from the region's start.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
    /// The region.
    pub region: RegionId,
}

impl Slice {
    /// Words that a slice takes in a descriptor.
    pub(super) const WORDS: usize = 2;

    /// Of no bytes.
    pub(crate) const NOTHING: Slice = Slice {
        offset: 0,
        len: 0,
        region: RegionId(0),
    };

    #[inline]
    pub(super) fn to_words(self) -> [u64; 2] {
        zerocopy::transmute!(layout::Slice::from(self))
    }

    #[inline]
    pub(super) fn from_words(words: [u64; 2]) -> Slice {
        let slice: layout::Slice = zerocopy::transmute!(words);
        slice.into()
    }
}

/// Registered memory.
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    /// Set when a page of the region was lost while it was read (a mapped file that shrank); the
    /// device checks it after it read, before what it made of the bytes leaves.
    pub faulted: AtomicBool,
    /// Its pages can't be lost: they are the allocator's.
    is_lasting: bool,
    backing: Option<Backing>,
    _owner: Arc<dyn Any + Send + Sync>,
}

/// The file that a region maps, by which another process may map it too.
#[derive(Debug)]
pub struct Backing {
    /// The file.
    pub file: OwnedFd,
    /// Which byte of it is the region's first: a whole number of pages.
    pub offset: u64,
}

// SAFETY: the region is raw memory that lives as long as its owner, which is Send and Sync; it is reached by address only, on the terms
// that `from_raw_parts` sets.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("start", &self.start)
            .field("len", &self.len)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

impl Region {
    /// Zeroed, writable memory of this process.
    ///
    /// # Panics
    /// When `len` is zero.
    pub fn anonymous(len: usize) -> Region {
        assert!(len > 0, "a region has at least one byte");
        let memory = Arc::new(Anonymous::zeroed(len));
        let start = memory.start;
        // SAFETY: `memory` owns `len` writable bytes at `start` until it is dropped.
        let region = unsafe { Region::from_raw_parts(start.as_ptr(), len, memory, true) };
        Region {
            is_lasting: true,
            ..region
        }
    }

    /// Memory that `owner` keeps alive.
    ///
    /// # Safety
    /// `start` must be valid for reads of `len` bytes, and for writes when `writable`, until `owner` is
    /// dropped. The memory may be changed by others at any time, but no Rust reference to a part of
    /// it may be used while a descriptor that the device has not completed names that part: a
    /// shared one while the device may write it, an exclusive one in any case.
    ///
    /// # Panics
    /// When `start` is null or `len` is zero.
    pub unsafe fn from_raw_parts(
        start: *mut u8,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
        writable: bool,
    ) -> Region {
        assert!(len > 0, "a region has at least one byte");
        Region {
            start: NonNull::new(start).expect("a region has an address"),
            len,
            writable,
            faulted: AtomicBool::new(false),
            is_lasting: false,
            backing: None,
            _owner: owner,
        }
    }

    /// The same region, which says what file it maps.
    pub fn backed_by(self, backing: Backing) -> Region {
        Region {
            backing: Some(backing),
            ..self
        }
    }

    /// The file that it maps, if another process may map it.
    pub fn backing(&self) -> Option<&Backing> {
        self.backing.as_ref()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether the device may write to it.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// Its first byte, in this process.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Whether a page was lost while it was read.
    pub fn is_faulted(&self) -> bool {
        self.faulted.load(Ordering::Acquire)
    }

    /// Whether others than the device may read it and find all of it: only a copy by the device sees a lost page of other memory.
    pub(crate) fn is_lasting(&self) -> bool {
        self.is_lasting && !self.is_faulted()
    }

    /// Copies from the region. False, and nothing copied, when the range is not inside.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        let from = self.view(offset, to.len());
        from.map(|from| from.copy_to(to)).is_some()
    }

    /// Copies into the region. False, and nothing copied, when the range is not inside or the region is read-only.
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        let to = self.view_mut(offset, from.len());
        to.map(|to| to.copy_from(from)).is_some()
    }

    /// Copies from here to another region, or within this one; the ranges may overlap, as those of a buffer that a host has
    /// given twice do. False, and nothing copied, when one is not inside or the target is read-only.
    pub(crate) fn copy_to(
        &self,
        offset: u64,
        target: &Region,
        target_offset: u64,
        len: u32,
    ) -> bool {
        let (from, to) = (
            self.at(offset, len as usize),
            target.at(target_offset, len as usize),
        );
        let is_writable = target.writable && !target.is_faulted();
        let (Some(from), Some(to), true) = (from, to, is_writable) else {
            return false;
        };
        // SAFETY: both are valid for `len` bytes, `to` for writes too; `copy` allows an overlap.
        unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), len as usize) };
        true
    }

    /// The bytes of a range, to be read once. `None` when it is not inside.
    pub fn view(&self, offset: u64, len: usize) -> Option<SharedSlice<'_>> {
        let at = self.at(offset, len)?;
        // SAFETY: valid for `len` bytes while `self` holds the owner.
        Some(unsafe { SharedSlice::from_raw_parts(at.as_ptr(), len) })
    }

    /// The bytes of a range, to be written. `None` when it is not inside, or the region is read-only or has lost a page: what is in place of that is
    /// the device's own memory, which is not to grow with what is written.
    pub fn view_mut(&self, offset: u64, len: usize) -> Option<SharedSliceMut<'_>> {
        let at = self.at(offset, len).filter(|_| !self.is_faulted())?;
        // SAFETY: valid for reads and writes of `len` bytes while `self` holds the owner: the region is writable. By `from_raw_parts` no
        // reference of the host's is in use while its descriptor is, and the device makes no reference.
        self.writable
            .then(|| unsafe { SharedSliceMut::from_raw_parts(at.as_ptr(), len) })
    }

    /// Address of `[offset, offset + len)`, when that is inside.
    fn at(&self, offset: u64, len: usize) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(len)?;
        // SAFETY: `offset <= end <= self.len`, inside the region's memory.
        (end <= self.len).then(|| unsafe { self.start.add(offset) })
    }
}

/// Zeroed memory from the global allocator, used from its first whole page on. Asking the allocator for no more
/// than its own alignment lets it hand out fresh pages as they are: what is never used is never touched.
struct Anonymous {
    start: NonNull<u8>,
    allocated: NonNull<u8>,
    layout: std::alloc::Layout,
}

impl Anonymous {
    const PAGE: usize = 4096;

    fn zeroed(len: usize) -> Anonymous {
        let room = len.checked_add(Self::PAGE).expect("a region fits memory");
        let layout = std::alloc::Layout::from_size_align(room, 16).expect("a region fits memory");
        // SAFETY: the layout's size is not zero.
        let allocated = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(allocated) = NonNull::new(allocated) else {
            std::alloc::handle_alloc_error(layout)
        };
        let before = allocated.as_ptr().align_offset(Self::PAGE);
        // SAFETY: less than a page, and there is a page more than `len`.
        let start = unsafe { allocated.add(before) };
        Anonymous {
            start,
            allocated,
            layout,
        }
    }
}

// SAFETY: plain memory, which any thread may free.
unsafe impl Send for Anonymous {}
// SAFETY: as above.
unsafe impl Sync for Anonymous {}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, and freed once.
        unsafe { std::alloc::dealloc(self.allocated.as_ptr(), self.layout) }
    }
}
