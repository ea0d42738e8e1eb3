//! Buffers of four sizes, cut from one registered region.
//!
//! Taking and giving back are O(1), lock-free and allocate nothing. A [`Buffer`] owns its bytes: parts
//! made by [`Buffer::split_off`] are disjoint, and the block returns to its pool when the last
//! part is dropped. So neither a double free nor two writers of one byte can be written down.
//!
//! A buffer that the device holds (a posted receive buffer) is *lent*: the handle is given up for
//! a [`Slice`], and [`Arena::reclaim`] makes a handle again only for a block that was lent. A
//! device that names a block twice, or one that it never got, is told so.

mod buffer;
mod layout;
mod pool;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nic::ring::{Region, RegionId, Slice};

pub use buffer::{Buffer, LendError};
pub use layout::{ArenaLayout, SizeClass};
use pool::{LENT, Pool, Shared};

/// An allocator over one registered region. A handle: clones share the blocks.
#[derive(Clone)]
pub struct Arena {
    shared: Arc<Shared>,
}

impl Arena {
    /// Cuts `region`, registered as `id`, into blocks.
    ///
    /// # Panics
    /// When the region is smaller than [`ArenaLayout::bytes`], or read-only.
    pub fn new(region: Arc<Region>, id: RegionId, layout: ArenaLayout) -> Self {
        assert!(
            region.len() as u64 >= layout.bytes(),
            "the arena's layout takes {} bytes, its region has {}",
            layout.bytes(),
            region.len()
        );
        assert!(region.writable(), "an arena needs a writable region");
        let base = NonNull::new(region.as_ptr()).expect("a region has an address");
        let mut offset = 0;
        let pools = SizeClass::ALL.map(|class| {
            let pool = Pool::new(class, offset, layout.count(class));
            offset += u64::from(pool.block_bytes) * u64::from(layout.count(class));
            pool
        });
        Arena {
            shared: Arc::new(Shared {
                base,
                id,
                pools,
                _region: region,
            }),
        }
    }

    /// The id under which the region is registered.
    pub fn region_id(&self) -> RegionId {
        self.shared.id
    }

    /// Moves short content to a short buffer, so that a longer one is free.
    pub(crate) fn shrink(&self, buffer: Buffer) -> Buffer {
        let len = buffer.len() as u32;
        match self.allocate(len) {
            Some(mut small) if small.class() < buffer.class() => {
                small.truncate(len);
                small.copy_from_slice(&buffer);
                small
            }
            _ => buffer,
        }
    }

    /// A buffer of at least `len` bytes, from the smallest class that has one free. Its length is
    /// the block's whole size; see [`Buffer::truncate`]. `None` when memory has run out.
    pub fn allocate(&self, len: u32) -> Option<Buffer> {
        let first = SizeClass::fitting(len)?;
        (first as usize..SizeClass::ALL.len()).find_map(|class| self.take(class))
    }

    /// A buffer of exactly this class, or `None` when it has none free.
    pub fn allocate_class(&self, class: SizeClass) -> Option<Buffer> {
        self.take(class as usize)
    }

    /// Whether the class has a block free now.
    pub fn has_free(&self, class: SizeClass) -> bool {
        self.free_blocks(class) > 0
    }

    /// Blocks of the class that are free now.
    pub fn free_blocks(&self, class: SizeClass) -> u32 {
        self.shared.pools[class as usize]
            .free
            .load(Ordering::Relaxed)
    }

    /// The buffer behind a slice that the device gives back: exactly the slice's bytes, with
    /// the block behind them. `None` for a slice that no lent block covers.
    pub fn reclaim(&self, slice: Slice) -> Option<Buffer> {
        if slice.region != self.shared.id {
            return None;
        }
        let (class, index, start) = self.shared.locate(slice.offset)?;
        let pool = &self.shared.pools[class];
        if start.checked_add(slice.len)? > pool.block_bytes {
            return None;
        }
        pool.entries[index as usize]
            .parts
            .compare_exchange(LENT, 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(Buffer {
            shared: self.shared.clone(),
            class: class as u8,
            index,
            start,
            len: slice.len,
        })
    }

    /// Takes back all that is lent: the device is gone, and touches nothing of it any more.
    pub fn reclaim_all(&self) {
        for pool in &self.shared.pools {
            for (index, entry) in (0..).zip(&pool.entries) {
                let taken =
                    entry
                        .parts
                        .compare_exchange(LENT, 0, Ordering::Acquire, Ordering::Relaxed);
                if taken.is_ok() {
                    pool.push(index);
                }
            }
        }
    }

    /// Bytes in use, and how many there are.
    pub fn usage(&self) -> (u64, u64) {
        let pools = self.shared.pools.iter();
        pools.fold((0, 0), |(used, all), pool| {
            let bytes = u64::from(pool.block_bytes);
            let blocks = pool.entries.len() as u64;
            let free = u64::from(pool.free.load(Ordering::Relaxed)).min(blocks);
            (used + bytes * (blocks - free), all + bytes * blocks)
        })
    }

    /// What is in use, by class.
    pub fn stats(&self) -> ArenaStats {
        ArenaStats {
            pools: std::array::from_fn(|class| {
                let pool = &self.shared.pools[class];
                let free = pool.free.load(Ordering::Relaxed);
                PoolStats {
                    class: SizeClass::ALL[class],
                    blocks: pool.entries.len() as u32,
                    in_use: (pool.entries.len() as u32).saturating_sub(free),
                    exhausted: pool.exhausted.load(Ordering::Relaxed),
                }
            }),
        }
    }

    fn take(&self, class: usize) -> Option<Buffer> {
        let pool = &self.shared.pools[class];
        let index = pool.pop()?;
        pool.entries[index as usize]
            .parts
            .store(1, Ordering::Relaxed);
        Some(Buffer {
            shared: self.shared.clone(),
            class: class as u8,
            index,
            start: 0,
            len: pool.block_bytes,
        })
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("region", &self.shared.id)
            .field("stats", &self.stats())
            .finish()
    }
}

/// What an arena has in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaStats {
    /// One entry per class, smallest first.
    pub pools: [PoolStats; 4],
}

impl ArenaStats {
    /// Blocks in use, of every class.
    pub fn in_use(&self) -> u32 {
        self.pools.iter().map(|pool| pool.in_use).sum()
    }
}

/// What one class of an arena has in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// The class.
    pub class: SizeClass,
    /// Blocks in all.
    pub blocks: u32,
    /// Blocks that are taken or lent.
    pub in_use: u32,
    /// How often the class had no block to give.
    pub exhausted: u64,
}
