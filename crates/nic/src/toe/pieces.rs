//! What connections have to send: slices of host memory, each connection's in a list, all in one slab.

use wire::SeqNum;

use crate::ring::toe::MAX_TOE_SLICES;
use crate::ring::{ContextId, Gather, MAX_SEND_PAYLOAD, MAX_SEND_SLICES, SendFlags, Slice};

const NONE: u32 = u32::MAX;

/// The slab. It grows with commands, never with packets.
#[derive(Debug)]
pub(super) struct Pool {
    pieces: Vec<Piece>,
    free: u32,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    slice: Slice,
    passes: Passes,
    next: u32,
}

/// How bytes are to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passes {
    pub(super) context: Option<ContextId>,
    pub(super) flags: SendFlags,
}

/// The list of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    first: u32,
    last: u32,
    slices: u16,
    /// Position of the first piece's first byte.
    start: SeqNum,
    /// Position behind the last one's last.
    end: SeqNum,
    /// A piece, and its position: where the last segment ended.
    cursor: (u32, SeqNum),
}

impl Default for Queue {
    fn default() -> Self {
        Queue::at(SeqNum(0))
    }
}

impl Queue {
    /// Of nothing yet; the first byte posted is that at `start`.
    pub(super) fn at(start: SeqNum) -> Queue {
        Queue {
            first: NONE,
            last: NONE,
            slices: 0,
            start,
            end: start,
            cursor: (NONE, start),
        }
    }

    /// Position behind the last byte.
    pub(super) fn end(&self) -> SeqNum {
        self.end
    }

    /// Slices that it still takes.
    pub(super) fn room(&self) -> usize {
        MAX_TOE_SLICES - usize::from(self.slices)
    }
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool {
            pieces: Vec::new(),
            free: NONE,
        }
    }

    /// Appends slices, for which there is [room](Queue::room).
    pub(super) fn append(&mut self, queue: &mut Queue, slices: &[Slice], passes: Passes) {
        for slice in slices {
            let piece = Piece {
                slice: *slice,
                passes,
                next: NONE,
            };
            let at = self.take(piece);
            match self.pieces.get_mut(queue.last as usize) {
                Some(last) => last.next = at,
                None => queue.first = at,
            }
            queue.last = at;
            queue.slices += 1;
            queue.end += slice.len;
        }
    }

    /// Lets everything before `una` go.
    pub(super) fn release_before(&mut self, queue: &mut Queue, una: SeqNum) {
        while let Some(piece) = self.pieces.get(queue.first as usize) {
            let end = queue.start + piece.slice.len;
            if end.after(una) {
                break;
            }
            let (gone, next) = (queue.first, piece.next);
            queue.first = next;
            queue.start = end;
            queue.slices -= 1;
            self.give(gone);
        }
        if queue.first == NONE {
            queue.last = NONE;
        }
        if queue.cursor.1.before(queue.start) {
            queue.cursor = (queue.first, queue.start);
        }
    }

    /// Lets everything go.
    pub(super) fn clear(&mut self, queue: &mut Queue) {
        let end = queue.end;
        self.release_before(queue, end);
    }

    /// Fills `gather` with the bytes from `from` on, at most `bytes`, as far as they pass the same context and there is room.
    /// Gives how many these are; 0 when they were not posted.
    pub(super) fn gather(
        &self,
        queue: &mut Queue,
        from: SeqNum,
        bytes: u32,
        gather: &mut Gather,
    ) -> Option<(u32, Passes)> {
        gather.clear();
        let (mut at, mut position) = queue.cursor;
        if at == NONE || from.before(position) {
            (at, position) = (queue.first, queue.start);
        }
        if from.before(position) || from.at_or_after(queue.end) {
            return None;
        }
        let bytes = bytes.min(MAX_SEND_PAYLOAD);
        let mut passes = None;
        let mut taken = 0;
        while taken < bytes {
            let Some(piece) = self.pieces.get(at as usize) else {
                break;
            };
            let end = position + piece.slice.len;
            let wanted = from + taken;
            if wanted.before(end) {
                let same = *passes.get_or_insert(piece.passes) == piece.passes;
                if !same || gather.slices().len() == MAX_SEND_SLICES {
                    break;
                }
                let skip = position.distance_to(wanted);
                let len = (piece.slice.len - skip).min(bytes - taken);
                let part = Slice {
                    offset: piece.slice.offset.saturating_add(u64::from(skip)),
                    len,
                    ..piece.slice
                };
                if !gather.push(part) {
                    break;
                }
                taken += len;
                if skip + len < piece.slice.len {
                    break;
                }
            }
            (at, position) = (piece.next, end);
        }
        if at != NONE {
            queue.cursor = (at, position);
        }
        Some((taken, passes?))
    }

    /// How the byte at a position is to be sent.
    pub(super) fn passes_at(&self, queue: &Queue, at: SeqNum) -> Option<Passes> {
        let (mut piece, mut position) = (queue.first, queue.start);
        while let Some(found) = self.pieces.get(piece as usize) {
            let end = position + found.slice.len;
            if at.before(end) {
                return at.at_or_after(position).then_some(found.passes);
            }
            (piece, position) = (found.next, end);
        }
        None
    }

    fn take(&mut self, piece: Piece) -> u32 {
        match self.pieces.get_mut(self.free as usize) {
            Some(free) => {
                let at = self.free;
                self.free = free.next;
                *free = piece;
                at
            }
            None => {
                self.pieces.push(piece);
                self.pieces.len() as u32 - 1
            }
        }
    }

    fn give(&mut self, at: u32) {
        if let Some(piece) = self.pieces.get_mut(at as usize) {
            piece.next = self.free;
            self.free = at;
        }
    }
}

#[cfg(test)]
mod tests;
