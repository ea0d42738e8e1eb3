//! What was received out of order: the receiver's side of SACK (RFC 2018 §4, RFC 2883).

use std::collections::VecDeque;

use wire::SeqNum;
use wire::tcp::SackBlocks;

/// More ranges than this are not kept: a peer that sends every other byte costs bounded memory.
const MAX_RANGES: usize = 8192;
const RECENT: usize = 4;

/// Disjoint ranges above `rcv_nxt`, and which of them to report first. Nothing is allocated for a connection whose
/// segments all come in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Option<Box<Held>>);

#[derive(Clone, Debug, Default)]
struct Held {
    sorted: VecDeque<(SeqNum, SeqNum)>,
    /// A position in each of the ranges that changed last, the latest first.
    recent: [SeqNum; RECENT],
    recent_len: u8,
    /// A duplicate to report (RFC 2883 §4).
    duplicate: Option<(SeqNum, SeqNum)>,
}

/// What became of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// Some of it is new.
    New,
    /// All of it had come before.
    Duplicate,
    /// It would make too many ranges.
    Refused,
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|held| held.sorted.is_empty())
    }

    /// Position after the last byte of the last range.
    pub(crate) fn end(&self) -> Option<SeqNum> {
        self.0.as_ref()?.sorted.back().map(|range| range.1)
    }

    /// Adds `start..end`, which lies above `rcv_nxt`.
    pub(crate) fn insert(&mut self, start: SeqNum, end: SeqNum) -> Insertion {
        self.0.get_or_insert_default().insert(start, end)
    }

    /// The first part of `start..end` that has come before.
    pub(crate) fn overlap(&self, start: SeqNum, end: SeqNum) -> Option<(SeqNum, SeqNum)> {
        let sorted = &self.0.as_ref()?.sorted;
        let first = sorted.partition_point(|range| range.1.at_or_before(start));
        let (held_start, held_end) = *sorted.get(first)?;
        let (start, end) = (held_start.max(start), held_end.min(end));
        start.before(end).then_some((start, end))
    }

    /// Data is in order up to `nxt`: takes the ranges that follow on, and returns how far that reaches.
    pub(crate) fn advance(&mut self, nxt: SeqNum) -> SeqNum {
        self.0.as_mut().map_or(nxt, |held| held.advance(nxt))
    }

    /// A range came again: the next ACK says so in its first block.
    pub(crate) fn note_duplicate(&mut self, start: SeqNum, end: SeqNum) {
        self.0.get_or_insert_default().duplicate = Some((start, end));
    }

    /// Something to put in a SACK option.
    pub(crate) fn has_report(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|held| held.duplicate.is_some() || !held.sorted.is_empty())
    }

    /// The SACK blocks of an ACK, at most `room`: a duplicate, then the ranges that changed last (RFC 2018 §4), with the FIN where it has come.
    pub(crate) fn take_report(&mut self, room: usize, fin: Option<SeqNum>) -> SackBlocks {
        let held = self.0.as_mut();
        let mut blocks = held.map_or(SackBlocks::EMPTY, |held| held.take_report(room, fin));
        if let Some(fin) = fin
            && self.end() != Some(fin)
            && blocks.len() < room
        {
            blocks.push(fin, fin + 1);
        }
        blocks
    }
}

impl Ranges {
    /// The ranges in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SeqNum, SeqNum)> + '_ {
        self.0.iter().flat_map(|held| held.sorted.iter().copied())
    }
}

impl FromIterator<(SeqNum, SeqNum)> for Ranges {
    /// Ranges that lie in ascending order and apart, as [`iter`](Ranges::iter) gives them.
    fn from_iter<I: IntoIterator<Item = (SeqNum, SeqNum)>>(ranges: I) -> Self {
        let mut all = Self::default();
        for (start, end) in ranges {
            if start.before(end) {
                all.insert(start, end);
            }
        }
        all
    }
}

impl Held {
    fn insert(&mut self, start: SeqNum, end: SeqNum) -> Insertion {
        debug_assert!(start.before(end));
        // The first range that touches it, if any does.
        let first = self.sorted.partition_point(|range| range.1.before(start));
        let past = first
            + self
                .sorted
                .range(first..)
                .take_while(|range| range.0.at_or_before(end))
                .count();
        if first == past {
            if self.sorted.len() >= MAX_RANGES {
                return Insertion::Refused;
            }
            self.sorted.insert(first, (start, end));
        } else {
            let (held_start, held_end) = self.sorted[first];
            if held_start.at_or_before(start) && end.at_or_before(held_end) {
                self.note_recent(start);
                return Insertion::Duplicate;
            }
            let last_end = self.sorted[past - 1].1;
            self.sorted[first] = (held_start.min(start), last_end.max(end));
            self.sorted.drain(first + 1..past);
        }
        self.note_recent(start);
        Insertion::New
    }

    fn advance(&mut self, mut nxt: SeqNum) -> SeqNum {
        while let Some(&(start, end)) = self.sorted.front() {
            if start.after(nxt) {
                break;
            }
            nxt = nxt.max(end);
            self.sorted.pop_front();
        }
        nxt
    }

    fn take_report(&mut self, room: usize, fin: Option<SeqNum>) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        if let Some((start, end)) = self.duplicate.take() {
            blocks.push(start, end);
        }
        let duplicates = blocks.len();
        for &position in &self.recent[..usize::from(self.recent_len)] {
            if blocks.len() >= room {
                break;
            }
            let range = self.containing(position);
            let range = range.map(|(start, end)| (start, end + u32::from(Some(end) == fin)));
            if let Some((start, end)) = range
                && !blocks.as_slice()[duplicates..].contains(&(start, end))
            {
                blocks.push(start, end);
            }
        }
        blocks
    }

    fn containing(&self, position: SeqNum) -> Option<(SeqNum, SeqNum)> {
        let index = self
            .sorted
            .partition_point(|range| range.1.at_or_before(position));
        self.sorted
            .get(index)
            .copied()
            .filter(|range| range.0.at_or_before(position))
    }

    fn note_recent(&mut self, position: SeqNum) {
        let range = self.containing(position);
        let mut kept = [position; RECENT];
        let mut len = 1;
        for index in 0..usize::from(self.recent_len) {
            let other = self.recent[index];
            if len < RECENT
                && self
                    .containing(other)
                    .is_some_and(|held| Some(held) != range)
            {
                kept[len] = other;
                len += 1;
            }
        }
        self.recent = kept;
        self.recent_len = len as u8;
    }
}

#[cfg(test)]
mod tests;
