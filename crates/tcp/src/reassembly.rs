//! Payload handles that came out of order, by sequence position.

use std::collections::VecDeque;

use wire::SeqNum;

use crate::send_queue::Chunk;

/// What has been received and not yet been taken in order. Chunks never overlap: of bytes that come twice the first
/// copy is kept.
#[derive(Clone, Debug)]
pub struct Reassembly<T> {
    chunks: VecDeque<(SeqNum, T)>,
    /// Of all chunks.
    memory: u64,
}

impl<T> Default for Reassembly<T> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            memory: 0,
        }
    }
}

impl<T: Chunk> Reassembly<T> {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a chunk at `seq`; the bytes of it that are held already are dropped.
    pub fn insert(&mut self, mut seq: SeqNum, mut chunk: T) {
        // The common case: it follows everything held.
        if self.end().is_none_or(|end| end.at_or_before(seq)) {
            if !chunk.is_empty() {
                self.put(self.chunks.len(), seq, chunk);
            }
            return;
        }
        let mut index = self
            .chunks
            .partition_point(|(start, _)| start.at_or_before(seq));
        if let Some((start, before)) = index.checked_sub(1).and_then(|i| self.chunks.get(i)) {
            let held_to = *start + before.len();
            if held_to.after(seq) {
                let overlap = seq.distance_to(held_to);
                if overlap >= chunk.len() {
                    return;
                }
                chunk = chunk.split_off(overlap);
                seq = held_to;
            }
        }
        // Fill the gaps between the chunks that it spans.
        while !chunk.is_empty() {
            let Some((next, following)) =
                self.chunks.get(index).map(|(start, c)| (*start, c.len()))
            else {
                self.put(index, seq, chunk);
                return;
            };
            let gap = seq.distance_to(next);
            if gap >= chunk.len() {
                self.put(index, seq, chunk);
                return;
            }
            if gap > 0 {
                let rest = chunk.split_off(gap);
                self.put(index, seq, chunk);
                chunk = rest;
                index += 1;
            }
            if following >= chunk.len() {
                return;
            }
            chunk = chunk.split_off(following);
            seq = next + following;
            index += 1;
        }
    }

    fn put(&mut self, index: usize, seq: SeqNum, chunk: T) {
        self.memory += u64::from(chunk.memory());
        self.chunks.insert(index, (seq, chunk));
    }

    /// Takes the first chunk if all of it lies before `rcv_nxt`; a chunk that reaches beyond is cut there.
    pub fn pop_in_order(&mut self, rcv_nxt: SeqNum) -> Option<(SeqNum, T)> {
        let (start, chunk) = self.chunks.front_mut()?;
        if start.at_or_after(rcv_nxt) {
            return None;
        }
        let ready = start.distance_to(rcv_nxt);
        if chunk.len() > ready {
            let start = *start;
            self.memory -= u64::from(chunk.memory());
            let rest = chunk.split_off(ready);
            self.memory += u64::from(rest.memory());
            let front = std::mem::replace(&mut self.chunks[0], (rcv_nxt, rest));
            return Some((start, front.1));
        }
        self.memory -= u64::from(chunk.memory());
        self.chunks.pop_front()
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Chunks held.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// The memory that the chunks hold ([`Chunk::memory`]).
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether any of the `len` bytes from `from` on are held.
    pub fn holds_any(&self, from: SeqNum, len: u32) -> bool {
        let end = from + len;
        let index = self.chunks.partition_point(|(start, _)| start.before(end));
        let last = index.checked_sub(1).and_then(|at| self.chunks.get(at));
        last.is_some_and(|(start, chunk)| from.before(*start + chunk.len()))
    }

    /// The chunk that ends at `seq`. What is done to it must leave the memory that it holds.
    pub fn chunk_before(&mut self, seq: SeqNum) -> Option<&mut T> {
        let index = self.chunks.partition_point(|(start, _)| start.before(seq));
        let (start, chunk) = self.chunks.get_mut(index.checked_sub(1)?)?;
        (*start + chunk.len() == seq).then_some(chunk)
    }

    /// The ranges that the chunks make up, in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = (SeqNum, SeqNum)> + '_ {
        let mut chunks = self.chunks.iter().peekable();
        std::iter::from_fn(move || {
            let (start, chunk) = chunks.next()?;
            let mut end = *start + chunk.len();
            while let Some((_, next)) = chunks.next_if(|(start, _)| *start == end) {
                end += next.len();
            }
            Some((*start, end))
        })
    }

    /// Removes everything.
    pub fn drain(&mut self) -> impl Iterator<Item = (SeqNum, T)> + '_ {
        self.memory = 0;
        self.chunks.drain(..)
    }

    fn end(&self) -> Option<SeqNum> {
        self.chunks
            .back()
            .map(|(start, chunk)| *start + chunk.len())
    }
}

#[cfg(test)]
mod tests;
