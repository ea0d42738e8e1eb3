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
    /// The patterns' numbers, by string.
    numbers: Vec<u32>,
    /// Where those of each of the table's strings begin, and behind them the end of all.
    firsts: Vec<u32>,
    states: States,
}

impl Strings {
    /// The automaton of these strings, which are not empty. `Err` with the bytes of its table when these are more than `limit`.
    pub fn new(strings: &[Numbered<Vec<u8>>], limit: usize) -> Result<Strings, usize> {
        let mut sorted: Vec<&Numbered<Vec<u8>>> = strings.iter().collect();
        sorted.sort_by(|a, b| a.pattern.cmp(&b.pattern));
        let needed = least_table(&sorted);
        if needed > limit {
            return Err(needed);
        }
        // Each state of the table has a list of all strings that end there: one that comes often must be in it once only.
        let different = || sorted.chunk_by(|a, b| a.pattern == b.pattern);
        let mut firsts = vec![0];
        firsts.extend(different().scan(0, |first, same| {
            *first += same.len() as u32;
            Some(*first)
        }));
        let table = DFA::builder()
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(different().map(|same| &same[0].pattern))
            .map_err(|_| needed)?;
        if table.memory_usage() > limit {
            return Err(table.memory_usage());
        }
        let start = table.start_state(Anchored::No);
        let mut strings = Strings {
            table,
            start: start.expect("a table that is not anchored").as_u32(),
            numbers: sorted.iter().map(|string| string.number).collect(),
            firsts,
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

    fn matches(&self, state: u32, mut found: impl FnMut(u32) -> bool) {
        if self.table.is_match(id(state)) {
            for index in 0..self.table.match_len(id(state)) {
                let string = self.table.match_pattern(id(state), index).as_usize();
                let [first, end] = [self.firsts[string], self.firsts[string + 1]];
                let mut numbers = self.numbers[first as usize..end as usize].iter();
                if !numbers.all(|number| found(*number)) {
                    return;
                }
            }
        }
    }

    fn ends(&self, state: u32, found: impl FnMut(u32) -> bool) {
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

/// Bytes of the smallest table that has a state for each beginning of one of these strings, which are in order.
fn least_table(sorted: &[&Numbered<Vec<u8>>]) -> usize {
    let mut states = 1;
    let mut before: &[u8] = &[];
    let mut is_used = [false; 256];
    for string in sorted.iter().map(|string| &string.pattern[..]) {
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
