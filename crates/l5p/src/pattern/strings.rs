//! The automaton that finds strings, by Aho and Corasick.

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};

use super::automata::{States, Table};
use super::patterns::Numbered;

/// Finds strings.
pub(super) struct Strings {
    table: DFA,
    start: u32,
    /// Which pattern each of the table's is.
    numbers: Vec<u32>,
    states: States,
}

impl Strings {
    /// The automaton of these strings, which are not empty. `Err` with the bytes of its table when these are more than `limit`.
    pub fn new(strings: &[Numbered<Vec<u8>>], limit: usize) -> Result<Strings, usize> {
        let needed = least_table(strings);
        if needed > limit {
            return Err(needed);
        }
        let table = DFA::builder()
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(strings.iter().map(|string| &string.pattern))
            .map_err(|_| needed)?;
        if table.memory_usage() > limit {
            return Err(table.memory_usage());
        }
        let start = table.start_state(Anchored::No);
        let mut strings = Strings {
            table,
            start: start.expect("a table that is not anchored").as_u32(),
            numbers: strings.iter().map(|string| string.number).collect(),
            states: States::default(),
        };
        strings.states = States::of(&strings);
        Ok(strings)
    }

    /// All states.
    pub fn states(&self) -> &States {
        &self.states
    }

    /// Bytes of the table.
    pub fn table_len(&self) -> usize {
        self.table.memory_usage()
    }
}

impl Table for Strings {
    const IS_LATE: bool = false;

    fn start(&self) -> u32 {
        self.start
    }

    #[inline(always)]
    fn next(&self, state: u32, byte: u8) -> u32 {
        self.table
            .next_state(Anchored::No, id(state), byte)
            .as_u32()
    }

    #[inline(always)]
    fn is_match(&self, state: u32) -> bool {
        // There are no other special states but the dead one, which is not reachable.
        self.table.is_special(id(state))
    }

    fn matches(&self, state: u32, mut found: impl FnMut(u32)) {
        if self.table.is_match(id(state)) {
            for index in 0..self.table.match_len(id(state)) {
                let pattern = self.table.match_pattern(id(state), index);
                found(self.numbers[pattern.as_usize()]);
            }
        }
    }

    fn ends(&self, state: u32, found: impl FnMut(u32)) {
        self.matches(state, found);
    }

    fn is_state(&self, state: u32) -> bool {
        self.states.contains(state)
    }
}

#[inline(always)]
fn id(state: u32) -> StateID {
    StateID::new_unchecked(state as usize)
}

/// Bytes of the smallest table that has a state for each beginning of a string.
fn least_table(strings: &[Numbered<Vec<u8>>]) -> usize {
    let mut sorted: Vec<&[u8]> = strings.iter().map(|string| &string.pattern[..]).collect();
    sorted.sort_unstable();
    let mut states = 1;
    let mut before: &[u8] = &[];
    let mut is_used = [false; 256];
    for string in sorted {
        let common = string.iter().zip(before).take_while(|(a, b)| a == b);
        states += string.len() - common.count();
        for byte in string {
            is_used[usize::from(*byte)] = true;
        }
        before = string;
    }
    let classes = is_used.iter().filter(|is_used| **is_used).count();
    states * classes.next_power_of_two() * size_of::<u32>()
}
