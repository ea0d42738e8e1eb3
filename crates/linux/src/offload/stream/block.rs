//! Bytes that are retained where they were received, with the block of memory that they lie in.

use l5p::tls::HEADER_LEN;
use wire::SeqNum;

use super::{MAX_RECORD, NotARecord, Piece, Stream};
use crate::state::{Arena, Block, MAX_PIECE, capacity, order_for};

/// Where the records are, to go back to.
struct Known {
    records: usize,
    boundary: SeqNum,
    header: [u8; HEADER_LEN],
    header_len: u8,
}

impl Stream {
    /// Takes the bytes that follow on [`end`](Stream::end) with the block that they are in, behind `skip` others. Gives the block back, and
    /// nothing is taken, when there is no memory for the rest of the last record, or this stream has its share.
    ///
    /// # Errors
    /// When they are not records. What was taken is of no use then.
    pub(crate) fn take_block(
        &mut self,
        arena: &mut Arena,
        block: Block,
        skip: u32,
        bytes: &[u8],
    ) -> Result<Option<Block>, NotARecord> {
        // The block was free before it waited for a frame.
        let room = self.share.room(arena.free_bytes() + u64::from(MAX_PIECE));
        let Some(room) = room.checked_sub(u64::from(MAX_PIECE)) else {
            return Ok(Some(block));
        };
        let known = self.known();
        self.walk(bytes, None)?;
        let (start, len) = (self.end, bytes.len() as u32);
        let room_ends = start + (MAX_PIECE - skip);
        let upto = match self.header_len {
            0 => self.boundary,
            _ => self.boundary + MAX_RECORD,
        };
        let mut rest = None;
        if upto.after(room_ends) {
            let order = order_for(room_ends.distance_to(upto));
            if u64::from(capacity(order)) <= room {
                let unit = arena.allocate(order, self.owner, room_ends);
                rest = unit.map(|unit| (unit, order));
            }
            if rest.is_none() {
                self.go_back(known);
                return Ok(Some(block));
            }
        }
        self.release_unused(arena);
        let (unit, order) = arena.keep(block, self.owner, start, (skip, len));
        self.hold(Piece {
            start,
            unit,
            len,
            order,
            skip,
        });
        if let Some((unit, order)) = rest {
            self.hold(Piece {
                start: room_ends,
                unit,
                len: 0,
                order,
                skip: 0,
            });
        }
        self.end = start + len;
        Ok(None)
    }

    /// Gives memory back that was reserved for what has come in other memory.
    fn release_unused(&mut self, arena: &mut Arena) {
        while let Some(piece) = self.pieces.back().copied().filter(|piece| piece.len == 0) {
            self.pieces.pop_back();
            self.share.give(u64::from(capacity(piece.order)));
            arena.release(piece.unit, piece.order);
        }
    }

    fn known(&self) -> Known {
        Known {
            records: self.records.len(),
            boundary: self.boundary,
            header: self.header,
            header_len: self.header_len,
        }
    }

    fn go_back(&mut self, known: Known) {
        self.records.truncate(known.records);
        self.boundary = known.boundary;
        self.header = known.header;
        self.header_len = known.header_len;
    }
}
