//! When each socket wants to be looked at again.
//!
//! A binary heap with lazy deletion. A socket remembers the earliest entry it has; a later deadline leaves that
//! entry alone, to be looked at when it comes up, so that a retransmission timer that moves with every ACK costs
//! nothing, and a socket without a timer is not in the heap. An earlier one leaves a stale entry behind; when most are
//! stale, the heap is built anew.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::SocketId;

/// Stale entries that are not worth tidying up.
const SPARE: usize = 1024;

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

    /// Drops what is stale once that is most of it. `armed` gives each socket that has an entry, and its deadline.
    pub fn tidy(&mut self, sockets: u32, armed: impl Iterator<Item = (SocketId, Instant)>) {
        if self.heap.len() > 2 * sockets as usize + SPARE {
            self.heap.clear();
            self.heap.extend(armed.map(|(id, at)| Reverse((at, id))));
        }
    }

    /// When the next entry is due. It may turn out to be stale.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, _))| at)
    }
}

#[cfg(test)]
impl Timers {
    pub fn len(&self) -> usize {
        self.heap.len()
    }
}
