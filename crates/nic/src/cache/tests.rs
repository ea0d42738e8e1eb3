use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[test]
fn four_mebibytes_hold_twenty_thousand_contexts() {
    // Autonomous NIC offloads §6.5: "the NIC can store at most 20 K flows".
    assert_eq!(ContextCache::new(208, 4 << 20).capacity, 20_164);
}

#[test]
fn least_recently_used_context_is_evicted_and_fetched_again() {
    let mut cache = ContextCache::new(208, 416);
    cache.install(0);
    cache.install(1);
    assert_eq!(cache.access(0), Traffic::default());
    assert_eq!(cache.install(2).written_back, 208);
    assert_eq!(cache.access(0), Traffic::default());
    let both = Traffic {
        fetched: 208,
        written_back: 208,
    };
    assert_eq!(cache.access(1), both);
    assert_eq!(cache.access(0), Traffic::default());
}

#[test]
fn memory_for_less_than_one_context_still_holds_one() {
    let mut cache = ContextCache::new(208, 0);
    cache.install(7);
    assert_eq!(cache.resident(), 1);
    cache.remove(7);
    cache.remove(7);
    assert_eq!(cache.resident(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_as_a_list_kept_in_order_of_use(
        capacity in 1usize..6,
        operations in prop::collection::vec((0u8..3, 0u32..10), 0..200),
    ) {
        let mut cache = ContextCache::new(10, capacity as u64 * 10);
        let mut created = [false; 10];
        let mut model: VecDeque<u32> = VecDeque::new();
        for (operation, slot) in operations {
            let resident = model.contains(&slot);
            let mut expected = Traffic::default();
            let traffic = match operation {
                0 => {
                    created[slot as usize] = true;
                    cache.install(slot)
                }
                1 => {
                    created[slot as usize] = false;
                    cache.remove(slot);
                    Traffic::default()
                }
                _ if created[slot as usize] => {
                    expected.fetched = if resident { 0 } else { 10 };
                    cache.access(slot)
                }
                _ => continue,
            };
            model.retain(|entry| *entry != slot);
            if operation != 1 {
                if model.len() == capacity {
                    model.pop_back();
                    expected.written_back = 10;
                }
                model.push_front(slot);
            }
            prop_assert_eq!(traffic, expected);
            prop_assert_eq!(cache.resident() as usize, model.len());
        }
    }
}
