//! Memory that the NIC reads and writes.

use std::sync::Arc;
use std::time::Instant;

use nic::ring::{Region, RegionId, Slice};
use shared::SharedSliceMut;

use crate::memory::{ArenaStats, BlockPool, MemoryClass, MemoryInfo, MemoryLevel};
use crate::stack::Stack;
use crate::{SocketError, SocketId};

impl Stack {
    /// Zeroed memory that can be [registered](Self::register) with this NIC.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`].
    ///
    /// # Panics
    /// When `len` is zero.
    pub fn allocate_region(&self, len: usize) -> Result<Region, SocketError> {
        self.offload.transport.device.driver.regions.allocate(len)
    }

    /// Registers memory with the NIC for [`send_slices`](Self::send_slices), under a name for errors (a file's path).
    ///
    /// # Errors
    /// [`TooManyRegions`](SocketError::TooManyRegions), [`RegionRefused`](SocketError::RegionRefused).
    pub fn register(&mut self, region: Arc<Region>, name: &str) -> Result<RegionId, SocketError> {
        self.transport()
            .device
            .driver
            .regions
            .register(region, name)
    }

    /// Gives the region back once nothing in flight names it. It takes no new sends from now on.
    pub fn unregister(&mut self, id: RegionId) {
        self.transport().device.driver.regions.unregister(id);
    }

    /// From now on [`poll_released`](Self::poll_released) tells of the region's memory that is in use no more.
    pub fn watch(&mut self, id: RegionId) {
        self.transport().device.driver.regions.watch(id);
    }

    /// Memory of a [watched](Self::watch) region that was sent, and that no socket and not the NIC uses any more. What was sent at once may
    /// be told in parts; each byte is told once for each time it was sent.
    pub fn poll_released(&mut self) -> Option<Slice> {
        self.transport().device.driver.regions.poll_released()
    }

    /// Bytes of a registered region. `None` when they are not registered.
    pub(crate) fn registered_mut(&self, slice: Slice) -> Option<SharedSliceMut<'_>> {
        self.offload.transport.device.driver.regions.view_mut(slice)
    }

    /// The stack's own memory for packets and payload: how short it is, what is in use, what it may have.
    pub fn memory(&self) -> MemoryInfo {
        self.offload.transport.device.memory()
    }

    /// How short the stack's memory is.
    pub fn memory_level(&self) -> MemoryLevel {
        self.offload.transport.device.level
    }

    /// Whether memory was exhausted, or too short to receive into, at `since` or later. An answer that has not come since then may
    /// have come, and was dropped.
    pub fn was_starved_since(&self, since: Instant) -> bool {
        let starved = self.offload.transport.device.starved;
        starved.is_some_and(|starved| starved >= since)
    }

    /// The same by sizes of blocks.
    pub fn arena_stats(&self) -> ArenaStats {
        self.offload.transport.device.driver.arena().stats()
    }

    /// Says what a connection is for, which decides what memory it may have when that is short.
    ///
    /// # Errors
    /// [`NotFound`](SocketError::NotFound), and [`Spliced`](SocketError::Spliced).
    pub fn set_memory_class(
        &mut self,
        id: SocketId,
        class: MemoryClass,
    ) -> Result<(), SocketError> {
        self.owned(id)?.memory_class = class;
        Ok(())
    }
}

impl BlockPool {
    /// `count` blocks of `block_len` bytes each, registered with `stack` under a name for errors. Memory that is never touched
    /// costs nothing.
    ///
    /// # Errors
    /// When the system has no memory, or the NIC takes no more regions.
    ///
    /// # Panics
    /// When the blocks have no bytes in all.
    pub fn new(
        stack: &mut Stack,
        block_len: u32,
        count: u32,
        name: &str,
    ) -> Result<BlockPool, SocketError> {
        let region = Arc::new(stack.allocate_region(block_len as usize * count as usize)?);
        let id = stack.register(Arc::clone(&region), name)?;
        Ok(BlockPool::of(region, id, block_len, count))
    }
}
