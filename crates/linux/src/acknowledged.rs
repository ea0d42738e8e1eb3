//! Up to where Linux has acknowledged a stream that it is given.

use wire::SeqNum;

/// Positions this far beyond what is acknowledged are in no window (RFC 7323 §2.3).
const MAX_AHEAD: u32 = 1 << 30;

/// Only what Linux was given can be acknowledged: who forges a segment of Linux's does not know how much that is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    position: SeqNum,
    /// Behind the last byte that Linux was given.
    given: SeqNum,
}

impl Acknowledged {
    /// Everything before `position` is, and Linux may have been given what is before `given`.
    pub(crate) fn new(position: SeqNum, given: SeqNum) -> Acknowledged {
        let given = given.max(position);
        Acknowledged { position, given }
    }

    /// Everything before this is acknowledged.
    pub(crate) fn position(self) -> SeqNum {
        self.position
    }

    /// Whether Linux can't want anything that ends here.
    pub(crate) fn is_far_before(self, end: SeqNum) -> bool {
        self.position.distance_to(end) > MAX_AHEAD
    }

    /// Linux is given what is before `end`.
    pub(crate) fn give(&mut self, end: SeqNum) {
        self.given = self.given.max(end);
    }

    /// Linux acknowledges everything before `position`. False if that is nothing new, or more than it has, with the FIN.
    pub(crate) fn advance(&mut self, position: SeqNum) -> bool {
        let is_news = position.after(self.position) && position.at_or_before(self.given + 1);
        if is_news {
            self.position = position;
            self.give(position);
        }
        is_news
    }
}
