//! The host's part: what the NIC has not scanned, and matches across windows.

use std::sync::Arc;

use super::automata::State;
use super::code;
use super::patterns::Patterns;
use crate::Note;

#[cfg(test)]
mod tests;

/// A pattern that ends at a place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// Bytes of the stream before its end, counted from the scanner's first one.
    pub end: u64,
    /// Number of the pattern.
    pub pattern: u32,
}

/// Takes a stream in order, and finds every pattern at every place where it ends: what a search of the whole stream by software
/// finds, whatever the NIC has done.
#[derive(Debug)]
pub struct Scanner {
    patterns: Arc<Patterns>,
    /// Behind the bytes so far.
    state: State,
    /// Bytes so far.
    position: u64,
}

/// What the NIC says of bytes of one window.
struct Run<'n> {
    /// The engine's state before them.
    begin: State,
    /// Where they are in the window.
    from: u32,
    matches: &'n [Note],
    /// The engine's state behind them.
    end: State,
    to: u32,
}

impl Scanner {
    /// A scanner at the beginning of a stream.
    pub fn new(patterns: Arc<Patterns>) -> Scanner {
        Scanner {
            state: patterns.automata.start(),
            patterns,
            position: 0,
        }
    }

    /// Bytes so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Takes the next bytes, a whole packet with the engine's notes on it, or any with none. Adds the matches that end in them to
    /// `matches`, in order of their ends and then of their numbers. Returns how many bytes software has scanned.
    ///
    /// Notes that do not fit the bytes count as none.
    pub fn take(&mut self, bytes: &[u8], notes: &[Note], matches: &mut Vec<Match>) -> usize {
        let before = matches.len();
        let scanned = if self.fit(bytes, notes) {
            self.take_runs(bytes, notes, matches)
        } else {
            self.scan(bytes, matches);
            bytes.len()
        };
        matches[before..].sort_unstable();
        scanned
    }

    /// Whether the notes are of exactly so many bytes.
    fn fit(&self, bytes: &[u8], notes: &[Note]) -> bool {
        let mut rest = notes;
        let mut len = 0;
        while let Some(run) = self.next_run(&mut rest) {
            len += (run.to - run.from) as usize;
        }
        rest.is_empty() && len == bytes.len()
    }

    /// The run that `notes` begin with, which it is taken off. `None` when there is none, or it is no good.
    fn next_run<'n>(&self, notes: &mut &'n [Note]) -> Option<Run<'n>> {
        let (begin, rest) = notes.split_first()?;
        let is_match = |note: &Note| note.code == code::MATCH;
        let count = rest.iter().take_while(|note| is_match(note)).count();
        let (matches, rest) = rest.split_at(count);
        let (end, rest) = rest.split_first()?;
        let is_good = |note: &Note| {
            begin.at < note.at && note.at <= end.at && note.value < self.patterns.count() as u64
        };
        if (begin.code, end.code) != (code::BEGIN, code::END)
            || end.at <= begin.at
            || !matches.iter().all(is_good)
            || !matches.is_sorted_by(|a, b| (a.at, a.value) < (b.at, b.value))
        {
            return None;
        }
        let run = Run {
            begin: self.patterns.automata.state(begin.value)?,
            from: begin.at,
            matches,
            end: self.patterns.automata.state(end.value)?,
            to: end.at,
        };
        *notes = rest;
        Some(run)
    }

    fn take_runs(&mut self, bytes: &[u8], notes: &[Note], matches: &mut Vec<Match>) -> usize {
        let (mut bytes, mut notes) = (bytes, notes);
        let mut scanned = 0;
        while let Some(run) = self.next_run(&mut notes) {
            let (now, later) = bytes.split_at((run.to - run.from) as usize);
            scanned += self.take_run(now, &run, matches);
            bytes = later;
        }
        scanned
    }

    /// Goes on from its own state until that is the engine's; from there on the engine's matches count.
    fn take_run(&mut self, bytes: &[u8], run: &Run<'_>, matches: &mut Vec<Match>) -> usize {
        let begin = self.position;
        self.position += bytes.len() as u64;
        let software = |end, pattern| {
            let end = begin + end as u64;
            matches.push(Match { end, pattern });
        };
        let automata = &self.patterns.automata;
        let Some(scanned) = automata.meet(&mut self.state, run.begin, bytes, software) else {
            return bytes.len();
        };
        let known = run.from + scanned as u32;
        for note in run.matches.iter().filter(|note| note.at > known) {
            matches.push(Match {
                end: begin + u64::from(note.at - run.from),
                pattern: note.value as u32,
            });
        }
        self.state = run.end;
        scanned
    }

    /// Scans in software.
    fn scan(&mut self, bytes: &[u8], matches: &mut Vec<Match>) {
        let begin = self.position;
        self.state = self
            .patterns
            .automata
            .scan(self.state, bytes, |end, pattern| {
                let end = begin + end as u64;
                matches.push(Match { end, pattern });
            });
        self.position = begin + bytes.len() as u64;
    }
}
