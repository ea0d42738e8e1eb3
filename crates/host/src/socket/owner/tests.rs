//! Every state that the transitions lead to, and every step between two.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

const TOE: ToeId = ToeId {
    index: 1,
    generation: 2,
};
const PART: SplicePart = SplicePart {
    splice: SpliceHandle {
        index: 3,
        generation: 4,
    },
    side: 1,
};

fn name(owner: &Owner) -> String {
    let waits = |next: &Option<SplicePart>| {
        if next.is_some() {
            ", to be spliced"
        } else {
            ""
        }
    };
    match owner {
        Owner::Host => "host".into(),
        Owner::Teardown(phase) => format!("teardown {phase:?}"),
        Owner::Splice(_, phase) => format!("splice {phase:?}"),
        Owner::Handoff(offloaded, next) => {
            let accepted = if offloaded.is_accepted() {
                " accepted"
            } else {
                ""
            };
            format!("handoff {:?}{accepted}{}", offloaded.phase(), waits(next))
        }
    }
}

fn copy(owner: &Owner) -> Owner {
    match owner {
        Owner::Host => Owner::Host,
        Owner::Teardown(phase) => Owner::Teardown(*phase),
        Owner::Splice(part, phase) => Owner::Splice(*part, *phase),
        Owner::Handoff(offloaded, next) => Owner::Handoff(*offloaded, *next),
    }
}

/// What may happen in a state.
fn steps(owner: &Owner) -> Vec<(&'static str, Owner)> {
    let mut steps = Vec::new();
    let mut step = |what, change: &dyn Fn(&mut Owner)| {
        let mut next = copy(owner);
        change(&mut next);
        steps.push((what, next));
    };
    match owner {
        Owner::Host => {
            step("close", &Owner::ask_teardown);
            step("hand off", &|owner| owner.begin_handoff(TOE));
        }
        Owner::Teardown(phase) => {
            if *phase == TeardownPhase::Due {
                step("post", &Owner::teardown_posted);
            }
            step("refuse", &Owner::end_teardown);
        }
        Owner::Splice(_, phase) => {
            if *phase == SplicePhase::Draining {
                step("give", &Owner::give_to_splice);
            }
        }
        Owner::Handoff(offloaded, _) => {
            let in_handoff = |change: fn(&mut OffloadedConnection)| {
                move |owner: &mut Owner| owner.handoff_mut().into_iter().for_each(change)
            };
            step("ready", &in_handoff(OffloadedConnection::ready));
            if offloaded.phase() == Phase::Ready {
                step("offer", &in_handoff(OffloadedConnection::offered));
            }
            if offloaded.is_away() {
                step("accept", &in_handoff(|it| _ = it.accept()));
                step("recall", &in_handoff(OffloadedConnection::recall));
            }
            step("end handoff", &|owner| _ = owner.end_handoff());
        }
    }
    match owner.splice() {
        None if owner.teardown().is_none() => step("splice", &|owner| owner.begin_splice(PART)),
        Some(_) => step("end splice", &Owner::end_splice),
        None => {}
    }
    steps.retain(|(_, next)| name(next) != name(owner));
    steps
}

/// A state that is reached, with the steps from it and where they lead.
struct Reached {
    owner: Owner,
    steps: BTreeSet<(&'static str, String)>,
}

/// Every state by its name.
fn explore() -> BTreeMap<String, Reached> {
    let (mut found, mut queue) = (BTreeMap::new(), VecDeque::from([Owner::Host]));
    while let Some(owner) = queue.pop_front() {
        if found.contains_key(&name(&owner)) {
            continue;
        }
        let mut named = BTreeSet::new();
        for (what, next) in steps(&owner) {
            named.insert((what, name(&next)));
            queue.push_back(next);
        }
        let steps = named;
        found.insert(name(&owner), Reached { owner, steps });
    }
    found
}

#[test]
fn a_connection_has_one_owner_in_every_state_that_is_reached() {
    let found = explore();
    assert_eq!(found.len(), 5 + 2 * 6, "{:?}", found.keys());
    for (state, Reached { owner, steps }) in &found {
        let handoff = owner.handoff();
        // At most one of the three has it.
        let by_teardown = owner.teardown() == Some(TeardownPhase::Posted);
        let by_splice = owner.spliced().is_some();
        let by_toe = handoff.is_some_and(OffloadedConnection::is_away);
        let owners = [by_teardown, by_splice, by_toe];
        let count = owners.into_iter().filter(|is_so| *is_so).count();
        assert_eq!(count, usize::from(owner.is_nic()), "{state}");
        assert_eq!(owner.is_given_away(), by_teardown || by_splice, "{state}");
        for (what, next) in steps {
            let next = &found[next].owner;
            // Only what was posted to the NIC gives it the connection; between two of its parts it goes by the host.
            if next.is_nic() && !owner.is_nic() {
                assert!(["post", "give", "offer"].contains(what), "{state}: {what}");
            }
            // A splice that waits for the host to have the connection is forgotten only when it ends.
            if owner.splice().is_some() && *what != "end splice" {
                assert_eq!(next.splice(), owner.splice(), "{state}: {what}");
            }
        }
    }
}

#[test]
fn from_every_state_the_host_gets_the_connection_back() {
    let found = explore();
    for start in found.keys() {
        let (mut seen, mut queue) = (BTreeSet::new(), VecDeque::from([start]));
        while let Some(state) = queue.pop_front() {
            if seen.insert(state) {
                queue.extend(found[state].steps.iter().map(|(_, next)| next));
            }
        }
        assert!(seen.contains(&"host".to_owned()), "{start}");
    }
}

#[test]
fn what_comes_too_late_changes_no_phase() {
    let mut offloaded = OffloadedConnection::new(TOE);
    offloaded.ready();
    offloaded.offered();
    offloaded.ready();
    assert_eq!(offloaded.phase(), Phase::Offered);
    assert!(offloaded.accept());
    assert_eq!(offloaded.phase(), Phase::Owned);
    assert!(!offloaded.accept());
    offloaded.recall();
    offloaded.accept();
    assert_eq!(offloaded.phase(), Phase::Restoring);
}
