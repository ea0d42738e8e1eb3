//! Logical blocks that several threads copy at the same time, and that stay whole.
//!
//! A controller that says AWUN 0 writes each logical block atomically: a read has all of what one write put into a block, or nothing of it
//! (NVM Command Set 1.0c §2.1.4). Blocks have versions: odd while one is written. A reader copies, and copies again if the version changed
//! meanwhile (a seqlock: Boehm 2012, "Can seqlocks get along with programming language memory models?"); so reads write to no shared memory.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// More versions than this are not kept: blocks share them.
const MOST: u64 = 1 << 16;
/// How often a reader copies while others write, before it keeps them out.
const ATTEMPTS: u32 = 4;
/// How often a version is looked at before another thread is let run: the one that writes may have lost its core.
const SPINS: u32 = 64;

/// The versions of a store's blocks.
pub(super) struct BlockVersions {
    /// A power of two of them.
    versions: Box<[AtomicU32]>,
    block_shift: u8,
}

/// Blocks that nothing else reads or writes.
pub(super) struct Held<'a> {
    of: &'a BlockVersions,
    blocks: Range<u64>,
}

impl BlockVersions {
    /// For a store of so many bytes in blocks of 2^`block_shift`.
    pub(super) fn new(bytes: u64, block_shift: u8) -> BlockVersions {
        let blocks = (bytes >> block_shift).clamp(1, MOST).next_power_of_two();
        BlockVersions {
            versions: (0..blocks).map(|_| AtomicU32::new(0)).collect(),
            block_shift,
        }
    }

    /// The bytes of `range` block by block.
    pub(super) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let shift = self.block_shift;
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = at;
            at = range.end.min(((start >> shift) + 1) << shift);
            (start < range.end).then_some(start..at)
        })
    }

    /// The same in parts of several whole blocks, which [`hold`](Self::hold) takes at once.
    pub(super) fn laps(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let lap = (self.versions.len() as u64) << self.block_shift;
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = at;
            at = range.end.min((start / lap + 1) * lap);
            (start < range.end).then_some(start..at)
        })
    }

    /// Calls `copy` until nothing has written to the block of byte `at` meanwhile; gives what it gave then.
    pub(super) fn read<R>(&self, at: u64, mut copy: impl FnMut() -> R) -> R {
        let version = self.version(at >> self.block_shift);
        for _ in 0..ATTEMPTS {
            let before = version.load(Ordering::Acquire);
            if !is_even(before) {
                std::hint::spin_loop();
                continue;
            }
            let copied = copy();
            fence(Ordering::Acquire);
            if version.load(Ordering::Relaxed) == before {
                return copied;
            }
        }
        let _held = self.hold(at..at + 1);
        copy()
    }

    /// Keeps others out of the blocks of these bytes, which are in one of the [`laps`](Self::laps).
    pub(super) fn hold(&self, bytes: Range<u64>) -> Held<'_> {
        let shift = self.block_shift;
        let last = bytes.end.saturating_sub(1).max(bytes.start);
        let blocks = bytes.start >> shift..(last >> shift) + 1;
        // Inside of a lap they are ascending for all: two that want the same do not wait for each other.
        for block in blocks.clone() {
            self.take(block);
        }
        // Nothing is written before the versions are odd.
        fence(Ordering::Release);
        Held { of: self, blocks }
    }

    fn take(&self, block: u64) {
        let version = self.version(block);
        for spin in 1u32.. {
            let now = version.load(Ordering::Relaxed);
            let taken = is_even(now)
                && version
                    .compare_exchange_weak(
                        now,
                        now.wrapping_add(1),
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    )
                    .is_ok();
            if taken {
                return;
            }
            if spin % SPINS == 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn version(&self, block: u64) -> &AtomicU32 {
        &self.versions[(block as usize) & (self.versions.len() - 1)]
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for block in self.blocks.clone() {
            let version = self.of.version(block);
            // Nothing else writes to an odd one.
            let now = version.load(Ordering::Relaxed);
            version.store(now.wrapping_add(1), Ordering::Release);
        }
    }
}

fn is_even(version: u32) -> bool {
    version & 1 == 0
}
