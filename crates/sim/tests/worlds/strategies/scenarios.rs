//! Strategies for scenarios.

use std::time::Duration;

use host::Offload;
use proptest::prelude::*;
use sim::Suite;
use sim::oracle::{Operation, Reads};

pub fn suites() -> impl Strategy<Value = Suite> {
    prop::sample::select(Suite::ALL.to_vec())
}

pub fn reads() -> impl Strategy<Value = Reads> {
    prop_oneof![
        Just(Reads::InPlace),
        (1usize..100_000).prop_map(Reads::Copied),
        Just(Reads::Copied(65_536))
    ]
}

/// What both sides do: mostly writes, of sizes around those of packets and records. Only the server awaits bytes: two
/// sides that await each other would never end.
pub fn operations() -> impl Strategy<Value = [Vec<Operation>; 2]> {
    let server = prop_oneof![
        10 => operation(),
        1 => (0u32..50_000).prop_map(Operation::Await),
    ];
    (
        prop::collection::vec(operation(), 0..10),
        prop::collection::vec(server, 0..10),
    )
        .prop_map(Into::into)
}

fn operation() -> impl Strategy<Value = Operation> {
    let size = || {
        prop_oneof![
            1 => 1u32..64,
            2 => 64u32..5000,
            2 => 5000u32..20_000,
            1 => Just(16_384u32),
            1 => 20_000u32..120_000,
        ]
    };
    prop_oneof![
        6 => size().prop_map(Operation::Write),
        4 => size().prop_map(Operation::Send),
        1 => prop::sample::select(vec![Offload::None, Offload::Tx, Offload::Rx, Offload::Both])
            .prop_map(Operation::SetOffload),
        1 => (0u64..300_000).prop_map(|micros| Operation::Wait(Duration::from_micros(micros))),
    ]
}
