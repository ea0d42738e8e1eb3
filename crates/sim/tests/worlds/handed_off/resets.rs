//! NICs that lose all that they have for their hosts, in the middle of everything: connections that can go on do, with no byte
//! lost; the others are reset, and the application is told.

use host::Offload;
use proptest::prelude::*;
use sim::Lending;
use sim::connections::{self, compare};
use sim::oracle;

use super::lending::{accel, of_either};
use crate::strategies::links::cases;
use crate::strategies::{lives, secured};

fn with_resets(lending: [Option<Lending>; 2], often: u16) -> [Option<Lending>; 2] {
    lending.map(|lending| {
        lending.map(|lending| Lending {
            reset: often,
            ..lending
        })
    })
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn what_can_go_on_does(
        scenario in lives::scenario(Some(false)),
        lending in of_either(),
        often in 1u16..100,
    ) {
        let lending = with_resets(lending, often);
        let help = connections::Help { lending, ..connections::Help::NONE };
        compare(&scenario, &[help]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    /// Those too that the NIC sets up, finishes and joins: what it alone knows of is lost, and nothing else.
    #[test]
    fn with_the_rest_of_what_nics_do(
        scenario in lives::scenario(None),
        accel in [accel(), accel()],
        lending in of_either(),
        often in 1u16..100,
    ) {
        let help = connections::Help { accel, lending: with_resets(lending, often) };
        compare(&scenario, &[help]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }

    #[test]
    fn with_contexts_of_tls(
        scenario in secured::scenario(),
        lending in of_either(),
        often in 1u16..100,
    ) {
        let help = oracle::Help { offload: Offload::Both, lending: with_resets(lending, often) };
        oracle::compare(&scenario, &[help]).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}
