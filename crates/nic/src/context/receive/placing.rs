//! Placement: data that belong into the host's buffers.

use std::ops::Range;

use l5p::{MsgState, Note, Placement};
use wire::SeqNum;

use super::notes::MayJoin;
use super::observer::Observer;
use super::rr_table::{Claim, RrTable};
use crate::ring::{RecvDescriptor, Slice};

/// Ranges of memory that data of one packet can be placed in. What would need more stays in the packet.
pub(crate) const MAX_PLACED: usize = 16;

/// Places into the buffers that the host has mapped.
#[derive(Debug)]
pub(crate) struct Placer {
    pub(crate) table: RrTable,
    claim: Option<Claim>,
    seen_from: SeqNum,
}

impl Placer {
    /// For tags below `tags`; no buffer is mapped yet.
    pub(crate) fn new(tags: u16) -> Placer {
        Placer {
            table: RrTable::new(tags),
            claim: None,
            seen_from: SeqNum(0),
        }
    }
}

/// A part of a packet's payload and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Its first byte in the payload.
    pub(crate) at: u32,
    pub(crate) slice: Slice,
    pub(crate) tag: u16,
}

impl Placed {
    /// No part.
    pub(crate) const NOTHING: Placed = Placed {
        at: 0,
        slice: Slice::NOTHING,
        tag: 0,
    };

    /// Where it ends in the payload.
    pub(crate) fn end(&self) -> u32 {
        self.at + self.slice.len
    }

    /// What the host gets to know.
    pub(crate) fn descriptor(&self) -> RecvDescriptor {
        RecvDescriptor::Placed {
            at: self.at,
            slice: self.slice,
            tag: self.tag,
        }
    }

    /// Takes `next` as its continuation, if it is: in the payload and in memory.
    pub(crate) fn extend(&mut self, next: &Placed) -> bool {
        let continues = self.end() == next.at
            && self.tag == next.tag
            && self.slice.region == next.slice.region
            && self.slice.offset + u64::from(self.slice.len) == next.slice.offset;
        if continues {
            self.slice.len += next.slice.len;
        }
        continues
    }
}

/// What goes up behind a packet: results that are no bytes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketMetadata<'a> {
    /// What of its payload was placed.
    pub(crate) placed: &'a [Placed],
    /// Notes on its payload.
    pub(crate) notes: &'a [Note],
    /// Of these notes.
    pub(crate) may_join: MayJoin,
}

impl PacketMetadata<'_> {
    /// Nothing.
    pub(crate) const NOTHING: PacketMetadata<'static> = PacketMetadata {
        placed: &[],
        notes: &[],
        may_join: |_, _| false,
    };
}

/// What of a packet is placed, ascending in its payload.
#[derive(Debug)]
pub(crate) struct PlacedList {
    parts: [Placed; MAX_PLACED],
    count: u8,
    /// Parts that the list may have.
    limit: u8,
    /// Nothing is added for now.
    closed: bool,
    /// Messages whose data were refused, and packets with data for a buffer that is no longer mapped.
    pub(crate) refused: u32,
}

impl Default for PlacedList {
    fn default() -> Self {
        PlacedList {
            parts: [Placed::NOTHING; MAX_PLACED],
            count: 0,
            limit: MAX_PLACED as u8,
            closed: false,
            refused: 0,
        }
    }
}

impl PlacedList {
    pub(crate) fn as_slice(&self) -> &[Placed] {
        &self.parts[..usize::from(self.count)]
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.closed = false;
    }

    /// Whether nothing is to be added until it is cleared.
    pub(crate) fn close(&mut self, closed: bool) {
        self.closed = closed;
    }

    /// From now on the list takes so many parts at most.
    pub(crate) fn set_limit(&mut self, parts: u32) {
        self.limit = parts.min(MAX_PLACED as u32) as u8;
    }

    /// Adds a part that lies behind all others. False when there is no room.
    pub(crate) fn push(&mut self, part: Placed) -> bool {
        if self.closed {
            return false;
        }
        let count = usize::from(self.count);
        if let Some(last) = self.parts[..count].last_mut()
            && last.extend(&part)
        {
            return true;
        }
        if count >= usize::from(self.limit) {
            return false;
        }
        self.parts[count] = part;
        self.count += 1;
        true
    }

    /// Parts that [`push`](Self::push) may need for another list's.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Keeps the first parts, as long as `keep` says so.
    pub(crate) fn keep_while(&mut self, mut keep: impl FnMut(&Placed) -> bool) {
        let kept = self.as_slice().iter().take_while(|part| keep(part)).count();
        self.count = kept as u8;
    }

    /// Bytes placed.
    pub(crate) fn bytes(&self) -> u32 {
        self.as_slice().iter().map(|part| part.slice.len).sum()
    }
}

impl Observer for Placer {
    type Snapshot = Claim;
    type List = PlacedList;
    const OBSERVES: bool = true;
    const TRUSTS: bool = true;

    fn begin(&mut self, list: &mut PlacedList, _: MsgState, placement: Option<Placement>) {
        self.claim = None;
        if let Some(placement) = placement.filter(|placement| placement.from < placement.to) {
            self.claim = self.table.claim(placement);
            list.refused += u32::from(self.claim.is_none());
        }
    }

    fn snapshot(&self) -> Option<Claim> {
        self.claim
    }

    fn end(&mut self) {
        self.claim = None;
    }

    fn note(&mut self, list: &mut PlacedList, claim: &Claim, range: Range<u32>, at: u32) {
        let Some((first, end)) = claim.covered(range.start, range.end) else {
            return;
        };
        let mut at = at + (first - range.start);
        let tag = claim.tag();
        let valid = self.table.memory(claim, first..end, |slice| {
            let pushed = list.push(Placed { at, slice, tag });
            at += slice.len;
            pushed
        });
        list.refused += u32::from(!valid);
    }

    fn clear(list: &mut PlacedList) {
        list.clear();
    }

    fn seen_from(&self) -> SeqNum {
        self.seen_from
    }

    fn set_seen_from(&mut self, seq: SeqNum) {
        self.seen_from = seq;
    }
}

#[cfg(test)]
mod tests;
