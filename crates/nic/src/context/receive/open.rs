//! Messages of which bytes are missing while later ones have come: what it takes to offload the missing ones when they come late.
//!
//! The engine goes on behind a gap, with zeros in place of what is missing (design: "Order-independent contexts"; see
//! [`AnyOrder`]). Kept here are, per message, the ranges that are missing and the sum of the parts of what was filled in.
//! The state is bounded: a few messages, a few ranges of each, and so many contexts that have any, from a pool. Within
//! those bounds every byte of a message is transformed exactly once, so that a message all of whose packets were offloaded
//! is one whose check held.

use std::ops::Range;

use l5p::{AnyOrder, Integrity, Part};
use shared::Output;
use wire::SeqNum;

/// Messages of one context that can be open at a time; the oldest gives way.
const MESSAGES: usize = 16;
/// Ranges of one message that can be missing.
const HOLES: usize = 4;

/// The open messages of one context. Empty for all but those that have just lost a packet.
#[derive(Debug)]
pub(super) struct OpenMessages<M, C>(Option<Box<Slots<M, C>>>);

/// Memory for the open messages of as many contexts as may have some at a time.
#[derive(Debug)]
pub(crate) struct OpenPool<M, C> {
    free: Vec<Box<Slots<M, C>>>,
    left: u32,
}

#[derive(Debug)]
struct Slots<M, C>([Option<OpenMessage<M, C>>; MESSAGES]);

#[derive(Debug)]
struct OpenMessage<M, C> {
    start: SeqNum,
    len: u32,
    message: M,
    /// What the observer keeps of it, if the missing bytes were never seen.
    snapshot: Option<C>,
    /// Of the late bytes, and of the rest once the engine has reached the end.
    sum: Part,
    /// The engine has reached the end.
    streamed: bool,
    holes: Holes,
}

/// Disjoint ranges of a message, ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holes {
    ranges: [(u32, u32); HOLES],
    count: u8,
}

/// What is known of a message when the engine has reached its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streamed {
    /// Bytes are still missing, or were given up.
    Incomplete,
    /// Everything had come.
    Complete(Integrity),
}

impl<M, C> OpenPool<M, C> {
    /// Memory for `contexts` contexts, allocated as it is needed and then kept.
    pub(crate) fn new(contexts: u32) -> Self {
        Self {
            free: Vec::new(),
            left: contexts,
        }
    }

    fn take_slots(&mut self) -> Option<Box<Slots<M, C>>> {
        self.left = self.left.checked_sub(1)?;
        let slots = self.free.pop();
        Some(slots.unwrap_or_else(|| Box::new(Slots([const { None }; MESSAGES]))))
    }

    fn take_back(&mut self, mut slots: Box<Slots<M, C>>) {
        slots.0.fill_with(|| None);
        self.free.push(slots);
        self.left += 1;
    }
}

impl<M: Copy, C: Copy> OpenMessages<M, C> {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Notes that bytes `missing` of the message of `len` bytes that begins at `start` are not there. False, and the
    /// message is not open, when there is no room for it or nothing can be done with late bytes of it.
    pub(super) fn miss(
        &mut self,
        pool: &mut OpenPool<M, C>,
        start: SeqNum,
        len: u32,
        missing: Range<u32>,
        snapshot: Option<C>,
        message: impl FnOnce() -> Option<M>,
    ) -> bool {
        if let Some(open) = self.slot(start).and_then(Option::as_mut) {
            let start_known = open.start;
            let noted = start_known == start
                && open.len == len
                && open.holes.add(missing.start, missing.end);
            open.snapshot = open.snapshot.and(snapshot);
            if !noted {
                self.close(pool, start_known);
            }
            return noted;
        }
        let Some(message) = message() else {
            return false;
        };
        if self.0.is_none() {
            self.0 = pool.take_slots();
        }
        let Some(slots) = &mut self.0 else {
            return false;
        };
        let mut holes = Holes::default();
        holes.add(missing.start, missing.end);
        *slots.place() = Some(OpenMessage {
            start,
            len,
            message,
            snapshot,
            sum: 0,
            streamed: false,
            holes,
        });
        true
    }

