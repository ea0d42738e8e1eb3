//! In which form the bytes went to Linux that it has not acknowledged, frame by frame.
//!
//! Linux may keep either copy of a range that comes twice, and of overlapping packets any part of either, cut where one of them begins or
//! ends. So frames are remembered one by one.

use std::collections::VecDeque;

use attachment::results::{Form, RxContextTag};
use wire::SeqNum;

use crate::acknowledged::Acknowledged;

/// Pieces that are remembered apart. A window of 1448-byte packets of 6 MiB has about 4400.
const MAX_PIECES: usize = 8192;

/// How a piece went up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    /// As it came.
    Ciphertext,
    /// Decrypted.
    Decrypted(RxContextTag),
    /// In both forms, or decrypted twice.
    Either(RxContextTag),
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    start: SeqNum,
    len: u32,
    went: Went,
}

impl Piece {
    fn end(&self) -> SeqNum {
        self.start + self.len
    }
}

/// What is to be reported of a frame before it goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunReport {
    pub(super) start: SeqNum,
    pub(super) len: u32,
    pub(super) tag: RxContextTag,
    pub(super) form: Form,
}

/// Why a frame must not go up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It was decrypted, far from anything that Linux can want.
    FarAhead,
    /// It was decrypted under other keys than the copy that went up.
    OtherKeys,
    /// More pieces than are remembered.
    TooMany,
}

/// The forms of one flow.
#[derive(Debug)]
pub(super) struct Forms {
    acknowledged: Acknowledged,
    /// Disjoint and in order, not acknowledged.
    pieces: VecDeque<Piece>,
    /// What [`admit`](Self::admit) found, kept for its memory.
    reported: Vec<RunReport>,
    fresh: Vec<Piece>,
}

