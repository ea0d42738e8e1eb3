//! Blocks of one size for data that is read or written in place: the buffers of an application's I/O.

use std::sync::{Arc, Mutex, PoisonError};

use nic::ring::{Region, RegionId, Slice};

/// Blocks of one size in a registered region of their own. A handle: clones share the blocks.
#[derive(Clone, Debug)]
pub struct BlockPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    region: Arc<Region>,
    id: RegionId,
    block_len: u32,
    /// Numbers of the blocks that are free.
    free: Mutex<Vec<u32>>,
}

/// One block. It goes back to its pool when it is dropped, which must not be while a command may still use it.
#[derive(Debug)]
pub struct Block {
    shared: Arc<Shared>,
    index: u32,
}

impl BlockPool {
    /// `count` blocks of `block_len` bytes each in a region, which has room for them and was registered under this id.
    pub(crate) fn of(region: Arc<Region>, id: RegionId, block_len: u32, count: u32) -> BlockPool {
        BlockPool {
            shared: Arc::new(Shared {
                region,
                id,
                block_len,
                // The first blocks are taken first, and again: those that the cache holds.
                free: Mutex::new((0..count).rev().collect()),
            }),
        }
    }

    /// A block, with whatever it held before. `None`: all are taken.
    #[must_use]
    pub fn take(&self) -> Option<Block> {
        let index = self.shared.free().pop()?;
        Some(Block {
            shared: Arc::clone(&self.shared),
            index,
        })
    }

    /// Bytes of each block.
    #[must_use]
    pub fn block_len(&self) -> u32 {
        self.shared.block_len
    }

    /// Blocks that are free.
    #[must_use]
    pub fn available(&self) -> usize {
        self.shared.free().len()
    }
}

impl Shared {
    fn free(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    /// Bytes of it.
    #[must_use]
    pub fn block_len(&self) -> u32 {
        self.shared.block_len
    }

    /// Its first `len` bytes, as a descriptor names them.
    ///
    /// # Panics
    /// When it has fewer.
    #[must_use]
    pub fn slice(&self, len: u32) -> Slice {
        assert!(len <= self.shared.block_len, "{len} bytes of a block");
        Slice {
            region: self.shared.id,
            offset: self.start(),
            len,
        }
    }

    /// Its bytes.
    ///
    /// # Safety
    /// As long as the reference lives, no command, no send and no mapping may name the block that writes to it.
    #[must_use]
    pub unsafe fn bytes(&self) -> &[u8] {
        let len = self.shared.block_len as usize;
        // SAFETY: the block lies in the region, which `shared` keeps mapped; no other handle names it, and the caller sees
        // to it that the device does not write it.
        unsafe { std::slice::from_raw_parts(self.address(), len) }
    }

    /// Its bytes, to be filled.
    ///
    /// # Safety
    /// As long as the reference lives, no command, no send and no mapping may name the block.
    #[must_use]
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.shared.block_len as usize;
        // SAFETY: as in `bytes`, with a writable region, an exclusive borrow of the only handle, and no device that reads.
        unsafe { std::slice::from_raw_parts_mut(self.address(), len) }
    }

    fn start(&self) -> u64 {
        u64::from(self.index) * u64::from(self.shared.block_len)
    }

    fn address(&self) -> *mut u8 {
        let base = self.shared.region.as_ptr();
        // SAFETY: the region has been made for all blocks, and the index is of one of them.
        unsafe { base.add(self.start() as usize) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.shared.free().push(self.index);
    }
}
