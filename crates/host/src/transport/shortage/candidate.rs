//! A connection that may be given up for its memory, and which of two goes first.

use std::cmp::Ordering;
use std::fmt;
use std::time::{Duration, Instant};

use crate::SocketId;
use crate::memory::MemoryLevel;
use crate::socket::Socket;

/// How long an orphan has not got on that holds more than its part, or gives its memory to others.
const ORPHAN_STALLED: Duration = Duration::from_secs(3);
const ORPHAN_STALLED_SHORT: Duration = Duration::from_millis(250);
/// The same for a connection that an application has.
const STALLED: Duration = Duration::from_secs(5);
/// Bytes: who has taken fewer has taken nearly nothing.
const NEARLY_NOTHING: u32 = 4096;

/// A connection that may be given up. The greater one goes first: orphans before others; of these, those that may be reset for their memory; of these,
/// those whose peers would take longest, at the rate of late, for what they hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub id: SocketId,
    pub is_orphan: bool,
    /// It may be reset for its memory, not only because orphans are too many.
    pub is_eligible: bool,
    /// How long it has not got on.
    pub stalled: Duration,
    /// Bytes of the arena that it holds.
    pub held: u64,
    /// Bytes that its peer has acknowledged in that time.
    pub taken: u32,
}

impl Candidate {
    /// The socket, if it is one.
    pub fn of(id: SocketId, socket: &mut Socket, now: Instant, level: MemoryLevel) -> Option<Self> {
        let stalled = socket.stalled(now);
        let is_orphan = socket.is_orphan();
        let is_eligible = match level {
            _ if !is_orphan => stalled >= STALLED && socket.may_be_given_up(),
            // Within two RTOs a peer that is there answers, even if a packet is lost.
            MemoryLevel::Exhausted => {
                stalled >= ORPHAN_STALLED_SHORT.max(socket.tcp.base_rto() * 2)
            }
            MemoryLevel::Free | MemoryLevel::Pressure => stalled >= ORPHAN_STALLED,
        };
        if !is_orphan && !is_eligible {
            return None;
        }
        let held = socket.held();
        (is_orphan || held > 0).then_some(Self {
            id,
            is_orphan,
            is_eligible: is_eligible && held > 0,
            stalled,
            held,
            taken: socket.taken(),
        })
    }

    /// How long its peer would take for what it holds, in milliseconds. A byte now and then is no better than nothing: the path of an honest
    /// peer may have been down.
    fn millis_to_go(&self) -> u128 {
        u128::from(self.held) * self.stalled.as_millis()
            / u128::from(self.taken.max(NEARLY_NOTHING))
    }

    fn rank(&self) -> impl Ord {
        let place = (self.id.index, self.id.generation);
        let of_class = (self.is_orphan, self.is_eligible);
        (of_class, self.millis_to_go(), self.stalled, place)
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            held,
            taken,
            stalled,
            ..
        } = self;
        let what = if self.is_orphan {
            "an orphan"
        } else {
            "a connection"
        };
        write!(
            f,
            "{what} held {held} bytes, of which its peer took {taken} in {stalled:.1?}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(held: u64, taken: u32, stalled: u64) -> Candidate {
        Candidate {
            id: SocketId {
                index: 0,
                generation: 0,
            },
            is_orphan: false,
            is_eligible: true,
            stalled: Duration::from_secs(stalled),
            held,
            taken,
        }
    }

    #[test]
    fn of_those_that_take_nothing_the_one_goes_first_that_has_held_most_for_longest() {
        assert!(candidate(64 << 10, 0, 6) > candidate(16 << 10, 0, 6));
        assert!(candidate(16 << 10, 0, 30) > candidate(16 << 10, 0, 6));
        assert!(candidate(64 << 10, 0, 8) > candidate(16 << 10, 0, 30));
    }

    #[test]
    fn who_takes_some_goes_after_who_takes_less() {
        assert!(candidate(128 << 10, 0, 6) > candidate(1 << 20, 60_000, 6));
        assert!(candidate(1 << 20, 30_000, 6) > candidate(1 << 20, 60_000, 6));
        assert!(candidate(1 << 20, 60_000, 6) > candidate(512 << 10, 60_000, 6));
    }

    #[test]
    fn a_byte_now_and_then_is_no_better_than_nothing() {
        assert!(candidate(16 << 10, 1000, 30) > candidate(64 << 10, 0, 6));
    }

    #[test]
    fn orphans_go_before_others() {
        let mut orphan = candidate(1, 1000, 1);
        orphan.is_orphan = true;
        assert!(orphan > candidate(64 << 10, 0, 60));
    }
}
