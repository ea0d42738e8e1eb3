//! The automaton that finds regular expressions.

use regex_automata::MatchKind;
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_syntax::hir::Hir;

use super::automata::{States, Table};
use super::patterns::Numbered;

type Dfa = dense::DFA<Vec<u32>>;

/// Finds what expressions match that do not look at what is before or behind.
pub(super) struct Expressions {
    table: Dfa,
    start: u32,
    /// Which pattern each of the table's is.
    numbers: Vec<u32>,
    states: States,
}

/// Expressions that are tried alone to find one that is too large: each takes its time.
const TRIED: usize = 32;

/// The table would be too large.
pub(super) struct TooLarge {
    /// It would be with this pattern alone, if that is known.
    pub alone: Option<u32>,
}

impl Expressions {
    /// The automaton of these expressions, whose table has at most `limit` bytes.
    pub fn new(expressions: &[Numbered<Hir>], limit: usize) -> Result<Expressions, TooLarge> {
        let Some(table) = build(expressions, limit) else {
            let is_too_large =
                |one: &&Numbered<Hir>| build(std::slice::from_ref(*one), limit).is_none();
            return Err(TooLarge {
                alone: (expressions.iter().take(TRIED).find(is_too_large)).map(|one| one.number),
            });
        };
        let start = table.start_state(&start::Config::new());
        let mut expressions = Expressions {
            table,
            start: start.expect("a table that is not anchored").as_u32(),
            numbers: expressions.iter().map(|one| one.number).collect(),
            states: States::default(),
        };
        expressions.states = States::of(&expressions);
        Ok(expressions)
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

impl Table for Expressions {
    /// So that an expression could look at the byte behind its end.
    const IS_LATE: bool = true;

    fn start(&self) -> u32 {
        self.start
    }

    #[inline(always)]
    fn next(&self, state: u32, byte: u8) -> u32 {
        self.table.next_state(id(state), byte).as_u32()
    }

    #[inline(always)]
    fn is_match(&self, state: u32) -> bool {
        // There are no others: no state is accelerated or a start, and no reachable state is dead.
        self.table.is_special_state(id(state))
    }

    fn matches(&self, state: u32, mut found: impl FnMut(u32) -> bool) {
        if self.table.is_match_state(id(state)) {
            for index in 0..self.table.match_len(id(state)) {
                let pattern = self.table.match_pattern(id(state), index);
                if !found(self.numbers[pattern.as_usize()]) {
                    return;
                }
            }
        }
    }

    fn ends(&self, state: u32, found: impl FnMut(u32) -> bool) {
        let end = self.table.next_eoi_state(id(state));
        self.matches(end.as_u32(), found);
    }

    fn is_state(&self, state: u32) -> bool {
        self.states.contains(state)
    }
}

#[inline(always)]
fn id(state: u32) -> StateID {
    StateID::new_unchecked(state as usize)
}

/// The table of these expressions, `None` when it would have more than `limit` bytes.
fn build(expressions: &[Numbered<Hir>], limit: usize) -> Option<Dfa> {
    let parsed: Vec<&Hir> = expressions.iter().map(|one| &one.pattern).collect();
    let nfa = thompson::Compiler::new()
        .configure(
            thompson::Config::new()
                .utf8(false)
                .nfa_size_limit(Some(limit))
                .which_captures(WhichCaptures::None),
        )
        .build_many_from_hir(&parsed)
        .ok()?;
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Unanchored)
        .accelerate(false)
        .dfa_size_limit(Some(limit))
        // Building takes more than what is built.
        .determinize_size_limit(Some(limit.saturating_mul(4)));
    dense::Builder::new()
        .configure(config)
        .build_from_nfa(&nfa)
        .ok()
}
