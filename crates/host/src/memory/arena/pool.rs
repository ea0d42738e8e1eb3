//! The blocks of an arena: lock-free stacks for each size.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nic::ring::{Region, RegionId};

use super::SizeClass;
use super::budget::{Budget, Purpose};

pub(super) struct Shared {
    pub base: NonNull<u8>,
    pub id: RegionId,
    pub pools: [Pool; 4],
    pub budget: Budget,
    pub region: Arc<Region>,
}

// SAFETY: `base` points into `region`, which is shared memory that any thread may address; the
// blocks' bytes are reached only through `Buffer`, which owns its part alone.
unsafe impl Send for Shared {}
// SAFETY: as above; everything else in it is atomic.
unsafe impl Sync for Shared {}

impl Shared {
    /// Class, block and position in the block of an offset in the region.
    #[inline]
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

    /// A block of the class for the purpose, whatever limit there is for that.
    #[inline]
    pub fn take(&self, class: usize, purpose: Purpose) -> Option<u32> {
        let pool = &self.pools[class];
        let index = pool.pop()?;
        self.budget.take(purpose, pool.block_bytes);
        pool.entries[index as usize]
            .parts
            .store(purpose.whole(), Ordering::Relaxed);
        Some(index)
    }

    /// The last part of a block is gone, whose word was this.
    #[inline]
    pub fn give(&self, class: usize, index: u32, word: u32) {
        let pool = &self.pools[class];
        self.budget.give(Purpose::of(word), pool.block_bytes);
        pool.hot.push(&pool.entries, index, index);
    }
}

/// `Entry::parts` of a block that the device holds.
pub(super) const LENT: u32 = 1 << 31;
/// A list's end.
const END: u32 = 0;

/// All of it zero is a block that was never used.
pub(super) struct Entry {
    /// The live parts, and their [`Purpose`]; none if the block is free. [`LENT`]: with the device.
    pub parts: AtomicU32,
    /// The place behind the next block of the free list, while this one is on it; [`END`] in the last one.
    next: AtomicU32,
}

/// A lock-free stack of block indices. The head carries a tag beside the place behind the index, so that a block that was taken and
/// given back in between does not fool a compare-exchange.
#[derive(Default)]
pub(super) struct Stack(AtomicU64);

impl Stack {
    #[inline]
    fn pop(&self, entries: &[Entry]) -> Option<u32> {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let index = (head as u32).checked_sub(1)?;
            let next = entries[index as usize].next.load(Ordering::Relaxed);
            match self.0.compare_exchange_weak(
                head,
                retag(head, next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(index),
                Err(now) => head = now,
            }
        }
    }

    /// Puts a list of blocks on top, whose `last` one follows on `first` by `next`.
    #[inline]
    fn push(&self, entries: &[Entry], first: u32, last: u32) {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            entries[last as usize]
                .next
                .store(head as u32, Ordering::Relaxed);
            match self.0.compare_exchange_weak(
                head,
                retag(head, first + 1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
    }

    /// Puts blocks on top, the first of them uppermost.
    pub fn push_all(&self, entries: &[Entry], blocks: &[u32]) {
        let (Some(&first), Some(&last)) = (blocks.first(), blocks.last()) else {
            return;
        };
        for pair in blocks.windows(2) {
            entries[pair[0] as usize]
                .next
                .store(pair[1] + 1, Ordering::Relaxed);
        }
        self.push(entries, first, last);
    }

    /// Takes all blocks.
    pub fn take_all(&self, entries: &[Entry], blocks: &mut Vec<u32>) {
        let head = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |head| {
                Some(retag(head, END))
            });
        let mut place = head.unwrap_or_default() as u32;
        while let Some(index) = place.checked_sub(1) {
            blocks.push(index);
            place = entries[index as usize].next.load(Ordering::Relaxed);
        }
    }
}

/// One class. A block is taken from those that were given back last; else from those whose pages the system has; else it is one that
/// was never used.
pub(super) struct Pool {
    pub first: u64,
    pub block_bytes: u32,
    /// Free blocks with their pages.
    pub hot: Stack,
    /// Free blocks whose pages were given back to the system.
    pub cold: Stack,
    /// How many there are of those.
    pub cold_blocks: AtomicU32,
    pub entries: Box<[Entry]>,
    /// Blocks that were ever used: the first ones.
    pub used: AtomicU32,
    pub exhausted: AtomicU64,
}

impl Pool {
    pub fn new(class: SizeClass, first: u64, count: u32) -> Self {
        Pool {
            first,
            block_bytes: class.bytes(),
            hot: Stack::default(),
            cold: Stack::default(),
            cold_blocks: AtomicU32::new(0),
            entries: unused(count),
            used: AtomicU32::new(0),
            exhausted: AtomicU64::new(0),
        }
    }

    #[inline]
    pub fn offset_of(&self, index: u32) -> u64 {
        self.first + u64::from(index) * u64::from(self.block_bytes)
    }

    #[inline]
    pub fn pop(&self) -> Option<u32> {
        self.hot.pop(&self.entries).or_else(|| self.pop_cold())
    }

    #[cold]
    fn pop_cold(&self) -> Option<u32> {
        if let Some(index) = self.cold.pop(&self.entries) {
            self.cold_blocks.fetch_sub(1, Ordering::Relaxed);
            return Some(index);
        }
        let count = self.entries.len() as u32;
        let next = |used: u32| (used < count).then_some(used + 1);
        let unused = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if unused.is_err() {
            self.exhausted.fetch_add(1, Ordering::Relaxed);
        }
        unused.ok()
    }

    /// Bytes of blocks that have been used and whose pages were not given back.
    pub fn resident(&self) -> u64 {
        let cold = self.cold_blocks.load(Ordering::Relaxed);
        let blocks = self.used.load(Ordering::Relaxed).saturating_sub(cold);
        u64::from(blocks) * u64::from(self.block_bytes)
    }

    /// Blocks that are taken or lent.
    pub fn in_use(&self) -> u32 {
        let used = self.used.load(Ordering::Relaxed) as usize;
        let parts = self.entries[..used]
            .iter()
            .map(|entry| entry.parts.load(Ordering::Relaxed));
        parts
            .filter(|&word| word == LENT || Purpose::parts(word) > 0)
            .count() as u32
    }
}

/// Entries of blocks that were never used; those that never are take no memory.
fn unused(count: u32) -> Box<[Entry]> {
    if count == 0 {
        return Box::default();
    }
    let layout = Layout::array::<Entry>(count as usize).expect("an arena fits memory");
    // SAFETY: the layout is not of size zero.
    let start = unsafe { alloc_zeroed(layout) };
    let Some(start) = NonNull::new(start) else {
        handle_alloc_error(layout)
    };
    let entries = NonNull::slice_from_raw_parts(start.cast::<Entry>(), count as usize);
    // SAFETY: allocated just now by the global allocator with the layout of this slice; an entry of two zeroed atomics is a valid one.
    unsafe { Box::from_raw(entries.as_ptr()) }
}

#[inline]
fn retag(head: u64, place: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(place)
}
