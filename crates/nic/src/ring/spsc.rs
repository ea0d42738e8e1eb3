//! One single-producer, single-consumer ring inside a [`Block`].
//!
//! ```text
//! line 0   tail    slots published so far, written by the producer
//! line 1   head    slots consumed so far, written by the consumer
//! line 2   asleep  1 when the consumer wants a wake-up, written by the consumer, taken by the producer
//! line 3…  slots   capacity × WORDS words, written by the producer
//! ```
//!
//! Indices are 64-bit counts that never wrap; each side keeps its own index and a copy of the
//! other's, which it reads again only when the copy says that there is nothing to do. Publishing is
//! separate from writing, so that a batch costs one release store.
//!
//! Neither side believes the other: an index that goes back, or is ahead of what is possible, is
//! ignored, as if the other side had done nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::block::{Block, LINE};

const LINE_WORDS: usize = LINE / 8;
const TAIL: usize = 0;
const HEAD: usize = LINE_WORDS;
const ASLEEP: usize = 2 * LINE_WORDS;
const SLOTS: usize = 3 * LINE_WORDS;
/// A ring that begins at a count beyond this might see it wrap.
const LAST_START: u64 = 1 << 62;

/// Where a ring lies in the block, and how large it is.
#[derive(Debug, Clone)]
pub(super) struct Ring<const WORDS: usize> {
    block: Arc<Block>,
    /// First word of the ring in the block.
    at: usize,
    /// Slots; a power of two.
    capacity: u64,
}

/// Words that a ring of `capacity` slots takes, a multiple of a cache line pair.
pub(super) const fn ring_words<const WORDS: usize>(capacity: u32) -> usize {
    (SLOTS + capacity as usize * WORDS).next_multiple_of(LINE_WORDS)
}

impl<const WORDS: usize> Ring<WORDS> {
    pub(super) fn new(block: Arc<Block>, at: usize, capacity: u32) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "a ring's capacity is a power of two"
        );
        assert!(at + ring_words::<WORDS>(capacity) <= block.words().len());
        Ring {
            block,
            at,
            capacity: u64::from(capacity),
        }
    }

    /// The count that an empty ring goes on from. `None` for one that is not empty, or near the end of all counts.
    fn rests_at(&self) -> Option<u64> {
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let head = self.word(HEAD).load(Ordering::Relaxed);
        (tail == head && tail <= LAST_START).then_some(tail)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.block.words()[self.at + offset]
    }

    fn slot(&self, index: u64) -> &[AtomicU64] {
        let start = self.at + SLOTS + (index & (self.capacity - 1)) as usize * WORDS;
        &self.block.words()[start..start + WORDS]
    }
}

/// The writing side.
#[derive(Debug)]
pub(super) struct Producer<const WORDS: usize> {
    ring: Ring<WORDS>,
    tail: u64,
    published: u64,
    head_seen: u64,
}

impl<const WORDS: usize> Producer<WORDS> {
    /// Of a ring in zeroed memory.
    pub(super) fn new(ring: Ring<WORDS>) -> Self {
        Self::at(ring, 0)
    }

    /// Of a ring that the other side has set up, which is empty.
    pub(super) fn resume(ring: Ring<WORDS>) -> Option<Self> {
        let at = ring.rests_at()?;
        Some(Self::at(ring, at))
    }

    fn at(ring: Ring<WORDS>, index: u64) -> Self {
        Producer {
            ring,
            tail: index,
            published: index,
            head_seen: index,
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        self.ring.capacity as u32
    }

    /// Slots that can be written; asks the other side only when fewer than `wanted` are known.
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let known = self.capacity() - self.used();
        if known >= wanted {
            return known;
        }
        self.refresh();
        self.capacity() - self.used()
    }

    /// Slots that the consumer has taken so far.
    pub(super) fn completed(&mut self) -> u64 {
        self.refresh();
        self.head_seen
    }

    /// Takes the consumer's index over, unless it is impossible: it may neither go back nor be
    /// ahead of what was published.
    fn refresh(&mut self) {
        let head = self.ring.word(HEAD).load(Ordering::Acquire);
        if head > self.head_seen && head <= self.published {
            self.head_seen = head;
        }
    }

