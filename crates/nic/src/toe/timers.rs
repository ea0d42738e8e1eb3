//! When connections are to be looked at: a heap of one time for each, which is never later than what is due.
//!
//! Most timers move to later with every packet. That costs nothing here: the heap keeps the earlier time, and the connection that
//! is looked at too early gets its new one. Nothing is allocated but with commands.

use std::time::Instant;

const NONE: u32 = u32::MAX;

/// Times of connections by their place.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: Vec<(Instant, u32)>,
    /// For each connection its place in the heap.
    places: Vec<u32>,
}

impl Timers {
    /// Makes room for connections below `count`.
    pub(super) fn reserve(&mut self, count: usize) {
        if self.places.len() < count {
            self.places.resize(count, NONE);
            self.heap.reserve(count.saturating_sub(self.heap.len()));
        }
    }

    /// Something of `connection` is due then; a time that it has already and that is earlier stays.
    pub(super) fn set(&mut self, connection: u32, when: Instant) {
        match self.place(connection) {
            None => {
                let at = self.heap.len();
                self.heap.push((when, connection));
                self.note(at);
                self.rise(at);
            }
            Some(at) if when < self.heap[at].0 => {
                self.heap[at].0 = when;
                self.rise(at);
            }
            Some(_) => {}
        }
    }

    /// Nothing of it is due.
    pub(super) fn cancel(&mut self, connection: u32) {
        let Some(at) = self.place(connection) else {
            return;
        };
        self.places[connection as usize] = NONE;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.note(at);
            self.rise(at);
            self.sink(at);
        }
    }

    /// The earliest time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|(when, _)| *when)
    }

    /// Takes a connection whose time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<u32> {
        let (when, connection) = *self.heap.first()?;
        if when > now {
            return None;
        }
        self.cancel(connection);
        Some(connection)
    }

    fn place(&self, connection: u32) -> Option<usize> {
        let at = *self.places.get(connection as usize)?;
        (at != NONE).then_some(at as usize)
    }

    fn note(&mut self, at: usize) {
        let (_, connection) = self.heap[at];
        self.places[connection as usize] = at as u32;
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.note(a);
        self.note(b);
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.heap[above].0 <= self.heap[at].0 {
                break;
            }
            self.swap(above, at);
            at = above;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let below = 2 * at + 1;
            let Some(left) = self.heap.get(below) else {
                return;
            };
            let right = self.heap.get(below + 1);
            let least = below + usize::from(right.is_some_and(|right| right.0 < left.0));
            if self.heap[at].0 <= self.heap[least].0 {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests;
