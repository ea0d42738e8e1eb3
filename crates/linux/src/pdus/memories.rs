//! Memory for data, registered as long as a connection's data may go there.

use std::sync::Arc;

use attachment::{DataMemory, Errno};
use nic::ring::{Region, RegionId, Regions};

use crate::memory::region_of;

/// All such memory.
#[derive(Debug)]
pub(super) struct Memories {
    regions: Arc<Regions>,
    memories: Vec<Memory>,
}

/// Memory for data that is registered.
#[derive(Debug)]
struct Memory {
    data: Arc<DataMemory>,
    region: Arc<Region>,
    id: RegionId,
    /// Connections whose data may go there.
    users: usize,
}

impl Memories {
    /// Among these regions.
    pub(super) fn new(regions: &Arc<Regions>) -> Memories {
        Memories {
            regions: Arc::clone(regions),
            memories: Vec::new(),
        }
    }

    /// Has one more connection use memory, which is registered if it was not.
    ///
    /// # Errors
    /// `ENOSPC` when there is no room for a region.
    pub(super) fn take(&mut self, data: &Arc<DataMemory>) -> Result<RegionId, Errno> {
        let mut memories = self.memories.iter_mut();
        if let Some(known) = memories.find(|known| Arc::ptr_eq(&known.data, data)) {
            known.users += 1;
            return Ok(known.id);
        }
        let region = Arc::new(region_of(data));
        let id = self.regions.register(Arc::clone(&region));
        let id = id.map_err(|_| Errno::NOSPC)?;
        self.memories.push(Memory {
            data: Arc::clone(data),
            region,
            id,
            users: 1,
        });
        Ok(id)
    }

    /// A connection uses memory no more.
    pub(super) fn give_back(&mut self, id: RegionId) {
        let place = self.memories.iter().position(|memory| memory.id == id);
        if let Some(place) = place {
            let memory = &mut self.memories[place];
            memory.users -= 1;
            if memory.users == 0 {
                self.regions.unregister(id);
                self.memories.swap_remove(place);
            }
        }
    }

    /// The memory of this id.
    pub(super) fn get(&self, id: RegionId) -> Option<&Region> {
        let mut memories = self.memories.iter();
        memories
            .find(|memory| memory.id == id)
            .map(|memory| &*memory.region)
    }
}
