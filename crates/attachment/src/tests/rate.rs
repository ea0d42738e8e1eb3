//! A rate is kept over any time, and a burst is what was saved.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::Rate;

#[test]
fn a_burst_is_there_at_once_and_is_refilled_by_time() {
    let (mut rate, now) = (Rate::new(10, 3), Instant::now());
    let taken = |rate: &mut Rate, now| (0..100).filter(|_| rate.take(now, 1)).count();
    assert_eq!(taken(&mut rate, now), 3);
    assert_eq!(taken(&mut rate, now + Duration::from_millis(99)), 0);
    assert_eq!(taken(&mut rate, now + Duration::from_millis(200)), 2);
    assert!(!rate.is_full(now + Duration::from_millis(499)));
    assert!(rate.is_full(now + Duration::from_millis(500)));
    assert_eq!(taken(&mut rate, now + Duration::from_secs(9)), 3);
}

#[test]
fn those_who_wait_get_their_turn_one_after_the_other() {
    let (mut rate, now) = (Rate::new(10, 2), Instant::now());
    let waits: Vec<_> = (0..4).map(|_| rate.reserve(now, 1).as_millis()).collect();
    assert_eq!(waits, [0, 0, 100, 200]);
    assert_eq!(rate.reserve(now, 5).as_millis(), 700);
}

proptest! {
    /// However it is asked: in no time does it give more than the rate and one burst.
    #[test]
    fn no_more_than_the_rate_is_given(
        per_second in 1u32..2000,
        burst in 1u32..100,
        steps in prop::collection::vec((0u64..20_000, 1u32..5), 1..300),
    ) {
        let (mut rate, began) = (Rate::new(per_second, burst), Instant::now());
        let (mut now, mut given) = (began, 0);
        for (micros, amount) in steps {
            now += Duration::from_micros(micros);
            given += if rate.take(now, amount) { amount } else { 0 };
            let most = f64::from(burst) + f64::from(per_second) * (now - began).as_secs_f64();
            prop_assert!(f64::from(given) <= most * 1.000_01 + 0.01, "{given} of {most}");
        }
    }
}
