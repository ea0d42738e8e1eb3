//! Telling the observer of messages and bytes; and which of these have never been seen.

use std::ops::Range;

use l5p::{AnyOrder, Integrity, MsgState};
use shared::Output;
use wire::SeqNum;

use super::super::observer::Observer;
use super::{Recovery, Shared};

impl<L: AnyOrder, P: Observer> Recovery<L, P> {
    /// Advances walker, engine and frontier, message by message, into the output if there is one. `None` when a header is
    /// not valid; else whether all checks held.
    pub(super) fn walk_observed(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        bytes: &[u8],
        output: Option<Output<'_>>,
    ) -> Option<Integrity> {
        let mut integrity = Integrity::Good;
        let (mut rest, mut output) = (bytes, output);
        while !rest.is_empty() {
            let piece = rest
                .len()
                .min(self.walker.to_boundary(&self.engine) as usize);
            let (now, later) = rest.split_at(piece);
            rest = later;
            let in_header = self.walker.message_len().is_none();
            if let Some(snapshot) = self.observer.snapshot().filter(|_| !in_header) {
                self.note(shared, &snapshot, self.tcpsn..self.tcpsn + piece as u32);
            }
            let (index, offset) = (self.walker.index(), self.walker.offset());
            let walked = match output.take() {
                Some(whole) => {
                    let (now_output, later) = whole.split_at(piece);
                    output = Some(later);
                    self.walker.advance(&mut self.engine, now, now_output)
                }
                None => self.walker.absorb(&mut self.engine, now),
            };
            let walked = walked.ok()?;
            if walked.messages_finished > 0 {
                self.observer.end();
                self.proven |= walked.integrity == Integrity::Good;
            } else if let Some(len) = self.walker.message_len().filter(|_| in_header) {
                let message = MsgState {
                    start: self.tcpsn - offset,
                    len,
                    index,
                    epoch: 0,
                };
                let placement = self.engine.placement();
                self.observer.begin(&mut shared.noted, message, placement);
            }
            self.tcpsn += piece as u32;
            if walked.integrity == Integrity::Bad {
                integrity = Integrity::Bad;
            }
        }
        Some(integrity)
    }

    /// Tells of bytes behind a gap, of the message at the frontier.
    pub(super) fn note_ahead(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        from: SeqNum,
        to: SeqNum,
    ) {
        if let Some(snapshot) = self.observer.snapshot() {
            self.note(shared, &snapshot, from..to);
        }
    }

    /// Whether the next `missing` bytes were never seen.
    pub(super) fn is_unseen(&self, missing: u32) -> bool {
        self.tcpsn.at_or_after(self.newest)
            || (self.tcpsn + missing).at_or_before(self.observer.seen_from())
    }

    /// A packet begins at `seq`, ahead of the frontier.
    pub(super) fn note_seen(&mut self, seq: SeqNum) {
        let first = self.tcpsn.at_or_after(self.newest);
        if first || seq.before(self.observer.seen_from()) {
            self.observer.set_seen_from(seq);
        }
    }

    /// The parts of `from..to`, at or beyond the frontier, of which no byte was ever seen, when some beyond the frontier may
    /// have been.
    fn unseen(&self, from: SeqNum, to: SeqNum) -> [(SeqNum, SeqNum); 2] {
        let seen_from = self.observer.seen_from().max(from).min(to);
        let new_from = self.newest.max(from).min(to);
        [(from, seen_from), (new_from.max(seen_from), to)]
    }

    /// Tells of those of these bytes of the message at the frontier that were never seen.
    #[inline]
    fn note(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        snapshot: &P::Snapshot,
        seen: Range<SeqNum>,
    ) {
        let message = self.tcpsn - self.walker.offset();
        if self.tcpsn.at_or_after(self.newest) {
            let range = message.distance_to(seen.start)..message.distance_to(seen.end);
            let at = shared.packet.distance_to(seen.start);
            self.observer.note(&mut shared.noted, snapshot, range, at);
            return;
        }
        let parts = self.unseen(seen.start, seen.end);
        let noted: u32 = parts.iter().map(|(from, to)| from.distance_to(*to)).sum();
        shared.noted_less |= noted < seen.start.distance_to(seen.end);
        for (from, to) in parts {
            if from.before(to) {
                let range = message.distance_to(from)..message.distance_to(to);
                let at = shared.packet.distance_to(from);
                self.observer.note(&mut shared.noted, snapshot, range, at);
            }
        }
    }
}
