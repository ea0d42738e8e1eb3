//! What is retained of a stream of records under one set of keys: its bytes, and where its records begin.

mod block;
mod share;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use l5p::tls::{Algorithm, HEADER_LEN, Version, judge};
use l5p::{Judgement, MsgState};
use nic::ring::Slice;
use wire::SeqNum;

use crate::state::{Arena, Block, Found, MAX_PIECE, RecordBoundary, capacity, order_for};

pub(crate) use share::{Share, Tenants};

/// Length of a record in a command when its header is not whole yet: the NIC learns the right one when it comes.
const UNKNOWN_LEN: u32 = HEADER_LEN as u32 + 1;
/// Bytes of the longest record.
const MAX_RECORD: u32 = 16_384 + 256;

/// Retained bytes from a record's boundary on, without a hole.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Index and generation of the connection's entry.
    owner: (u32, u32),
    version: Version,
    algorithm: Algorithm,
    pieces: VecDeque<Piece>,
    /// What the connection has of the memory.
    share: Arc<Share>,
    /// Position after the last byte.
    end: SeqNum,
    /// Records whose header has come, from the oldest retained one on.
    records: VecDeque<Record>,
    /// Number of the first of these, or of the next record.
    first_index: u64,
    /// Where the first record begins whose header is not whole.
    boundary: SeqNum,
    /// What has come of that header.
    header: [u8; HEADER_LEN],
    header_len: u8,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: SeqNum,
    unit: u32,
    len: u32,
    order: u8,
    /// Bytes of its memory before its own.
    skip: u32,
}

impl Piece {
    fn of(found: &Found) -> Piece {
        Piece {
            start: found.start,
            unit: found.unit,
            len: found.len,
            order: found.order,
            skip: found.skip,
        }
    }

    /// Most bytes that it can have.
    fn capacity(&self) -> u32 {
        capacity(self.order) - self.skip
    }
}

#[derive(Clone, Copy, Debug)]
struct Record {
    start: SeqNum,
    len: u32,
}

/// A piece that is retained no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retired {
    pub unit: u32,
    pub order: u8,
}

impl Retired {
    /// A block that was not kept.
    pub(crate) fn of(block: Block) -> Retired {
        let (unit, order) = block.into_piece();
        Retired { unit, order }
    }
}

/// There is no record where one must begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotARecord;

impl Stream {
    /// A stream whose first record, of this number, begins at `start`.
    pub(crate) fn new(
        owner: (u32, u32),
        (version, algorithm): (Version, Algorithm),
        start: SeqNum,
        first_index: u64,
        share: Arc<Share>,
    ) -> Stream {
        Stream {
            owner,
            version,
            algorithm,
            pieces: VecDeque::new(),
            share,
            end: start,
            records: VecDeque::new(),
            first_index,
            boundary: start,
            header: [0; HEADER_LEN],
            header_len: 0,
        }
    }

    /// What the connection has of the memory, for its next stream.
    pub(crate) fn share(&self) -> Arc<Share> {
        Arc::clone(&self.share)
    }

    /// Position after the last byte.
    pub(crate) fn end(&self) -> SeqNum {
        self.end
    }

    /// Where the oldest retained record begins, or the next one.
    pub(crate) fn start(&self) -> SeqNum {
        let record = self.records.front();
        record.map_or(self.boundary, |record| record.start)
    }

    /// The boundary at [`start`](Self::start).
    pub(crate) fn boundary(&self) -> RecordBoundary {
        RecordBoundary {
            tcpsn: self.start(),
            index: self.first_index,
        }
    }

    /// Whether the last byte is a record's last.
    pub(crate) fn is_at_boundary(&self) -> bool {
        self.boundary == self.end
    }

    /// Whether a record of this number begins at `tcpsn`, as far as is known.
    pub(crate) fn may_begin_at(&self, tcpsn: SeqNum, index: u64) -> bool {
        if tcpsn.after(self.end) || tcpsn.before(self.start()) {
            return true;
        }
        let at = self
            .records
            .partition_point(|record| record.start.before(tcpsn));
        let begins = match self.records.get(at) {
            Some(record) => record.start == tcpsn,
            None => self.boundary == tcpsn,
        };
        begins && self.first_index.saturating_add(at as u64) == index
    }

