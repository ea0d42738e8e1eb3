//! Splices by their numbers.
//!
//! A bucket is a cache line of 16 places; each number has two buckets that it may be in, and goes to the emptier one. So
//! nothing is ever moved, and taking out is clearing a place. A place holds the splice's slot and, in the bits left, a
//! part of the number's keyed hash.

use super::table::Slot;

/// Places of a bucket.
const PLACES: usize = 16;
/// Numbers per bucket at most, on average: with a choice of two, no bucket runs full.
const LOAD: usize = 12;
const EMPTY: u32 = u32::MAX;

type Bucket = [u32; PLACES];

/// Slots by hash.
#[derive(Debug)]
pub(super) struct Ids {
    /// A power of two of them; empty before the first number comes.
    buckets: Box<[Bucket]>,
    capacity: u32,
}

impl Ids {
    /// For at most `capacity` numbers.
    pub(super) fn new(capacity: u32) -> Ids {
        Ids {
            buckets: Box::default(),
            capacity,
        }
    }

    /// Bytes that it takes for so many numbers.
    #[cfg(test)]
    pub(super) const fn bytes(capacity: u32) -> usize {
        buckets(capacity) * size_of::<Bucket>()
    }

    /// The slot with this hash that `is` it.
    pub(super) fn find(&self, hash: u64, is: impl Fn(Slot) -> bool) -> Option<Slot> {
        let (low, tag) = (self.low(), self.tag(hash));
        let buckets = self.lines(hash).into_iter();
        buckets
            .filter_map(|line| self.buckets.get(line))
            .flatten()
            .filter(|place| **place != EMPTY && *place & !low == tag)
            .map(|place| place & low)
            .find(|slot| is(*slot))
    }

    /// Adds a slot. False when there is no place for it.
    pub(super) fn insert(&mut self, hash: u64, slot: Slot) -> bool {
        if self.buckets.is_empty() {
            self.buckets = vec![[EMPTY; PLACES]; buckets(self.capacity)].into_boxed_slice();
        }
        let place = self.tag(hash) | slot;
        let free = |line: usize| self.buckets[line].iter().filter(|at| **at == EMPTY).count();
        let [first, second] = self.lines(hash);
        let line = if free(second) > free(first) {
            second
        } else {
            first
        };
        let empty = self.buckets[line].iter_mut().find(|at| **at == EMPTY);
        empty.map(|empty| *empty = place).is_some()
    }

    /// Takes a slot out.
    pub(super) fn remove(&mut self, hash: u64, slot: Slot) {
        let place = self.tag(hash) | slot;
        for line in self.lines(hash) {
            let bucket = self.buckets.get_mut(line).into_iter().flatten();
            if let Some(found) = bucket.into_iter().find(|at| **at == place) {
                *found = EMPTY;
                return;
            }
        }
    }

    fn lines(&self, hash: u64) -> [usize; 2] {
        let mask = self.buckets.len().wrapping_sub(1);
        [hash as usize & mask, (hash >> 20) as usize & mask]
    }

    /// The bits of the hash that a place has.
    fn tag(&self, hash: u64) -> u32 {
        (hash >> 32) as u32 & !self.low()
    }

    /// The bits of a slot: one more than the largest needs, so that no place is [`EMPTY`].
    fn low(&self) -> u32 {
        (self.capacity + 1).next_power_of_two() - 1
    }
}

/// Buckets for so many numbers.
const fn buckets(capacity: u32) -> usize {
    (capacity as usize).div_ceil(LOAD).next_power_of_two()
}
