//! The splices of the device, in chunks; and where they are by their numbers.
//!
//! Flows lead to their splice by the index of all [flows](crate::accel::flows).

use super::ids::Ids;
use super::pair::{NIL, Pair, Phase};
use crate::ring::accel::SpliceId;
use crate::rss::FlowHasher;
use crate::switch::FunctionId;

/// Pairs that room is made for at once.
const CHUNK: usize = 256;

/// So that the hash has bits enough in the index of numbers.
const MAX_PAIRS: u32 = 1 << 20;

/// Where a pair is in the table.
pub(super) type Slot = u32;

/// The splices of all functions.
#[derive(Debug)]
pub(super) struct Table {
    chunks: Vec<Box<[Pair]>>,
    /// The first free pair of those in the chunks.
    free: u32,
    used: u32,
    /// By function.
    used_by: Vec<u32>,
    capacity: u32,
    ids: Ids,
}

impl Table {
    /// A table for at most `capacity` pairs. It takes memory as pairs come.
    pub(super) fn new(capacity: u32) -> Table {
        Table {
            chunks: Vec::new(),
            free: NIL,
            used: 0,
            used_by: Vec::new(),
            capacity: capacity.min(MAX_PAIRS),
            ids: Ids::new(capacity.min(MAX_PAIRS)),
        }
    }

    /// Bytes that a full table of so many pairs takes.
    #[cfg(test)]
    pub(super) const fn bytes(capacity: u32) -> usize {
        let chunks = (capacity as usize).div_ceil(CHUNK);
        chunks * (CHUNK * size_of::<Pair>() + size_of::<Box<[Pair]>>()) + Ids::bytes(capacity)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Pairs that it takes still.
    pub(super) fn room(&self) -> u32 {
        self.capacity - self.used
    }

    /// Pairs of a function.
    pub(super) fn used_by(&self, function: FunctionId) -> u32 {
        let used = self.used_by.get(usize::from(function.0));
        used.copied().unwrap_or_default()
    }

    /// The places of a function's pairs.
    pub(super) fn slots_of(&self, function: FunctionId) -> Vec<Slot> {
        let all = 0..(self.chunks.len() * CHUNK) as Slot;
        let is_its = |pair: &Pair| pair.function == function.0;
        all.filter(|slot| self.get(*slot).is_some_and(is_its))
            .collect()
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The pair of a slot that is in use.
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<&Pair> {
        let chunk = self.chunks.get(slot as usize / CHUNK)?;
        let pair = &chunk[slot as usize % CHUNK];
        (!matches!(pair.phase, Phase::Free { .. })).then_some(pair)
    }

    /// As [`get`](Self::get).
    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Pair> {
        let chunk = self.chunks.get_mut(slot as usize / CHUNK)?;
        let pair = &mut chunk[slot as usize % CHUNK];
        (!matches!(pair.phase, Phase::Free { .. })).then_some(pair)
    }

    /// The pair of a function's number.
    pub(super) fn find(&self, hasher: &FlowHasher, function: u16, id: SpliceId) -> Option<Slot> {
        self.ids.find(hash(hasher, function, id), |slot| {
            let pair = self.get(slot);
            pair.is_some_and(|pair| pair.function == function && pair.id == id)
        })
    }

    /// Adds a pair, whose number is not in use. `None` when there is no room.
    pub(super) fn insert(&mut self, hasher: &FlowHasher, pair: Pair) -> Option<Slot> {
        if self.used == self.capacity {
            return None;
        }
        let slot = self.free_slot(&pair);
        let next = match self.place(slot).phase {
            Phase::Free { next } => next,
            _ => return None,
        };
        if !self.ids.insert(hash(hasher, pair.function, pair.id), slot) {
            return None;
        }
        *self.place(slot) = pair;
        self.free = next;
        self.used += 1;
        let function = usize::from(pair.function);
        if function >= self.used_by.len() {
            self.used_by.resize(function + 1, 0);
        }
        self.used_by[function] += 1;
        Some(slot)
    }

    /// Takes a pair out.
    pub(super) fn remove(&mut self, hasher: &FlowHasher, slot: Slot) -> Option<Pair> {
        let pair = *self.get(slot)?;
        self.ids.remove(hash(hasher, pair.function, pair.id), slot);
        let next = std::mem::replace(&mut self.free, slot);
        self.place(slot).phase = Phase::Free { next };
        self.used -= 1;
        self.used_by[usize::from(pair.function)] -= 1;
        Some(pair)
    }

    /// The next free slot; makes room for more when there is none.
    fn free_slot(&mut self, like: &Pair) -> Slot {
        if self.free == NIL {
            let first = (self.chunks.len() * CHUNK) as u32;
            let last = first + CHUNK as u32 - 1;
            let chunk = (first..=last).map(|slot| {
                let mut pair = *like;
                let next = if slot == last { NIL } else { slot + 1 };
                pair.phase = Phase::Free { next };
                pair
            });
            self.chunks.push(chunk.collect());
            self.free = first;
        }
        self.free
    }

    fn place(&mut self, slot: Slot) -> &mut Pair {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

fn hash(hasher: &FlowHasher, function: u16, id: SpliceId) -> u64 {
    hasher.hash_number(u64::from(function) << 32 | u64::from(id.0))
}
