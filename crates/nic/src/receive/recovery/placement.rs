//! Placing by what the recovery knows: the message of each byte, and which bytes have never been seen.

use l5p::{AnyOrder, Integrity};
use wire::SeqNum;

use super::super::placing::Placing;
use super::{Recovery, Shared};

impl<L: AnyOrder, P: Placing> Recovery<L, P> {
    /// Advances walker, engine and frontier, message by message, and places what has a place. Nobody wants the bytes
    /// transformed. `None` when a header is none; else whether all checks held.
    pub(super) fn walk_placing(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        bytes: &[u8],
    ) -> Option<Integrity> {
        let mut integrity = Integrity::Good;
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = rest.len().min(self.walker.to_boundary() as usize);
            let (now, later) = rest.split_at(piece);
            rest = later;
            let header = self.walker.message_len().is_none();
            if let Some(claim) = self.placer.claim().filter(|_| !header) {
                let offset = self.walker.offset();
                let message = self.tcpsn - offset;
                let end = self.tcpsn + piece as u32;
                for (from, to) in self.unseen(self.tcpsn, end) {
                    self.place(shared, &claim, message, (from, to));
                }
            }
            let walked = self.walker.absorb(&mut self.engine, now).ok()?;
            self.tcpsn += piece as u32;
            if walked.messages_finished > 0 {
                self.placer.end();
            } else if header && self.walker.message_len().is_some() {
                let placement = self.engine.placement();
                self.placer.begin(&mut shared.placed, placement);
            }
            if walked.integrity == Integrity::Bad {
                integrity = Integrity::Bad;
            }
        }
        Some(integrity)
    }

    /// Places bytes behind a gap, of the message at the frontier.
    pub(super) fn place_ahead(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        from: SeqNum,
        to: SeqNum,
    ) {
        let Some(claim) = self.placer.claim() else {
            return;
        };
        let message = self.tcpsn - self.walker.offset();
        for part in self.unseen(from, to) {
            self.place(shared, &claim, message, part);
        }
    }

    /// Whether none of the next `missing` bytes was ever seen.
    pub(super) fn is_unseen(&self, missing: u32) -> bool {
        self.tcpsn.at_or_after(self.newest)
            || (self.tcpsn + missing).at_or_before(self.placer.seen_from())
    }

    /// A packet begins at `seq`, ahead of the frontier.
    pub(super) fn note_seen(&mut self, seq: SeqNum) {
        let first = self.tcpsn.at_or_after(self.newest);
        if first || seq.before(self.placer.seen_from()) {
            self.placer.set_seen_from(seq);
        }
    }

    /// The parts of `from..to`, at or beyond the frontier, of which no byte was ever seen.
    fn unseen(&self, from: SeqNum, to: SeqNum) -> [(SeqNum, SeqNum); 2] {
        if self.tcpsn.at_or_after(self.newest) {
            return [(from, to), (to, to)];
        }
        let seen_from = self.placer.seen_from().max(from).min(to);
        let new_from = self.newest.max(from).min(to);
        [(from, seen_from), (new_from.max(seen_from), to)]
    }

    fn place(
        &mut self,
        shared: &mut Shared<L::Message, P>,
        claim: &P::Claim,
        message: SeqNum,
        (from, to): (SeqNum, SeqNum),
    ) {
        if from.before(to) {
            let range = (message.distance_to(from), message.distance_to(to));
            let at = shared.packet.distance_to(from);
            self.placer.place(&mut shared.placed, claim, range, at);
        }
    }
}
