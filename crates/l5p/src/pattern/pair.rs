//! The scan itself: both automata, at several places of the bytes at once.
//!
//! An automaton waits: the next state is read from memory at an address that the last one gives, 4 to 5 cycles from the fastest
//! cache. So the bytes are cut into lanes, which are scanned side by side. All but the first begin in the first state, which may be
//! wrong. As between windows, the right state and the presumed one are then taken on from the lane's beginning until they
//! are the same; what the lane has found behind that counts.

use super::automata::{State, Table};

/// Parts of the bytes that are scanned side by side.
const LANES: usize = 4;

/// Shortest lane, in bytes.
const SHORTEST: usize = 64;

/// Matches in the lanes but the first that can be kept. If there are more, these lanes are scanned again.
const KEPT: usize = 16;

/// Both automata of a set, of which one may be [`Absent`].
pub(super) struct Pair<'a, S, E> {
    pub strings: &'a S,
    pub expressions: &'a E,
}

/// The matches in the lanes but the first.
struct Kept {
    list: [Found; KEPT],
    len: usize,
    overflowed: bool,
}

#[derive(Clone, Copy, Default)]
struct Found {
    lane: usize,
    end: usize,
    number: u32,
}

impl<S: Table, E: Table> Pair<'_, S, E> {
    /// Before the first byte of a stream.
    pub fn start(&self) -> State {
        State {
            strings: self.strings.start(),
            expressions: self.expressions.start(),
        }
    }

    /// As [`Automata::scan`](super::automata::Automata::scan).
    pub fn scan(
        &self,
        from: State,
        bytes: &[u8],
        mut found: impl FnMut(usize, u32) -> bool,
    ) -> State {
        let mut is_wanted = true;
        let mut found = |end, number| {
            is_wanted = is_wanted && found(end, number);
            is_wanted
        };
        let len = bytes.len() / LANES;
        if len < SHORTEST {
            return self.scan_in_order(from, bytes, found);
        }
        let lanes: [&[u8]; LANES] = std::array::from_fn(|lane| &bytes[lane * len..][..len]);
        let mut states = [self.start(); LANES];
        states[0] = from;
        let mut kept = Kept::default();
        self.scan_lanes(&lanes, &mut states, |lane, end, number| match lane {
            0 => found(end, number),
            _ => kept.push(Found { lane, end, number }),
        });
        let mut state = states[0];
        for (lane, bytes) in lanes.iter().enumerate().skip(1) {
            let mut found = |end, number| found(lane * len + end, number);
            if kept.overflowed {
                state = self.scan_in_order(state, bytes, found);
            } else if let Some(met) = self.meet(&mut state, &mut self.start(), bytes, &mut found) {
                let right = |found: &&Found| found.lane == lane && found.end > met;
                for kept in kept.list[..kept.len].iter().filter(right) {
                    found(kept.end, kept.number);
                }
                state = states[lane];
            }
        }
        let (done, rest) = bytes.split_at(LANES * len);
        self.scan_in_order(state, rest, |end, number| found(done.len() + end, number))
    }

    /// As [`Automata::meet`](super::automata::Automata::meet).
    pub fn meet(
        &self,
        own: &mut State,
        other: &mut State,
        bytes: &[u8],
        mut found: impl FnMut(usize, u32) -> bool,
    ) -> Option<usize> {
        let mut passed = 0;
        while own != other {
            let byte = *bytes.get(passed)?;
            passed += 1;
            *own = self.step(*own, byte);
            *other = self.step(*other, byte);
            self.strings
                .ends(own.strings, |number| found(passed, number));
            self.expressions
                .ends(own.expressions, |number| found(passed, number));
        }
        Some(passed)
    }

    /// Takes all lanes, which are of the same length, to their ends. `found` gets lane, end and number.
    #[inline]
    fn scan_lanes(
        &self,
        lanes: &[&[u8]; LANES],
        states: &mut [State; LANES],
        mut found: impl FnMut(usize, usize, u32) -> bool,
    ) {
        let mut now = *states;
        let [first, second, third, fourth] = lanes;
        let bytes = first.iter().zip(*second).zip(third.iter().zip(*fourth));
        for (at, ((first, second), (third, fourth))) in bytes.enumerate() {
            let bytes = [*first, *second, *third, *fourth];
            for (state, byte) in now.iter_mut().zip(bytes) {
                *state = self.step(*state, byte);
            }
            let any = now
                .iter()
                .fold(false, |any, state| any | self.is_match(*state));
            if any {
                for (lane, state) in now.iter().enumerate() {
                    self.tell(*state, at, |end, number| found(lane, end, number));
                }
            }
        }
        *states = now;
        for (lane, state) in states.iter().enumerate() {
            self.tell_late(*state, lanes[lane].len(), |end, number| {
                found(lane, end, number)
            });
        }
    }

    #[inline]
    fn scan_in_order(
        &self,
        from: State,
        bytes: &[u8],
        mut found: impl FnMut(usize, u32) -> bool,
    ) -> State {
        let mut state = from;
        for (at, byte) in bytes.iter().enumerate() {
            state = self.step(state, *byte);
            if self.is_match(state) {
                self.tell(state, at, &mut found);
            }
        }
        self.tell_late(state, bytes.len(), found);
        state
    }

    #[inline(always)]
    fn step(&self, from: State, byte: u8) -> State {
        State {
            strings: self.strings.next(from.strings, byte),
            expressions: self.expressions.next(from.expressions, byte),
        }
    }

    /// Whether the byte that led to this state has a match to tell.
    #[inline(always)]
    fn is_match(&self, state: State) -> bool {
        self.strings.is_match(state.strings) | self.expressions.is_match(state.expressions)
    }

    /// Tells what the byte at `at`, which led to this state, has to tell.
    #[cold]
    fn tell(&self, state: State, at: usize, mut found: impl FnMut(usize, u32) -> bool) {
        tell(self.strings, state.strings, at, &mut found);
        tell(self.expressions, state.expressions, at, &mut found);
    }

    /// Tells what late automata would tell with the next byte, behind the last of `len`.
    #[inline]
    fn tell_late(&self, state: State, len: usize, mut found: impl FnMut(usize, u32) -> bool) {
        if S::IS_LATE && len > 0 {
            self.strings
                .ends(state.strings, |number| found(len, number));
        }
        if E::IS_LATE && len > 0 {
            self.expressions
                .ends(state.expressions, |number| found(len, number));
        }
    }
}

fn tell<T: Table>(table: &T, state: u32, at: usize, found: &mut impl FnMut(usize, u32) -> bool) {
    let end = if T::IS_LATE { at } else { at + 1 };
    // What ended before the first byte was reported with the bytes before.
    if end > 0 {
        table.matches(state, |number| found(end, number));
    }
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            list: [Found::default(); KEPT],
            len: 0,
            overflowed: false,
        }
    }
}

impl Kept {
    /// Answers whether there was room.
    fn push(&mut self, found: Found) -> bool {
        match self.list.get_mut(self.len) {
            Some(place) => {
                *place = found;
                self.len += 1;
            }
            None => self.overflowed = true,
        }
        !self.overflowed
    }
}

/// The automaton of a kind of which a set has no pattern.
pub(super) struct Absent;

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

    fn matches(&self, _state: u32, _found: impl FnMut(u32) -> bool) {}

    fn ends(&self, _state: u32, _found: impl FnMut(u32) -> bool) {}

    fn is_state(&self, state: u32) -> bool {
        state == 0
    }
}
