//! Messages that were sent and that TCP has not acknowledged wholly.

use std::collections::VecDeque;

use wire::SeqNum;

use crate::MsgState;

/// Most bytes that one run covers, so that its positions stay comparable.
const MAX_RUN: u32 = 1 << 30;

/// Messages in stream order, each directly behind the one before it or further on. No message is empty.
///
/// Messages of one length that follow each other directly are one run: pushing, finding and forgetting them costs the same
/// however many they are.
#[derive(Debug, Default)]
pub(crate) struct Unacknowledged {
    runs: VecDeque<Run>,
}

/// Messages of one length and epoch, each directly behind the one before it, numbered one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: MsgState,
    count: u32,
}

impl Run {
    fn len(&self) -> u32 {
        self.first.len * self.count
    }

    /// The position behind so many of the messages.
    fn behind(&self, count: u32) -> SeqNum {
        self.first.start + self.first.len * count
    }

    /// What the message behind so many others is.
    fn message(&self, before: u32) -> MsgState {
        MsgState {
            start: self.behind(before),
            index: self.first.index.saturating_add(before.into()),
            ..self.first
        }
    }

    /// Whether the run goes on with these messages.
    fn is_followed_by(&self, next: &Run) -> bool {
        self.message(self.count) == next.first && self.len().saturating_add(next.len()) <= MAX_RUN
    }
}

impl Unacknowledged {
    /// Registers `count` messages as long as `first`, one behind the other.
    #[inline]
    pub(crate) fn push(&mut self, first: MsgState, count: u32) {
        debug_assert!(first.len > 0 && count > 0);
        let run = Run { first, count };
        match self.runs.back_mut() {
            Some(last) if last.is_followed_by(&run) => last.count += count,
            last => {
                debug_assert!(last.is_none_or(|it| it.behind(it.count).at_or_before(first.start)));
                self.runs.push_back(run);
            }
        }
    }

    /// The message that the byte at `position` belongs to. `None` when that is wholly acknowledged or was never registered.
    pub(crate) fn message(&self, position: SeqNum) -> Option<MsgState> {
        let after = self
            .runs
            .partition_point(|run| run.first.start.at_or_before(position));
        let run = self.runs.get(after.checked_sub(1)?)?;
        let start = run.first.start;
        let is_within = position.is_within(start, run.len());
        is_within.then(|| run.message(start.distance_to(position) / run.first.len))
    }

    /// Forgets the messages of which TCP has acknowledged the last byte.
    #[inline]
    pub(crate) fn acknowledged(&mut self, una: SeqNum) {
        while let Some(run) = self.runs.front_mut() {
            if run.behind(run.count).at_or_before(una) {
                self.runs.pop_front();
                continue;
            }
            if una.after(run.first.start) {
                let whole = run.first.start.distance_to(una) / run.first.len;
                run.first = run.message(whole);
                run.count -= whole;
            }
            return;
        }
    }

    /// Up to where payload memory may be released when TCP has acknowledged all before `una`: the start of the message
    /// that `una` is inside of, else `una` itself.
    #[inline]
    pub(crate) fn release_point(&self, una: SeqNum) -> SeqNum {
        match self.runs.front() {
            Some(run) if una.before(run.first.start) => una,
            _ => self.message(una).map_or(una, |message| message.start),
        }
    }

    /// The messages, in stream order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = MsgState> {
        let runs = self.runs.iter().copied();
        runs.flat_map(|run| (0..run.count).map(move |before| run.message(before)))
    }

    /// The oldest message.
    pub(crate) fn first(&self) -> Option<&MsgState> {
        self.runs.front().map(|run| &run.first)
    }

    /// The newest message.
    pub(crate) fn last(&self) -> Option<MsgState> {
        self.runs.back().map(|run| run.message(run.count - 1))
    }

    /// Whether no message is registered.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}
