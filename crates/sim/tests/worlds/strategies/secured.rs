//! One connection with TLS on it, on a random link.

use proptest::prelude::*;
use sim::oracle::{Family, Keys, Scenario};

use super::links::link;
use super::scenarios::{operations, reads, suites};

fn families() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

/// From the smallest that IPv6 allows to jumbo frames; mostly Ethernet's.
fn mtus() -> impl Strategy<Value = u16> {
    prop_oneof![3 => Just(1500u16), 1 => Just(1280u16), 2 => 1280u16..9001]
}

/// Any.
pub fn scenario() -> impl Strategy<Value = Scenario> {
    (
        (
            any::<u64>(),
            suites(),
            prop_oneof![Just(Keys::Installed), Just(Keys::Handshake)],
            families(),
            mtus(),
        ),
        (
            link(),
            prop::option::of(1u32..200_000),
            prop_oneof![4 => Just(4 << 20), 1 => Just(416u64)],
            prop_oneof![2 => Just(1u16), 2 => Just(2), 1 => Just(3)],
        ),
        ([reads(), reads()], operations()),
    )
        .prop_map(
            |(
                (seed, suite, keys, family, mtu),
                (link, wrap_within, context_memory, workers),
                (reads, operations),
            )| {
                Scenario {
                    seed,
                    suite,
                    keys,
                    family,
                    mtu,
                    link,
                    wrap_within,
                    plant: Vec::new(),
                    workers,
                    context_memory,
                    reads,
                    operations,
                }
            },
        )
}
