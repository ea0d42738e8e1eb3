//! NVMe/TCP between an initiator and a controller whose connections the NICs run, with what they do of digests, placement and
//! TLS.

use handshake::nvme_psk::Hash;
use proptest::prelude::*;
use sim::Lending;
use sim::blocks::{Help, Scenario, compare};

use super::lending::of_either;
use crate::strategies::commands::{bulk, has_psk, help, scenario};
use crate::strategies::links::cases;

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn commands_do_the_same_handed_off_or_not(
        scenario in scenario(),
        help in help(),
        tls in prop::option::weighted(0.3, Just(Hash::Sha256)),
        lending in of_either(),
    ) {
        let tls = tls.filter(|_| has_psk());
        let scenario = Scenario { tls, ..scenario };
        let help = Help { lending, ..help };
        compare(&scenario, &[help]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

/// Data are placed in their commands' memory also while the NIC runs the connection, and while it comes and goes.
#[test]
fn data_are_placed_whoever_runs_the_connection() {
    let lendings = [
        Lending::all(),
        Lending {
            restore: 5,
            hand_off: 50,
            ..Lending::to_and_fro(3)
        },
    ];
    for lending in lendings {
        let help = Help {
            lending: [Some(lending); 2],
            ..Help::ALL
        };
        let outcomes = compare(&bulk(None), &[help]);
        let outcomes = outcomes.unwrap_or_else(|error| panic!("{error}"));
        let bytes = u64::from(crate::strategies::commands::BLOCKS) * 512;
        for (node, placed) in [(0, 2 * bytes), (1, bytes)] {
            let counted = outcomes[1].counter(node, "rx_nvmeotcp_bytes");
            assert!(
                counted > placed - placed / 20,
                "node {node}: {counted} of {placed}"
            );
            assert!(outcomes[1].counter(node, "toe_handoffs") > 0);
        }
    }
}