    /// Takes the bytes that follow on [`end`](Self::end), as far as there is memory for whole records; gives how many.
    ///
    /// # Errors
    /// When they are not records. What was taken is of no use then.
    pub(crate) fn append(&mut self, arena: &mut Arena, bytes: &[u8]) -> Result<u32, NotARecord> {
        let admitted = self.walk(bytes, Some(arena))?;
        let mut left = &bytes[..admitted];
        for at in self.piece_of(self.end)..self.pieces.len() {
            let piece = &mut self.pieces[at];
            let room = piece.capacity() - piece.len;
            let (now, later) = left.split_at(left.len().min(room as usize));
            if !now.is_empty() {
                arena.append(piece.unit, (piece.skip, piece.len), self.owner.1, now);
                piece.len += now.len() as u32;
                self.end += now.len() as u32;
            }
            left = later;
        }
        debug_assert!(left.is_empty(), "what is admitted has memory");
        Ok(admitted as u32)
    }

    /// Takes memory for the bytes before `upto`, and for those before `hoped` too if there is much. False, and nothing taken, when memory is short, or
    /// the others are to have what is left.
    ///
    /// A record is begun only when there is memory for all of it: otherwise connections could wait for one another, each with
    /// a record that can't be ended.
    fn reserve(&mut self, arena: &mut Arena, upto: SeqNum, hoped: SeqNum) -> bool {
        let before = self.pieces.len();
        loop {
            let last = self.pieces.back();
            let end = last.map_or(self.end, |piece| piece.start + piece.capacity());
            if end.at_or_after(upto) {
                return true;
            }
            let most = |to: SeqNum| end.distance_to(to).min(MAX_PIECE);
            let lens = (most(upto), most(upto.max(hoped)));
            let Some((unit, order)) = self.allocate(arena, end, lens) else {
                for piece in self.pieces.drain(before..) {
                    self.share.give(u64::from(capacity(piece.order)));
                    arena.release(piece.unit, piece.order);
                }
                return false;
            };
            self.hold(Piece {
                start: end,
                unit,
                len: 0,
                order,
                skip: 0,
            });
        }
    }

    /// A piece for the bytes from `start` on: for all that are hoped for, for all that are needed, or for some of these.
    fn allocate(
        &self,
        arena: &mut Arena,
        start: SeqNum,
        (needed, hoped): (u32, u32),
    ) -> Option<(u32, u8)> {
        let room = self.share.room(arena.free_bytes());
        let needed = order_for(needed);
        let orders = [order_for(hoped), needed].into_iter();
        let mut orders = orders
            .chain((0..needed).rev())
            .filter(|order| u64::from(capacity(*order)) <= room);
        orders.find_map(|order| Some((arena.allocate(order, self.owner, start)?, order)))
    }

    fn hold(&mut self, piece: Piece) {
        self.share.take(u64::from(capacity(piece.order)));
        self.pieces.push_back(piece);
    }

    /// Takes pieces that were found after a restart, in the order of their positions, and gives back those that do not follow. One without bytes is
    /// for the rest of a record that was begun.
    pub(crate) fn adopt(&mut self, arena: &mut Arena, found: &[Found], retired: &mut Vec<Retired>) {
        let mut bytes = vec![0; MAX_PIECE as usize];
        let mut broken = false;
        for piece in found {
            let (unit, order) = (piece.unit, piece.order);
            let end = piece.start + piece.len;
            let last = self.pieces.back();
            let adds = last.is_some_and(|last| last.start + last.capacity() == piece.start);
            if piece.len == 0 && adds && !broken {
                self.hold(Piece::of(piece));
                continue;
            }
            let follows = piece.start.at_or_before(self.end)
                && (self.pieces.is_empty() || piece.start == self.end);
            if broken || !follows || end.at_or_before(self.end) {
                retired.push(Retired { unit, order });
                continue;
            }
            let known = piece.start.distance_to(self.end);
            let new = &mut bytes[..(piece.len - known) as usize];
            arena.read(unit, piece.skip + known, new);
            if self.walk(new, None).is_err() {
                retired.push(Retired { unit, order });
                broken = true;
                continue;
            }
            self.hold(Piece::of(piece));
            self.end = end;
        }
    }

