//! Payload handles waiting to be acknowledged, found by sequence position.

use std::collections::VecDeque;
use std::ops::Range;

use wire::SeqNum;

/// A piece of payload: bytes, or a handle to bytes elsewhere.
pub trait Chunk {
    /// Bytes in it. A chunk in a queue is never empty.
    fn len(&self) -> u32;

    /// Cuts the chunk at `at` (`0 < at < len`): `self` keeps the front, the rest is returned.
    fn split_off(&mut self, at: u32) -> Self;

    /// How many pieces of memory its bytes from `offset` on lie in, `most` of them or fewer, and where in it these end.
    fn pieces(&self, _offset: u32, _most: usize) -> (usize, u32) {
        (1, self.len())
    }

    /// Bytes of the memory that it holds, as its owner counts them. Of a chunk that was cut each part holds as much.
    fn memory(&self) -> u32 {
        0
    }

    /// No bytes in it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What has been queued for sending and is not acknowledged, in sequence order.
#[derive(Clone, Debug)]
pub struct SendQueue<T> {
    chunks: VecDeque<(SeqNum, T)>,
    /// Position after the last byte.
    end: SeqNum,
}

impl<T: Chunk> SendQueue<T> {
    /// An empty queue whose first byte will be at `start` (`Connection::write_seq`).
    pub fn new(start: SeqNum) -> Self {
        Self {
            chunks: VecDeque::new(),
            end: start,
        }
    }

    /// Appends a chunk and returns its position. An empty chunk is dropped.
    pub fn push(&mut self, chunk: T) -> SeqNum {
        let start = self.end;
        if !chunk.is_empty() {
            self.end = start + chunk.len();
            self.chunks.push_back((start, chunk));
        }
        start
    }

    /// Calls `f(chunk, offset in it, bytes)` for each piece of `seq..seq + len`, in order. Returns the bytes covered,
    /// fewer than `len` if the queue does not hold all of the range.
    pub fn slices(&self, seq: SeqNum, len: u32, mut f: impl FnMut(&T, u32, u32)) -> u32 {
        let Some(first) = self.index_of(seq) else {
            return 0;
        };
        let mut done = 0;
        for (start, chunk) in self.chunks.range(first..) {
            if done == len {
                break;
            }
            let offset = start.distance_to(seq + done);
            let bytes = (chunk.len() - offset).min(len - done);
            f(chunk, offset, bytes);
            done += bytes;
        }
        done
    }

    /// Removes the chunks that lie wholly before `upto`, oldest first.
    pub fn release(&mut self, upto: SeqNum) -> impl Iterator<Item = T> + '_ {
        let wholly = self
            .chunks
            .partition_point(|(start, chunk)| (*start + chunk.len()).at_or_before(upto));
        self.chunks.drain(..wholly).map(|(_, chunk)| chunk)
    }

    /// Puts `chunk` in the place of the bytes in `range`, cutting the chunks at its edges.
    ///
    /// # Panics
    /// If the range is not held, or is not as long as the chunk.
    pub fn replace(&mut self, range: Range<SeqNum>, chunk: T) {
        let len = range.start.distance_to(range.end);
        assert_eq!(
            len,
            chunk.len(),
            "a replacement is as long as what it replaces"
        );
        if len == 0 {
            return;
        }
        let first = self.cut_at(range.start).expect("range is held");
        let last = if range.end == self.end {
            self.chunks.len()
        } else {
            self.cut_at(range.end).expect("range is held")
        };
        assert!(first < last, "range is held");
        self.chunks[first] = (range.start, chunk);
        self.chunks.drain(first + 1..last);
    }

    /// Calls `f(position, chunk)` for each chunk of `range`, in order, after cutting the chunks at its edges.
    ///
    /// # Panics
    /// If the range is not held.
    pub fn for_each_mut(&mut self, range: Range<SeqNum>, mut f: impl FnMut(SeqNum, &mut T)) {
        if range.start == range.end {
            return;
        }
        let first = self.cut_at(range.start).expect("range is held");
        let last = if range.end == self.end {
            self.chunks.len()
        } else {
            self.cut_at(range.end).expect("range is held")
        };
        for (start, chunk) in self.chunks.range_mut(first..last) {
            f(*start, chunk);
        }
    }

    /// Position of the oldest byte held, or of the next to be pushed.
    pub fn start(&self) -> SeqNum {
        self.chunks.front().map_or(self.end, |(start, _)| *start)
    }

    /// Position after the last byte held.
    pub fn end(&self) -> SeqNum {
        self.end
    }

    /// Chunks held.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Where the `count`-th [piece](Chunk::pieces) begins behind the one that holds `seq`, or the first one if no piece does; the end of the
    /// queue if there are fewer. `count` is not 0.
    pub fn start_behind(&self, seq: SeqNum, count: usize) -> SeqNum {
        let (first, mut offset) = match self.index_of(seq) {
            Some(first) => (first, self.chunks[first].0.distance_to(seq)),
            None => (0, 0),
        };
        let mut left = count;
        for (start, chunk) in self.chunks.range(first..) {
            let (pieces, end) = chunk.pieces(offset, left);
            left -= pieces;
            if left == 0 || end < chunk.len() {
                return *start + end;
            }
            offset = 0;
        }
        self.end
    }

    /// The chunks held with their positions.
    pub fn iter(&self) -> impl Iterator<Item = (SeqNum, &T)> {
        self.chunks.iter().map(|(start, chunk)| (*start, chunk))
    }

    /// Makes a chunk begin at `seq` and returns its index.
    fn cut_at(&mut self, seq: SeqNum) -> Option<usize> {
        let index = self.index_of(seq)?;
        let (start, chunk) = &mut self.chunks[index];
        let offset = start.distance_to(seq);
        if offset == 0 {
            return Some(index);
        }
        let rest = chunk.split_off(offset);
        self.chunks.insert(index + 1, (seq, rest));
        Some(index + 1)
    }

    /// Index of the chunk that holds the byte at `seq`.
    fn index_of(&self, seq: SeqNum) -> Option<usize> {
        if seq.before(self.start()) || seq.at_or_after(self.end) {
            return None;
        }
        Some(
            self.chunks
                .partition_point(|(start, _)| start.at_or_before(seq))
                - 1,
        )
    }
}

#[cfg(test)]
pub(crate) mod tests;
