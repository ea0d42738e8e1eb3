use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::send_queue::tests::Run;

proptest! {
    /// Against a map of bytes: the first copy of each is kept, and all come out in order.
    #[test]
    fn it_puts_the_stream_together(
        base: u32,
        arrivals in prop::collection::vec((0u32..200, 1u32..40, any::<u8>()), 1..60),
        takes in prop::collection::vec(0u32..60, 1..20),
    ) {
        let base = SeqNum(base);
        let mut held: Vec<Option<u8>> = vec![None; 300];
        let mut store = Reassembly::new();
        for (at, len, mark) in arrivals {
            store.insert(base + at, Run((0..len).map(|n| mark.wrapping_add(n as u8)).collect()));
            for n in 0..len {
                held[(at + n) as usize].get_or_insert(mark.wrapping_add(n as u8));
            }
        }
        let mut ranges = Vec::new();
        for at in (0..300u32).filter(|at| held[*at as usize].is_some()) {
            match ranges.last_mut() {
                Some((_, end)) if *end == base + at => *end += 1,
                _ => ranges.push((base + at, base + at + 1)),
            }
        }
        prop_assert_eq!(store.ranges().collect::<Vec<_>>(), ranges);
        for at in 0..300 {
            let any = held[at..(at + 9).min(300)].iter().any(Option::is_some);
            prop_assert_eq!(store.holds_any(base + at as u32, 9), any);
        }
        let mut in_order = 0;
        for step in takes {
            in_order = (in_order + step).min(300);
            while let Some((seq, run)) = store.pop_in_order(base + in_order) {
                let at = base.distance_to(seq);
                prop_assert!(at + run.len() <= in_order);
                for (n, byte) in run.0.iter().enumerate() {
                    prop_assert_eq!(held[at as usize + n].take(), Some(*byte));
                }
            }
            let bytes = held.iter().flatten().count();
            prop_assert_eq!(store.memory(), bytes as u64, "a run holds what is in it");
            prop_assert!(held[..in_order as usize].iter().all(Option::is_none), "something was left behind");
        }
        let rest: u32 = store.drain().map(|(_, run)| run.len()).sum();
        prop_assert_eq!(rest as usize, held.iter().flatten().count());
    }
}

/// One byte, which counts how often it is looked at.
struct Counted<'a>(&'a Cell<u32>);

impl Chunk for Counted<'_> {
    fn len(&self) -> u32 {
        self.0.set(self.0.get() + 1);
        1
    }

    fn split_off(&mut self, _at: u32) -> Self {
        unreachable!("it can't be cut")
    }

    fn memory(&self) -> u32 {
        self.len()
    }
}

/// A peer may send every other byte.
#[test]
fn what_a_byte_costs_does_not_grow_with_the_ranges_that_are_held() {
    for ranges in [8, 8192] {
        let looks = Cell::new(0);
        let mut store = Reassembly::new();
        for at in 0..ranges {
            store.insert(SeqNum(2 * at), Counted(&looks));
        }
        assert_eq!(store.memory(), u64::from(ranges));
        for at in [1, ranges | 1, 2 * ranges - 1] {
            looks.set(0);
            assert!(!store.holds_any(SeqNum(at), 1));
            assert!(store.chunk_before(SeqNum(at)).is_some());
            store.insert(SeqNum(at), Counted(&looks));
            assert!(store.memory() > u64::from(ranges));
            assert!(looks.get() < 16, "{} of {ranges}", looks.get());
        }
    }
}
