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
            prop_assert!(held[..in_order as usize].iter().all(Option::is_none), "something was left behind");
        }
        let rest: u32 = store.drain().map(|(_, run)| run.len()).sum();
        prop_assert_eq!(rest as usize, held.iter().flatten().count());
    }
}
