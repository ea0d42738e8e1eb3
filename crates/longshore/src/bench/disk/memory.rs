//! The memory of commands, what the namespace holds, and the check that the one came from the other.

use std::collections::VecDeque;
use std::sync::Arc;

use host::Stack;
use nic::ring::{Region, RegionId, Slice};
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Registered memory as large as the namespace, in slots of one command each, and the content that each chunk of the namespace has:
/// random bytes that repeat after a period which is no multiple of a chunk, so that chunks differ.
pub struct Memory {
    region: Arc<Region>,
    id: RegionId,
    chunk: usize,
    chunks: u32,
    pattern: Vec<u8>,
    period: usize,
}

impl Memory {
    /// Memory for commands of `chunk` bytes, registered with a stack.
    pub fn new(stack: &mut Stack, bytes: u64, chunk: u32, seed: u64) -> anyhow::Result<Self> {
        let chunk = chunk as usize;
        let chunks = (bytes as usize / chunk).max(1) as u32;
        let region = Arc::new(Region::anonymous(chunk * chunks as usize));
        let id = stack.register(Arc::clone(&region), "the benchmark's memory")?;
        let period = (1 << 20) + 4160;
        let mut pattern = vec![0; period + chunk];
        let (first, rest) = pattern.split_at_mut(period);
        Pcg64Mcg::seed_from_u64(seed).fill_bytes(first);
        for piece in rest.chunks_mut(period) {
            piece.copy_from_slice(&first[..piece.len()]);
        }
        let memory = Self {
            region,
            id,
            chunk,
            chunks,
            pattern,
            period,
        };
        memory.reset();
        Ok(memory)
    }

    /// Commands that the namespace is made of, and slots.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Bytes of a command.
    pub fn chunk_len(&self) -> u32 {
        self.chunk as u32
    }

    /// The memory of a slot.
    pub fn slice(&self, slot: u32) -> Slice {
        Slice {
            region: self.id,
            offset: u64::from(slot) * self.chunk as u64,
            len: self.chunk as u32,
        }
    }

    /// Puts into each slot what the chunk of its number holds.
    pub fn reset(&self) {
        for slot in 0..self.chunks {
            let written = self
                .region
                .write(self.slice(slot).offset, self.content(slot));
            assert!(written, "slots are inside of the region");
        }
    }

    /// Whether a slot, which no command names any more, holds what a chunk does.
    pub fn holds(&self, slot: u32, chunk: u32) -> bool {
        assert!(slot < self.chunks);
        let start = self.slice(slot).offset as usize;
        // SAFETY: the slot is inside of the region, which is alive, and its command is complete: nobody writes there.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.region.as_ptr().add(start).cast_const(), self.chunk)
        };
        bytes == self.content(chunk)
    }

    fn content(&self, chunk: u32) -> &[u8] {
        let at = chunk as usize * self.chunk % self.period;
        &self.pattern[at..at + self.chunk]
    }
}

/// Chunks in random order, all of them before any comes again.
pub struct ChunkOrder {
    random: Pcg64Mcg,
    chunks: u32,
    left: VecDeque<u32>,
    /// Which slot a chunk goes to: another one in each pass, so that what is there from before is not what should come.
    shift: u32,
}

impl ChunkOrder {
    /// An order.
    pub fn new(seed: u64, chunks: u32) -> Self {
        Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            chunks,
            left: VecDeque::new(),
            shift: 0,
        }
    }

    /// The next chunk and a slot for it, which `is_free` says has no command: its own, or another one.
    pub fn next(&mut self, own: bool, mut is_free: impl FnMut(u32) -> bool) -> Option<(u32, u32)> {
        if self.left.is_empty() {
            let mut all: Vec<u32> = (0..self.chunks).collect();
            all.shuffle(&mut self.random);
            self.left = all.into();
            self.shift = (self.shift + self.chunks / 3 + 1) % self.chunks;
        }
        for _ in 0..self.left.len() {
            let chunk = self.left.pop_front()?;
            let shift = if own { 0 } else { self.shift };
            let slot = (chunk + shift) % self.chunks;
            if is_free(slot) {
                return Some((chunk, slot));
            }
            self.left.push_back(chunk);
        }
        None
    }
}
