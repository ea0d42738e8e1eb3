use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

proptest! {
    /// As a map would have it, where a time moves to earlier only.
    #[test]
    fn times_come_in_order(
        steps in prop::collection::vec((0u32..20, 0u64..1000, 0u8..8), 1..200),
    ) {
        let start = Instant::now();
        let mut timers = Timers::default();
        timers.reserve(20);
        let mut model = BTreeMap::new();
        for (connection, at, what) in steps {
            let when = start + Duration::from_millis(at);
            match what {
                0 => {
                    timers.cancel(connection);
                    model.remove(&connection);
                }
                1 => {
                    let due = timers.take_due(when);
                    let earliest = model.values().min().copied();
                    match due {
                        Some(connection) => {
                            prop_assert_eq!(model.remove(&connection), earliest);
                        }
                        None => prop_assert!(earliest.is_none_or(|earliest| earliest > when)),
                    }
                }
                _ => {
                    timers.set(connection, when);
                    let known = model.entry(connection).or_insert(when);
                    *known = when.min(*known);
                }
            }
            prop_assert_eq!(timers.next(), model.values().min().copied());
        }
    }
}
