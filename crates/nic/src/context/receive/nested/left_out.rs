//! Messages that carry nothing for the layer inside.

use wire::SeqNum;

/// Bytes of content that are not of the inner layer's stream, of messages that were known to be of another type before any of them was given,
/// and left out in the order in which they are in the stream.
/// The positions of what comes behind are less by so many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    /// All of them so far.
    pub(super) bytes: u32,
    pub(super) last: Option<Leaving>,
}

/// The message that was left out last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) at: SeqNum,
    /// Bytes that had been left out before it.
    before: u32,
    /// The message left out before it. How much had been left out before that one is not known any more.
    pub(super) previous: Option<SeqNum>,
}

/// Bytes behind which a message that was left out is past: no receive window is longer (RFC 7323 §2.3).
const PAST: u32 = 1 << 30;

impl LeftOut {
    /// Leaves the message at `at` out, whose content has so many bytes.
    pub(super) fn add(&mut self, at: SeqNum, bytes: u32) {
        self.last = Some(Leaving {
            at,
            before: self.bytes,
            previous: self.last.map(|last| last.at),
        });
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    /// Bytes that were left out before the message at `at`, if that is still known.
    pub(super) fn before(&mut self, at: SeqNum) -> Option<u32> {
        let Some(last) = self.last else {
            return Some(self.bytes);
        };
        if last.at.before(at) {
            if last.at.distance_to(at) > PAST {
                self.last = None;
            }
            return Some(self.bytes);
        }
        let is_known = last.previous.is_none_or(|previous| previous.before(at));
        is_known.then_some(last.before)
    }
}
