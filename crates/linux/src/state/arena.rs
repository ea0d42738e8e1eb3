//! Memory for retained plaintext: pieces of 2 to 64 KiB, as buddies.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nic::ring::{Region, RegionId, Regions, RegisterError, Slice};
use wire::SeqNum;

use super::State;
use super::mapping::Mapping;

/// Bytes of a unit.
pub(crate) const UNIT: usize = 2048;
/// Words that describe one.
pub(super) const UNIT_WORDS: usize = 2;
/// Bytes of the largest piece.
pub(crate) const MAX_PIECE: u32 = (UNIT as u32) << (ORDERS - 1);

const ORDERS: usize = 6;
const LIVE: u64 = 1 << 63;
/// The length's bits in its word, and where those begin that say what is before it.
const LEN: u64 = (1 << SKIP_SHIFT) - 1;
const SKIP_SHIFT: u32 = 17;
const MAX_SKIP: u64 = (1 << (32 - SKIP_SHIFT)) - 1;

/// The pieces, and what is free.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: Arc<Mapping>,
    units_at: usize,
    units: usize,
    region: Arc<Region>,
    id: RegionId,
    /// By order; entries whose block is not free any more are passed over.
    free: [Vec<u32>; ORDERS],
    /// For each unit at which a free block begins, its order and one; otherwise 0.
    begins_free: Box<[u8]>,
    free_units: usize,
}

/// A piece of memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The piece.
    pub unit: u32,
    pub order: u8,
    /// Whose it is: index and generation of the connection's entry.
    pub owner: (u32, u32),
    /// What it has.
    pub start: SeqNum,
    pub len: u32,
    /// Bytes before these that are not of it.
    pub skip: u32,
}

/// A largest piece of which nothing is known in the state yet: after a restart it is free.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block(u32);

impl Block {
    /// Its unit and order.
    pub(crate) fn into_piece(self) -> (u32, u8) {
        (self.0, ORDERS as u8 - 1)
    }
}

impl Arena {
    /// The memory of `state`, registered, with what is in use there.
    pub(crate) fn new(
        state: &State,
        regions: &Regions,
    ) -> Result<(Arena, Vec<Found>), RegisterError> {
        let layout = state.layout;
        let region = state
            .mapping
            .region(layout.memory_at(), layout.units * UNIT);
        let region = Arc::new(region);
        let mut arena = Arena {
            mapping: Arc::clone(&state.mapping),
            units_at: layout.units_at(),
            units: layout.units,
            id: regions.register(Arc::clone(&region))?,
            region,
            free: std::array::from_fn(|_| Vec::new()),
            begins_free: vec![0; layout.units].into(),
            free_units: 0,
        };
        let found = arena.scan();
        Ok((arena, found))
    }

    /// What is in use; the rest is free then.
    fn scan(&mut self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut unit = 0;
        while unit < self.units {
            let words = self.words(unit as u32);
            let (first, second) = (
                words[0].load(Ordering::Acquire),
                words[1].load(Ordering::Relaxed),
            );
            let order = (first >> 56 & 0x7f) as usize;
            if first & LIVE != 0 && order < ORDERS && unit.is_multiple_of(1 << order) {
                let skip = (second >> SKIP_SHIFT & MAX_SKIP).min((UNIT << order) as u64) as u32;
                found.push(Found {
                    unit: unit as u32,
                    order: order as u8,
                    owner: ((first >> 32 & 0xff_ffff) as u32, (second >> 32) as u32),
                    start: SeqNum(first as u32),
                    len: ((second & LEN) as u32).min(capacity(order as u8) - skip),
                    skip,
                });
                unit += 1 << order;
            } else {
                words[0].store(0, Ordering::Relaxed);
                self.give(unit, 0);
                unit += 1;
            }
        }
        found
    }

    /// Takes a piece of this order; gives its unit.
    pub(crate) fn allocate(&mut self, order: u8, owner: (u32, u32), start: SeqNum) -> Option<u32> {
        let unit = self.take(usize::from(order))?;
        self.set_len(unit, owner.1, (0, 0));
        self.set_owner(unit, order, owner.0, start);
        Some(unit)
    }

    /// Takes a largest piece to receive a frame in. `None` when all are taken.
    pub(crate) fn take_block(&mut self) -> Option<Block> {
        let unit = self.take(ORDERS - 1)?;
        Some(Block(unit))
    }

    /// Gives one back that was not kept.
    pub(crate) fn give_block(&mut self, block: Block) {
        self.give(block.0 as usize, ORDERS - 1);
    }

    /// Where a block is.
    pub(crate) fn block(&self, block: &Block) -> Slice {
        self.slice(block.0, 0, MAX_PIECE)
    }

