//! Patterns as automata: a table for strings and one for expressions, each of which gives the state after a byte. So what is known of a
//! stream is two numbers.

use std::collections::HashSet;

use super::expressions::Expressions;
use super::strings::Strings;

/// The automata of a set.
pub(super) struct Automata {
    pub strings: Option<Strings>,
    pub expressions: Option<Expressions>,
}

/// Where a search is: the states of both automata, 0 for one that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    strings: u32,
    expressions: u32,
}

/// An automaton as a table.
pub(super) trait Table {
    /// The state after a byte tells what ended before that byte, rather than behind it.
    const IS_LATE: bool;

    /// The state before the first byte.
    fn start(&self) -> u32;

    /// The state after one more byte.
    fn next(&self, state: u32, byte: u8) -> u32;

    /// Whether a byte that led to this state has a match to tell.
    fn is_match(&self, state: u32) -> bool;

    /// Calls `found` with the matches that the byte that led to this state has to tell.
    fn matches(&self, state: u32, found: impl FnMut(u32));

    /// Calls `found` with the matches that end behind the byte that led to this state.
    fn ends(&self, state: u32, found: impl FnMut(u32));

    /// Whether a search can come to this state.
    fn is_state(&self, state: u32) -> bool;
}

impl State {
    /// It as one number. [`Automata::state`] makes a state of that again.
    pub fn value(self) -> u64 {
        u64::from(self.strings) << 32 | u64::from(self.expressions)
    }
}

impl Automata {
    /// Before the first byte of a stream.
    pub fn start(&self) -> State {
        State {
            strings: self.strings.as_ref().map_or(0, Table::start),
            expressions: self.expressions.as_ref().map_or(0, Table::start),
        }
    }

    /// The state that has this [value](State::value), `None` if none has.
    pub fn state(&self, value: u64) -> Option<State> {
        let (strings, expressions) = ((value >> 32) as u32, value as u32);
        (is_state(self.strings.as_ref(), strings)
            && is_state(self.expressions.as_ref(), expressions))
        .then_some(State {
            strings,
            expressions,
        })
    }

    /// The state behind `bytes`. Calls `found`, in no order, with each pattern that ends in them, and with how many of them are before
    /// its end.
    #[inline]
    pub fn scan(&self, from: State, bytes: &[u8], found: impl FnMut(usize, u32)) -> State {
        match (&self.strings, &self.expressions) {
            (Some(strings), Some(expressions)) => scan(strings, expressions, from, bytes, found),
            (Some(strings), None) => scan(strings, &Absent, from, bytes, found),
            (None, Some(expressions)) => scan(&Absent, expressions, from, bytes, found),
            (None, None) => from,
        }
    }

    /// The state behind one more byte.
    pub fn step(&self, from: State, byte: u8) -> State {
        let State {
            strings,
            expressions,
        } = from;
        let next_string = self.strings.as_ref().map(|table| table.next(strings, byte));
        let next_expression = self
            .expressions
            .as_ref()
            .map(|table| table.next(expressions, byte));
        State {
            strings: next_string.unwrap_or(strings),
            expressions: next_expression.unwrap_or(expressions),
        }
    }

    /// Bytes of the tables.
    pub fn tables_len(&self) -> usize {
        self.strings.as_ref().map_or(0, Strings::table_len)
            + self.expressions.as_ref().map_or(0, Expressions::table_len)
    }
}

/// Takes both automata through the bytes side by side: each waits for its memory, and so they take little longer than one.
#[inline]
fn scan(
    strings: &impl Table,
    expressions: &impl Table,
    from: State,
    bytes: &[u8],
    mut found: impl FnMut(usize, u32),
) -> State {
    let mut state = from;
    for (at, byte) in bytes.iter().enumerate() {
        state.strings = strings.next(state.strings, *byte);
        state.expressions = expressions.next(state.expressions, *byte);
        if strings.is_match(state.strings) {
            tell(strings, state.strings, at, &mut found);
        }
        if expressions.is_match(state.expressions) {
            tell(expressions, state.expressions, at, &mut found);
        }
    }
    for_late(strings, state.strings, bytes.len(), &mut found);
    for_late(expressions, state.expressions, bytes.len(), &mut found);
    state
}

/// Tells what the state after byte `at` has to tell.
fn tell<T: Table>(table: &T, state: u32, at: usize, found: &mut impl FnMut(usize, u32)) {
    let end = if T::IS_LATE { at } else { at + 1 };
    // What ended before the first byte was told with the bytes before.
    if end > 0 {
        table.matches(state, |number| found(end, number));
    }
}

/// Tells what a late automaton would tell with the next byte.
fn for_late<T: Table>(table: &T, state: u32, len: usize, found: &mut impl FnMut(usize, u32)) {
    if T::IS_LATE && len > 0 {
        table.ends(state, |number| found(len, number));
    }
}

fn is_state(table: Option<&impl Table>, state: u32) -> bool {
    match table {
        Some(table) => table.is_state(state),
        None => state == 0,
    }
}

/// All states that an automaton can come to, in order.
pub(super) fn reachable(table: &impl Table) -> Vec<u32> {
    let mut seen = HashSet::from([table.start()]);
    let mut todo = vec![table.start()];
    while let Some(state) = todo.pop() {
        for byte in 0..=u8::MAX {
            let next = table.next(state, byte);
            if seen.insert(next) {
                todo.push(next);
            }
        }
    }
    let mut states: Vec<u32> = seen.into_iter().collect();
    states.sort_unstable();
    states
}

/// The automaton of a kind of which a set has no pattern.
struct Absent;

impl Table for Absent {
    const IS_LATE: bool = false;

    fn start(&self) -> u32 {
        0
    }

    #[inline(always)]
    fn next(&self, state: u32, _byte: u8) -> u32 {
        state
    }

    #[inline(always)]
    fn is_match(&self, _state: u32) -> bool {
        false
    }

    fn matches(&self, _state: u32, _found: impl FnMut(u32)) {}

    fn ends(&self, _state: u32, _found: impl FnMut(u32)) {}

    fn is_state(&self, state: u32) -> bool {
        state == 0
    }
}
