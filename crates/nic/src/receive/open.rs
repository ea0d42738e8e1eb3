//! Messages that later ones have overtaken: their headers are known, some of their bytes are missing.
//!
//! What comes late is transformed when it comes, and its part of the check is added to a sum (design: "Order-independent
//! contexts"). The state is bounded: a few messages, and a few ranges of each. Within those bounds every byte is
//! transformed exactly once, so that a message all of whose packets were offloaded is one whose check held.

use l5p::{AnyOrder, Integrity, Part};
use wire::SeqNum;

/// Messages that can be open at a time; the oldest gives way.
const MESSAGES: usize = 4;
/// Ranges of one message that can have come apart from each other.
const RANGES: usize = 6;

/// The open messages of one context.
#[derive(Debug)]
pub(super) struct OpenMessages<M>(Option<Box<[Option<OpenMessage<M>>; MESSAGES]>>);

#[derive(Debug)]
struct OpenMessage<M> {
    start: SeqNum,
    len: u32,
    message: M,
    sum: Part,
    covered: Ranges,
}

/// Disjoint ranges of a message, ascending, none touching the next.
#[derive(Clone, Copy, Debug, Default)]
struct Ranges {
    ranges: [(u32, u32); RANGES],
    count: u8,
}

impl<M: Copy> OpenMessages<M> {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Adds a message of which the first `offset` bytes have been transformed and contribute `part`.
    pub(super) fn add(&mut self, start: SeqNum, len: u32, offset: u32, message: M, part: Part) {
        let mut covered = Ranges::default();
        covered.add(0, offset);
        let opened = OpenMessage {
            start,
            len,
            message,
            sum: part,
            covered,
        };
        // The one allocation of a context's life, when it first loses a packet.
        let slots = self.0.get_or_insert_default();
        let slot = match slots.iter().position(Option::is_none) {
            Some(free) => free,
            None => oldest(slots),
        };
        slots[slot] = Some(opened);
    }

    /// Forgets them: the keys have changed, or their stream is no longer believed.
    pub(super) fn clear(&mut self) {
        if let Some(slots) = &mut self.0 {
            slots.fill_with(|| None);
        }
    }

    /// Forgets those that begin more than `distance` bytes before `newest`.
    pub(super) fn expire(&mut self, newest: SeqNum, distance: u32) {
        for slot in self.0.iter_mut().flat_map(|slots| slots.iter_mut()) {
            if slot
                .as_ref()
                .is_some_and(|open| open.start.distance_to(newest) > distance)
            {
                *slot = None;
            }
        }
    }

    /// Whether each of the `len` bytes from `seq` on is a missing byte of an open message.
    pub(super) fn awaits(&self, seq: SeqNum, len: u32) -> bool {
        let mut at = seq;
        let mut left = len;
        while left > 0 {
            let Some(open) = self.find(at) else {
                return false;
            };
            let from = open.start.distance_to(at);
            let part = left.min(open.len - from);
            if !open.covered.can_add(from, from + part) {
                return false;
            }
            at += part;
            left -= part;
        }
        true
    }

    /// Transforms bytes that are [awaited](Self::awaits). `Bad` when they complete a message whose check fails.
    pub(super) fn transform<L: AnyOrder<Message = M>>(
        &mut self,
        layer5: &mut L,
        seq: SeqNum,
        input: &[u8],
        output: &mut [u8],
    ) -> Integrity {
        let mut integrity = Integrity::Good;
        let mut done = 0;
        while done < input.len() {
            let at = seq + done as u32;
            let Some(slot) = self.slot(at) else {
                return Integrity::Bad;
            };
            let Some(open) = slot else {
                return Integrity::Bad;
            };
            let from = open.start.distance_to(at);
            let part = (input.len() - done).min((open.len - from) as usize);
            let range = done..done + part;
            let contribution = layer5.transform_aside(
                &open.message,
                open.len,
                from,
                &input[range.clone()],
                &mut output[range],
            );
            open.sum ^= contribution;
            open.covered.add(from, from + part as u32);
            if open.covered.is_all_of(open.len) {
                if layer5.verify_aside(&open.message, open.len, open.sum) == Integrity::Bad {
                    integrity = Integrity::Bad;
                }
                *slot = None;
            }
            done += part;
        }
        integrity
    }

    fn find(&self, at: SeqNum) -> Option<&OpenMessage<M>> {
        let slots = self.0.as_ref()?;
        slots
            .iter()
            .flatten()
            .find(|open| at.is_within(open.start, open.len))
    }

    fn slot(&mut self, at: SeqNum) -> Option<&mut Option<OpenMessage<M>>> {
        let slots = self.0.as_mut()?;
        slots.iter_mut().find(|slot| {
            slot.as_ref()
                .is_some_and(|open| at.is_within(open.start, open.len))
        })
    }
}

/// The slot of the message that begins first.
fn oldest<M>(slots: &[Option<OpenMessage<M>>; MESSAGES]) -> usize {
    let mut oldest = 0;
    for (at, slot) in slots.iter().enumerate() {
        if let (Some(open), Some(first)) = (slot, &slots[oldest])
            && open.start.before(first.start)
        {
            oldest = at;
        }
    }
    oldest
}

impl Ranges {
    fn as_slice(&self) -> &[(u32, u32)] {
        &self.ranges[..usize::from(self.count)]
    }

    fn is_all_of(&self, len: u32) -> bool {
        self.as_slice() == [(0, len)]
    }

    /// Whether `from..to` overlaps none of the ranges, and there is room for it.
    fn can_add(&self, from: u32, to: u32) -> bool {
        let overlaps = self
            .as_slice()
            .iter()
            .any(|&(start, end)| from < end && start < to);
        let touches = self
            .as_slice()
            .iter()
            .any(|&(start, end)| from == end || start == to);
        !overlaps && (touches || usize::from(self.count) < RANGES)
    }

    /// Adds a range that [can be added](Self::can_add).
    fn add(&mut self, from: u32, to: u32) {
        if from == to {
            return;
        }
        let at = self
            .as_slice()
            .iter()
            .filter(|range| range.1 < from)
            .count();
        let after = self.as_slice().iter().filter(|range| range.0 <= to).count();
        // Ranges at..after touch the new one: at most two, since it overlaps none.
        let merged = self.ranges[at..after]
            .iter()
            .fold((from, to), |sum, range| {
                (sum.0.min(range.0), sum.1.max(range.1))
            });
        let count = usize::from(self.count);
        if at == after {
            self.ranges.copy_within(at..count.min(RANGES - 1), at + 1);
        } else {
            self.ranges.copy_within(after..count, at + 1);
        }
        self.ranges[at] = merged;
        self.count = (count + at + 1 - after) as u8;
    }
}

#[cfg(test)]
mod tests;