    /// The memory, and as what the NIC knows it.
    pub(crate) fn memory(&self) -> (Arc<Region>, RegionId) {
        (Arc::clone(&self.region), self.id)
    }

    /// Keeps a block with what is in it: `len` bytes behind `skip` others. Gives the piece.
    pub(crate) fn keep(
        &self,
        block: Block,
        owner: (u32, u32),
        start: SeqNum,
        (skip, len): (u32, u32),
    ) -> (u32, u8) {
        debug_assert!(u64::from(skip) <= MAX_SKIP && skip + len <= MAX_PIECE);
        let (unit, order) = block.into_piece();
        self.set_len(unit, owner.1, (skip, len));
        self.set_owner(unit, order, owner.0, start);
        (unit, order)
    }

    /// Puts bytes behind the `len` that a piece has behind `skip` others. They must fit.
    pub(crate) fn append(&self, unit: u32, (skip, len): (u32, u32), generation: u32, bytes: &[u8]) {
        let at = unit as usize * UNIT + (skip + len) as usize;
        let written = self.region.write(at as u64, bytes);
        debug_assert!(written, "a piece is inside of the memory");
        self.set_len(unit, generation, (skip, len + bytes.len() as u32));
    }

    fn set_len(&self, unit: u32, generation: u32, (skip, len): (u32, u32)) {
        let word = u64::from(generation) << 32 | u64::from(skip) << SKIP_SHIFT | u64::from(len);
        self.words(unit)[1].store(word, Ordering::Release);
    }

    fn set_owner(&self, unit: u32, order: u8, owner: u32, start: SeqNum) {
        let word = LIVE | u64::from(order) << 56 | u64::from(owner) << 32 | u64::from(start.0);
        self.words(unit)[0].store(word, Ordering::Release);
    }

    /// Reads bytes of a piece.
    pub(crate) fn read(&self, unit: u32, offset: u32, bytes: &mut [u8]) {
        let at = unit as usize * UNIT + offset as usize;
        let read = self.region.read(at as u64, bytes);
        debug_assert!(read, "a piece is inside of the memory");
    }

    /// As a descriptor names a part of a piece.
    pub(crate) fn slice(&self, unit: u32, offset: u32, len: u32) -> Slice {
        Slice {
            region: self.id,
            offset: u64::from(unit) * UNIT as u64 + u64::from(offset),
            len,
        }
    }

    /// Gives a piece back.
    pub(crate) fn release(&mut self, unit: u32, order: u8) {
        self.words(unit)[0].store(0, Ordering::Release);
        self.give(unit as usize, usize::from(order));
    }

    /// Bytes that are free.
    pub(crate) fn free_bytes(&self) -> u64 {
        (self.free_units * UNIT) as u64
    }

    fn words(&self, unit: u32) -> &[std::sync::atomic::AtomicU64] {
        let at = self.units_at + unit as usize * UNIT_WORDS * 8;
        self.mapping.words(at, UNIT_WORDS)
    }

    fn take(&mut self, order: usize) -> Option<u32> {
        let larger = (order..ORDERS).find(|at| self.has_free(*at))?;
        let unit = self.free[larger].pop()?;
        self.begins_free[unit as usize] = 0;
        for half in (order..larger).rev() {
            let buddy = unit + (1 << half);
            self.begins_free[buddy as usize] = half as u8 + 1;
            self.free[half].push(buddy);
        }
        self.free_units -= 1 << order;
        Some(unit)
    }

    /// Whether the last entry of a list is a free block, once entries that are not free are removed.
    fn has_free(&mut self, order: usize) -> bool {
        let list = &mut self.free[order];
        while let Some(unit) = list.last() {
            if usize::from(self.begins_free[*unit as usize]) == order + 1 {
                return true;
            }
            list.pop();
        }
        false
    }

    fn give(&mut self, mut unit: usize, mut order: usize) {
        self.free_units += 1 << order;
        while order + 1 < ORDERS {
            let buddy = unit ^ 1 << order;
            if self.begins_free.get(buddy) != Some(&(order as u8 + 1)) {
                break;
            }
            self.begins_free[buddy] = 0;
            unit &= !(1 << order);
            order += 1;
        }
        self.begins_free[unit] = order as u8 + 1;
        self.free[order].push(unit as u32);
    }
}

/// Bytes of a piece.
pub(crate) fn capacity(order: u8) -> u32 {
    (UNIT as u32) << order
}

/// The order of a piece with room for `len` bytes, or for as many as a piece can have.
pub(crate) fn order_for(len: u32) -> u8 {
    let units = len.div_ceil(UNIT as u32).max(1);
    (units.next_power_of_two().trailing_zeros() as u8).min(ORDERS as u8 - 1)
}
