//! A target: what it stores, whom it lets in, and what it leaves behind.

pub mod world;

use std::net::SocketAddr;
use std::time::Duration;

use l5p::nvme::target::{Hosts, Limits};
use wire::nvme::command::{Io, Status};
use wire::nvme::{Digests, Nqn};

use crate::pair::{CLIENT, SERVER, lossy, v4};
use host::nvme::PduOffload;
use host::{CloseReason, Event, Offload};
use sim::Fate;
use testkit::pattern;
use world::{BLOCK, BYTES, PORT, Setup, World, blocks, shared_key};

fn modes() -> Vec<Setup> {
    let mut modes = Vec::new();
    for digests in [Digests::NONE, Digests::BOTH] {
        for offload in [PduOffload::NONE, PduOffload::ALL] {
            modes.push(Setup {
                digests,
                offload,
                ..Setup::default()
            });
        }
    }
    modes
}

#[test]
fn what_was_written_is_read_in_every_mode() {
    for setup in modes() {
        let mut world = World::new(setup);
        world.ready();
        for len in [4096, 8192, 12288, 128 << 10, 1 << 20] {
            let data = pattern(len);
            assert_eq!(world.write(5, &data, false), Status::SUCCESS);
            let (status, back) = world.read(5, len);
            assert_eq!(status, Status::SUCCESS);
            assert!(back == data, "{len} bytes");
        }
        let in_use = |world: &mut World| world.target.memory().0 == 0;
        assert!(
            world.run_until(Duration::from_secs(5), in_use),
            "memory is free"
        );
    }
}

#[test]
fn memory_is_free_again_whoever_encrypts_what_is_in_it() {
    for offload in [Offload::None, Offload::Tx, Offload::Both] {
        let Some(key) = shared_key() else { return };
        let mut world = World::new(Setup {
            tls: Some((key, offload)),
            ..Setup::default()
        });
        world.ready();
        for len in [4096, 100 << 12, 1 << 20] {
            let data = pattern(len);
            assert_eq!(world.write(5, &data, false), Status::SUCCESS);
            let (status, back) = world.read(5, len);
            assert_eq!(status, Status::SUCCESS);
            assert!(back == data, "{len} bytes, {offload:?}");
            let is_free = |world: &mut World| world.target.memory().0 == 0;
            let free = world.run_until(Duration::from_secs(5), is_free);
            assert!(
                free,
                "{len} bytes, {offload:?}: {:?}",
                world.target.memory()
            );
        }
    }
}

#[test]
fn hosts_that_are_silent_in_the_handshake_are_not_waited_for() {
    let Some(key) = shared_key() else { return };
    let mut world = World::new(Setup {
        tls: Some((key, Offload::Both)),
        ..Setup::default()
    });
    world.ready();
    let address = SocketAddr::new(v4(SERVER), PORT);
    let now = world.pair.now();
    let silent = [(); 3].map(|()| world.pair.stack(CLIENT).connect(now, address).unwrap());
    let mut closed = Vec::new();
    let ended = world.run_until(Duration::from_secs(20), |world| {
        closed.append(&mut world.others);
        closed.len() == 3
    });
    assert!(ended, "{closed:?}");
    for socket in silent {
        assert!(closed.contains(&Event::Closed(socket, CloseReason::Reset)));
    }
    let counters = world.target.link_counters();
    assert_eq!(
        (counters.handshakes_timed_out, counters.handshakes_failed),
        (3, 0)
    );
    assert_eq!(world.write(5, &pattern(4096), false), Status::SUCCESS);
}

#[test]
fn of_handshakes_that_have_ended_nothing_is_kept() {
    let Some(key) = shared_key() else { return };
    let mut world = World::new(Setup {
        tls: Some((key, Offload::Both)),
        ..Setup::default()
    });
    world.ready();
    let address = SocketAddr::new(v4(SERVER), PORT);
    let now = world.pair.now();
    world.pair.stack(CLIENT).connect(now, address).unwrap();
    for count in 1..=200 {
        let now = world.pair.now();
        let socket = world.pair.stack(CLIENT).connect(now, address).unwrap();
        let two = |world: &mut World| world.target.handshakes() == 2;
        assert!(world.run_until(Duration::from_secs(1), two), "{count}");
        let now = world.pair.now();
        world.pair.stack(CLIENT).abort(now, socket).unwrap();
        let one = |world: &mut World| world.target.handshakes() == 1;
        assert!(world.run_until(Duration::from_secs(1), one), "{count}");
    }
}

#[test]
fn a_connection_too_many_is_no_failed_handshake() {
    let Some(key) = shared_key() else { return };
    let mut world = World::new(Setup {
        tls: Some((key, Offload::Both)),
        limits: Limits {
            connections: 2,
            ..Limits::default()
        },
        ..Setup::default()
    });
    // The admin queue and one I/O queue have room, the second I/O queue has none.
    let refused = |world: &mut World| world.target.counters().busy_connects > 0;
    assert!(world.run_until(Duration::from_secs(20), refused));
    world.run_until(Duration::from_secs(1), |_| false);
    let counters = world.target.link_counters();
    assert_eq!((counters.handshakes_failed, counters.refused), (0, 0));
}