    /// The engine has reached the end of the message whose last byte is `last`, and left `residue`.
    pub(super) fn streamed(
        &mut self,
        pool: &mut OpenPool<M, C>,
        last: SeqNum,
        residue: Part,
    ) -> Streamed {
        let Some(open) = self.slot(last).and_then(Option::as_mut) else {
            return Streamed::Incomplete;
        };
        open.sum ^= residue;
        open.streamed = true;
        let start = open.start;
        match open.complete() {
            None => Streamed::Incomplete,
            Some(integrity) => {
                self.close(pool, start);
                Streamed::Complete(integrity)
            }
        }
    }

    /// Gives up the message that begins at `start`.
    pub(super) fn close(&mut self, pool: &mut OpenPool<M, C>, start: SeqNum) {
        if let Some(slot) = self.slot(start)
            && slot.as_ref().is_some_and(|open| open.start == start)
        {
            *slot = None;
            self.give_back_if_empty(pool);
        }
    }

    /// Gives up all of them.
    pub(super) fn clear(&mut self, pool: &mut OpenPool<M, C>) {
        if let Some(slots) = self.0.take() {
            pool.take_back(slots);
        }
    }

    /// Gives up those that begin more than `distance` bytes before `newest`.
    pub(super) fn expire(&mut self, pool: &mut OpenPool<M, C>, newest: SeqNum, distance: u32) {
        let Some(slots) = &mut self.0 else {
            return;
        };
        for slot in &mut slots.0 {
            if slot
                .as_ref()
                .is_some_and(|open| open.is_behind(newest, distance))
            {
                *slot = None;
            }
        }
        self.give_back_if_empty(pool);
    }

    /// Whether the message that holds the byte at `at` is open.
    pub(super) fn is_open(&self, at: SeqNum) -> bool {
        self.find(at).is_some()
    }

    /// Whether each of the `len` bytes from `seq` on is missing from an open message.
    pub(super) fn awaits(&self, seq: SeqNum, len: u32) -> bool {
        let mut at = seq;
        let mut left = len;
        while left > 0 {
            let Some(open) = self.find(at) else {
                return false;
            };
            let from = open.start.distance_to(at);
            let part = left.min(open.len - from);
            if !open.holes.can_fill(from, from + part) {
                return false;
            }
            at += part;
            left -= part;
        }
        true
    }

    /// These bytes have been passed up: the observer sees no more of their messages.
    pub(super) fn drop_snapshots(&mut self, seq: SeqNum, len: u32) {
        let Some(slots) = &mut self.0 else {
            return;
        };
        for open in slots.0.iter_mut().flatten() {
            if open.start.before(seq + len) && seq.before(open.start + open.len) {
                open.snapshot = None;
            }
        }
    }

    /// Transforms bytes that are [awaited](Self::awaits), into `output` if there is one, and calls `note` with the
    /// snapshot, the range of the message, and the offset in `input` of what was never seen. Gives whether the checks of the messages
    /// that they complete hold, if they complete any.
    pub(super) fn fill<L: AnyOrder<Message = M>>(
        &mut self,
        pool: &mut OpenPool<M, C>,
        layer5: &mut L,
        seq: SeqNum,
        input: &[u8],
        mut output: Option<Output<'_>>,
        mut note: impl FnMut(Option<&C>, Range<u32>, u32),
    ) -> Option<Integrity> {
        let mut integrity = None;
        let mut done = 0;
        while done < input.len() {
            let at = seq + done as u32;
            let Some(open) = self.slot(at).and_then(Option::as_mut) else {
                return Some(Integrity::Bad);
            };
            let from = open.start.distance_to(at);
            let part = (input.len() - done).min((open.len - from) as usize);
            let to = from + part as u32;
            let input = &input[done..done + part];
            open.sum ^= match output.take() {
                Some(whole) => {
                    let (now, later) = whole.split_at(part);
                    output = Some(later);
                    layer5.transform_aside(&open.message, open.len, from, input, now)
                }
                None => layer5.absorb_aside(&open.message, open.len, from, input),
            };
            note(open.snapshot.as_ref(), from..to, done as u32);
            open.holes.fill(from, to);
            let complete = open.streamed.then(|| open.complete()).flatten();
            if let Some(complete) = complete {
                if integrity != Some(Integrity::Bad) {
                    integrity = Some(complete);
                }
                let start = open.start;
                self.close(pool, start);
            }
            done += part;
        }
        integrity
    }

