//! Buffers of four sizes, cut from one registered region.
//!
//! Taking and giving back are O(1), lock-free and allocate nothing. A [`Buffer`] owns its bytes: parts
//! made by [`Buffer::split_off`] are disjoint, and the block returns to its pool when the last
//! part is dropped. So neither a double free nor two writers of one byte can be written down.
//!
//! A buffer that the device holds (a posted receive buffer) is *lent*: the handle is given up for
//! a [`Slice`], and [`Arena::reclaim`] makes a handle again only for a block that was lent. A
//! device that names a block twice, or one that it never got, is told so.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nic::ring::{Region, RegionId, Slice};

/// The block sizes of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeClass {
    /// 256 bytes: headers, alerts, short control messages.
    Header,
    /// 2 KiB: one packet of an Ethernet MTU.
    Packet,
    /// 17 KiB: one framed TLS record of the greatest size.
    Record,
    /// 66 KiB: a coalesced receive, or a chunk of a TSO send.
    Large,
}

impl SizeClass {
    /// Every class, smallest first.
    pub const ALL: [SizeClass; 4] = [
        SizeClass::Header,
        SizeClass::Packet,
        SizeClass::Record,
        SizeClass::Large,
    ];

    /// Bytes of one block.
    pub const fn bytes(self) -> u32 {
        match self {
            SizeClass::Header => 256,
            SizeClass::Packet => 2 * 1024,
            SizeClass::Record => 17 * 1024,
            SizeClass::Large => 66 * 1024,
        }
    }

    /// The smallest class whose blocks hold `len` bytes.
    pub const fn fitting(len: u32) -> Option<SizeClass> {
        let mut i = 0;
        while i < Self::ALL.len() {
            if len <= Self::ALL[i].bytes() {
                return Some(Self::ALL[i]);
            }
            i += 1;
        }
        None
    }
}

/// How many blocks of each size an arena has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaLayout {
    /// Blocks of [`SizeClass::Header`].
    pub header: u32,
    /// Blocks of [`SizeClass::Packet`].
    pub packet: u32,
    /// Blocks of [`SizeClass::Record`].
    pub record: u32,
    /// Blocks of [`SizeClass::Large`].
    pub large: u32,
}

impl ArenaLayout {
    /// Bytes of region that the layout takes.
    pub fn bytes(&self) -> u64 {
        SizeClass::ALL
            .iter()
            .map(|&class| u64::from(self.count(class)) * u64::from(class.bytes()))
            .sum()
    }

    /// A layout that takes at most `bytes`: most of it in [`SizeClass::Record`] and
    /// [`SizeClass::Large`] blocks, where payload is.
    pub fn within(bytes: u64) -> Self {
        let blocks = |share: u64, class: SizeClass| {
            let count = bytes / 100 * share / u64::from(class.bytes());
            u32::try_from(count).unwrap_or(u32::MAX >> 1).max(1)
        };
        ArenaLayout {
            header: blocks(2, SizeClass::Header),
            packet: blocks(18, SizeClass::Packet),
            record: blocks(30, SizeClass::Record),
            large: blocks(50, SizeClass::Large),
        }
    }

    /// Blocks of one class.
    pub fn count(&self, class: SizeClass) -> u32 {
        match class {
            SizeClass::Header => self.header,
            SizeClass::Packet => self.packet,
            SizeClass::Record => self.record,
            SizeClass::Large => self.large,
        }
    }
}

impl Default for ArenaLayout {
    /// About 100 MiB of address space; pages that are never used cost nothing.
    fn default() -> Self {
        ArenaLayout {
            header: 8192,
            packet: 8192,
            record: 2048,
            large: 768,
        }
    }
}

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

/// Bytes of an arena that this handle alone may touch.
///
/// Dropping the last part of a block gives it back.
pub struct Buffer {
    shared: Arc<Shared>,
    index: u32,
    start: u32,
    len: u32,
    class: u8,
}

impl Buffer {
    /// Where the bytes are, as a descriptor says it.
    pub fn slice(&self) -> Slice {
        let pool = &self.shared.pools[self.class as usize];
        Slice {
            region: self.shared.id,
            offset: pool.offset_of(self.index) + u64::from(self.start),
            len: self.len,
        }
    }

