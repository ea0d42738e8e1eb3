//! When each socket wants to be looked at again.
//!
//! A binary heap with lazy deletion. A socket remembers the earliest entry it has; a later deadline leaves that
//! entry alone, to be looked at when it comes up, so that a retransmission timer that moves with every ACK costs
//! nothing, and a socket without a timer is not in the heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::SocketId;

/// Deadlines of all sockets.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, SocketId)>>,
}

impl Timers {
    /// Makes sure that the socket comes up at `deadline` at the latest. `armed` is the socket's own record of its
    /// earliest entry.
    #[inline]
    pub fn arm(&mut self, id: SocketId, armed: &mut Option<Instant>, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if armed.is_none_or(|at| deadline < at) {
            *armed = Some(deadline);
            self.heap.push(Reverse((deadline, id)));
        }
    }

    /// The next entry that is due, with its deadline. It counts only if the socket's `armed` is that deadline;
    /// the holder then clears `armed` and arms again.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<(SocketId, Instant)> {
        let &Reverse((at, id)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some((id, at))
    }

    /// When the next entry is due. It may turn out to be stale.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, _))| at)
    }
}