    fn find(&self, at: SeqNum) -> Option<&OpenMessage<M, C>> {
        let slots = self.0.as_ref()?;
        let mut open = slots.0.iter().flatten();
        open.find(|open| at.is_within(open.start, open.len))
    }

    fn slot(&mut self, at: SeqNum) -> Option<&mut Option<OpenMessage<M, C>>> {
        let holds = |slot: &&mut Option<OpenMessage<M, C>>| {
            slot.as_ref()
                .is_some_and(|open| at.is_within(open.start, open.len))
        };
        self.0.as_mut()?.0.iter_mut().find(holds)
    }

    fn give_back_if_empty(&mut self, pool: &mut OpenPool<M, C>) {
        if self
            .0
            .as_ref()
            .is_some_and(|slots| slots.0.iter().all(Option::is_none))
        {
            self.clear(pool);
        }
    }
}

impl<M, C> Slots<M, C> {
    /// A free place, or that of the message that begins first.
    fn place(&mut self) -> &mut Option<OpenMessage<M, C>> {
        let mut place = 0;
        for (at, slot) in self.0.iter().enumerate() {
            let (Some(open), Some(first)) = (slot, &self.0[place]) else {
                if slot.is_none() {
                    place = at;
                }
                break;
            };
            if open.start.before(first.start) {
                place = at;
            }
        }
        &mut self.0[place]
    }
}

impl<M, C> OpenMessage<M, C> {
    /// The check, once nothing is missing.
    fn complete(&self) -> Option<Integrity> {
        (self.holes.count == 0).then_some(match self.sum {
            0 => Integrity::Good,
            _ => Integrity::Bad,
        })
    }

    /// Whether it begins more than `distance` before `newest`, which is never before it.
    fn is_behind(&self, newest: SeqNum, distance: u32) -> bool {
        self.start.distance_to(newest) > distance
    }
}

impl Holes {
    fn as_slice(&self) -> &[(u32, u32)] {
        &self.ranges[..usize::from(self.count)]
    }

    /// Adds a range behind all others. False when there is no room.
    fn add(&mut self, from: u32, to: u32) -> bool {
        let count = usize::from(self.count);
        if let Some(last) = self.ranges[..count].last_mut()
            && last.1 == from
        {
            last.1 = to;
            return true;
        }
        if count == HOLES {
            return false;
        }
        self.ranges[count] = (from, to);
        self.count += 1;
        true
    }

    /// Whether a range is inside one hole, and what remains of that has room.
    fn can_fill(&self, from: u32, to: u32) -> bool {
        let hole = self
            .as_slice()
            .iter()
            .find(|hole| hole.0 <= from && to <= hole.1);
        hole.is_some_and(|hole| hole.0 == from || hole.1 == to || usize::from(self.count) < HOLES)
    }

    /// Takes out a range that [can be](Self::can_fill).
    fn fill(&mut self, from: u32, to: u32) {
        let count = usize::from(self.count);
        let holds = |hole: &(u32, u32)| hole.0 <= from && to <= hole.1;
        let Some(at) = self.as_slice().iter().position(holds) else {
            return;
        };
        let hole = self.ranges[at];
        match (hole.0 < from, to < hole.1) {
            (true, true) => {
                self.ranges.copy_within(at..count, at + 1);
                self.ranges[at] = (hole.0, from);
                self.ranges[at + 1] = (to, hole.1);
                self.count += 1;
            }
            (true, false) => self.ranges[at].1 = from,
            (false, true) => self.ranges[at].0 = to,
            (false, false) => {
                self.ranges.copy_within(at + 1..count, at);
                self.count -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