    /// A part of [`Self::slice`].
    ///
    /// # Panics
    /// When `offset + len` is beyond the buffer.
    pub fn subslice(&self, offset: u32, len: u32) -> Slice {
        let whole = self.slice();
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= whole.len),
            "{offset}+{len} is beyond a buffer of {} bytes",
            whole.len
        );
        Slice {
            offset: whole.offset + u64::from(offset),
            len,
            ..whole
        }
    }

    /// Keeps the first `len` bytes. Longer than the buffer changes nothing.
    pub fn truncate(&mut self, len: u32) {
        self.len = self.len.min(len);
    }

    /// Appends bytes in what the block has behind this buffer. False, and nothing changes, when there is too little of it
    /// or other parts of the block are alive.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let end = u64::from(self.start) + u64::from(self.len) + bytes.len() as u64;
        let is_whole = self.entry().parts.load(Ordering::Acquire) == 1;
        if !is_whole || end > u64::from(self.class().bytes()) {
            return false;
        }
        let at = self.len as usize;
        self.len += bytes.len() as u32;
        self[at..].copy_from_slice(bytes);
        true
    }

    /// Drops the first `len` bytes.
    ///
    /// # Panics
    /// When the buffer is shorter.
    pub fn advance(&mut self, len: u32) {
        assert!(len <= self.len, "{len} is beyond a buffer of {}", self.len);
        self.start += len;
        self.len -= len;
    }

    /// Keeps `[0, at)` and returns `[at, len)`; both own their part of the block.
    ///
    /// # Panics
    /// When the buffer is shorter than `at`.
    pub fn split_off(&mut self, at: u32) -> Buffer {
        assert!(at <= self.len, "{at} is beyond a buffer of {}", self.len);
        self.entry().parts.fetch_add(1, Ordering::Relaxed);
        let back = Buffer {
            shared: self.shared.clone(),
            class: self.class,
            index: self.index,
            start: self.start + at,
            len: self.len - at,
        };
        self.len = at;
        back
    }

    /// The block's class.
    pub fn class(&self) -> SizeClass {
        SizeClass::ALL[self.class as usize]
    }

    /// Lends the whole block to the device: its slice, to be posted, until [`Arena::reclaim`].
    ///
    /// # Errors
    /// [`LendError`], with the buffer, while other parts of the block are alive.
    pub fn lend(mut self) -> Result<Slice, LendError> {
        let lent =
            self.entry()
                .parts
                .compare_exchange(1, LENT, Ordering::Release, Ordering::Relaxed);
        if lent.is_err() {
            return Err(LendError(self));
        }
        self.start = 0;
        self.len = self.class().bytes();
        let slice = self.slice();
        // The block stays taken; only the handle's hold on the arena ends here.
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped and not used again, so the Arc is read out once.
        drop(unsafe { std::ptr::read(&this.shared) });
        Ok(slice)
    }

    fn entry(&self) -> &Entry {
        &self.shared.pools[self.class as usize].entries[self.index as usize]
    }

    fn address(&self) -> *mut u8 {
        let pool = &self.shared.pools[self.class as usize];
        let offset = pool.offset_of(self.index) as usize + self.start as usize;
        // SAFETY: the layout was checked to lie in the region, and start + len in the block.
        unsafe { self.shared.base.as_ptr().add(offset) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is in the region, which `shared` keeps mapped; no other handle names
        // these bytes (parts are disjoint), and a device that was sent their slice for reading
        // does not write them, except an ICV that is read only after its completion.
        unsafe { std::slice::from_raw_parts(self.address(), self.len as usize) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.len as usize) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let pool = &self.shared.pools[self.class as usize];
        let before = pool.entries[self.index as usize]
            .parts
            .fetch_sub(1, Ordering::AcqRel);
        debug_assert!((1..LENT).contains(&before));
        if before == 1 {
            pool.push(self.index);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:?}, {} bytes)", self.class(), self.len)
    }
}

/// A block was not lent because other parts of it are alive; here is the buffer.
#[derive(Debug, thiserror::Error)]
#[error("a block can be lent only whole, and other parts of it are in use")]
pub struct LendError(pub Buffer);

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

struct Shared {
    base: NonNull<u8>,
    id: RegionId,
    pools: [Pool; 4],
    _region: Arc<Region>,
}

// SAFETY: `base` points into `_region`, which is shared memory that any thread may address; the
// blocks' bytes are reached only through `Buffer`, which owns its part alone.
unsafe impl Send for Shared {}
// SAFETY: as above; everything else in it is atomic.
unsafe impl Sync for Shared {}

impl Shared {
    /// Class, block and position in the block of an offset in the region.
    fn locate(&self, offset: u64) -> Option<(usize, u32, u32)> {
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
const LENT: u32 = 1 << 31;
/// End of a free list.
const NIL: u32 = u32::MAX;

struct Entry {
    /// 0: free. Below [`LENT`]: the live parts. [`LENT`]: with the device.
    parts: AtomicU32,
    /// Next block of the free list, while this one is on it.
    next: AtomicU32,
}

/// One class: a lock-free stack of block indices. The head carries a tag beside the index, so
/// that a block that was taken and given back in between does not fool a compare-exchange.
struct Pool {
    first: u64,
    block_bytes: u32,
    head: AtomicU64,
    entries: Box<[Entry]>,
    free: AtomicU32,
    exhausted: AtomicU64,
}

impl Pool {
    fn new(class: SizeClass, first: u64, count: u32) -> Self {
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

    fn offset_of(&self, index: u32) -> u64 {
        self.first + u64::from(index) * u64::from(self.block_bytes)
    }

    fn pop(&self) -> Option<u32> {
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

    fn push(&self, index: u32) {
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
