//! Connections with TLS, in software and with contexts on the NIC, which stay there whoever runs the connection.

use std::time::Duration;

use host::Offload;
use host::handoff::policy::Selection;
use l5p::tls::Version;
use nic::ToeConfig;
use port::impair::Impairment;
use proptest::prelude::*;
use sim::oracle::{Family, Help, Keys, Operation, Outcome, Reads, Scenario, Side, compare};
use sim::{Lending, Suite};

use super::lending::of_either;
use crate::strategies::links::cases;
use crate::strategies::secured::scenario;

fn same(scenario: &Scenario, help: Help) -> Result<Vec<Outcome>, TestCaseError> {
    let compared = compare(scenario, &[help]);
    compared.map_err(|error| TestCaseError::fail(error.to_string()))
}

fn offload() -> impl Strategy<Value = Offload> {
    prop_oneof![
        3 => Just(Offload::Both),
        1 => prop::sample::select(vec![Offload::None, Offload::Tx, Offload::Rx]),
    ]
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn any_connection_is_the_same_handed_off_or_not(
        scenario in scenario(),
        offload in offload(),
        lending in of_either(),
    ) {
        same(&scenario, Help { offload, lending })?;
    }

    #[test]
    fn again_and_again(scenario in scenario(), offload in offload(), seed in any::<u64>()) {
        let lending = [Some(Lending::to_and_fro(seed)); 2];
        same(&scenario, Help { offload, lending })?;
    }

    #[test]
    fn also_while_keys_change(
        scenario in scenario(),
        updates in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<bool>()), 1..8),
        lending in of_either(),
    ) {
        let mut scenario = Scenario {
            keys: Keys::Handshake,
            suite: Suite { version: Version::Tls13, ..scenario.suite },
            ..scenario
        };
        for (server, place, request_peer) in updates {
            let list = &mut scenario.operations[usize::from(server)];
            list.insert(place.index(list.len() + 1), Operation::KeyUpdate { request_peer });
        }
        same(&scenario, Help { offload: Offload::Both, lending })?;
    }
}

/// The host's keys change, and with them the context, while packets that it has decrypted wait for TCP on the NIC: they name it, and come before
/// it counts as gone.
#[test]
fn packets_that_wait_on_the_nic_keep_the_context_that_has_decrypted_them() {
    let scenario = Scenario {
        seed: 1_435_382_565_239_321_824,
        suite: Suite {
            version: Version::Tls13,
            ..Suite::ALL[0]
        },
        keys: Keys::Handshake,
        family: Family::V4,
        mtu: 1500,
        link: Impairment {
            corrupt: 0.002_709_513_178_749_336_3,
            reorder_gap: 3,
            delay: Duration::from_micros(386),
            jitter: Duration::from_micros(27),
            ..Impairment::default()
        },
        wrap_within: Some(1),
        plant: Vec::new(),
        workers: 1,
        context_memory: 4 << 20,
        reads: [Reads::InPlace, Reads::InPlace],
        operations: [
            vec![
                Operation::KeyUpdate {
                    request_peer: false,
                },
                Operation::Send(1399),
                Operation::Write(795),
                Operation::KeyUpdate {
                    request_peer: false,
                },
                Operation::Write(10719),
            ],
            vec![],
        ],
    };
    let lending = Lending {
        seed: 2_150_973_387_377_148_690,
        selection: Selection::Fcfs,
        hand_off: 193,
        restore: 13,
        reset: 0,
        toe: ToeConfig {
            hard_limit: 4096,
            queue: 4096,
            hiwat: 1024,
            lowat: 256,
            packets_per_turn: Some(1),
            turn: Duration::from_micros(47),
            load_control: true,
            active_restore: false,
        },
        quota: 3,
    };
    let help = Help {
        offload: Offload::Both,
        lending: [None, Some(lending)],
    };
    same(&scenario, help).unwrap();
}

fn bulk(link: Impairment, operation: Operation) -> Scenario {
    Scenario {
        seed: 7,
        suite: Suite::ALL[0],
        keys: Keys::Handshake,
        family: Family::V4,
        mtu: 1500,
        link,
        wrap_within: None,
        plant: Vec::new(),
        workers: 1,
        context_memory: 4 << 20,
        reads: [Reads::Copied(65_536), Reads::InPlace],
        operations: [vec![operation], vec![operation]],
    }
}

/// The NICs run the connection and its records, both ways, and do all of each record but for those around the handoff.
#[test]
fn on_a_calm_link_the_nics_do_nearly_all_of_it() {
    for operation in [Operation::Write(1_000_000), Operation::Send(1_000_000)] {
        let help = Help {
            offload: Offload::Both,
            lending: [Some(Lending::all()); 2],
        };
        let outcomes = compare(&bulk(Impairment::default(), operation), &[help]);
        let outcomes = outcomes.unwrap_or_else(|error| panic!("{operation:?}: {error}"));
        for side in Side::BOTH {
            let outcome = &outcomes[1];
            assert_eq!(outcome.counter(side, "toe_handoffs"), 1);
            assert_eq!(outcome.counter(side, "toe_restored_transmit"), 0);
            let tls = outcome.ends[side as usize]
                .tls
                .as_ref()
                .expect("it has TLS");
            // Those of the handshake, and those that were under way when the NIC learned of the keys.
            let late = tls.records_none + tls.records_partial;
            assert!(tls.records_full > 50 && late <= 6, "{tls:?}");
        }
    }
}

/// A bad link, and back and forth all the time: contexts are recovered by whoever runs the connection.
#[test]
fn on_a_bad_link_contexts_recover_on_the_nic_and_on_the_host() {
    let link = Impairment {
        loss: 0.02,
        reorder: 0.02,
        ..Impairment::default()
    };
    let mut handoffs = 0;
    for seed in 0..8 {
        let help = Help {
            offload: Offload::Both,
            lending: [Some(Lending::to_and_fro(seed)); 2],
        };
        let scenario = Scenario {
            seed,
            ..bulk(link, Operation::Send(600_000))
        };
        let outcomes = compare(&scenario, &[help]);
        let outcomes = outcomes.unwrap_or_else(|error| panic!("{seed}: {error}"));
        handoffs += outcomes[1].counter(Side::Client, "toe_handoffs");
    }
    assert!(handoffs > 16, "{handoffs}");
}