    /// Follows the records through the bytes that come at `end`; gives how many of them are of records for which there is memory in `arena`.
    fn walk(&mut self, bytes: &[u8], mut arena: Option<&mut Arena>) -> Result<usize, NotARecord> {
        let end = self.end + bytes.len() as u32;
        if let Some(arena) = &mut arena
            && self.end.before(self.boundary)
            && !self.reserve(arena, self.boundary, end)
        {
            // Lost in a restart, with others' state.
            return Ok(0);
        }
        loop {
            let have = usize::from(self.header_len);
            let at = self.boundary + have as u32;
            if at.at_or_after(end) {
                return Ok(bytes.len());
            }
            let passed = self.end.distance_to(at) as usize;
            let rest = &bytes[passed..];
            let taken = rest.len().min(HEADER_LEN - have);
            self.header[have..have + taken].copy_from_slice(&rest[..taken]);
            let header = &self.header[..have + taken];
            let judged = judge(self.version, self.algorithm, header);
            let len = match judged {
                Judgement::Message { len } => len,
                Judgement::TooShort => MAX_RECORD,
                Judgement::NotAHeader => return Err(NotARecord),
            };
            if let Some(arena) = &mut arena
                && !self.reserve(arena, self.boundary + len, end)
            {
                return Ok(passed);
            }
            if judged == Judgement::TooShort {
                self.header_len += taken as u8;
                continue;
            }
            let start = self.boundary;
            self.records.push_back(Record { start, len });
            self.boundary += len;
            self.header_len = 0;
        }
    }

    /// The record with the byte at `tcpsn`, which is retained or the next.
    pub(crate) fn message(&self, tcpsn: SeqNum) -> MsgState {
        let behind = self
            .records
            .partition_point(|record| record.start.at_or_before(tcpsn));
        let at = behind.checked_sub(1);
        let record = at.and_then(|at| self.records.get(at));
        let whole = record.filter(|record| tcpsn.before(record.start + record.len));
        let (start, len, index) = match (whole, at) {
            (Some(record), Some(at)) => (record.start, record.len, at),
            _ => (self.boundary, UNKNOWN_LEN, self.records.len()),
        };
        MsgState {
            start,
            len,
            index: self.first_index.saturating_add(index as u64),
            epoch: 0,
        }
    }

    /// Collects where the bytes from `from` on are, up to `len` of them in `most` slices; gives how many.
    pub(crate) fn gather(
        &self,
        arena: &Arena,
        from: SeqNum,
        len: u32,
        most: usize,
        slices: &mut Vec<Slice>,
    ) -> u32 {
        slices.clear();
        let mut done = 0;
        for piece in self.pieces.range(self.piece_of(from)..) {
            if done == len || slices.len() == most {
                break;
            }
            let offset = piece.start.distance_to(from + done);
            let now = (len - done).min(piece.len - offset);
            slices.push(arena.slice(piece.unit, piece.skip + offset, now));
            done += now;
        }
        done
    }

    /// Whether retained bytes from `from` on are these.
    pub(crate) fn is_equal(&self, arena: &Arena, from: SeqNum, bytes: &[u8]) -> bool {
        let mut retained = [0; 1024];
        let mut done = 0;
        for piece in self.pieces.range(self.piece_of(from)..) {
            let mut offset = piece.start.distance_to(from + done as u32);
            while offset < piece.len && done < bytes.len() {
                let now = (bytes.len() - done).min((piece.len - offset) as usize);
                let retained = &mut retained[..now.min(1024)];
                arena.read(piece.unit, piece.skip + offset, retained);
                if *retained != bytes[done..done + retained.len()] {
                    return false;
                }
                done += retained.len();
                offset += retained.len() as u32;
            }
        }
        true
    }

    fn piece_of(&self, tcpsn: SeqNum) -> usize {
        let behind = self
            .pieces
            .partition_point(|piece| piece.start.at_or_before(tcpsn));
        behind.saturating_sub(1)
    }

    /// The peer has everything before `una`: forgets the records of which it has all.
    pub(crate) fn acknowledge(&mut self, una: SeqNum, retired: &mut Vec<Retired>) {
        while let Some(record) = self.records.front() {
            let end = record.start + record.len;
            if end.after(una) || end.after(self.end) {
                break;
            }
            self.records.pop_front();
            self.first_index = self.first_index.saturating_add(1);
        }
        let start = self.start();
        // One without bytes was for a record that proved to be shorter: what comes next does not begin there.
        while let Some(piece) = self.pieces.front()
            && (piece.len == 0 || (piece.start + piece.len).at_or_before(start))
        {
            self.share.give(u64::from(capacity(piece.order)));
            retired.push(Retired {
                unit: piece.unit,
                order: piece.order,
            });
            self.pieces.pop_front();
        }
        if self.pieces.is_empty() {
            // So that an idle connection takes little.
            self.pieces = VecDeque::new();
        }
        if self.records.is_empty() {
            self.records = VecDeque::new();
        }
    }

    /// Gives all memory back.
    pub(crate) fn retire(&mut self, retired: &mut Vec<Retired>) {
        for piece in self.pieces.drain(..) {
            self.share.give(u64::from(capacity(piece.order)));
            retired.push(Retired {
                unit: piece.unit,
                order: piece.order,
            });
        }
    }
}
