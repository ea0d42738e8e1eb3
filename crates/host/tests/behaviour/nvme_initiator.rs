//! What an initiator does about lost connections, and which memory it shows the NIC.

use std::time::Duration;

use l5p::nvme::initiator::Access;
use wire::nvme::command::{Io, Status};

use super::nvme_target::world::{Setup, World, blocks};
use crate::pair::{CLIENT, SERVER};
use host::nvme::initiator::{Event, SubmitError};
use sim::Fate;
use testkit::pattern;

fn read(start: u64, len: usize) -> Io {
    Io::Read {
        blocks: blocks(start, len),
        fua: false,
    }
}

/// Nothing passes the wire for a while.
fn outage(world: &mut World, time: Duration) {
    world.pair.decide(|_, _, _| Fate::Drop);
    world.run_until(time, |_| false);
    world.pair.decide(|_, _, _| Fate::Pass);
}

#[test]
fn commands_in_flight_survive_an_outage() {
    let mut world = World::new(Setup::default());
    world.ready();
    let len = 256 << 10;
    let data = pattern(len);
    assert_eq!(world.write(0, &data, false), Status::SUCCESS);
    let reads = 8;
    for n in 0..reads {
        world.submit(read(0, len), n * len as u64, len as u32);
    }
    outage(&mut world, Duration::from_secs(60));
    assert!(matches!(
        world.events[..],
        [Event::Ready, Event::Lost(_), ..]
    ));
    assert!(world.completions.is_empty());
    world.wait(reads as usize);
    assert_eq!(world.events.last(), Some(&Event::Ready));
    for n in 0..reads {
        assert_eq!(world.completions[n as usize].status, Status::SUCCESS);
        let mut back = vec![0; len];
        assert!(world.memory.read(n * len as u64, &mut back));
        assert!(back == data);
    }
}

#[test]
fn without_retries_commands_fail_in_an_outage() {
    let mut world = World::new(Setup {
        adjust: |config| {
            config.retries = 0;
            config.reconnect = None;
        },
        ..Setup::default()
    });
    world.ready();
    for n in 0..8 {
        world.submit(read(0, 65536), n << 16, 65536);
    }
    outage(&mut world, Duration::from_secs(60));
    assert_eq!(world.completions.len(), 8);
    let failed = Status::HOST_PATHING_ERROR;
    assert!(world.completions.iter().all(|done| done.status == failed));
    assert!(matches!(world.events.last(), Some(Event::Ended(Some(_)))));
}

#[test]
fn a_target_that_comes_back_is_found() {
    let mut world = World::new(Setup::default());
    world.ready();
    for _ in 0..3 {
        outage(&mut world, Duration::from_secs(90));
        let (status, _) = world.read(0, 4096);
        assert_eq!(status, Status::SUCCESS);
    }
    let connections = world.pair.stack(CLIENT).sockets().count();
    assert_eq!(connections, 3, "those of before are gone");
}

#[test]
fn large_reads_are_placed_and_small_ones_copied() {
    let mut world = World::new(Setup::default());
    world.ready();
    for (len, maps) in [(4096, 0), (8192, 0), (16384, 1), (256 << 10, 2)] {
        let (status, _) = world.read(0, len);
        assert_eq!(status, Status::SUCCESS);
        let mapped = world.pair.nic_counter(CLIENT, "rx_nvmeotcp_ddp_setup");
        assert_eq!(mapped, maps, "{len} bytes");
    }
    let torn_down = world.pair.nic_counter(CLIENT, "rx_nvmeotcp_ddp_teardown");
    assert_eq!(torn_down, 2);
}

#[test]
fn memory_may_be_scattered() {
    let mut world = World::new(Setup::default());
    world.ready();
    let len = 256 << 10;
    let data = pattern(len);
    assert_eq!(world.write(3, &data, false), Status::SUCCESS);
    // More pieces than the NIC takes for one buffer are filled by software.
    for pieces in [3u32, 16, 17, 100] {
        let mut slices = Vec::new();
        let (mut at, mut left) = (1 << 20, len as u32);
        for n in 0..pieces {
            let part = if n + 1 == pieces {
                left
            } else {
                len as u32 / pieces
            };
            slices.push(world.slice(at, part));
            at += u64::from(part) + 100;
            left -= part;
        }
        let access = Access {
            nsid: 1,
            io: read(3, len),
        };
        let id = world.initiator.submit(access, &slices).unwrap();
        assert_eq!(world.finish(id), Status::SUCCESS);
        let mut back = Vec::new();
        for slice in &slices {
            let mut part = vec![0; slice.len as usize];
            assert!(world.memory.read(slice.offset, &mut part));
            back.extend(part);
        }
        assert!(back == data, "{pieces} pieces");
    }
}

#[test]
fn memory_that_is_too_short_is_refused() {
    let mut world = World::new(Setup::default());
    world.ready();
    let access = Access {
        nsid: 1,
        io: read(0, 8192),
    };
    let memory = [world.slice(0, 8191)];
    let refused = world.initiator.submit(access, &memory);
    let expected = SubmitError::Memory {
        needed: 8192,
        given: 8191,
    };
    assert_eq!(refused, Err(expected));
}

#[test]
fn a_target_that_is_not_there_is_told_of() {
    let mut world = World::new(Setup::default());
    world.pair.decide(|from, _, _| match from {
        SERVER => Fate::Drop,
        _ => Fate::Pass,
    });
    let ended = |world: &mut World| matches!(world.events.last(), Some(Event::Ended(Some(_))));
    assert!(world.run_until(Duration::from_secs(60), ended));
}
