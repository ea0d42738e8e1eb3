//! The host's part: what the NIC has not scanned, and matches across windows.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::SeqNum;

use super::automata::State;
use super::code;
use super::patterns::Patterns;
use crate::Note;

#[cfg(test)]
mod tests;

/// Most runs that are kept of bytes that have not been taken: more than a window of TCP's has packets. What would be more, software scans.
const MAX_RUNS: usize = 4096;

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
///
/// Bytes are named by the sequence number under which TCP brings them. Those of a protocol inside of another one have gaps between them,
/// where the outer one's headers are.
#[derive(Debug)]
pub struct Scanner {
    patterns: Arc<Patterns>,
    /// Behind the bytes so far.
    state: State,
    /// Bytes so far.
    position: u64,
    /// Runs of bytes that the NIC has scanned, ascending. Those that are past go when the next bytes come.
    runs: VecDeque<Run>,
    /// What was found in these runs, in the same order, by its end.
    found: VecDeque<(SeqNum, u32)>,
}

/// What the NIC says of bytes that it has scanned, one after the other.
#[derive(Debug)]
struct Run {
    from: SeqNum,
    to: SeqNum,
    /// The scanner's place in it.
    at: SeqNum,
    /// The engine's state at that place, as long as it was not the scanner's.
    engine: State,
    /// From where on the engine's state has been the scanner's: its matches behind that count.
    met: Option<SeqNum>,
    /// Matches of it in the scanner's list.
    matches: usize,
    /// The engine's state behind the last byte.
    end: State,
}

impl Scanner {
    /// A scanner at the beginning of a stream.
    pub fn new(patterns: Arc<Patterns>) -> Scanner {
        Scanner {
            state: patterns.automata.start(),
            patterns,
            position: 0,
            runs: VecDeque::new(),
            found: VecDeque::new(),
        }
    }

    /// Bytes so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The engine's notes on a packet whose payload, of `len` bytes, begins at `at`, and which TCP has taken as a whole. To be called before
    /// the packet's bytes are [taken](Self::take), for packets in any order.
    ///
    /// Notes that can't be true do not count, nor do those that come behind others on later bytes.
    pub fn note(&mut self, at: SeqNum, len: u32, notes: &[Note]) {
        let before = (self.runs.len(), self.found.len());
        let mut rest = notes;
        while !rest.is_empty() {
            let last = self.runs.back();
            let run = self.next_run((at, len), &mut rest).filter(|(run, _)| {
                let follows = last.is_none_or(|last| last.to.at_or_before(run.from));
                follows && self.runs.len() < MAX_RUNS
            });
            let Some((run, matches)) = run else {
                self.runs.truncate(before.0);
                self.found.truncate(before.1);
                return;
            };
            let found = |note: &Note| (at + note.at, note.value as u32);
            self.found.extend(matches.iter().map(found));
            self.runs.push_back(run);
        }
    }

    /// Takes the first run off `notes`, and gives it with its matches. `None` when the notes do not begin with a valid run.
    fn next_run<'n>(
        &self,
        (at, len): (SeqNum, u32),
        notes: &mut &'n [Note],
    ) -> Option<(Run, &'n [Note])> {
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
            || end.at > len
            || !matches.iter().all(is_good)
            || !matches.is_sorted_by(|a, b| (a.at, a.value) < (b.at, b.value))
        {
            return None;
        }
        let run = Run {
            from: at + begin.at,
            to: at + end.at,
            at: at + begin.at,
            engine: self.patterns.automata.state(begin.value)?,
            met: None,
            matches: matches.len(),
            end: self.patterns.automata.state(end.value)?,
        };
        *notes = rest;
        Some((run, matches))
    }

    /// Takes the next bytes, the first of which is at `at`. They and those behind them, `known` bytes in all, are certain to follow one another
    /// in the stream. Adds the matches that end in them to `matches`, in order of their ends and then of their numbers. Returns how many
    /// bytes software has scanned.
    pub fn take(
        &mut self,
        at: SeqNum,
        bytes: &[u8],
        known: u32,
        matches: &mut Vec<Match>,
    ) -> usize {
        let before = matches.len();
        let (mut at, mut bytes, mut known) = (at, bytes, known);
        let mut scanned = 0;
        while !bytes.is_empty() {
            let next = self.next_at(at, known);
            let most = next.map_or(bytes.len(), |place| place.bytes as usize);
            let (now, later) = bytes.split_at(bytes.len().min(most));
            scanned += match next {
                Some(Place { in_run: true, .. }) => self.take_run(at, now, matches),
                _ => self.scan(now, matches),
            };
            self.position += now.len() as u64;
            at += now.len() as u32;
            known = known.saturating_sub(now.len() as u32);
            bytes = later;
        }
        matches[before..].sort_unstable();
        scanned
    }

    /// What is known of the bytes from `at` on. `None` when the NIC has scanned none of them.
    fn next_at(&mut self, at: SeqNum, known: u32) -> Option<Place> {
        loop {
            let run = self.runs.front()?;
            if at.before(run.from) {
                return Some(Place {
                    bytes: at.distance_to(run.from),
                    in_run: false,
                });
            }
            let rest = at.distance_to(run.to);
            if at == run.at && at.before(run.to) && rest <= known {
                return Some(Place {
                    bytes: rest,
                    in_run: true,
                });
            }
            self.forget_run();
        }
    }

    /// Gives up the first run.
    fn forget_run(&mut self) {
        if let Some(run) = self.runs.pop_front() {
            self.found.drain(..run.matches);
        }
    }

    /// Goes on through the first run from its own state until that is the engine's; from there on the engine's matches count.
    fn take_run(&mut self, at: SeqNum, bytes: &[u8], matches: &mut Vec<Match>) -> usize {
        let Some(run) = self.runs.front_mut() else {
            return 0;
        };
        let begin = self.position;
        let mut scanned = 0;
        if run.met.is_none() {
            let software = |end, pattern| {
                let end = begin + end as u64;
                matches.push(Match { end, pattern });
                true
            };
            let automata = &self.patterns.automata;
            let met = automata.meet(&mut self.state, &mut run.engine, bytes, software);
            scanned = met.unwrap_or(bytes.len());
            run.met = met.map(|met| at + met as u32);
        }
        run.at += bytes.len() as u32;
        if let Some(met) = run.met {
            let counts = |end: SeqNum| end.after(met.max(at)) && end.at_or_before(run.at);
            let found = self.found.iter().take(run.matches);
            for (end, pattern) in found.filter(|(end, _)| counts(*end)) {
                let end = begin + u64::from(at.distance_to(*end));
                let pattern = *pattern;
                matches.push(Match { end, pattern });
            }
            self.state = run.end;
        }
        if run.at == run.to {
            self.forget_run();
        }
        scanned
    }

    /// Scans in software.
    fn scan(&mut self, bytes: &[u8], matches: &mut Vec<Match>) -> usize {
        let begin = self.position;
        let found = |end, pattern| {
            let end = begin + end as u64;
            matches.push(Match { end, pattern });
            true
        };
        self.state = self.patterns.automata.scan(self.state, bytes, found);
        bytes.len()
    }
}

/// The bytes up to the next run, or to the end of this one.
#[derive(Clone, Copy)]
struct Place {
    bytes: u32,
    in_run: bool,
}
