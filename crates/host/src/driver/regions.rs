//! Registered memory of the application's, and how much of it is in flight.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nic::ring::{Region, RegionId, Regions, RegisterError, Slice};
use shared::{SharedSlice, SharedSliceMut};

use crate::SocketError;

/// The application's regions by id.
#[derive(Debug)]
pub(crate) struct InUse {
    shared: Arc<Regions>,
    table: Vec<Option<Entry>>,
    /// What was given back of regions that are watched.
    released: VecDeque<Slice>,
}

#[derive(Debug)]
struct Entry {
    region: Arc<Region>,
    name: Arc<str>,
    /// Bytes that sockets have queued or that the NIC may still read.
    in_flight: u64,
    leaving: bool,
    /// The application wants to hear of what is given back.
    watched: bool,
}

impl InUse {
    pub fn new(shared: Arc<Regions>) -> Self {
        Self {
            shared,
            table: Vec::new(),
            released: VecDeque::new(),
        }
    }

    pub fn register(&mut self, region: Arc<Region>, name: &str) -> Result<RegionId, SocketError> {
        let id = match self.shared.register(Arc::clone(&region)) {
            Ok(id) => id,
            Err(RegisterError::NoId) => return Err(SocketError::TooManyRegions),
            Err(error @ RegisterError::NotShared(_)) => {
                return Err(SocketError::RegionRefused(error));
            }
        };
        let index = usize::from(id.0);
        if self.table.len() <= index {
            self.table.resize_with(index + 1, || None);
        }
        self.table[index] = Some(Entry {
            region,
            name: name.into(),
            in_flight: 0,
            leaving: false,
            watched: false,
        });
        Ok(id)
    }

    /// Zeroed memory that can be registered.
    pub fn allocate(&self, len: usize) -> Result<Region, SocketError> {
        let given = self.shared.allocate(len);
        given.map_err(|_| SocketError::NoMemory(len))
    }

    /// Registers memory of the stack's own, which stays. `None` when the NIC takes no more regions.
    pub fn register_own(&self, region: Arc<Region>) -> Option<RegionId> {
        self.shared.register(region).ok()
    }

    /// Lets a region go, now or when nothing in flight names it any more.
    pub fn unregister(&mut self, id: RegionId) {
        if let Some(Some(entry)) = self.table.get_mut(usize::from(id.0)) {
            entry.leaving = true;
        }
        self.remove_idle(id);
    }

    /// What is given back of the region is told from now on.
    pub fn watch(&mut self, id: RegionId) {
        if let Some(Some(entry)) = self.table.get_mut(usize::from(id.0)) {
            entry.watched = true;
        }
    }

    /// Something that was given back.
    pub fn poll_released(&mut self) -> Option<Slice> {
        self.released.pop_front()
    }

    /// The memory and name of a slice that may be sent: inside a region that is not about to leave.
    pub fn check(&self, slice: Slice) -> Result<(), SocketError> {
        let bad = SocketError::BadSlice {
            region: slice.region.0,
            offset: slice.offset,
            len: slice.len,
        };
        let Some(entry) = self.get(slice.region).filter(|entry| !entry.leaving) else {
            return Err(bad);
        };
        match slice.offset.checked_add(u64::from(slice.len)) {
            Some(end) if end <= entry.region.len() as u64 && slice.len > 0 => Ok(()),
            _ => Err(bad),
        }
    }

    /// The slice's bytes are in a send queue from now on.
    pub fn take(&mut self, slice: Slice) {
        if let Some(Some(entry)) = self.table.get_mut(usize::from(slice.region.0)) {
            entry.in_flight += u64::from(slice.len);
        }
    }

    /// The NIC may write to the slice from now on.
    pub fn hold(&mut self, slice: Slice) {
        self.take(slice);
    }

    /// The NIC writes to it no more.
    pub fn unhold(&mut self, slice: Slice) {
        if let Some(Some(entry)) = self.table.get_mut(usize::from(slice.region.0)) {
            entry.in_flight = entry.in_flight.saturating_sub(u64::from(slice.len));
        }
        self.remove_idle(slice.region);
    }

    /// Neither a send queue nor the NIC names the bytes any more.
    pub fn give_back(&mut self, slice: Slice) {
        if let Some(Some(entry)) = self.table.get_mut(usize::from(slice.region.0)) {
            entry.in_flight = entry.in_flight.saturating_sub(u64::from(slice.len));
            if entry.watched {
                self.released.push_back(slice);
            }
        }
        self.remove_idle(slice.region);
    }

    /// Marks the regions whose files have shrunk: a NIC in another process, which has run into that, marks its own only.
    pub fn look_for_lost(&self) {
        for entry in self.table.iter().flatten() {
            if rings::memory::has_shrunk(&entry.region) {
                entry.region.faulted.store(true, Ordering::Release);
            }
        }
    }

    /// Whether a page of the region was lost.
    pub fn is_faulted(&self, id: RegionId) -> bool {
        self.get(id).is_some_and(|entry| entry.region.is_faulted())
    }

    /// The region's name, for errors.
    pub fn name(&self, id: RegionId) -> &str {
        self.get(id)
            .map_or("registered memory", |entry| &entry.name)
    }

    /// The bytes of a slice, to be read once, by software that does what the NIC would have done. Others may write there: the NIC, another process
    /// (a mapped file). `None` when they are not registered.
    pub fn view(&self, slice: Slice) -> Option<SharedSlice<'_>> {
        let region = &self.get(slice.region)?.region;
        region.view(slice.offset, slice.len as usize)
    }

    /// The bytes of a slice, to be written by software in place of the NIC, which may write there too if a peer makes it. `None` when they
    /// are not registered, or only for reading.
    pub fn view_mut(&self, slice: Slice) -> Option<SharedSliceMut<'_>> {
        let region = &self.get(slice.region)?.region;
        region.view_mut(slice.offset, slice.len as usize)
    }

    fn get(&self, id: RegionId) -> Option<&Entry> {
        self.table.get(usize::from(id.0))?.as_ref()
    }

    fn remove_idle(&mut self, id: RegionId) {
        let index = usize::from(id.0);
        let idle = matches!(self.table.get(index), Some(Some(entry)) if entry.leaving && entry.in_flight == 0);
        if idle {
            self.table[index] = None;
            self.shared.unregister(id);
        }
    }
}
