//! When splices are looked at.

use std::time::{Duration, Instant};

use crate::accel::AccelDeviceEnv;
use crate::accel::flows::Flows;
use crate::accel::splice::pair::{Pair, Phase};
use crate::accel::splice::table::Slot;
use crate::accel::splice::tests::memory::numbered;
use crate::accel::splice::time::WORDS;
use crate::accel::splice::{GROUP, Splices};
use crate::config::AccelConfig;
use crate::config::NicConfig;
use crate::rss::FlowHasher;

const IDLE: u32 = 60_000;

struct World {
    splices: Splices,
    start: Instant,
    now: Instant,
}

impl World {
    fn new() -> World {
        let start = Instant::now();
        World {
            splices: Splices::new(&AccelConfig::default()),
            start,
            now: start,
        }
    }

    fn add(&mut self, n: u32, idle: u32) -> Slot {
        let now = self.splices.milliseconds(self.now);
        let hasher = FlowHasher::new(&[3; 16]);
        let pair = Pair::new(&numbered(n), 0, 1500, now);
        let slot = self.splices.table.insert(&hasher, pair).expect("room");
        self.hear(slot, idle);
        self.splices.arm(slot, idle);
        slot
    }

    /// Something has come of a splice.
    fn hear(&mut self, slot: Slot, idle: u32) {
        let heard = self.splices.milliseconds(self.now);
        if let Some(pair) = self.splices.table.get_mut(slot) {
            pair.phase = Phase::Open { idle, heard };
        }
    }

    fn handle_time(&mut self) {
        self.splices.handle_time(&mut AccelDeviceEnv {
            now: self.now,
            nic: &NicConfig::new([3; 16]),
            hasher: &FlowHasher::new(&[3; 16]),
            flows: &mut Flows::default(),
            functions: &mut [],
        });
    }
}

#[test]
fn neighbours_that_came_one_by_one_are_looked_at_together() {
    let mut world = World::new();
    let mut slots = Vec::new();
    for n in 0..GROUP {
        slots.push(world.add(n, IDLE));
        world.now += Duration::from_millis(1100);
    }
    for _ in 0..600 {
        world.now += Duration::from_millis(100);
        slots.iter().for_each(|slot| world.hear(*slot, IDLE));
        world.handle_time();
    }
    assert_eq!(world.splices.timers.len(), 1);
    // One that needs a look before the others gets it.
    world.splices.arm(slots[1], 500);
    let next = world.splices.poll_timeout().expect("it is armed");
    assert!(next <= world.now + Duration::from_millis(500 + 2 * 128));
    // In silence there is nothing more to look at in the end.
    world.now += Duration::from_secs(1);
    while let Some(due) = world.splices.poll_timeout() {
        world.now = world.now.max(due);
        assert!(world.now - world.start < Duration::from_secs(200));
        world.handle_time();
    }
    assert_eq!(world.splices.timers.len(), 0);
}

/// AccelTCP: the wheel is scanned in slices.
#[test]
fn a_call_looks_at_a_slice() {
    let mut world = World::new();
    let many = AccelConfig::default().splices;
    let slots: Vec<Slot> = (0..many).map(|n| world.add(n, 2000)).collect();
    world.now += Duration::from_millis(2200);
    slots.iter().for_each(|slot| world.hear(*slot, IDLE));
    let mut calls = 0;
    while world
        .splices
        .poll_timeout()
        .is_some_and(|due| due <= world.now)
    {
        world.handle_time();
        calls += 1;
    }
    let slices = many / GROUP / 64 / WORDS;
    assert!((slices..=slices + 2).contains(&calls), "{calls}");
}
