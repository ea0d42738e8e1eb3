//! Connections of which the NICs do a part, or all, of setup, teardown and relaying, against hosts that do it all: whatever happens
//! on the link, both give the same bytes and the same ends.

use crate::strategies::links::cases;
use crate::strategies::lives::scenario;
use host::Accel;
use proptest::prelude::*;
use sim::connections::{Help, Scenario, compare};

fn accel() -> impl Strategy<Value = Accel> {
    any::<[bool; 4]>().prop_map(|[setup, teardown, splice, lazy_tcb]| Accel {
        setup,
        teardown,
        splice,
        lazy_tcb,
    })
}

fn help() -> impl Strategy<Value = Help> {
    [accel(), accel()].prop_map(|accel| Help {
        accel,
        ..Help::NONE
    })
}

fn same(scenario: &Scenario, helps: &[Help]) -> Result<(), TestCaseError> {
    let compared = compare(scenario, helps);
    compared.map_err(|error| TestCaseError::fail(error.to_string()))?;
    Ok(())
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn connections_are_the_same_with_and_without_help(scenario in scenario(Some(false))) {
        same(&scenario, &[Help::ALL])?;
    }

    #[test]
    fn any_part_of_the_help_changes_nothing(scenario in scenario(None), help in help()) {
        same(&scenario, &[help])?;
    }

    #[test]
    fn relayed_connections_are_the_same_spliced_or_not(scenario in scenario(Some(true))) {
        same(&scenario, &[Help::ALL])?;
    }
}
