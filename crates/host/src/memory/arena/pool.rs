//! The blocks of an arena: a lock-free stack for each size.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nic::ring::{Region, RegionId};

use super::SizeClass;

pub(super) struct Shared {
    pub base: NonNull<u8>,
    pub id: RegionId,
    pub pools: [Pool; 4],
    pub _region: Arc<Region>,
}

// SAFETY: `base` points into `_region`, which is shared memory that any thread may address; the
// blocks' bytes are reached only through `Buffer`, which owns its part alone.
unsafe impl Send for Shared {}
// SAFETY: as above; everything else in it is atomic.
unsafe impl Sync for Shared {}

impl Shared {
    /// Class, block and position in the block of an offset in the region.
    pub fn locate(&self, offset: u64) -> Option<(usize, u32, u32)> {
        // Pools lie one behind the other: the last that begins before the offset is the one.
        let mut pools = self.pools.iter().enumerate().rev();
        let (class, pool) = pools.find(|(_, pool)| pool.first <= offset)?;
        let within = offset - pool.first;
        let index = within / u64::from(pool.block_bytes);
        (index < pool.entries.len() as u64).then(|| {
            let start = within % u64::from(pool.block_bytes);
            (class, index as u32, start as u32)
        })
    }
}

/// `Entry::parts` of a block that the device holds.
pub(super) const LENT: u32 = 1 << 31;
/// End of a free list.
const NIL: u32 = u32::MAX;

pub(super) struct Entry {
    /// 0: free. Below [`LENT`]: the live parts. [`LENT`]: with the device.
    pub parts: AtomicU32,
    /// Next block of the free list, while this one is on it.
    next: AtomicU32,
}

/// One class: a lock-free stack of block indices. The head carries a tag beside the index, so
/// that a block that was taken and given back in between does not fool a compare-exchange.
pub(super) struct Pool {
    first: u64,
    pub block_bytes: u32,
    head: AtomicU64,
    pub entries: Box<[Entry]>,
    pub free: AtomicU32,
    pub exhausted: AtomicU64,
}

impl Pool {
    pub fn new(class: SizeClass, first: u64, count: u32) -> Self {
        let entries = (0..count)
            .map(|index| Entry {
                parts: AtomicU32::new(0),
                next: AtomicU32::new(if index + 1 < count { index + 1 } else { NIL }),
            })
            .collect();
        Pool {
            first,
            block_bytes: class.bytes(),
            head: AtomicU64::new(u64::from(if count == 0 { NIL } else { 0 })),
            entries,
            free: AtomicU32::new(count),
            exhausted: AtomicU64::new(0),
        }
    }

    pub fn offset_of(&self, index: u32) -> u64 {
        self.first + u64::from(index) * u64::from(self.block_bytes)
    }

    pub fn pop(&self) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let index = head as u32;
            if index == NIL {
                self.exhausted.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            let next = self.entries[index as usize].next.load(Ordering::Relaxed);
            match self.head.compare_exchange_weak(
                head,
                retag(head, next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    self.free.fetch_sub(1, Ordering::Relaxed);
                    return Some(index);
                }
                Err(now) => head = now,
            }
        }
    }

    pub fn push(&self, index: u32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.entries[index as usize]
                .next
                .store(head as u32, Ordering::Relaxed);
            match self.head.compare_exchange_weak(
                head,
                retag(head, index),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.free.fetch_add(1, Ordering::Relaxed);
    }
}

fn retag(head: u64, index: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(index)
}
