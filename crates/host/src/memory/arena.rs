//! Buffers of four sizes, cut from one registered region, and [how many bytes](Limits) may be used for what.
//!
//! Taking and giving back are O(1), lock-free and allocate nothing. A [`Buffer`] owns its bytes: parts
//! made by [`Buffer::split_off`] are disjoint, and the block returns to its pool when the last
//! part is dropped. So neither a double free nor two writers of one byte can be written down.
//!
//! A buffer that the device holds (a posted receive buffer) is *lent*: the handle is given up for
//! a [`Slice`], and [`Arena::reclaim`] makes a handle again only for a block that was lent. A
//! device that names a block twice, or one that it never got, is told so.

mod budget;
mod buffer;
mod layout;
mod pool;
mod trim;

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nic::ring::{Region, RegionId, Slice};

pub use budget::{Limits, Purpose, Usage};
pub use buffer::{Buffer, LendError};
pub use layout::{ArenaLayout, SizeClass};

use budget::Budget;
use pool::{LENT, Pool, Shared};

/// An allocator over one registered region. A handle: clones share the blocks.
#[derive(Clone)]
pub struct Arena {
    shared: Arc<Shared>,
}

impl Arena {
    /// Cuts `region`, registered as `id`, into blocks, of which so many bytes may be used.
    ///
    /// # Panics
    /// When the region is smaller than [`ArenaLayout::bytes`], or read-only.
    pub fn new(region: Arc<Region>, id: RegionId, layout: ArenaLayout, limits: Limits) -> Self {
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
            offset += u64::from(class.bytes()) * u64::from(layout.count(class));
            pool
        });
        Arena {
            shared: Arc::new(Shared {
                base,
                id,
                pools,
                budget: Budget::new(limits),
                region,
            }),
        }
    }

    /// The id under which the region is registered.
    pub fn region_id(&self) -> RegionId {
        self.shared.id
    }

    /// Moves received content that is short to a short buffer, so that a longer one is free.
    pub(crate) fn shrink(&self, buffer: Buffer) -> Buffer {
        let len = buffer.len() as u32;
        if SizeClass::fitting(len).is_none_or(|class| class >= buffer.class()) {
            return buffer;
        }
        match self.allocate(Purpose::Received, len) {
            Some(mut small) if small.class() < buffer.class() => {
                small.truncate(len);
                small.copy_from_slice(&buffer);
                small
            }
            _ => buffer,
        }
    }

    /// A buffer of at least `len` bytes, from the smallest class that has one free. Its length is
    /// the block's whole size; see [`Buffer::truncate`]. `None` when the purpose may take no more, or memory has run out.
    pub fn allocate(&self, purpose: Purpose, len: u32) -> Option<Buffer> {
        let first = SizeClass::fitting(len)?;
        (first as usize..SizeClass::ALL.len()).find_map(|class| self.take(class, purpose))
    }

    /// A buffer of exactly this class, or `None` when the purpose may take none, or it has none free.
    #[inline]
    pub fn allocate_class(&self, purpose: Purpose, class: SizeClass) -> Option<Buffer> {
        self.take(class as usize, purpose)
    }

    /// Lends a block of this class to the device, as [`Buffer::lend`] does. `None` when it has none free.
    #[inline]
    pub(crate) fn lend(&self, class: SizeClass) -> Option<Slice> {
        let pool = &self.shared.pools[class as usize];
        let index = pool.pop()?;
        pool.entries[index as usize]
            .parts
            .store(LENT, Ordering::Release);
        Some(Slice {
            region: self.shared.id,
            offset: pool.offset_of(index),
            len: pool.block_bytes,
        })
    }

    /// Bytes that the purpose may take now.
    pub fn headroom(&self, purpose: Purpose) -> u64 {
        self.shared.budget.headroom(purpose)
    }

    /// What may be used.
    pub fn limits(&self) -> &Limits {
        &self.shared.budget.limits
    }

    /// Bytes in use, but for those that are lent.
    pub fn usage(&self) -> Usage {
        self.shared.budget.usage()
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
        let received = Purpose::Received.whole();
        pool.entries[index as usize]
            .parts
            .compare_exchange(LENT, received, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let bytes = pool.block_bytes;
        self.shared.budget.take(Purpose::Received, bytes);
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
        for (class, pool) in self.shared.pools.iter().enumerate() {
            for (index, entry) in (0..).zip(&pool.entries) {
                let posted = Purpose::Posted as u32;
                let taken = entry.parts.compare_exchange(
                    LENT,
                    posted,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    self.shared.give(class, index, posted);
                }
            }
        }
    }

    /// What is in use, by class. It takes its time.
    pub fn stats(&self) -> ArenaStats {
        ArenaStats {
            pools: std::array::from_fn(|class| {
                let pool = &self.shared.pools[class];
                PoolStats {
                    class: SizeClass::ALL[class],
                    blocks: pool.entries.len() as u32,
                    in_use: pool.in_use(),
                    exhausted: pool.exhausted.load(Ordering::Relaxed),
                }
            }),
        }
    }

    #[inline]
    fn take(&self, class: usize, purpose: Purpose) -> Option<Buffer> {
        let len = self.shared.pools[class].block_bytes;
        if self.shared.budget.headroom(purpose) < u64::from(len) {
            return None;
        }
        let index = self.shared.take(class, purpose)?;
        Some(Buffer {
            shared: self.shared.clone(),
            class: class as u8,
            index,
            start: 0,
            len,
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
