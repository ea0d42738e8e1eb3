use std::time::Duration;

use l5p::nvme::initiator::{Config, Event, Failure};
use l5p::nvme::target::{Hosts, Limits};
use wire::nvme::command::{Io, Range, Status};
use wire::nvme::{Digests, Nqn};

use crate::pair::{Pair, blocks, config, read_io, write_io};
use crate::rig::{self, BLOCK, namespace, pattern};

#[test]
fn a_controller_is_set_up() {
    let pair = Pair::ready(config());
    let nsids: Vec<u32> = pair.host.namespaces().iter().map(|ns| ns.nsid).collect();
    assert_eq!(nsids, [1, 7]);
    let info = pair.host.info().unwrap();
    assert!(info.has_compare() && info.has_dataset_management() && info.has_write_zeroes());
    let limits = pair.host.limits();
    assert_eq!(limits.io_queues, 2);
    assert_eq!((limits.max_transfer, limits.in_capsule), (1 << 20, 8192));
    assert!(pair.refused.is_empty());
}

#[test]
fn what_is_written_is_read() {
    for digests in [Digests::NONE, Digests::BOTH] {
        let mut pair = Pair::ready(Config {
            digests,
            ..config()
        });
        for len in [BLOCK, 8192, 8192 + BLOCK, 1 << 20] {
            let data = pattern(len, len as u8);
            let (done, _) = pair.complete(7, write_io(3, len), data.clone());
            assert_eq!(done.status, Status::SUCCESS);
            let (done, read) = pair.complete(7, read_io(3, len), vec![0; len]);
            assert_eq!(done.status, Status::SUCCESS);
            assert!(read == data);
        }
    }
}

#[test]
fn compare_zeroes_deallocate_and_flush() {
    let mut pair = Pair::ready(config());
    let data = pattern(8192, 1);
    pair.complete(1, write_io(0, 8192), data.clone());
    let compare = |start| Io::Compare {
        blocks: blocks(start, 8192),
        fua: false,
    };
    let (done, _) = pair.complete(1, compare(0), data.clone());
    assert_eq!(done.status, Status::SUCCESS);
    let (done, _) = pair.complete(1, compare(1), data.clone());
    assert!(done.status.is(Status::COMPARE_FAILURE));

    let zeroes = Io::WriteZeroes {
        blocks: blocks(2, 1024),
        fua: true,
        deallocate: true,
    };
    let (done, _) = pair.complete(1, zeroes, Vec::new());
    assert_eq!(done.status, Status::SUCCESS);
    let range = Range {
        attributes: 0,
        count: 1,
        start: 15,
    };
    let deallocate = Io::DatasetManagement {
        ranges: 1,
        deallocate: true,
    };
    let (done, _) = pair.complete(1, deallocate, range.to_bytes().to_vec());
    assert_eq!(done.status, Status::SUCCESS);
    assert_eq!(
        pair.complete(1, Io::Flush, Vec::new()).0.status,
        Status::SUCCESS
    );

    let (_, read) = pair.complete(1, read_io(0, 8192), vec![1; 8192]);
    let mut expected = data;
    expected[2 * BLOCK..4 * BLOCK].fill(0);
    expected[15 * BLOCK..16 * BLOCK].fill(0);
    assert!(read == expected);
}

#[test]
fn a_store_error_reaches_the_application() {
    let mut pair = Pair::ready(Config {
        retries: 0,
        ..config()
    });
    pair.rig.store_error = Some(Status::UNRECOVERED_READ_ERROR);
    let (done, _) = pair.complete(1, read_io(0, 4096), vec![0; 4096]);
    assert!(done.status.is(Status::UNRECOVERED_READ_ERROR));
    pair.rig.store_error = Some(Status::WRITE_FAULT);
    let (done, _) = pair.complete(1, write_io(0, 65536), vec![0; 65536]);
    assert!(done.status.is(Status::WRITE_FAULT));
    pair.rig.store_error = None;
    let (done, _) = pair.complete(1, read_io(0, 4096), vec![0; 4096]);
    assert_eq!(done.status, Status::SUCCESS);
}

#[test]
fn a_damaged_command_fails_alone() {
    let mut pair = Pair::ready(Config {
        retries: 0,
        ..config()
    });
    let mut next = [true].into_iter();
    pair.damage = Box::new(move || next.next().unwrap_or(false));
    let (done, _) = pair.complete(1, read_io(0, 4096), vec![0; 4096]);
    assert_eq!(done.status, Status::TRANSIENT_TRANSPORT_ERROR);
    let (done, _) = pair.complete(1, read_io(0, 4096), vec![0; 4096]);
    assert_eq!(done.status, Status::SUCCESS);
    for len in [4096, 65536] {
        let mut next = [true].into_iter();
        pair.damage = Box::new(move || next.next().unwrap_or(false));
        let (done, _) = pair.complete(1, write_io(0, len), vec![7; len]);
        assert!(done.status.is(Status::TRANSIENT_TRANSPORT_ERROR));
    }
    assert!(pair.events.is_empty());
    let (_, read) = pair.complete(1, read_io(0, 4096), vec![1; 4096]);
    assert!(read == vec![0; 4096]);
}