#[test]
fn many_commands_go_over_a_bad_link() {
    for (seed, setup) in modes().into_iter().enumerate() {
        let mut world = World::new(setup);
        world.ready();
        world
            .pair
            .decide(lossy(seed % 2, 0.01, 0.01, seed as u64 + 3));
        let len = 64 << 10;
        let data = pattern(8 << 20);
        assert!(world.memory.write(0, &data));
        for at in (0..8u64 << 20).step_by(len) {
            let blocks = blocks(at / u64::from(BLOCK), len);
            world.submit(Io::Write { blocks, fua: false }, at, len as u32);
        }
        world.wait(128);
        for completion in world.completions.drain(..) {
            assert_eq!(completion.status, Status::SUCCESS);
        }
        for at in (0..8u64 << 20).step_by(len) {
            let blocks = blocks(at / u64::from(BLOCK), len);
            world.submit(Io::Read { blocks, fua: false }, (8 << 20) + at, len as u32);
        }
        world.wait(128);
        let mut back = vec![0; 8 << 20];
        assert!(world.memory.read(8 << 20, &mut back));
        assert!(back == data);
        assert!(world.completions.iter().all(|c| c.status.is_success()));
    }
}

#[test]
fn commands_wait_for_memory_and_all_get_it() {
    let mut world = World::new(Setup {
        memory: 4 << 20,
        ..Setup::default()
    });
    world.ready();
    let data = pattern(16 << 20);
    assert!(world.memory.write(0, &data));
    for at in 0..16u64 {
        let blocks = blocks(at * 256, 1 << 20);
        world.submit(Io::Write { blocks, fua: false }, at << 20, 1 << 20);
    }
    world.wait(16);
    assert!(world.completions.drain(..).all(|c| c.status.is_success()));
    let (_, back) = world.read(15 * 256, 1 << 20);
    assert!(back == data[15 << 20..]);
}

#[test]
fn a_file_is_a_store() {
    let path = std::env::temp_dir().join(format!("longshore-target-{}", std::process::id()));
    std::fs::File::create(&path)
        .unwrap()
        .set_len(BYTES)
        .unwrap();
    let mut world = World::new(Setup {
        file: Some(path.clone()),
        digests: Digests::BOTH,
        ..Setup::default()
    });
    world.ready();
    let data = pattern(1 << 20);
    assert_eq!(world.write(16, &data, true), Status::SUCCESS);
    let small = pattern(4096);
    assert_eq!(world.write(1000, &small, false), Status::SUCCESS);
    let flush = world.submit(Io::Flush, 0, 0);
    assert_eq!(world.finish(flush), Status::SUCCESS);
    let (status, back) = world.read(16, 1 << 20);
    assert_eq!(status, Status::SUCCESS);
    assert!(back == data);
    let file = std::fs::read(&path).unwrap();
    assert!(file[16 * 4096..][..1 << 20] == data && file[1000 * 4096..][..4096] == small);
    let zeroes = Io::WriteZeroes {
        blocks: blocks(17, 4096),
        fua: true,
        deallocate: true,
    };
    let zero = world.submit(zeroes, 0, 0);
    assert_eq!(world.finish(zero), Status::SUCCESS);
    assert_eq!(world.read(17, 4096).1, [0; 4096]);
    assert!(world.memory.write(0, &data[..8192]));
    let compare = Io::Compare {
        blocks: blocks(16, 8192),
        fua: false,
    };
    let compared = world.submit(compare, 0, 8192);
    assert!(world.finish(compared).is(Status::COMPARE_FAILURE));
    let compare = Io::Compare {
        blocks: blocks(1000, 4096),
        fua: false,
    };
    assert!(world.memory.write(0, &small));
    let compared = world.submit(compare, 0, 4096);
    assert_eq!(world.finish(compared), Status::SUCCESS);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_host_that_is_not_allowed_is_told_so() {
    let mut world = World::new(Setup {
        hosts: Hosts::Only(vec![
            Nqn::new("nqn.2014-08.org.nvmexpress:uuid:other").unwrap(),
        ]),
        ..Setup::default()
    });
    let refused = |world: &mut World| {
        let text = format!("{:?}", world.events);
        text.contains("HostNotAllowed")
    };
    assert!(
        world.run_until(Duration::from_secs(20), refused),
        "{:?}",
        world.events
    );
}

#[test]
fn a_shutdown_leaves_nothing_behind() {
    let mut world = World::new(Setup::default());
    world.ready();
    assert_eq!(world.write(0, &pattern(256 << 10), false), Status::SUCCESS);
    let now = world.pair.now();
    world.initiator.shutdown(now);
    let gone = |world: &mut World| world.target.machine().connections() == 0;
    assert!(world.run_until(Duration::from_secs(20), gone));
    assert!(world.target.is_idle() && world.target.queues().next().is_none());
    assert_eq!(world.target.memory().0, 0);
}

#[test]
fn a_host_that_vanishes_loses_its_memory_at_keep_alive() {
    let mut world = World::new(Setup::default());
    world.ready();
    for at in 0..32u64 {
        let blocks = blocks(at * 16, 64 << 10);
        world.submit(Io::Write { blocks, fua: false }, at << 16, 64 << 10);
    }
    // Its writes are asked for; then not a word comes from it.
    let asked = |world: &mut World| world.target.memory().0 > 0;
    assert!(world.run_until(Duration::from_secs(5), asked));
    world.pair.decide(|from, _, _| match from {
        CLIENT => Fate::Drop,
        _ => Fate::Pass,
    });
    let gone = |world: &mut World| {
        world.target.machine().connections() == 0 && world.target.memory().0 == 0
    };
    assert!(world.run_until(Duration::from_secs(40), gone));
    assert_eq!(world.target.counters().keep_alive_expired, 1);
}
