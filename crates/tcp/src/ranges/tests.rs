use proptest::prelude::*;

use super::*;

proptest! {
    /// Against a set of positions.
    #[test]
    fn ranges_are_what_came(
        base: u32,
        arrivals in prop::collection::vec((1u32..300, 1u32..30), 1..80),
        advance in 0u32..320,
    ) {
        let base = SeqNum(base);
        let mut came = [false; 400];
        let mut ranges = Ranges::default();
        for (at, len) in arrivals {
            let span = &mut came[at as usize..(at + len) as usize];
            let expected = if span.iter().all(|c| *c) { Insertion::Duplicate } else { Insertion::New };
            span.fill(true);
            prop_assert_eq!(ranges.insert(base + at, base + at + len), expected);
            let report = ranges.take_report(4, None);
            // RFC 2018 §4: the first block holds what triggered the ACK, and blocks are whole and disjoint.
            let (start, end) = report.as_slice()[0];
            prop_assert!(start.at_or_before(base + at) && end.at_or_after(base + at + len));
            for (index, (start, end)) in report.iter().enumerate() {
                let (from, to) = (base.distance_to(start) as usize, base.distance_to(end) as usize);
                prop_assert!(came[from..to].iter().all(|c| *c));
                prop_assert!(!came[from - 1] && !came[to], "a block is as long as can be");
                prop_assert!(report.iter().skip(index + 1).all(|other| other != (start, end)));
            }
        }
        let reached = base.distance_to(ranges.advance(base + advance)) as usize;
        let expected = (advance as usize..400).find(|n| !came[*n]).unwrap_or(400);
        prop_assert_eq!(reached, expected);
        prop_assert_eq!(ranges.is_empty(), !came[reached..].contains(&true));
    }
}

#[test]
fn a_hostile_sender_fills_a_bounded_table() {
    let mut ranges = Ranges::default();
    let refused = (0..100_000u32)
        .filter(|n| ranges.insert(SeqNum(n * 2 + 1), SeqNum(n * 2 + 2)) == Insertion::Refused);
    assert_eq!(refused.count(), 100_000 - MAX_RANGES);
}
