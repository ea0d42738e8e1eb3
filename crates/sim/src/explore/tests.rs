use std::collections::BTreeSet;

use super::{Bounds, explore};

fn runs(bounds: Bounds, choices: usize, options: usize) -> BTreeSet<Vec<usize>> {
    let mut runs = BTreeSet::new();
    let explored = explore(bounds, |run| {
        for _ in 0..choices {
            run.choose(options);
        }
        assert!(runs.insert(run.script()), "no run is made twice");
    });
    assert_eq!(explored.runs, runs.len() as u64);
    runs
}

#[test]
fn without_a_bound_every_combination_is_taken() {
    let bounds = Bounds {
        depth: 9,
        deviations: 9,
    };
    assert_eq!(runs(bounds, 4, 3).len(), 81);
}

#[test]
fn deviations_are_bounded_wherever_they_are() {
    let bounds = Bounds {
        depth: 9,
        deviations: 2,
    };
    // None, one of four with two options, or two of them.
    assert_eq!(runs(bounds, 4, 3).len(), 1 + 4 * 2 + 6 * 4);
}

#[test]
fn beyond_the_depth_nothing_deviates() {
    let bounds = Bounds {
        depth: 2,
        deviations: 9,
    };
    let runs = runs(bounds, 5, 2);
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| run[2..] == [0, 0, 0]));
}

#[test]
fn a_state_is_left_where_it_was_met_before() {
    let bounds = Bounds {
        depth: 9,
        deviations: 9,
    };
    let explored = explore(bounds, |run| {
        let mut sum = 0;
        for step in 0..6 {
            sum += run.choose(2);
            if run.is_seen((step * 100 + sum) as u64) {
                return;
            }
        }
    });
    // As many states as a triangle has places, not as many runs as combinations.
    assert!(explored.runs < 40, "{explored:?}");
    assert!(explored.cut > 0);
}
