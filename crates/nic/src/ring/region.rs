//! Memory that a host has registered, and the registry through which the device finds it.
//!
//! A region stays mapped while either side can name it: the registry and the device's copy each
//! hold a reference, and the region holds its owner.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A region of a function, as descriptors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u16);

/// A range of registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
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

    pub(super) fn to_words(self) -> [u64; 2] {
        [
            self.offset,
            u64::from(self.len) | u64::from(self.region.0) << 32,
        ]
    }

    pub(super) fn from_words(words: [u64; 2]) -> Slice {
        Slice {
            offset: words[0],
            len: words[1] as u32,
            region: RegionId((words[1] >> 32) as u16),
        }
    }
}

/// Registered memory.
///
/// The device reads and writes it while the host, other mappings of the same file, or other
/// processes may write it. It therefore reads each byte once and decides nothing that memory
/// safety depends on by what it read.
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    /// Set when a page of the region was lost while it was read (a mapped file that shrank); the
    /// device checks it after it read, before what it made of the bytes leaves.
    pub faulted: AtomicBool,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the region is raw memory that lives as long as its owner, which is Send and Sync; accesses
// go through raw copies, or through the views whose terms `from_raw_parts` sets.
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
        unsafe { Region::from_raw_parts(start.as_ptr(), len, memory, true) }
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
            _owner: owner,
        }
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

    /// Copies from the region. False, and nothing copied, when the range is not inside.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        let Some(at) = self.at(offset, to.len()) else {
            return false;
        };
        // SAFETY: `at` is valid for `to.len()` bytes, and `to` is memory of ours.
        unsafe { std::ptr::copy_nonoverlapping(at.as_ptr(), to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies into the region. False, and nothing copied, when the range is not inside or the region is read-only.
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        if !self.writable {
            return false;
        }
        let Some(at) = self.at(offset, from.len()) else {
            return false;
        };
        // SAFETY: `at` is valid for writes of `from.len()` bytes: the region is writable.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at.as_ptr(), from.len()) };
        true
    }

    /// Copies from here to another region, or within this one; the ranges may overlap, as those of a buffer that a host has
    /// given twice do. False, and nothing copied, when one is not inside or the target is read-only.
    pub(crate) fn copy_to(&self, offset: u64, target: (&Region, u64), len: u32) -> bool {
        let (region, target_offset) = target;
        let (from, to) = (
            self.at(offset, len as usize),
            region.at(target_offset, len as usize),
        );
        let (Some(from), Some(to), true) = (from, to, region.writable) else {
            return false;
        };
        // SAFETY: both are valid for `len` bytes, `to` for writes too; `copy` allows an overlap.
        unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), len as usize) };
        true
    }

    /// The bytes of a range, for one pass of a cipher or a copy over them. `None` when it is not
    /// inside.
    pub(crate) fn view(&self, offset: u64, len: u32) -> Option<&[u8]> {
        let at = self.at(offset, len as usize)?;
        // SAFETY: valid for `len` bytes while `self` holds the owner. Others may change
        // the bytes (`from_raw_parts`); every user reads each byte once, in a cipher or a copy that
        // is correct for any value, and keeps no reference beyond that.
        Some(unsafe { std::slice::from_raw_parts(at.as_ptr(), len as usize) })
    }

    /// Gives a range of writable memory to `fill`. `None`, without a call, when the range is not inside or
    /// the region is read-only.
    pub(crate) fn with_mut<R>(
        &self,
        offset: u64,
        len: u32,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        if !self.writable {
            return None;
        }
        let at = self.at(offset, len as usize)?;
        // SAFETY: valid for reads and writes of `len` bytes; by `from_raw_parts` no reference of the host's
        // is in use while its descriptor is, and the device makes one at a time: it
        // is single-threaded and this one ends with the call.
        Some(fill(unsafe {
            std::slice::from_raw_parts_mut(at.as_ptr(), len as usize)
        }))
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

// SAFETY: plain memory, freed on drop by whichever thread.
unsafe impl Send for Anonymous {}
// SAFETY: as above.
unsafe impl Sync for Anonymous {}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, and freed once.
        unsafe { std::alloc::dealloc(self.allocated.as_ptr(), self.layout) }
    }
}

/// The regions of one function, shared by its host and its device.
///
/// Registering takes a lock; the device looks at a version number, and takes the changes over
/// only when that has changed.
#[derive(Debug, Default)]
pub struct Regions {
    version: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: Vec<Option<Arc<Region>>>,
    free: Vec<u16>,
    /// What the device has not taken over yet.
    changed: Vec<u16>,
}

/// Why a region could not be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {} region ids of this function are in use: unregister one first",
    Regions::MAX
)]
pub struct NoRegionId;

impl Regions {
    /// Regions that a function can have at a time.
    pub const MAX: usize = 1 << 16;

    /// Makes a region known to the device.
    ///
    /// # Errors
    /// When every id is in use.
    pub fn register(&self, region: Arc<Region>) -> Result<RegionId, NoRegionId> {
        let mut table = self.lock();
        let id = match table.free.pop() {
            Some(id) => id,
            None if table.entries.len() < Self::MAX => {
                table.entries.push(None);
                (table.entries.len() - 1) as u16
            }
            None => return Err(NoRegionId),
        };
        self.change(&mut table, id, Some(region));
        Ok(RegionId(id))
    }

    /// Takes a region away. A descriptor that still names it gets an error completion.
    ///
    /// The device lets go of the memory at its next [`Nic::flush`](crate::Nic::flush) or descriptor.
    pub fn unregister(&self, id: RegionId) -> Option<Arc<Region>> {
        let mut table = self.lock();
        table.entries.get(usize::from(id.0))?.as_ref()?;
        table.free.push(id.0);
        self.change(&mut table, id.0, None)
    }

    /// The region of this id.
    pub fn get(&self, id: RegionId) -> Option<Arc<Region>> {
        self.lock().entries.get(usize::from(id.0))?.clone()
    }

    fn change(
        &self,
        table: &mut Table,
        id: u16,
        region: Option<Arc<Region>>,
    ) -> Option<Arc<Region>> {
        table.changed.push(id);
        let old = std::mem::replace(&mut table.entries[usize::from(id)], region);
        self.version.fetch_add(1, Ordering::Release);
        old
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The device's copy of a function's regions. There is one, which takes the changes.
#[derive(Debug)]
pub struct DeviceRegions {
    shared: Arc<Regions>,
    version: u64,
    table: Vec<Option<Arc<Region>>>,
}

impl DeviceRegions {
    pub(super) fn new(shared: Arc<Regions>) -> Self {
        DeviceRegions {
            shared,
            version: 0,
            table: Vec::new(),
        }
    }

    /// Looks for changes. To be called after a descriptor was taken off its ring and before its
    /// slices are looked up: what was registered before a descriptor was posted is then known.
    pub(crate) fn refresh(&mut self) {
        if self.shared.version.load(Ordering::Acquire) != self.version {
            self.take_changes();
        }
    }

    #[cold]
    fn take_changes(&mut self) {
        let mut table = self.shared.lock();
        self.version = self.shared.version.load(Ordering::Acquire);
        self.table.resize(table.entries.len(), None);
        for id in std::mem::take(&mut table.changed) {
            let id = usize::from(id);
            self.table[id].clone_from(&table.entries[id]);
        }
    }

    /// The region of this id, as of the last refresh.
    pub(crate) fn get(&self, id: RegionId) -> Option<&Region> {
        self.table.get(usize::from(id.0))?.as_deref()
    }
}
