//! NVMe/TCP with all that the NICs can do against plain software: whatever happens on the link, every command gives what it
//! should, and touches nothing but its own memory.

use crate::strategies::commands::{BLOCKS, bulk, has_psk, help, scenario};
use crate::strategies::links::cases;
use handshake::nvme_psk::Hash;
use port::impair::Impairment;
use proptest::prelude::*;
use sim::blocks::{Help, Scenario, compare};

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn commands_do_the_same_with_and_without_offload(scenario in scenario()) {
        compare(&scenario, &[Help::ALL]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    #[test]
    fn any_part_of_the_offload_does_the_same(scenario in scenario(), help in help()) {
        compare(&scenario, &[help]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    #[test]
    fn commands_inside_tls_do_the_same(scenario in scenario(), sha384 in any::<bool>(), help in help()) {
        if has_psk() {
            let hash = if sha384 { Hash::Sha384 } else { Hash::Sha256 };
            let scenario = Scenario { tls: Some(hash), ..scenario };
            compare(&scenario, &[Help::ALL, help]).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
    }
}

#[test]
fn on_a_calm_link_the_nic_places_all_data_both_ways() {
    for tls in [None, Some(Hash::Sha256)] {
        if tls.is_some() && !has_psk() {
            continue;
        }
        let outcomes =
            compare(&bulk(tls), &[Help::ALL]).unwrap_or_else(|error| panic!("{tls:?}: {error}"));
        let bytes = u64::from(BLOCKS) * 512;
        for (node, placed) in [(0, 2 * bytes), (1, bytes)] {
            let counted = outcomes[1].counter(node, "rx_nvmeotcp_bytes");
            // In TLS, a few bytes may come in the packet that completes a header which two packets share.
            let missed = if tls.is_some() { placed / 1000 } else { 0 };
            let expected = placed - missed..=placed;
            assert!(
                expected.contains(&counted),
                "{tls:?}, node {node}: {counted}"
            );
            assert_eq!(outcomes[0].counter(node, "rx_nvmeotcp_bytes"), 0);
        }
    }
}

/// Both sides, inside TLS and not: the NICs place all of it as if nothing was.
#[test]
fn sequence_numbers_that_wrap_in_mid_command_change_nothing() {
    for tls in [None, Some(Hash::Sha256)] {
        if tls.is_some() && !has_psk() {
            continue;
        }
        for wrap in [(false, 1_000_000), (true, 1_000_000), (true, 3_000)] {
            let scenario = Scenario {
                wrap_within: Some(wrap),
                planted: true,
                ..bulk(tls)
            };
            let outcomes = compare(&scenario, &[Help::ALL])
                .unwrap_or_else(|error| panic!("{tls:?}, {wrap:?}: {error}"));
            let bytes = u64::from(BLOCKS) * 512;
            let placed = outcomes[1].counter(0, "rx_nvmeotcp_bytes");
            assert!(
                placed > bytes * 2 - bytes / 100,
                "{tls:?}, {wrap:?}: {placed}"
            );
            assert!(outcomes[1].wrapped >= 1, "{tls:?}, {wrap:?}");
        }
    }
}

/// Else the properties above would prove nothing of planted headers: a NIC that has lost its place asks about them.
#[test]
fn a_nic_that_has_lost_its_place_takes_planted_headers_for_real_ones() {
    let mut in_vain = 0;
    for seed in 0..6 {
        let scenario = Scenario {
            seed,
            link: Impairment {
                loss: 0.05,
                ..Impairment::default()
            },
            planted: true,
            ..bulk(None)
        };
        let outcomes =
            compare(&scenario, &[Help::ALL]).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let count = |name| outcomes[1].counter(0, name) + outcomes[1].counter(1, name);
        in_vain += count("rx_nvmeotcp_resync") - count("rx_nvmeotcp_resync_res_ok");
    }
    assert!(in_vain > 0, "no planted header was ever asked about");
}