#[test]
fn hosts_that_are_not_allowed_are_told_so() {
    let mut target = rig::config();
    target.subsystems[0].hosts = Hosts::Only(Vec::new());
    let mut pair = Pair::with(config(), target);
    pair.run();
    assert!(matches!(pair.failure(), Failure::HostNotAllowed { .. }));

    let nowhere = Nqn::new("nqn.2026-01.test:nowhere").unwrap();
    let mut pair = Pair::new(Config {
        subsystem: nowhere,
        ..config()
    });
    pair.run();
    assert!(matches!(pair.failure(), Failure::InvalidParameters { .. }));
    assert!(pair.failure().to_string().contains("no subsystem"));
}

#[test]
fn digests_that_a_target_insists_on_must_be_asked_for() {
    let mut target = rig::config();
    target.required_digests = Digests::BOTH;
    let mut pair = Pair::with(config(), target);
    pair.run();
    assert_eq!(pair.events, [Event::Ready]);
}

#[test]
fn the_discovery_log_lists_what_the_host_may_have() {
    let discovery = Config::discovery(rig::host(), [5; 16]);
    let mut pair = Pair::new(Config {
        digests: Digests::NONE,
        ..discovery
    });
    pair.run();
    assert_eq!(pair.events, [Event::Ready]);
    let names: Vec<Nqn> = pair
        .host
        .discovery_log()
        .iter()
        .map(|entry| entry.subnqn)
        .collect();
    assert!(names.contains(&rig::subsystem()) && names.contains(&rig::other_subsystem()));
}

#[test]
fn a_controller_can_be_looked_at_without_queues() {
    let pair = Pair::ready(Config {
        io_queues: 0,
        ..config()
    });
    assert_eq!(pair.host.namespaces().len(), 2);
    assert!(pair.host.queue(1).is_none());
}

#[test]
fn both_sides_keep_each_other_alive() {
    let mut pair = Pair::ready(config());
    pair.pass(Duration::from_secs(300));
    assert!(pair.events.is_empty());
    let (done, _) = pair.complete(1, read_io(0, 4096), vec![0; 4096]);
    assert_eq!(done.status, Status::SUCCESS);
}

#[test]
fn new_namespaces_are_noticed() {
    let mut pair = Pair::ready(config());
    pair.rig.target.set_namespace(0, namespace(9, 2)).unwrap();
    pair.run();
    assert_eq!(pair.events, [Event::NamespacesChanged]);
    pair.rig.target.remove_namespace(0, 1);
    pair.run();
    let nsids: Vec<u32> = pair.host.namespaces().iter().map(|ns| ns.nsid).collect();
    assert_eq!(nsids, [7, 9]);
}

#[test]
fn commands_survive_a_broken_connection() {
    for broken in 0..3 {
        let mut pair = Pair::ready(config());
        pair.rig.at_once = false;
        let data = pattern(65536, 9);
        let write = pair.submit(1, write_io(0, 65536), data.clone());
        let read = pair.submit(7, read_io(0, 65536), vec![1; 65536]);
        for _ in 0..4 {
            pair.step();
        }
        pair.cut(broken);
        assert!(matches!(pair.events[..], [Event::Lost(_)]));
        pair.rig.at_once = true;
        while let Some(request) = pair.rig.asked.pop() {
            pair.rig.store(request);
        }
        assert!(pair.completions().is_empty());
        pair.pass(Duration::from_secs(5));
        assert_eq!(pair.events.last(), Some(&Event::Ready));
        let mut done = pair.completions();
        done.sort_by_key(|done| done.id.index());
        assert_eq!((done[0].id, done[1].id), (write, read));
        assert!(done.iter().all(|done| done.status.is_success()));
        let (_, read) = pair.complete(1, read_io(0, 65536), vec![0; 65536]);
        assert!(read == data);
    }
}

#[test]
fn a_shutdown_frees_the_controller() {
    let mut pair = Pair::ready(config());
    // More often than the target has room for controllers.
    for _ in 0..10 {
        pair.host.shutdown(pair.rig.now);
        pair.run();
        assert_eq!(pair.events.last(), Some(&Event::Ended(None)));
        pair.restart(config());
        pair.run();
        assert_eq!(pair.events, [Event::Ready]);
    }
}

#[test]
fn a_small_target_is_used_within_its_limits() {
    let mut target = rig::config();
    target.limits = Limits {
        io_queues: 1,
        queue_entries: 32,
        in_capsule: 512,
        data: 16384,
        h2c_data: 4096,
        c2h_data: 4096,
        r2t_data: 8192,
        ..target.limits
    };
    let deep = Config {
        depth: 64,
        ..config()
    };
    let mut pair = Pair::with(deep, target);
    pair.run();
    let limits = *pair.host.limits();
    assert_eq!((limits.io_queues, limits.depth), (1, 31));
    assert_eq!((limits.max_transfer, limits.in_capsule), (16384, 512));
    for start in 0..100 {
        pair.submit(1, write_io(start * 32, 16384), pattern(16384, start as u8));
    }
    let mut done = 0;
    while done < 100 {
        pair.run();
        let completions = pair.completions();
        assert!(completions.iter().all(|done| done.status.is_success()));
        done += completions.len();
    }
    for start in 0..100 {
        let (_, read) = pair.complete(1, read_io(start * 32, 16384), vec![0; 16384]);
        assert!(read == pattern(16384, start as u8));
    }
}
