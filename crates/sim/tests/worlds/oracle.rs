//! TLS offload against plain software: whatever happens on the link, both give the same bytes and the same ends, no
//! plaintext is on the wire, and no sequence number ever carries two different bytes.

use std::time::Duration;

use crate::strategies::links::cases;
use crate::strategies::secured::scenario;
use host::Offload;
use l5p::tls::{Algorithm, Version};
use port::impair::Impairment;
use proptest::prelude::*;
use sim::Suite;
use sim::oracle::{Family, Keys, Operation, Plant, Reads, Scenario, Side, compare};

fn plants() -> impl Strategy<Value = Vec<Plant>> {
    let one = (
        any::<bool>(),
        0u32..150_000,
        prop_oneof![Just(16_401u16), Just(0), 17u16..17_000],
        1u8..12,
    )
        .prop_map(|(server, at, length, count)| Plant {
            side: if server { Side::Server } else { Side::Client },
            at,
            length,
            count,
        });
    prop::collection::vec(one, 1..5)
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn any_connection_is_the_same_with_and_without_offload(scenario in scenario()) {
        compare(&scenario, &[Offload::Both]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    #[test]
    fn either_direction_may_be_offloaded_alone(scenario in scenario(), transmit in any::<bool>()) {
        let offload = if transmit { Offload::Tx } else { Offload::Rx };
        compare(&scenario, &[offload]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    #[test]
    fn forged_headers_in_the_ciphertext_change_nothing(scenario in scenario(), plant in plants()) {
        let scenario = Scenario { keys: Keys::Installed, plant, ..scenario };
        compare(&scenario, &[Offload::Both]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    #[test]
    fn keys_may_change_at_any_time(
        scenario in scenario(),
        updates in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<bool>()), 1..8),
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
        compare(&scenario, &[Offload::Both]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

fn bulk(suite: Suite, keys: Keys, operation: Operation) -> Scenario {
    Scenario {
        seed: 7,
        suite,
        keys,
        family: Family::V4,
        mtu: 1500,
        link: Default::default(),
        wrap_within: None,
        plant: Vec::new(),
        workers: 1,
        context_memory: 4 << 20,
        reads: [Reads::Copied(65_536), Reads::InPlace],
        operations: [vec![operation], vec![operation]],
    }
}

#[test]
fn on_a_calm_link_the_nic_does_all_of_every_record() {
    for suite in Suite::ALL {
        for keys in [Keys::Installed, Keys::Handshake] {
            for operation in [Operation::Write(400_000), Operation::Send(400_000)] {
                let outcomes = compare(&bulk(suite, keys, operation), &[Offload::Both])
                    .unwrap_or_else(|error| panic!("{suite}, {keys:?}: {error}"));
                for side in Side::BOTH {
                    let tls = outcomes[1].ends[side as usize]
                        .tls
                        .as_ref()
                        .expect("the socket is still there");
                    // A handshake's last packet and the first record may come together: then the NIC learns of the
                    // keys too late for that one, and finds its way in by itself.
                    let late = if keys == Keys::Handshake { 6 } else { 0 };
                    let what = format!("{suite}, {keys:?}, {operation:?}, {side:?}: {tls:?}");
                    assert!(tls.records_full >= 400_000 / 16_384 - late, "{what}");
                    assert!(tls.records_none + tls.records_partial <= late, "{what}");
                    assert!(
                        outcomes[1].counter(side, "tx_tls_encrypted_bytes") >= 400_000,
                        "{what}"
                    );
                }
            }
        }
    }
}

#[test]
fn sequence_numbers_that_wrap_in_mid_record_change_nothing() {
    for within in [2, 1000, 100_000, 700_000] {
        let scenario = Scenario {
            wrap_within: Some(within),
            ..bulk(Suite::DEFAULT, Keys::Installed, Operation::Write(1_000_000))
        };
        let outcomes = compare(&scenario, &[Offload::Both])
            .unwrap_or_else(|error| panic!("{within}: {error}"));
        let before_wrap = outcomes[1]
            .client_isn
            .expect("a SYN")
            .distance_to(wire::SeqNum(0));
        assert!(
            (1..=within + 1).contains(&before_wrap),
            "{within}: {:?}",
            outcomes[1].client_isn
        );
        let tls = outcomes[1].ends[1]
            .tls
            .as_ref()
            .expect("the socket is still there");
        assert!(tls.records_full >= 1_000_000 / 16_384, "{tls:?}");
    }
}

/// Else the property above would prove nothing: the NIC finds the forged headers, and asks about them in vain.
#[test]
fn a_nic_that_has_lost_its_place_takes_forged_headers_for_real_ones() {
    let mut in_vain = 0;
    for seed in 0..12 {
        let scenario = Scenario {
            seed,
            link: Impairment {
                loss: 0.05,
                ..Impairment::default()
            },
            plant: (0..40)
                .map(|n| Plant {
                    side: Side::Client,
                    at: n * 16_384 + 300,
                    length: 700,
                    count: 20,
                })
                .collect(),
            ..bulk(Suite::DEFAULT, Keys::Installed, Operation::Write(600_000))
        };
        let outcomes =
            compare(&scenario, &[Offload::Both]).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let asked = outcomes[1].counter(Side::Server, "rx_tls_resync_req_end");
        let confirmed = outcomes[1].counter(Side::Server, "rx_tls_resync_res_ok");
        in_vain += asked - confirmed;
    }
    assert!(in_vain > 0, "no forged header was ever asked about");
}

#[test]
fn keys_may_change_more_often_within_a_window_than_former_keys_are_kept() {
    let key_update = |request_peer| Operation::KeyUpdate { request_peer };
    for changes in [1, 6] {
        let mut operations = vec![Operation::Send(5000)];
        operations.extend([true, false, true].map(key_update));
        for at in 0..changes {
            operations.extend([Operation::Send(1), key_update(at % 2 == 1)]);
        }
        operations.push(Operation::Write(1427));
        for seed in 0..250 {
            let suite = Suite {
                version: Version::Tls13,
                algorithm: Algorithm::Aes128Gcm,
            };
            let scenario = Scenario {
                seed,
                link: Impairment {
                    duplicate: 0.0127,
                    reorder: 0.02,
                    reorder_gap: 3,
                    jitter: Duration::from_micros(1),
                    ..Default::default()
                },
                reads: [Reads::InPlace; 2],
                operations: [operations.clone(), Vec::new()],
                ..bulk(suite, Keys::Handshake, Operation::Send(0))
            };
            compare(&scenario, &[Offload::Both])
                .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

/// All tries of the server's to open its side may fail, with a client that has nothing to say yet.
#[test]
fn an_opening_that_the_link_has_lost_is_an_end() {
    let mut lost = 0;
    for keys in [Keys::Installed, Keys::Handshake] {
        for seed in 0..100 {
            let scenario = Scenario {
                seed,
                link: Impairment {
                    loss: 0.4,
                    ..Impairment::default()
                },
                ..bulk(Suite::DEFAULT, keys, Operation::Send(1))
            };
            let outcomes = compare(&scenario, &[Offload::Both])
                .unwrap_or_else(|error| panic!("{keys:?}, {seed}: {error}"));
            let ends = outcomes.iter().map(|outcome| &outcome.ends);
            lost += ends
                .filter(|[client, server]| server.is_cut_off() && !client.is_cut_off())
                .count();
        }
    }
    assert!(lost > 0, "no opening was lost");
}
