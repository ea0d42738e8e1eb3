//! The outer layer of one flow: what it gives to the layer inside.

use std::ops::Range;

use l5p::Protocol;
use wire::SeqNum;

use super::super::contents::{Contents, Record, Run};
use super::super::recovery::Recovery;
use super::super::{Part, ReceiveTable, Received};
use super::left_out::LeftOut;

/// Outer messages before the one at hand that a header of the inner protocol may begin in.
pub(super) const RECENT: usize = 3;
/// The outer layer of one flow.
#[derive(Debug)]
pub(super) struct Outer<P: Protocol> {
    pub(super) recovery: Recovery<P, Contents>,
    /// The messages that the inner layer was given content of last.
    pub(super) recent: [Option<Record>; RECENT],
    /// Where the last message begins that the inner layer was given content of.
    pub(super) newest: SeqNum,
    pub(super) left_out: LeftOut,
    pub(super) guess: Option<Guess>,
}

/// A guess of a layer inside: its own position, and how it is known out here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    pub(super) layer: u8,
    pub(super) position: SeqNum,
    pub(super) tcpsn: SeqNum,
    pub(super) offset: u32,
}

impl<P: Protocol> Outer<P> {
    pub(super) fn content(&self, record: &Record) -> Range<u32> {
        self.recovery.engine().content(record.len).unwrap_or(0..0)
    }

    /// Gives a part of a message's content to the layer inside, and what that has made of it. `bytes` are those of the packet's part that
    /// this layer got.
    pub(super) fn give(
        &mut self,
        run: &Run,
        at: u32,
        part: &Part<'_>,
        bytes: &[u8],
        inside: &mut dyn ReceiveTable,
    ) -> Received {
        let content = self.content(&run.record);
        let start = run.at - part.at;
        let byte = |offset: u32| bytes[(start + offset - run.from) as usize];
        let ends = (run.from..run.to).contains(&content.end);
        let nothing_to_do = Received {
            layers: u8::MAX,
            ..Received::NOTHING
        };
        if ends && !self.recovery.engine().carries(byte(content.end)) {
            let is_other = self.recovery.engine().carries_nothing(byte(content.end));
            if is_other && self.leave_out(run, &content) {
                return nothing_to_do;
            }
            inside.lose_track(at);
            return Received::NOTHING;
        }
        let (from, to) = (run.from.max(content.start), run.to.min(content.end));
        if from >= to {
            return nothing_to_do;
        }
        let Some(left_out) = self.left_out.before(run.record.start) else {
            return Received::NOTHING;
        };
        let record = Record {
            content: run.record.content - left_out,
            ..run.record
        };
        if self.newest.before(record.start) {
            self.newest = record.start;
        }
        let skipped = from - run.from;
        let first = (start + skipped) as usize;
        let received = inside.receive(
            at,
            Part {
                at: run.at + skipped,
                position: record.content + (from - content.start),
                bytes: &bytes[first..first + (to - from) as usize],
                certain: part.certain && (ends || run.record.len > P::SHORT_MESSAGE),
            },
            None,
        );
        if self.recent[0] != Some(record) {
            self.recent.copy_within(..RECENT - 1, 1);
            self.recent[0] = Some(record);
        }
        if received.searches {
            self.name_guess(at, inside);
        }
        received
    }

    /// Leaves a message's content out of the inner layer's stream, if all of it is still to be given.
    #[cold]
    fn leave_out(&mut self, run: &Run, content: &Range<u32>) -> bool {
        // Content of it, or of messages behind it, that the inner layer was given has positions by now; so has what lies before another
        // one that was left out.
        let start = run.record.start;
        let last = self.left_out.last;
        let is_newest = self.newest.before(start) && last.is_none_or(|last| last.at.before(start));
        let leaves_out = is_newest && run.from <= content.start;
        if leaves_out {
            self.left_out.add(start, content.end - content.start);
        }
        leaves_out
    }

    /// Finds out how the guess of a layer inside is known out here.
    pub(super) fn name_guess(&mut self, at: u32, inside: &mut dyn ReceiveTable) {
        let Some((layer, position)) = inside.guess(at) else {
            return;
        };
        if self
            .guess
            .is_some_and(|guess| (guess.layer, guess.position) == (layer, position))
        {
            return;
        }
        let named = self.recent.iter().flatten().find_map(|record| {
            let content = self.content(record);
            let len = content.end - content.start;
            position.is_within(record.content, len).then(|| Guess {
                layer,
                position,
                tcpsn: record.start,
                offset: record.content.distance_to(position),
            })
        });
        self.guess = named;
        if named.is_none() {
            // It begins in messages too short and too many to remember: the search goes on behind it.
            inside.answer(at, layer, position, None);
        }
    }

    /// The guess of a layer inside, if that is still of this mind.
    pub(super) fn named_guess(&self, at: u32, inside: &dyn ReceiveTable) -> Option<Guess> {
        let is_current = |guess: &Guess| inside.guess(at) == Some((guess.layer, guess.position));
        self.guess.filter(is_current)
    }
}
