//! Ways to hand connections off, and what else NICs do for them.

use std::time::Duration;

use host::Accel;
use host::handoff::policy::Selection;
use nic::ToeConfig;
use proptest::prelude::*;
use sim::Lending;

/// The NIC's limits: much room and time, or little.
fn toe() -> impl Strategy<Value = ToeConfig> {
    (
        prop_oneof![3 => Just(4096u32), 1 => 0u32..6],
        prop_oneof![3 => Just((4096u32, 1024u32)), 1 => (4u32..40, 1u32..8)],
        prop_oneof![2 => Just(None), 1 => (1u32..8).prop_map(Some)],
        prop_oneof![2 => Just(0u64), 1 => 1u64..50],
        any::<[bool; 2]>(),
    )
        .prop_map(
            |(
                hard_limit,
                (queue, hiwat),
                packets_per_turn,
                turn,
                [load_control, active_restore],
            )| {
                ToeConfig {
                    hard_limit,
                    queue,
                    hiwat,
                    lowat: hiwat / 4,
                    packets_per_turn,
                    turn: Duration::from_micros(turn),
                    load_control,
                    active_restore,
                }
            },
        )
}

fn selection() -> impl Strategy<Value = Selection> {
    prop_oneof![
        2 => Just(Selection::Fcfs),
        1 => Just(Selection::Off),
        1 => (1u32..6).prop_map(Selection::Threshold),
        1 => Just(Selection::Predict),
    ]
}

/// Any way.
pub fn lending() -> impl Strategy<Value = Lending> {
    let often = || prop_oneof![1 => Just(0u16), 1 => 1u16..20, 2 => 20u16..400];
    (
        any::<u64>(),
        selection(),
        (often(), often()),
        toe(),
        prop_oneof![3 => Just(1024u32), 1 => 1u32..4],
    )
        .prop_map(
            |(seed, selection, (hand_off, restore), toe, quota)| Lending {
                seed,
                selection,
                hand_off,
                restore,
                reset: 0,
                toe,
                quota,
            },
        )
}

/// By this policy, and at random; the NIC does little at a time.
pub fn in_small_turns(selection: Selection) -> impl Strategy<Value = Lending> {
    let turn = prop_oneof![1 => Just(0u64), 1 => 1u64..50];
    (lending(), 1u32..8, turn).prop_map(move |(lending, packets, turn)| Lending {
        selection,
        toe: ToeConfig {
            packets_per_turn: Some(packets),
            turn: Duration::from_micros(turn),
            ..lending.toe
        },
        ..lending
    })
}

/// Of one host or of both.
pub fn of_either() -> impl Strategy<Value = [Option<Lending>; 2]> {
    let maybe = || prop::option::weighted(0.7, lending());
    [maybe(), maybe()].prop_filter("somebody does", |both| both.iter().any(Option::is_some))
}

/// Any part of setup, teardown and relaying.
pub fn accel() -> impl Strategy<Value = Accel> {
    any::<[bool; 4]>().prop_map(|[setup, teardown, splice, lazy_tcb]| Accel {
        setup,
        teardown,
        splice,
        lazy_tcb,
    })
}
