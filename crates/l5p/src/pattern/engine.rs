//! The NIC's part: scans a stream, window by window.

use std::fmt;
use std::sync::Arc;

use super::automata::State;
use super::code;
use super::patterns::Patterns;
use crate::{Direction, MAX_NOTES, Note, StreamEngine, Windows};

#[cfg(test)]
mod tests;

/// Scans a stream for patterns, window by window.
pub type Engine = Windows<Search>;

/// Scans a stream for patterns in pieces of any size, with constant state. The stream passes as it is.
///
/// A window begins in the automata's first state. Its index has no meaning but its order. A transmitting engine scans nothing. What comes late is not scanned: an automaton can't do a part of a window without what is before
/// it. The rest of such a window is software's.
///
/// [Notes](crate::Layer5::take_note) on a packet are the state before it, the matches that end in it, and the state behind it; and in between
/// the same two states where a window ends and another one begins. More than [`MAX_NOTES`] are dropped, all of them.
pub struct Search {
    patterns: Arc<Patterns>,
    direction: Direction,
    /// Behind the bytes scanned so far; `None` in the rest of a window of which bytes were missing.
    state: Option<State>,
    /// Where the bytes scanned last end, counted from where there was no note to take.
    end: u32,
    /// The notes tell in which state the bytes last scanned were begun, but not the one behind them.
    is_in_run: bool,
    notes: Box<Notes>,
}

/// The notes on one packet.
struct Notes {
    list: [Note; MAX_NOTES],
    len: u8,
    taken: u8,
    /// One found no room.
    overflowed: bool,
}

impl Engine {
    /// An engine at the beginning of a window.
    pub fn new(patterns: Arc<Patterns>, direction: Direction) -> Engine {
        Windows::around(Search {
            state: Some(patterns.automata.start()),
            patterns,
            direction,
            end: 0,
            is_in_run: false,
            notes: Box::new(Notes {
                list: [Note::default(); MAX_NOTES],
                len: 0,
                taken: 0,
                overflowed: false,
            }),
        })
    }
}

impl Search {
    /// Notes the state behind the bytes scanned last.
    fn end_run(&mut self) {
        if let Some(state) = self.state
            && self.is_in_run
        {
            self.notes.push(self.end, code::END, state.value());
        }
        self.is_in_run = false;
    }
}

impl StreamEngine for Search {
    fn begin_window(&mut self, _index: u64) {
        self.end_run();
        self.state = Some(self.patterns.automata.start());
    }

    fn end_window(&mut self) {
        self.end_run();
    }

    fn miss(&mut self) {
        self.end_run();
        self.state = None;
    }

    fn is_looking(&self) -> bool {
        self.direction == Direction::Receive && self.state.is_some()
    }

    fn take(&mut self, at: u32, bytes: &[u8]) {
        let Some(state) = self.state else { return };
        if !self.is_in_run {
            self.notes.push(at, code::BEGIN, state.value());
            self.is_in_run = true;
        }
        let first = usize::from(self.notes.len);
        let notes = &mut self.notes;
        let state = self.patterns.automata.scan(state, bytes, |end, number| {
            notes.push(at + end as u32, code::MATCH, u64::from(number))
        });
        self.notes.sort_from(first);
        self.state = Some(state);
        self.end = at + bytes.len() as u32;
    }

    #[inline]
    fn take_note(&mut self) -> Option<Note> {
        self.end_run();
        self.notes.take()
    }

    /// Where a run ends in the state in which the next one begins, at the same place, they are one.
    fn may_join(last: &Note, next: &Note) -> bool {
        (last.code, next.code) == (code::END, code::BEGIN)
            && (last.at, last.value) == (next.at, next.value)
    }
}

impl Notes {
    /// Answers whether there was room.
    fn push(&mut self, at: u32, code: u32, value: u64) -> bool {
        match self.list.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = Note { at, code, value };
                self.len += 1;
            }
            None => self.overflowed = true,
        }
        !self.overflowed
    }

    /// Brings the notes from number `first` on, which are matches, into order.
    fn sort_from(&mut self, first: usize) {
        self.list[first..usize::from(self.len)].sort_unstable_by_key(|note| (note.at, note.value));
    }

    fn take(&mut self) -> Option<Note> {
        if self.taken == self.len || self.overflowed {
            (self.len, self.taken, self.overflowed) = (0, 0, false);
            return None;
        }
        self.taken += 1;
        Some(self.list[usize::from(self.taken) - 1])
    }
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search")
            .field("patterns", &self.patterns)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}
