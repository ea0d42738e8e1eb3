//! Patterns as automata.
//!
//! Strings go into one automaton, by Aho and Corasick; expressions go into another. Each is a table that gives the state after a
//! byte. So what is known of a stream is two numbers.
//!
//! The expressions' automaton is one byte late: the state after a byte tells what ended before that byte, so that it can look at what follows.
//! No expression here does. What ends at the last byte of a piece is asked for there, as at a text's end.

use aho_corasick::automaton::Automaton as _;
use aho_corasick::dfa::DFA as StringTable;
use aho_corasick::{Anchored, MatchKind as StringMatchKind, automaton};
use regex_automata::MatchKind;
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::{primitives, start};
use regex_syntax::hir::Hir;
use thiserror::Error;

use super::text::{LineError, Pattern, parse_line};

#[cfg(test)]
mod tests;

type ExpressionTable = dense::DFA<Vec<u32>>;

/// Bytes that the tables of a set may have unless told otherwise. A table that is larger than a processor's second-level cache is slow.
pub const TABLES: usize = 16 << 20;

/// A set of patterns, ready to be searched for. A pattern's number is its place in the text, counted from 0 without the lines that have
/// none.
///
/// The text has a pattern on each line. Empty lines and those that begin with `#` do not count.
///
/// ```text
/// evil.example            a string, without the blanks around it
/// "ends with a blank "    a string in quotes, with \\, \", \n, \r, \t, \0 and \xNN
/// /cmd=[a-z]+;/i          an expression, with the flags i, s and x
/// ```
///
/// Expressions are those of the crate `regex`, over bytes: `.` and classes are of ASCII. They can't ask for borders (`^`, `$`,
/// `\b`), and must not match the empty string. Each match has one end and is as long as it may be: `/a+/` ends at every `a`.
pub struct Patterns {
    sources: Vec<Source>,
    strings: Option<Strings>,
    expressions: Option<Expressions>,
}

/// Where a pattern comes from.
struct Source {
    line: usize,
    text: String,
}

/// Why a text is no set of patterns.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternsError {
    /// A line is no pattern.
    #[error("line {line}: {error}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        error: LineError,
    },
    /// There is no pattern.
    #[error("there is no pattern in it")]
    Empty,
    /// The strings' table would be too large.
    #[error("the strings need a table of {needed} bytes, and {limit} are allowed; take fewer")]
    StringsTooLarge {
        /// Bytes needed.
        needed: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The expression's table alone would be too large.
    #[error(
        "line {line}: the expression needs a table of more than {limit} bytes; counted repetitions, as in `.{{9,99}}`, are what costs most"
    )]
    ExpressionTooLarge {
        /// Counted from 1.
        line: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The expressions' table would be too large.
    #[error(
        "the expressions together need a table of more than {limit} bytes, which are left for them; take fewer, or write those as strings that are"
    )]
    ExpressionsTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
}

/// Where a search is: the states of both automata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    strings: automaton::StateID,
    expressions: primitives::StateID,
}

impl State {
    /// It as one number. [`Patterns::state`] makes a state of that again.
    pub fn value(self) -> u64 {
        u64::from(self.strings.as_u32()) << 32 | u64::from(self.expressions.as_u32())
    }
}

/// The strings' automaton.
struct Strings {
    table: StringTable,
    /// Which pattern each of its is.
    numbers: Vec<u32>,
    /// All of its states, in order.
    states: Vec<u32>,
}

/// The expressions' automaton.
struct Expressions {
    table: ExpressionTable,
    start: primitives::StateID,
    /// Which pattern each of its is.
    numbers: Vec<u32>,
    /// All of its states, in order.
    states: Vec<u32>,
}

impl Patterns {
    /// Reads patterns. Their tables may have so many bytes ([`TABLES`]).
    ///
    /// # Errors
    /// When a line is no pattern, there is none, or the tables would be larger.
    pub fn parse(text: &str, limit: usize) -> Result<Patterns, PatternsError> {
        let mut sources = Vec::new();
        let (mut strings, mut expressions) = (Vec::new(), Vec::new());
        for (at, text) in text.lines().enumerate() {
            let line = at + 1;
            let number = sources.len() as u32;
            match parse_line(text).map_err(|error| PatternsError::Line { line, error })? {
                None => continue,
                Some(Pattern::String(string)) => strings.push((number, string)),
                Some(Pattern::Expression(expression)) => expressions.push((number, expression)),
            }
            let text = text.trim().to_owned();
            sources.push(Source { line, text });
        }
        if sources.is_empty() {
            return Err(PatternsError::Empty);
        }
        let strings = Strings::new(&strings, limit)?;
        let left = limit - strings.as_ref().map_or(0, Strings::len);
        let expressions = Expressions::new(&expressions, left, &sources)?;
        Ok(Patterns {
            sources,
            strings,
            expressions,
        })
    }

