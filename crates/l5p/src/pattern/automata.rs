//! Patterns as automata: a table for strings and one for expressions, each of which gives the state after a byte. So what is known of a
//! stream is two numbers.

use std::collections::HashSet;

use super::expressions::Expressions;
use super::pair::{Absent, Pair};
use super::strings::Strings;

/// The automata of a set.
pub(super) enum Automata {
    /// It has strings only.
    Strings(Strings),
    /// It has expressions only.
    Expressions(Box<Expressions>),
    /// It has both.
    Both(Strings, Box<Expressions>),
}

/// Where a search is: the states of both automata, 0 for one that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub strings: u32,
    pub expressions: u32,
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

    /// Calls `found` with the matches that the byte that led to this state has to tell, until it answers that it wants no more.
    fn matches(&self, state: u32, found: impl FnMut(u32) -> bool);

    /// The same with the matches that end behind the byte that led to this state.
    fn ends(&self, state: u32, found: impl FnMut(u32) -> bool);

    /// Whether a search can come to this state.
    fn is_state(&self, state: u32) -> bool;
}

impl State {
    /// It as one number. [`Automata::state`] makes a state of that again.
    pub fn value(self) -> u64 {
        u64::from(self.strings) << 32 | u64::from(self.expressions)
    }
}

/// Calls a method of the [`Pair`] of both automata.
macro_rules! of_pair {
    ($automata:expr, $pair:ident => $call:expr) => {
        match $automata {
            Automata::Strings(strings) => {
                let $pair = Pair {
                    strings,
                    expressions: &Absent,
                };
                $call
            }
            Automata::Expressions(expressions) => {
                let $pair = Pair {
                    strings: &Absent,
                    expressions: &**expressions,
                };
                $call
            }
            Automata::Both(strings, expressions) => {
                let $pair = Pair {
                    strings,
                    expressions: &**expressions,
                };
                $call
            }
        }
    };
}

impl Automata {
    /// Before the first byte of a stream.
    pub fn start(&self) -> State {
        of_pair!(self, pair => pair.start())
    }

    /// The state that has this [value](State::value), `None` if none has.
    pub fn state(&self, value: u64) -> Option<State> {
        let state = State {
            strings: (value >> 32) as u32,
            expressions: value as u32,
        };
        let is_state = of_pair!(self, pair => {
            pair.strings.is_state(state.strings) && pair.expressions.is_state(state.expressions)
        });
        is_state.then_some(state)
    }

    /// The state behind `bytes`. Calls `found`, in no order, with each pattern that ends in them, and with how many of them are before
    /// its end, until it answers that it wants no more. From there on a byte costs the same however many patterns end with it.
    pub fn scan(&self, from: State, bytes: &[u8], found: impl FnMut(usize, u32) -> bool) -> State {
        of_pair!(self, pair => pair.scan(from, bytes, found))
    }

    /// Goes on from `own` and from `other` side by side until both are the same, and returns behind how many bytes that is. `None` if they
    /// never are; then both are the states behind all bytes. Calls `found` with what ends in the bytes passed, for `own`.
    pub fn meet(
        &self,
        own: &mut State,
        other: &mut State,
        bytes: &[u8],
        found: impl FnMut(usize, u32) -> bool,
    ) -> Option<usize> {
        of_pair!(self, pair => pair.meet(own, other, bytes, found))
    }

    /// Of both tables ([`States::fingerprint`]).
    pub fn fingerprint(&self) -> u64 {
        let of_both = |strings: u64, expressions: u64| strings.rotate_left(1) ^ expressions;
        match self {
            Automata::Strings(strings) => of_both(strings.states().fingerprint, 0),
            Automata::Expressions(expressions) => of_both(0, expressions.states().fingerprint),
            Automata::Both(strings, expressions) => of_both(
                strings.states().fingerprint,
                expressions.states().fingerprint,
            ),
        }
    }

    /// Bytes of the tables.
    pub fn tables_len(&self) -> usize {
        match self {
            Automata::Strings(strings) => strings.table_len(),
            Automata::Expressions(expressions) => expressions.table_len(),
            Automata::Both(strings, expressions) => strings.table_len() + expressions.table_len(),
        }
    }
}

/// All states that an automaton can come to.
#[derive(Default)]
pub(super) struct States {
    /// In order.
    sorted: Vec<u32>,
    /// Of all that the automaton does: tables with the same number are the same.
    pub fingerprint: u64,
}

impl States {
    pub fn of(table: &impl Table) -> States {
        let mut fingerprint = Fingerprint(0);
        let mut seen = HashSet::from([table.start()]);
        let mut todo = vec![table.start()];
        while let Some(state) = todo.pop() {
            fingerprint.add(state);
            table.ends(state, |number| {
                fingerprint.add(!number);
                true
            });
            for byte in 0..=u8::MAX {
                let next = table.next(state, byte);
                fingerprint.add(next);
                if seen.insert(next) {
                    todo.push(next);
                }
            }
        }
        let mut sorted: Vec<u32> = seen.into_iter().collect();
        sorted.sort_unstable();
        States {
            sorted,
            fingerprint: fingerprint.0,
        }
    }

    pub fn contains(&self, state: u32) -> bool {
        self.sorted.binary_search(&state).is_ok()
    }
}

/// A sum over numbers in order (FNV-1a, a word at a time). It finds two versions apart, not a forger.
struct Fingerprint(u64);

impl Fingerprint {
    fn add(&mut self, word: u32) {
        self.0 = (self.0 ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3);
        self.0 ^= self.0 >> 32;
    }
}
