use proptest::prelude::*;

use super::*;

#[test]
fn runs_that_touch_become_one() {
    let mut coverage = Coverage::default();
    for start in [8, 0, 4] {
        coverage.add(start, 4).unwrap();
    }
    assert_eq!(coverage.runs, [Run { start: 0, end: 12 }]);
}

#[test]
fn too_many_runs_are_refused() {
    let mut coverage = Coverage::default();
    for i in 0..MAX_RUNS as u32 {
        coverage.add(2 * i, 1).unwrap();
    }
    let next = 2 * MAX_RUNS as u32;
    assert_eq!(coverage.add(next, 1), Err(Refused::Scattered));
    assert_eq!(coverage.add(1, 1), Ok(()));
    assert_eq!(coverage.add(next, 1), Ok(()));
}

proptest! {
    #[test]
    fn equals_a_map_of_bytes(pieces in prop::collection::vec((0u32..64, 1u32..16), 0..40)) {
        let mut coverage = Coverage::default();
        let mut map = [false; 80];
        for (start, len) in pieces {
            let range = &mut map[start as usize..(start + len) as usize];
            let expected = match range.contains(&true) {
                true => Err(Refused::Overlap),
                false => Ok(()),
            };
            prop_assert_eq!(coverage.add(start, len), expected);
            if expected.is_ok() {
                range.fill(true);
            }
            prop_assert_eq!(coverage.bytes() as usize, map.iter().filter(|byte| **byte).count());
        }
        for pair in coverage.runs.windows(2) {
            prop_assert!(pair[0].end < pair[1].start);
        }
    }
}