    /// Number of patterns.
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    /// The text of pattern `number`, as it was read.
    pub fn text(&self, number: u32) -> Option<&str> {
        Some(&self.sources.get(number as usize)?.text)
    }

    /// The line of pattern `number`, counted from 1.
    pub fn line(&self, number: u32) -> Option<usize> {
        Some(self.sources.get(number as usize)?.line)
    }

    /// Bytes of the tables.
    pub fn tables_len(&self) -> usize {
        self.strings.as_ref().map_or(0, Strings::len)
            + self.expressions.as_ref().map_or(0, Expressions::len)
    }

    /// Before the first byte of a stream.
    pub(super) fn start(&self) -> State {
        State {
            strings: self
                .strings
                .as_ref()
                .map_or(automaton::StateID::ZERO, Strings::start),
            expressions: self
                .expressions
                .as_ref()
                .map_or(primitives::StateID::ZERO, |expressions| expressions.start),
        }
    }

    /// The state that has this [value](State::value), `None` if none has.
    pub(super) fn state(&self, value: u64) -> Option<State> {
        let (strings, expressions) = ((value >> 32) as u32, value as u32);
        let has = |states: Option<&Vec<u32>>, state: u32| match states {
            Some(states) => states.binary_search(&state).is_ok(),
            None => state == 0,
        };
        let is_state = has(self.strings.as_ref().map(|of| &of.states), strings)
            && has(self.expressions.as_ref().map(|of| &of.states), expressions);
        is_state.then_some(State {
            strings: automaton::StateID::new_unchecked(strings as usize),
            expressions: primitives::StateID::new_unchecked(expressions as usize),
        })
    }

    /// The state behind `bytes`. Calls `found` with each pattern that ends in them, and with how many of them are before its end. The ends
    /// of strings come in order, and so do those of expressions.
    #[inline]
    pub(super) fn scan(
        &self,
        from: State,
        bytes: &[u8],
        mut found: impl FnMut(usize, u32),
    ) -> State {
        let mut state = from;
        if let Some(strings) = &self.strings {
            state.strings = strings.scan(state.strings, bytes, &mut found);
        }
        if let Some(expressions) = &self.expressions {
            state.expressions = expressions.scan(state.expressions, bytes, &mut found);
        }
        state
    }

    /// The state behind one more byte.
    pub(super) fn step(&self, from: State, byte: u8) -> State {
        self.scan(from, &[byte], |_, _| {})
    }

    /// Calls `found` with each pattern that ends where this state is.
    pub(super) fn ends(&self, state: State, mut found: impl FnMut(u32)) {
        if let Some(strings) = &self.strings {
            strings.ends(state.strings, &mut found);
        }
        if let Some(expressions) = &self.expressions {
            expressions.ends(state.expressions, &mut found);
        }
    }
}

impl Strings {
    /// The automaton of these patterns, `None` when there are none.
    fn new(patterns: &[(u32, Vec<u8>)], limit: usize) -> Result<Option<Strings>, PatternsError> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let needed = least_table(patterns);
        let too_large = |needed| PatternsError::StringsTooLarge { needed, limit };
        if needed > limit {
            return Err(too_large(needed));
        }
        let table = StringTable::builder()
            .match_kind(StringMatchKind::Standard)
            .prefilter(false)
            .build(patterns.iter().map(|(_, string)| string))
            .map_err(|_| too_large(needed))?;
        if table.memory_usage() > limit {
            return Err(too_large(table.memory_usage()));
        }
        let start = start_of(&table);
        let next = |state: u32, byte| {
            let state = automaton::StateID::new_unchecked(state as usize);
            table.next_state(Anchored::No, state, byte).as_u32()
        };
        Ok(Some(Strings {
            numbers: patterns.iter().map(|(number, _)| *number).collect(),
            states: reachable(start.as_u32(), next),
            table,
        }))
    }

    fn len(&self) -> usize {
        self.table.memory_usage()
    }

    fn start(&self) -> automaton::StateID {
        start_of(&self.table)
    }

    #[inline]
    fn scan(
        &self,
        from: automaton::StateID,
        bytes: &[u8],
        found: &mut impl FnMut(usize, u32),
    ) -> automaton::StateID {
        let mut state = from;
        for (at, byte) in bytes.iter().enumerate() {
            state = self.table.next_state(Anchored::No, state, *byte);
            if self.table.is_special(state) {
                self.ends(state, |number| found(at + 1, number));
            }
        }
        state
    }

    fn ends(&self, state: automaton::StateID, mut found: impl FnMut(u32)) {
        if self.table.is_match(state) {
            for index in 0..self.table.match_len(state) {
                let pattern = self.table.match_pattern(state, index);
                found(self.numbers[pattern.as_usize()]);
            }
        }
    }
}

