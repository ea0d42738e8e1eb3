//! The registry of a function's regions, through which the device finds them.
//!
//! A region stays mapped while either side can name it: the registry and the device's copy each hold a reference. A device in
//! another process has a registry of its own there; the host's [`Sharing`] brings regions from the one to the other.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::region::{Region, RegionId, Slice};

/// How regions of a host reach a device in another process.
pub trait Sharing: fmt::Debug + Send + Sync {
    /// Zeroed, writable memory that the device can have too.
    ///
    /// # Errors
    /// When the system gives none.
    fn allocate(&self, len: usize) -> io::Result<Region>;

    /// Shows a region to the device, which knows it when this returns.
    ///
    /// # Errors
    /// Why the device can't have it.
    fn register(&self, id: RegionId, region: &Region) -> Result<(), String>;

    /// Takes it away again.
    fn unregister(&self, id: RegionId);
}

/// The regions of one function, shared by its host and its device.
///
/// Registering takes a lock; the device looks at a version number, and takes the changes over
/// only when that has changed.
#[derive(Debug, Default)]
pub struct Regions {
    version: AtomicU64,
    table: Mutex<Table>,
    sharing: Option<Arc<dyn Sharing>>,
}

#[derive(Debug, Default)]
struct Table {
    entries: Vec<Option<Arc<Region>>>,
    free: Vec<u16>,
    /// What the device has not taken over yet.
    changed: Vec<u16>,
    ranges: Vec<Range>,
}

/// Part of a bus address space: the region of `start` and what follows.
#[derive(Debug, Clone)]
struct Range {
    start: u64,
    region: Arc<Region>,
}

/// The region of [bus addresses](Regions::map).
const BUS: RegionId = RegionId(0);

/// Why a region could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// There are too many.
    #[error(
        "all {} region ids of this function are in use: unregister one first",
        Regions::MAX
    )]
    NoId,
    /// The device is in another process, and can't have this memory.
    #[error("the NIC's process can't have this memory: {0}")]
    NotShared(String),
}

impl Regions {
    /// Regions that a function can have at a time.
    pub const MAX: usize = 1 << 16;

    /// The host's registry for a device in another process.
    pub fn shared_by(sharing: Arc<dyn Sharing>) -> Regions {
        Regions {
            sharing: Some(sharing),
            ..Regions::default()
        }
    }

    /// Zeroed, writable memory that can be registered here. Its pages are taken as they are used.
    ///
    /// # Errors
    /// When the system gives none.
    ///
    /// # Panics
    /// When `len` is zero.
    pub fn allocate(&self, len: usize) -> io::Result<Region> {
        match &self.sharing {
            Some(sharing) => sharing.allocate(len),
            None => Ok(Region::anonymous(len)),
        }
    }

    /// Makes a region known to the device.
    ///
    /// # Errors
    /// When every id is in use, or the device can't have the memory.
    pub fn register(&self, region: Arc<Region>) -> Result<RegionId, RegisterError> {
        let mut table = self.lock();
        let id = match table.free.pop() {
            Some(id) => id,
            None if table.entries.len() < Self::MAX => {
                table.entries.push(None);
                (table.entries.len() - 1) as u16
            }
            None => return Err(RegisterError::NoId),
        };
        if let Some(sharing) = &self.sharing
            && let Err(why) = sharing.register(RegionId(id), &region)
        {
            table.free.push(id);
            return Err(RegisterError::NotShared(why));
        }
        self.change(&mut table, id, Some(region));
        Ok(RegionId(id))
    }

    /// Takes a region away. A descriptor that still names it gets an error completion.
    ///
    /// The device lets go of the memory at its next [`Nic::flush`](crate::Nic::flush) or descriptor.
    pub fn unregister(&self, id: RegionId) -> Option<Arc<Region>> {
        let mut table = self.lock();
        table.entries.get(usize::from(id.0))?.as_ref()?;
        if let Some(sharing) = &self.sharing {
            sharing.unregister(id);
        }
        table.free.push(id.0);
        self.change(&mut table, id.0, None)
    }

