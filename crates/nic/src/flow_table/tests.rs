use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

fn flow(port: u16) -> FlowKey {
    FlowKey {
        src: (IpAddr::from([10, 0, 0, 1]), port),
        dst: (IpAddr::from([10, 0, 0, 2]), 443),
    }
}

#[test]
fn functions_do_not_see_each_others_flows() {
    let mut table = FlowTable::new();
    table.insert(5, 0, flow(1), 10).unwrap();
    table.insert(5, 1, flow(1), 11).unwrap();
    assert_eq!(table.find(5, 0, &flow(1)), Some(10));
    assert_eq!(table.find(5, 1, &flow(1)), Some(11));
    assert_eq!(table.find(5, 2, &flow(1)), None);
    assert_eq!(table.insert(5, 0, flow(1), 12), Err(Occupied { slot: 10 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_as_a_map_also_when_hashes_collide(
        operations in prop::collection::vec((any::<bool>(), 0u16..40), 0..400),
        modulus in prop_oneof![Just(1u64), Just(3), Just(16), Just(u64::MAX)],
    ) {
        let hash = |port: u16| u64::from(port).wrapping_mul(0x9e37_79b9_7f4a_7c15) % modulus;
        let mut table = FlowTable::new();
        let mut model = BTreeMap::new();
        for (insert, port) in operations {
            if insert {
                let slot = u32::from(port) + 1000;
                let fresh = model.insert(port, slot).is_none();
                prop_assert_eq!(table.insert(hash(port), 0, flow(port), slot).is_ok(), fresh);
            } else {
                table.remove(hash(port) as u32, u32::from(port) + 1000);
                model.remove(&port);
            }
            prop_assert_eq!(table.len(), model.len());
            for port in 0..40 {
                prop_assert_eq!(
                    table.find(hash(port), 0, &flow(port)),
                    model.get(&port).copied()
                );
            }
        }
    }
}
