use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn an_owner_survives_its_bits() {
    for owned in [
        Owned::Closing(0),
        Owned::Closing((1 << 29) - 1),
        Owned::Toe(0),
        Owned::Toe((1 << 29) - 1),
        Owned::Spliced(0, Side::A),
        Owned::Spliced(0, Side::B),
        Owned::Spliced((1 << 29) - 1, Side::B),
    ] {
        assert_eq!(Owned::from_bits(owned.to_bits()), owned);
        assert_ne!(owned.to_bits(), 0);
    }
}

#[test]
fn equal_hashes_are_told_apart_by_their_owners() {
    let mut flows = Flows::default();
    for at in 0..8 {
        flows.insert(7 << 16, Owned::Closing(at));
    }
    for at in 0..8 {
        let found = flows.find(7 << 16, |owned| owned == Owned::Closing(at));
        assert_eq!(found, Some(Owned::Closing(at)));
    }
    assert_eq!(flows.find(7 << 16, |_| false), None);
}

#[test]
fn as_many_as_the_device_takes_fit_in_five_mebibytes() {
    let mut flows = Flows::default();
    for at in 0..(256 << 10) + 2 * (64 << 10) {
        let hash = u64::from(at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        flows.insert(hash, Owned::Closing(at));
    }
    assert!(flows.memory() <= 5 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// As a map from hash and owner, whatever the order, with hashes that collide often.
    #[test]
    fn behaves_as_a_map(steps in proptest::collection::vec((any::<bool>(), 0u64..24, 0u32..40), 1..400)) {
        let mut flows = Flows::default();
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        for (add, hash, at) in steps {
            let owned = if at % 2 == 0 { Owned::Closing(at) } else { Owned::Spliced(at, Side::B) };
            let hash = hash << 16 | hash << 60;
            match model.get(&at).copied() {
                None if add => {
                    flows.insert(hash, owned);
                    model.insert(at, hash);
                }
                Some(its) if !add => {
                    flows.remove(its, owned);
                    model.remove(&at);
                }
                _ => flows.remove(hash ^ 1 << 40, owned),
            }
            prop_assert_eq!(flows.is_empty(), model.is_empty());
            for at in 0..40 {
                let owned = if at % 2 == 0 { Owned::Closing(at) } else { Owned::Spliced(at, Side::B) };
                let hash = model.get(&at);
                let found = hash.and_then(|&hash| flows.find(hash, |other| other == owned));
                prop_assert_eq!(found.is_some(), hash.is_some());
            }
        }
    }
}
