use proptest::prelude::*;

use super::*;
use crate::receive::toy::{self, Toy};

proptest! {
    #[test]
    fn ranges_behave_as_a_set(adds in prop::collection::vec((0u32..60, 1u32..12), 0..40)) {
        let mut ranges = Ranges::default();
        let mut model = [false; 80];
        for (from, len) in adds {
            let to = from + len;
            let free = !model[from as usize..to as usize].contains(&true);
            let can = ranges.can_add(from, to);
            prop_assert!(free || !can);
            if can {
                ranges.add(from, to);
                model[from as usize..to as usize].fill(true);
            } else if free {
                prop_assert_eq!(usize::from(ranges.count), RANGES);
            }
            let listed: Vec<usize> = ranges.as_slice().iter().flat_map(|r| r.0 as usize..r.1 as usize).collect();
            let expected: Vec<usize> = (0..80).filter(|at| model[*at]).collect();
            prop_assert_eq!(listed, expected);
            for pair in ranges.as_slice().windows(2) {
                prop_assert!(pair[0].1 < pair[1].0);
            }
        }
    }
}

#[test]
fn the_oldest_message_gives_way() {
    let mut open = OpenMessages::<u64>::new();
    for n in [1u32, 0, 2, 3, 4] {
        open.add(SeqNum(u32::MAX - 150) + 100 * n, 100, 50, 0, 0);
    }
    let first = SeqNum(u32::MAX - 150);
    assert!(!open.awaits(first + 50, 50), "the oldest");
    for n in 1..5 {
        assert!(open.awaits(first + 100 * n + 50, 50), "{n}");
        assert!(!open.awaits(first + 100 * n, 50), "covered");
    }
    assert!(!open.awaits(first + 150, 100), "runs into covered bytes");
}

#[test]
fn a_late_packet_may_end_one_message_and_begin_another() {
    let (one, two) = (toy::seal(9, 0, &[1; 100]), toy::seal(9, 1, &[2; 100]));
    let wire = [one.clone(), two.clone()].concat();
    let mut engine = Toy::new(9, true);
    let mut open = OpenMessages::new();
    open.add(SeqNum(0), 112, 0, 0, 0);
    open.add(SeqNum(112), 112, 0, 1, 0);
    for (from, to) in [(60, 150), (0, 60), (150, 224)] {
        let mut output = vec![0; to - from];
        assert!(open.awaits(SeqNum(from as u32), (to - from) as u32));
        let integrity = open.transform(
            &mut engine,
            SeqNum(from as u32),
            &wire[from..to],
            &mut output,
        );
        assert_eq!(integrity, Integrity::Good);
        let shown = [toy::opened(&[1; 100], &one), toy::opened(&[2; 100], &two)].concat();
        assert_eq!(output, shown[from..to]);
    }
    assert!(!open.awaits(SeqNum(0), 1), "both are complete");
}