impl Expressions {
    /// The automaton of these patterns, `None` when there are none.
    fn new(
        patterns: &[(u32, Hir)],
        limit: usize,
        sources: &[Source],
    ) -> Result<Option<Expressions>, PatternsError> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let Some(table) = expression_table(patterns, limit) else {
            let alone = |pattern| expression_table(std::slice::from_ref(pattern), limit);
            let culprit = patterns.iter().find(|pattern| alone(*pattern).is_none());
            return Err(match culprit {
                Some((number, _)) => PatternsError::ExpressionTooLarge {
                    line: sources[*number as usize].line,
                    limit,
                },
                None => PatternsError::ExpressionsTooLarge { limit },
            });
        };
        let start = table
            .start_state(&start::Config::new())
            .expect("an automaton that is not anchored, without look-behind");
        let next = |state: u32, byte| {
            let state = primitives::StateID::new_unchecked(state as usize);
            table.next_state(state, byte).as_u32()
        };
        Ok(Some(Expressions {
            start,
            numbers: patterns.iter().map(|(number, _)| *number).collect(),
            states: reachable(start.as_u32(), next),
            table,
        }))
    }

    fn len(&self) -> usize {
        self.table.memory_usage()
    }

    #[inline]
    fn scan(
        &self,
        from: primitives::StateID,
        bytes: &[u8],
        found: &mut impl FnMut(usize, u32),
    ) -> primitives::StateID {
        let mut state = from;
        for (at, byte) in bytes.iter().enumerate() {
            state = self.table.next_state(state, *byte);
            // What ended before the first byte was found with the bytes before.
            if self.table.is_special_state(state) && at > 0 {
                self.ended_before(state, |number| found(at, number));
            }
        }
        if !bytes.is_empty() {
            self.ends(state, |number| found(bytes.len(), number));
        }
        state
    }

    fn ends(&self, state: primitives::StateID, found: impl FnMut(u32)) {
        self.ended_before(self.table.next_eoi_state(state), found);
    }

    /// What ended before the byte that led to this state.
    fn ended_before(&self, state: primitives::StateID, mut found: impl FnMut(u32)) {
        if self.table.is_match_state(state) {
            for index in 0..self.table.match_len(state) {
                let pattern = self.table.match_pattern(state, index);
                found(self.numbers[pattern.as_usize()]);
            }
        }
    }
}

fn start_of(table: &StringTable) -> automaton::StateID {
    table
        .start_state(Anchored::No)
        .expect("an automaton that is not anchored")
}

/// Bytes of the smallest table that has a state for each beginning of a string.
fn least_table(patterns: &[(u32, Vec<u8>)]) -> usize {
    let mut strings: Vec<&[u8]> = patterns.iter().map(|(_, string)| &string[..]).collect();
    strings.sort_unstable();
    let mut states = 1;
    let mut before: &[u8] = &[];
    let mut bytes = [false; 256];
    for string in strings {
        let common = string.iter().zip(before).take_while(|(a, b)| a == b);
        states += string.len() - common.count();
        for byte in string {
            bytes[usize::from(*byte)] = true;
        }
        before = string;
    }
    let classes = bytes.iter().filter(|is_there| **is_there).count();
    states * classes.next_power_of_two() * size_of::<u32>()
}

/// The table of these expressions, `None` when it would have more than `limit` bytes.
fn expression_table(patterns: &[(u32, Hir)], limit: usize) -> Option<ExpressionTable> {
    let expressions: Vec<&Hir> = patterns.iter().map(|(_, expression)| expression).collect();
    let nfa = thompson::Compiler::new()
        .configure(
            thompson::Config::new()
                .utf8(false)
                .nfa_size_limit(Some(limit))
                .which_captures(WhichCaptures::None),
        )
        .build_many_from_hir(&expressions)
        .ok()?;
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Unanchored)
        .accelerate(false)
        .dfa_size_limit(Some(limit))
        .determinize_size_limit(Some(limit.saturating_mul(4)));
    dense::Builder::new()
        .configure(config)
        .build_from_nfa(&nfa)
        .ok()
}

/// All states that an automaton can come to, in order.
fn reachable(start: u32, next: impl Fn(u32, u8) -> u32) -> Vec<u32> {
    let mut seen = std::collections::HashSet::from([start]);
    let mut todo = vec![start];
    while let Some(state) = todo.pop() {
        for byte in 0..=u8::MAX {
            let state = next(state, byte);
            if seen.insert(state) {
                todo.push(state);
            }
        }
    }
    let mut states: Vec<u32> = seen.into_iter().collect();
    states.sort_unstable();
    states
}

impl std::fmt::Debug for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patterns")
            .field("count", &self.count())
            .field("tables_len", &self.tables_len())
            .finish_non_exhaustive()
    }
}