impl Forms {
    /// It is not known in which form anything has gone up.
    pub(super) fn new(acknowledged: Acknowledged) -> Forms {
        Forms {
            acknowledged,
            pieces: VecDeque::new(),
            reported: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Bytes that went up in both forms before there was this memory of it. Called with the runs in any order.
    pub(super) fn recall(&mut self, start: SeqNum, len: u32, tag: RxContextTag) {
        let is_near = !self.acknowledged.is_far_before(start + len);
        if is_near && self.admit((start, len), Some(tag)).is_ok() {
            for piece in &mut self.fresh {
                piece.went = Went::Either(tag);
            }
            self.remember();
        }
    }

    /// Up to where Linux has acknowledged the stream.
    pub(super) fn acknowledged(&self) -> SeqNum {
        self.acknowledged.position()
    }

    /// Linux may have been given what is before `end` by others.
    pub(super) fn give(&mut self, end: SeqNum) {
        self.acknowledged.give(end);
    }

    /// Linux acknowledges the stream up to here. False for an acknowledgement that says nothing new, or can't be Linux's.
    pub(super) fn acknowledge(&mut self, position: SeqNum) -> bool {
        if !self.acknowledged.advance(position) {
            return false;
        }
        while let Some(piece) = self.pieces.front_mut()
            && piece.start.before(position)
        {
            if piece.end().at_or_before(position) {
                self.pieces.pop_front();
                continue;
            }
            piece.len = position.distance_to(piece.end());
            piece.start = position;
        }
        true
    }

    /// A frame with these bytes is about to go up, decrypted by the context of `tag` or as it came. Gives what must be reported before, after which
    /// [`remember`](Self::remember) has it remembered.
    pub(super) fn admit(
        &mut self,
        (start, len): (SeqNum, u32),
        tag: Option<RxContextTag>,
    ) -> Result<&[RunReport], Unfit> {
        self.reported.clear();
        self.fresh.clear();
        let end = start + len;
        if !end.after(self.acknowledged()) {
            // Linux has them, and drops these.
            return Ok(&[]);
        }
        if self.acknowledged.is_far_before(end) {
            return match tag {
                Some(_) => Err(Unfit::FarAhead),
                None => Ok(&[]),
            };
        }
        let start = start.max(self.acknowledged());
        let went = tag.map_or(Went::Ciphertext, Went::Decrypted);
        let first = self.first_reaching(start);
        let mut at = start;
        for index in first..self.pieces.len() {
            let piece = self.pieces[index];
            if piece.start.at_or_after(end) {
                break;
            }
            if at.before(piece.start) {
                self.begin(at, piece.start, went);
            }
            let from = piece.start.max(at);
            let to = piece.end().min(end);
            self.repeat(piece, (from, to), tag)?;
            at = to;
        }
        if at.before(end) {
            self.begin(at, end, went);
        }
        while self.pieces.len() + self.fresh.len() + 2 > MAX_PIECES {
            self.merge_last()?;
        }
        Ok(&self.reported)
    }

    /// The frame goes up.
    pub(super) fn remember(&mut self) {
        let Some(last) = self.fresh.last() else {
            return;
        };
        let (start, end) = (self.fresh[0].start, last.end());
        self.acknowledged.give(end);
        if self
            .pieces
            .back()
            .is_none_or(|piece| piece.end().at_or_before(start))
        {
            self.pieces.extend(self.fresh.drain(..));
            return;
        }
        let first = self.first_reaching(start);
        let mut behind = first;
        let (mut before, mut after) = (None, None);
        while let Some(piece) = self.pieces.get(behind)
            && piece.start.before(end)
        {
            if piece.start.before(start) {
                let len = piece.start.distance_to(start);
                before = Some(Piece { len, ..*piece });
            }
            if piece.end().after(end) {
                let len = end.distance_to(piece.end());
                let start = end;
                after = Some(Piece {
                    start,
                    len,
                    ..*piece
                });
            }
            behind += 1;
        }
        let between = before.into_iter().chain(self.fresh.drain(..)).chain(after);
        let rest = self.pieces.split_off(behind);
        self.pieces.truncate(first);
        self.pieces.extend(between);
        self.pieces.extend(rest);
    }

    /// Bytes of which nothing went up before.
    fn begin(&mut self, start: SeqNum, end: SeqNum, went: Went) {
        let len = start.distance_to(end);
        if let Went::Decrypted(tag) = went {
            self.report(start, len, tag, Form::Decrypted);
        }
        self.fresh.push(Piece { start, len, went });
    }

    /// Bytes that went up before in `piece`.
    fn repeat(
        &mut self,
        piece: Piece,
        (start, end): (SeqNum, SeqNum),
        tag: Option<RxContextTag>,
    ) -> Result<(), Unfit> {
        let len = start.distance_to(end);
        let is_all = len == piece.len;
        let (went, is_news) = match (piece.went, tag) {
            (Went::Ciphertext, None) => (Went::Ciphertext, false),
            (Went::Ciphertext, Some(tag)) => (Went::Either(tag), true),
            (Went::Decrypted(before) | Went::Either(before), Some(tag))
                if before.epoch != tag.epoch =>
            {
                return Err(Unfit::OtherKeys);
            }
            (Went::Decrypted(before), _) => (Went::Either(before), true),
            (Went::Either(before), _) => (Went::Either(before), !is_all),
        };
        if let Went::Either(tag) = went
            && is_news
        {
            self.report(start, len, tag, Form::Either);
        }
        self.fresh.push(Piece { start, len, went });
        Ok(())
    }

    fn report(&mut self, start: SeqNum, len: u32, tag: RxContextTag, form: Form) {
        self.reported.push(RunReport {
            start,
            len,
            tag,
            form,
        });
    }

    /// Makes one piece of the two that are furthest ahead, which bad packets are more likely to be than the stream. What comes between them
    /// counts as come before then.
    fn merge_last(&mut self) -> Result<(), Unfit> {
        let last = self.pieces.pop_back().ok_or(Unfit::TooMany)?;
        match self.pieces.back_mut() {
            Some(piece) if (piece.went, last.went) == (Went::Ciphertext, Went::Ciphertext) => {
                piece.len = piece.start.distance_to(last.end());
                Ok(())
            }
            _ => {
                self.pieces.push_back(last);
                Err(Unfit::TooMany)
            }
        }
    }

    /// The first piece that ends behind `position`.
    fn first_reaching(&self, position: SeqNum) -> usize {
        match self.pieces.back() {
            Some(last) if last.end().after(position) => self
                .pieces
                .partition_point(|piece| piece.end().at_or_before(position)),
            _ => self.pieces.len(),
        }
    }
}