    /// Overwrites words of all slots that the consumer has not given back by zeroes.
    pub(super) fn erase(&mut self, words: Range<usize>) {
        self.refresh();
        for index in self.head_seen..self.tail {
            for shared in &self.ring.slot(index)[words.clone()] {
                shared.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The consumer is gone, and so is what it has not taken: the ring is empty, and goes on from here with another one.
    pub(super) fn clear(&mut self) {
        self.ring.word(HEAD).store(self.tail, Ordering::Relaxed);
        self.ring.word(TAIL).store(self.tail, Ordering::Release);
        (self.published, self.head_seen) = (self.tail, self.tail);
    }

    fn used(&self) -> u32 {
        (self.tail - self.head_seen) as u32
    }

    /// Index that the next written slot gets.
    pub(super) fn next(&self) -> u64 {
        self.tail
    }

    /// Writes the next slot; the words after `words` keep what they had.
    ///
    /// # Panics
    /// When the ring is full, or `words` is longer than a slot: the caller asked [`free`](Self::free).
    pub(super) fn write(&mut self, words: &[u64]) {
        assert!(self.used() < self.capacity(), "the ring is full");
        assert!(words.len() <= WORDS);
        for (slot, word) in self.ring.slot(self.tail).iter().zip(words) {
            slot.store(*word, Ordering::Relaxed);
        }
        self.tail += 1;
    }

    /// Shows all written slots to the consumer. True when there were any.
    pub(super) fn publish(&mut self) -> bool {
        if self.tail == self.published {
            return false;
        }
        self.ring.word(TAIL).store(self.tail, Ordering::Release);
        self.published = self.tail;
        true
    }

    /// After [`publish`](Self::publish): whether the consumer sleeps and must be woken. Takes the wish, so that
    /// one sleep gets one wake-up.
    ///
    /// The fence pairs with the one in [`Consumer::prepare_sleep`]: either this side sees the
    /// wish, or the consumer sees the published slots.
    pub(super) fn take_wakeup(&self) -> bool {
        fence(Ordering::SeqCst);
        let asleep = self.ring.word(ASLEEP);
        asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0
    }
}

/// The reading side.
#[derive(Debug)]
pub(super) struct Consumer<const WORDS: usize> {
    ring: Ring<WORDS>,
    head: u64,
    published: u64,
    tail_seen: u64,
}

impl<const WORDS: usize> Consumer<WORDS> {
    /// Of a ring in zeroed memory.
    pub(super) fn new(ring: Ring<WORDS>) -> Self {
        Self::at(ring, 0)
    }

    /// Of a ring that the other side has set up, which is empty.
    pub(super) fn resume(ring: Ring<WORDS>) -> Option<Self> {
        let at = ring.rests_at()?;
        Some(Self::at(ring, at))
    }

    fn at(ring: Ring<WORDS>, index: u64) -> Self {
        Consumer {
            ring,
            head: index,
            published: index,
            tail_seen: index,
        }
    }

    /// Slots that can be read; asks the other side only when it knows of no slot.
    pub(super) fn available(&mut self) -> u32 {
        if self.tail_seen == self.head {
            self.refresh();
        }
        (self.tail_seen - self.head) as u32
    }

    /// Slots that are known to be readable.
    #[inline]
    pub(super) fn known(&self) -> u32 {
        (self.tail_seen - self.head) as u32
    }

    /// Slots that can be read, always asking the other side.
    pub(super) fn available_now(&mut self) -> u32 {
        self.refresh();
        (self.tail_seen - self.head) as u32
    }

    fn refresh(&mut self) {
        let tail = self.ring.word(TAIL).load(Ordering::Acquire);
        if tail >= self.tail_seen && tail - self.head <= self.ring.capacity {
            self.tail_seen = tail;
        }
    }

    /// Copies words of the slot `ahead` places after the next one. Each word is read once.
    pub(super) fn read(&self, ahead: u32, words: &mut [u64]) {
        let slot = self.ring.slot(self.head + u64::from(ahead));
        for (word, shared) in words.iter_mut().zip(slot) {
            *word = shared.load(Ordering::Relaxed);
        }
    }

    /// Copies words of the next slot, from word `from` on.
    pub(super) fn read_from(&self, from: usize, words: &mut [u64]) {
        let slot = self.ring.slot(self.head);
        for (word, shared) in words.iter_mut().zip(slot.iter().skip(from)) {
            *word = shared.load(Ordering::Relaxed);
        }
    }

    /// Overwrites words of the next slot by zeroes.
    pub(super) fn erase(&self, words: Range<usize>) {
        for shared in &self.ring.slot(self.head)[words] {
            shared.store(0, Ordering::Relaxed);
        }
    }

    /// Index of the next slot to read.
    pub(super) fn next(&self) -> u64 {
        self.head
    }

    /// Moves past `slots` slots, not more than are available.
    pub(super) fn advance(&mut self, slots: u32) {
        self.head = (self.head + u64::from(slots)).min(self.tail_seen);
    }

    /// Gives all slots passed back to the producer.
    pub(super) fn publish(&mut self) {
        self.publish_before(self.head);
    }

    /// Gives the slots passed before `index` back to the producer.
    pub(super) fn publish_before(&mut self, index: u64) {
        let head = index.min(self.head);
        if head > self.published {
            self.ring.word(HEAD).store(head, Ordering::Release);
            self.published = head;
        }
    }

    /// Slots that were given back so far.
    pub(super) fn freed(&self) -> u64 {
        self.published
    }

    /// The producer is gone, and so is what was not taken of what it has written: the ring is empty, and goes on from here with
    /// another one.
    pub(super) fn clear(&mut self) {
        self.ring.word(TAIL).store(self.head, Ordering::Relaxed);
        self.ring.word(HEAD).store(self.head, Ordering::Release);
        (self.published, self.tail_seen) = (self.head, self.head);
    }

    /// Announces that this side is about to sleep. False when something has come meanwhile: then
    /// it must not.
    pub(super) fn prepare_sleep(&mut self) -> bool {
        self.ring.word(ASLEEP).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.available_now() > 0 {
            self.cancel_sleep();
            return false;
        }
        true
    }

    /// Takes the announcement back.
    pub(super) fn cancel_sleep(&mut self) {
        self.ring.word(ASLEEP).store(0, Ordering::Relaxed);
    }
}
