use port::memory::{LinkConfig, try_link};
use port::{Meta, Port};
use wire::ethernet::MacAddr;

use super::*;
use crate::nic_process::rings_hosts::RingsHosts;
use crate::nic_process::wire::{Wire, join};

const OTHERS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// The wire of a first core, and the thread of the second one, whose NIC has an address but no function.
fn two_cores() -> (Wire, Others) {
    let config = LinkConfig {
        eventfd: true,
        ..LinkConfig::for_mtu(1500)
    };
    let wires = (0..2).map(|_| Box::new(try_link(config).unwrap().0) as Wire);
    let (mut wires, addresses) = join(wires.collect(), [(OTHERS, 1)].into_iter()).unwrap();
    addresses.unwrap().set_present(OTHERS, true);
    let second = wires.remove(1);
    let nic = DataPath::nic(second.capabilities()).unwrap();
    let rings = RingsHosts::open(std::iter::empty(), 0).unwrap();
    let path = DataPath::new(nic, rings, second, None, false);
    let others = Others::start(vec![path], &Cores::default()).unwrap();
    (wires.remove(0), others)
}

fn send(wire: &mut Wire, frames: usize) {
    let mut left = frames;
    let mut fill = |buffer: &mut [u8]| {
        left = left.checked_sub(1)?;
        buffer[..60].fill(0);
        buffer[..6].copy_from_slice(&OTHERS.0);
        Some((60, Meta::default()))
    };
    wire.transmit(Instant::now(), &mut fill).unwrap();
}

fn counter(others: &mut Others, group: &str, name: &str) -> u64 {
    let groups = others.counters(Instant::now()).unwrap().remove(0);
    let group = groups.iter().find(|it| it.name == group);
    let mut counters = group.iter().flat_map(|group| &group.counters);
    counters
        .find(|(its, _)| its == name)
        .map_or(0, |(_, value)| *value)
}

#[track_caller]
fn eventually(mut what: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < until, "it has not come about");
        thread::sleep(LOOK);
    }
}

#[test]
fn a_core_that_sleeps_wakes_for_frames_and_tells_what_it_has_counted() {
    let (mut wire, mut others) = two_cores();
    for round in 1..=3 {
        send(&mut wire, 2);
        eventually(|| counter(&mut others, "nic", "rx_no_function") == 2 * round);
        assert_eq!(counter(&mut others, "wire", "rx_passed"), 2 * round);
    }
}

#[test]
fn a_core_that_sleeps_tells_for_how_long_when_it_is_asked() {
    let (_wire, mut others) = two_cores();
    let mut asleep = || counter(&mut others, "thread", "asleep_cycles");
    let before = asleep();
    eventually(|| asleep() > before);
    let later = asleep();
    eventually(|| asleep() > later);
}

#[test]
fn a_core_that_hangs_is_told_of() {
    let (_wire, mut others) = two_cores();
    let told = Arc::clone(&others.0[0].told);
    let now = Instant::now();
    assert!(others.counters(now).is_some());
    eventually(|| told.answers.load(Ordering::Acquire) == 1);
    assert!(
        others.counters(now + 10 * PATIENCE).is_some(),
        "it has told"
    );
    // It is ordered, and does not come to it.
    eventually(|| told.answers.load(Ordering::Acquire) == 2);
    told.answers.store(1, Ordering::Release);
    let asked = now + 10 * PATIENCE;
    assert!(others.counters(asked + PATIENCE / 2).is_some());
    assert!(others.counters(asked + PATIENCE).is_none());
    told.answers.store(2, Ordering::Release);
    assert!(others.counters(asked + PATIENCE).is_some());
}

#[test]
fn a_core_that_is_told_to_drain_says_when_it_is_at_rest() {
    let (_wire, others) = two_cores();
    assert!(!others.are_at_rest(), "it was not told");
    others.drain();
    eventually(|| others.are_at_rest());
    assert!(
        Others::default().are_at_rest(),
        "one core waits for no other"
    );
}

#[test]
fn a_fault_is_for_the_core_that_has_the_host() {
    let (_wire, others) = two_cores();
    assert!(!others.inject("/run/a.sock", Fault::CorruptContexts));
}

#[test]
fn the_threads_end_with_what_the_first_one_has_of_them() {
    let (wire, others) = two_cores();
    let told = Arc::downgrade(&others.0[0].told);
    drop(others);
    drop(wire);
    eventually(|| told.upgrade().is_none());
}