    /// Puts a region in the place of this id, in place of what was there: for a registry that repeats another one.
    pub fn place(&self, id: RegionId, region: Option<Arc<Region>>) {
        let mut table = self.lock();
        let needed = usize::from(id.0) + 1;
        if table.entries.len() < needed {
            table.entries.resize(needed, None);
        }
        self.change(&mut table, id.0, region);
    }

    /// Makes memory known at a bus address: descriptors name it by region 0 and this address as the offset. For a registry without other
    /// regions, of a host that has one address space, as a PCI function's; the memory is told apart by address alone, and a slice lies in one part of it.
    ///
    /// # Panics
    /// When it overlaps with what is known already, or ends beyond the last address.
    pub fn map(&self, start: u64, region: Arc<Region>) {
        let mut table = self.lock();
        let end = start.checked_add(region.len() as u64);
        let end = end.expect("memory ends before the last address");
        let at = table.ranges.partition_point(|it| it.start < start);
        let is_free = |range: &Range| range.end() <= start || end <= range.start;
        assert!(
            table.ranges.iter().all(is_free),
            "memory at bus addresses does not overlap"
        );
        table.ranges.insert(at, Range { start, region });
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Takes memory at a bus address away. As with [`unregister`](Self::unregister), the device lets go of it later.
    pub fn unmap(&self, start: u64) {
        let mut table = self.lock();
        table.ranges.retain(|range| range.start != start);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The region of this id.
    pub fn get(&self, id: RegionId) -> Option<Arc<Region>> {
        self.lock().entries.get(usize::from(id.0))?.clone()
    }

    /// All regions.
    pub fn all(&self) -> Vec<(RegionId, Arc<Region>)> {
        let table = self.lock();
        let entries = (0..).map(RegionId).zip(&table.entries);
        entries
            .filter_map(|(id, region)| Some((id, Arc::clone(region.as_ref()?))))
            .collect()
    }

    fn change(
        &self,
        table: &mut Table,
        id: u16,
        region: Option<Arc<Region>>,
    ) -> Option<Arc<Region>> {
        // A device in another process has a registry of its own.
        if self.sharing.is_none() {
            table.changed.push(id);
        }
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
    /// By address.
    ranges: Vec<Range>,
    /// Which of them was found last: packets and buffers are mostly in one.
    last: Cell<usize>,
}

impl DeviceRegions {
    pub(super) fn new(shared: Arc<Regions>) -> Self {
        DeviceRegions {
            shared,
            version: 0,
            table: Vec::new(),
            ranges: Vec::new(),
            last: Cell::new(0),
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
        self.ranges.clone_from(&table.ranges);
    }

    /// The region that has the start of a slice, as of the last refresh, and where in it the slice begins. Its end may be outside.
    #[inline]
    pub(crate) fn locate(&self, slice: Slice) -> Option<(&Region, u64)> {
        match self.table.get(usize::from(slice.region.0)) {
            Some(region) => Some((region.as_deref()?, slice.offset)),
            None => self.locate_address(slice),
        }
    }

    #[inline]
    fn locate_address(&self, slice: Slice) -> Option<(&Region, u64)> {
        if slice.region != BUS {
            return None;
        }
        let last = self.ranges.get(self.last.get());
        let range = match last.filter(|it| it.has(slice.offset)) {
            Some(range) => range,
            None => self.search(slice.offset)?,
        };
        Some((&range.region, slice.offset - range.start))
    }

    /// The last range that begins at an address or before.
    fn search(&self, address: u64) -> Option<&Range> {
        let behind = self.ranges.partition_point(|it| it.start <= address);
        let at = behind.checked_sub(1)?;
        self.last.set(at);
        self.ranges.get(at)
    }
}

impl Range {
    #[inline]
    fn has(&self, address: u64) -> bool {
        let at = address.checked_sub(self.start);
        at.is_some_and(|at| at < self.region.len() as u64)
    }

    fn end(&self) -> u64 {
        self.start + self.region.len() as u64
    }
}
