//! When sessions have to be looked at although nothing came: a heap that is tidied lazily.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::keys::SessionKey;

/// Entries that are not worth tidying.
const SLACK: usize = 64;

/// Wake-ups of sessions. A session whose deadline moves later keeps its entry, and is armed anew when that comes up: so
/// traffic, which only ever moves deadlines later, costs nothing here.
#[derive(Debug, Default)]
pub struct Deadlines {
    heap: BinaryHeap<Reverse<(Instant, SessionKey)>>,
}

impl Deadlines {
    /// Sees to it that the session is looked at by `at`; `armed` is its earliest entry.
    pub fn arm(&mut self, key: SessionKey, armed: &mut Option<Instant>, at: Instant) {
        if armed.is_none_or(|armed| at < armed) {
            *armed = Some(at);
            self.heap.push(Reverse((at, key)));
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Forgets entries that are of no use any more, once they are more than those of the sessions that are open.
    pub fn tidy(&mut self, open: usize, mut is_armed: impl FnMut(SessionKey, Instant) -> bool) {
        if self.heap.len() > 2 * open + SLACK {
            self.heap.retain(|Reverse((at, key))| is_armed(*key, *at));
        }
    }

    /// When the next one comes up.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The next entry that has come up.
    pub fn pop(&mut self, now: Instant) -> Option<(Instant, SessionKey)> {
        self.next().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}
