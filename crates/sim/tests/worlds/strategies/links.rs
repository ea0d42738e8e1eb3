//! How many cases, and what links they have.

use std::time::Duration;

use port::impair::Impairment;
use proptest::prelude::*;
use proptest::test_runner::Config;

/// That many cases, or as many as `LONGSHORE_CASES` says.
pub fn cases(moderate: u32) -> Config {
    let asked = std::env::var("LONGSHORE_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    Config {
        max_shrink_iters: 200,
        ..Config::with_cases(asked.unwrap_or(moderate))
    }
}

/// From calm to dreadful, each impairment in or out on its own.
pub fn link() -> impl Strategy<Value = Impairment> {
    let some = |most: f64| prop_oneof![2 => Just(0.0), 1 => 0.0..most / 5.0, 1 => 0.0..most];
    (
        some(0.1),
        some(0.1),
        some(0.1),
        some(0.05),
        0u64..2000,
        0u64..500,
    )
        .prop_map(
            |(loss, reorder, duplicate, corrupt, delay, jitter)| Impairment {
                loss,
                reorder,
                duplicate,
                corrupt,
                delay: Duration::from_micros(delay),
                jitter: Duration::from_micros(jitter),
                ..Impairment::default()
            },
        )
}
