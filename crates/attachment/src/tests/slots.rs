//! Slots are claimed and freed, and one use of them is told from the next.

use crate::{Direction, Errno, Lifecycle, MAX_SLOTS, OffloadState, Slab};

#[test]
fn a_slot_is_claimed_once_until_it_is_freed() {
    let slab = Slab::create(3).unwrap();
    let claimed: Vec<_> = std::iter::from_fn(|| slab.claim()).collect();
    assert_eq!(claimed, [(0, 1), (1, 1), (2, 1)]);
    let slot = slab.slot(1).unwrap();
    assert_eq!(slot.lifecycle(), Lifecycle::InUse { generation: 1 });
    slot.free(1);
    assert_eq!(slot.lifecycle(), Lifecycle::Free { generation: 1 });
    assert_eq!(slab.claim(), Some((1, 2)));
    assert_eq!(slab.claim(), None);
}

#[test]
fn what_the_last_use_left_is_gone_with_the_next_claim() {
    let slab = Slab::create(1).unwrap();
    let (index, generation) = slab.claim().unwrap();
    let slot = slab.slot(index).unwrap();
    slot.set_status(Direction::Receive, generation, OffloadState::Reset);
    slot.results()[255].store(77, std::sync::atomic::Ordering::Relaxed);
    slot.free(generation);
    let (_, next) = slab.claim().unwrap();
    assert_eq!(slot.status(Direction::Receive, next), OffloadState::None);
    assert_eq!(
        slot.results()[255].load(std::sync::atomic::Ordering::Relaxed),
        0
    );
}

#[test]
fn a_status_of_another_generation_says_nothing() {
    let slab = Slab::create(1).unwrap();
    let slot = slab.slot(0).unwrap();
    slot.set_status(Direction::Transmit, 4, OffloadState::Offloaded);
    assert_eq!(slot.status(Direction::Transmit, 4), OffloadState::Offloaded);
    assert_eq!(slot.status(Direction::Transmit, 5), OffloadState::None);
    assert_eq!(slot.status(Direction::Receive, 4), OffloadState::None);
}

#[test]
fn a_use_that_has_ended_is_not_ended_again_and_taken_back_only_before_the_next_one() {
    let slab = Slab::create(1).unwrap();
    let (index, first) = slab.claim().unwrap();
    let slot = slab.slot(index).unwrap();
    slot.set_status(Direction::Transmit, first, OffloadState::Offloaded);
    slot.free(first);
    assert!(slot.take_back(first));
    assert!(slot.take_back(first), "it is in use");
    assert_eq!(slab.claim(), None);
    let status = slot.status(Direction::Transmit, first);
    assert_eq!(status, OffloadState::Offloaded);
    slot.free(first);
    let (_, second) = slab.claim().unwrap();
    assert!(!slot.take_back(first));
    slot.free(first);
    let in_use = Lifecycle::InUse { generation: second };
    assert_eq!(slot.lifecycle(), in_use);
}

#[test]
fn a_slab_has_at_least_one_slot_and_no_more_than_there_may_be() {
    assert_eq!(Slab::create(0).unwrap_err(), Errno::INVAL);
    assert_eq!(Slab::create(MAX_SLOTS + 1).unwrap_err(), Errno::INVAL);
    assert!(Slab::create(MAX_SLOTS).unwrap().slot(MAX_SLOTS).is_none());
}

#[test]
fn threads_that_claim_at_once_get_different_slots() {
    let slab = Slab::create(64).unwrap();
    let mut claimed: Vec<_> = std::thread::scope(|scope| {
        let claim = || std::iter::from_fn(|| slab.claim()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
        let threads = threads.into_iter();
        threads.flat_map(|thread| thread.join().unwrap()).collect()
    });
    claimed.sort_unstable();
    assert_eq!(claimed, (0..64).map(|index| (index, 1)).collect::<Vec<_>>());
}
