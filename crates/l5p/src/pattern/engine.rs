//! The NIC's part: scans a stream, window by window.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use shared::{Input, Output};

use super::automata::State;
use super::patterns::Patterns;
use super::{WINDOW, code};
use crate::{AnyOrder, Digest, Direction, Integrity, Judgement, Layer5, MAX_NOTES, Note, Part};

#[cfg(test)]
mod tests;

/// Bytes of shared memory that are copied at a time.
const COPIED: usize = 2048;

/// Scans a stream for patterns in pieces of any size, with constant state. The stream passes as it is.
///
/// A message is a window of [`WINDOW`] bytes, which begins in the automata's first state. Its index has no meaning but its order.
/// A transmitting engine scans nothing. What comes late is not scanned: an automaton can't do a part of a window without what is before
/// it. The rest of such a window is software's.
///
/// [Notes](Layer5::take_note) on a packet are the state before it, the matches that end in it, and the state behind it; and in between
/// the same two states where a window ends and another one begins. If there were more than [`MAX_NOTES`], there are none.
pub struct Engine {
    patterns: Arc<Patterns>,
    direction: Direction,
    /// Behind the bytes scanned so far; `None` in the rest of a window of which bytes were missing.
    state: Option<State>,
    /// Bytes given since there was no note to take.
    at: u32,
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
        Engine {
            state: Some(patterns.automata.start()),
            patterns,
            direction,
            at: 0,
            is_in_run: false,
            notes: Box::new(Notes {
                list: [Note::default(); MAX_NOTES],
                len: 0,
                taken: 0,
                overflowed: false,
            }),
        }
    }

    fn scan(&mut self, bytes: &[u8]) {
        let Some(state) = self.state else { return };
        let at = self.at;
        if !self.is_in_run {
            self.notes.push(at, code::BEGIN, state.value());
            self.is_in_run = true;
        }
        let first = usize::from(self.notes.len);
        let notes = &mut self.notes;
        let state = self.patterns.automata.scan(state, bytes, |end, number| {
            notes.push(at + end as u32, code::MATCH, u64::from(number));
        });
        self.notes.sort_from(first);
        self.state = Some(state);
        self.at += bytes.len() as u32;
    }

    /// Notes the state behind the bytes scanned last.
    fn end_run(&mut self) {
        if let Some(state) = self.state
            && self.is_in_run
        {
            self.notes.push(self.at, code::END, state.value());
        }
        self.is_in_run = false;
    }

    fn scans(&self) -> bool {
        self.direction == Direction::Receive && self.state.is_some()
    }
}

impl Layer5 for Engine {
    /// The first byte of a window, which is data like all others.
    type Header = [u8; 1];

    const FIXED_LEN: Option<u32> = Some(WINDOW);

    fn judge(&self, bytes: &[u8]) -> Judgement {
        match bytes {
            [] => Judgement::TooShort,
            _ => Judgement::Message { len: WINDOW },
        }
    }

    fn start(&mut self, _index: u64, header: &[u8]) -> Option<u32> {
        self.end_run();
        self.state = Some(self.patterns.automata.start());
        match self.scans() {
            true => self.scan(header),
            false => self.at += header.len() as u32,
        }
        Some(WINDOW)
    }

    fn transform(&mut self, _offset: u32, mut input: Input<'_>, mut output: Output<'_>) {
        assert_eq!(input.len(), output.len());
        if !self.scans() {
            self.at += input.len() as u32;
            output.copy_from(input);
            return;
        }
        while !input.is_empty() {
            let (now, later) = input.split_at(input.len().min(COPIED));
            let (made, rest) = output.split_at(now.len());
            now.read::<COPIED, _>(|bytes| {
                self.scan(bytes);
                made.copy_from(bytes);
            });
            (input, output) = (later, rest);
        }
    }

    fn absorb(&mut self, _offset: u32, mut input: Input<'_>) {
        if !self.scans() {
            self.at += input.len() as u32;
            return;
        }
        while !input.is_empty() {
            let (now, later) = input.split_at(input.len().min(COPIED));
            now.read::<COPIED, _>(|bytes| self.scan(bytes));
            input = later;
        }
    }

    #[inline]
    fn take_note(&mut self) -> Option<Note> {
        self.end_run();
        let note = self.notes.take();
        if note.is_none() {
            self.at = 0;
        }
        note
    }

    /// Where a run ends in the state in which the next one begins, at the same place, they are one.
    fn may_join(last: &Note, next: &Note) -> bool {
        (last.code, next.code) == (code::END, code::BEGIN)
            && (last.at, last.value) == (next.at, next.value)
    }

    fn finish(&mut self) -> Integrity {
        self.end_run();
        Integrity::Good
    }

    fn icv(&self, len: u32) -> Range<u32> {
        len..len
    }

    /// Always the same: a transmitting engine changes nothing, so that no harm is done where bytes to be sent again have changed.
    fn digest(&mut self, _offset: u32) -> Digest {
        Digest::default()
    }
}

impl AnyOrder for Engine {
    type Message = ();

    const MAX_GAP: u32 = u32::MAX;

    fn skip(&mut self, _offset: u32, _len: u32) {
        self.end_run();
        self.state = None;
    }

    fn message(&mut self, _offset: u32, _len: u32) -> Option<()> {
        None
    }

    fn transform_aside(
        &mut self,
        _message: &(),
        _len: u32,
        _offset: u32,
        input: &[u8],
        output: Output<'_>,
    ) -> Part {
        output.copy_from(input);
        0
    }

    fn residue(&self) -> Part {
        0
    }
}

impl Notes {
    fn push(&mut self, at: u32, code: u32, value: u64) {
        match self.list.get_mut(usize::from(self.len)) {
            Some(place) => {
                *place = Note { at, code, value };
                self.len += 1;
            }
            None => self.overflowed = true,
        }
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

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("patterns", &self.patterns)
            .field("direction", &self.direction)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
