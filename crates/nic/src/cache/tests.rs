use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[test]
fn four_mebibytes_hold_twenty_thousand_contexts() {
    // Seed 000 §6.5: "the NIC can store at most 20 K flows".
    assert_eq!(ContextCache::new(208, 4 << 20).capacity(), 20_164);
}

#[test]
fn least_recently_used_context_is_evicted_and_fetched_again() {
    let mut cache = ContextCache::new(208, 416);
    cache.install(0);
    cache.install(1);
    assert_eq!(cache.access(0, Access::Read), Traffic::default());
    let traffic = cache.install(2);
    assert_eq!(traffic.written_back, 208, "context 1 was never written");
    let traffic = cache.access(1, Access::Read);
    assert_eq!(traffic.fetched, 208);
    assert_eq!((cache.hits(), cache.misses()), (1, 1));
}

#[test]
fn a_context_that_was_only_read_is_not_written_back() {
    let mut cache = ContextCache::new(208, 208);
    cache.install(0);
    cache.install(1);
    assert_eq!(cache.access(0, Access::Read).written_back, 208);
    assert_eq!(cache.access(1, Access::Read).written_back, 0);
    assert_eq!(cache.access(0, Access::Write).written_back, 0);
    assert_eq!(cache.access(1, Access::Read).written_back, 208);
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
        capacity in 1u64..6,
        operations in prop::collection::vec((0u8..3, 0u32..10, any::<bool>()), 0..200),
    ) {
        let mut cache = ContextCache::new(10, capacity * 10);
        let mut created = [false; 10];
        let mut model: VecDeque<(u32, bool)> = VecDeque::new();
        for (operation, slot, write) in operations {
            let traffic = match operation {
                0 => {
                    created[slot as usize] = true;
                    model.retain(|entry| entry.0 != slot);
                    let mut expected = Traffic::default();
                    if model.len() as u64 == capacity && model.pop_back().unwrap().1 {
                        expected.written_back = 10;
                    }
                    model.push_front((slot, true));
                    (cache.install(slot), expected)
                }
                1 => {
                    cache.remove(slot);
                    created[slot as usize] = false;
                    model.retain(|entry| entry.0 != slot);
                    (Traffic::default(), Traffic::default())
                }
                _ if created[slot as usize] => {
                    let access = if write { Access::Write } else { Access::Read };
                    let mut expected = Traffic::default();
                    let dirty = match model.iter().position(|entry| entry.0 == slot) {
                        Some(at) => model.remove(at).unwrap().1,
                        None => {
                            expected.fetched = 10;
                            if model.len() as u64 == capacity && model.pop_back().unwrap().1 {
                                expected.written_back = 10;
                            }
                            false
                        }
                    };
                    model.push_front((slot, dirty || write));
                    (cache.access(slot, access), expected)
                }
                _ => continue,
            };
            prop_assert_eq!(traffic.0, traffic.1);
            prop_assert_eq!(cache.resident() as usize, model.len());
        }
    }
}
