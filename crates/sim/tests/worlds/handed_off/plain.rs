//! Connections without TLS: many at a time, also with what NICs do at their beginnings and ends.

use host::Accel;
use host::handoff::policy::Selection;
use proptest::prelude::*;
use sim::Lending;
use sim::connections::{Help, Outcome, Scenario, compare};

use super::lending::{accel, in_small_turns, of_either};
use crate::strategies::links::cases;
use crate::strategies::lives::{handed_up, scenario};

fn same(scenario: &Scenario, helps: &[Help]) -> Result<Vec<Outcome>, TestCaseError> {
    let compared = compare(scenario, helps);
    compared.map_err(|error| TestCaseError::fail(error.to_string()))
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn connections_are_the_same_handed_off_or_not(scenario in scenario(Some(false)), lending in of_either()) {
        same(&scenario, &[Help { lending, ..Help::NONE }])?;
    }

    #[test]
    fn with_the_rest_of_what_nics_do_too(
        scenario in scenario(None),
        accel in [accel(), accel()],
        lending in of_either(),
    ) {
        same(&scenario, &[Help { accel, lending }])?;
    }

    #[test]
    fn short_lives_that_nics_set_up_and_run(
        scenario in handed_up(),
        client in in_small_turns(Selection::Threshold(2)),
        server in in_small_turns(Selection::Fcfs),
    ) {
        let accel = [
            Accel { teardown: true, splice: true, ..Accel::NONE },
            Accel { setup: true, lazy_tcb: true, ..Accel::NONE },
        ];
        same(&scenario, &[Help { accel, lending: [Some(client), Some(server)] }])?;
    }

    #[test]
    fn again_and_again(scenario in scenario(Some(false)), seed in any::<u64>()) {
        let lending = [Some(Lending::to_and_fro(seed)); 2];
        same(&scenario, &[Help { lending, ..Help::NONE }])?;
    }
}
