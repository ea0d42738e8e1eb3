//! Conversations of an initiator with a target that are [written] down in `tests/traces`.

mod made_by_hand;
mod of_all_kinds;

use std::time::Duration;

use l5p::nvme::initiator::{Access, Config, Reconnect};
use l5p::nvme::target;
use testkit::written;
use wire::nvme::command::{Io, Range, Status};
use wire::nvme::{Digests, Nqn};

use crate::pair::{Pair, blocks, config, read_io, write_io};
use crate::rig::{self, namespace};

/// Lines written down of a conversation; of what comes behind, only a sum.
const WRITTEN: usize = 90;
const SECOND: Duration = Duration::from_secs(1);

fn written_pair(config: Config, target: target::Config) -> Pair {
    let mut pair = Pair::with(config, target);
    pair.rig.trace = Some(Vec::new());
    pair
}

fn sum_up(pair: &mut Pair) {
    let (now, host) = (pair.rig.now, &pair.host);
    let timeout = host.poll_timeout().map(|at| at - now);
    let state = (
        host.is_ready(),
        host.is_ended(),
        host.id(),
        host.outstanding(),
    );
    let mut lines = vec![
        format!("ready, ended, id, outstanding {state:?}, next {timeout:?}"),
        format!("{:?}", host.limits()),
    ];
    let namespaces = host.namespaces().iter();
    lines.extend(namespaces.map(|namespace| {
        let usable = (namespace.is_usable(), namespace.is_write_protected());
        format!(
            "namespace {} {usable:?} {} of {}",
            namespace.nsid,
            namespace.size(),
            namespace.block_size()
        )
    }));
    if let Some(info) = host.info() {
        let has = (
            info.has_compare(),
            info.has_dataset_management(),
            info.has_write_zeroes(),
            info.has_write_cache(),
        );
        lines.push(format!(
            "compare, dataset management, write zeroes, cache {has:?}"
        ));
    }
    let log = host.discovery_log().iter();
    lines.extend(log.map(|entry| format!("{} at {}:{}", entry.subnqn, entry.address, entry.port)));
    pair.rig
        .trace
        .as_mut()
        .expect("it is written down")
        .extend(lines);
}

fn compare(name: &str, mut pair: Pair) {
    let lines = pair.rig.trace.take().expect("it was written down");
    let lines = written::shorten(lines, WRITTEN);
    pair.rig.trace = Some(lines);
    sum_up(&mut pair);
    let lines = pair.rig.trace.take().expect("it was written down");
    written::compare(env!("CARGO_MANIFEST_DIR"), name, &lines);
}

fn ready(config: Config) -> Pair {
    let mut pair = Pair::ready(config);
    pair.rig.trace = Some(Vec::new());
    pair
}

#[test]
fn setting_up() {
    let mut one = config();
    one.io_queues = 1;
    let mut pair = written_pair(one.clone(), rig::config());
    pair.run();
    pair.host.shutdown(pair.rig.now);
    pair.run();
    pair.pass(SECOND);
    compare("nvme_initiator_setting_up", pair);

    let mut few = rig::config();
    few.limits.io_queues = 1;
    few.limits.queue_entries = 32;
    few.limits.data = 16384;
    few.limits.in_capsule = 1024;
    few.subsystems[0].namespaces[0].block_shift = 12;
    few.subsystems[0].namespaces[1].read_only = true;
    let hpda = Config {
        hpda: 7,
        digests: Digests {
            header: false,
            data: true,
        },
        max_r2ts: 3,
        ..config()
    };
    let mut pair = written_pair(hpda, few);
    pair.run();
    compare("nvme_initiator_with_little", pair);

    let discovery = Config {
        keep_alive: 5 * SECOND,
        digests: Digests::NONE,
        ..Config::discovery(rig::host(), [5; 16])
    };
    let mut target = rig::config();
    target.portals.push(target::Portal {
        address: "fd00::2".parse().unwrap(),
        port: 8009,
        tls: true,
    });
    let mut pair = written_pair(discovery, target);
    pair.run();
    pair.rig.target.set_hosts(1, target::Hosts::Only(vec![]));
    pair.run();
    pair.pass(4 * SECOND);
    compare("nvme_initiator_discovering", pair);
}

#[test]
fn commands() {
    let mut target = rig::config();
    target.limits.r2t_data = 8192;
    target.limits.h2c_data = 8192;
    target.limits.c2h_data = 4096;
    let mut pair = Pair::with(
        Config {
            max_h2c_data: 4096,
            io_queues: 1,
            max_r2ts: 2,
            ..config()
        },
        target,
    );
    pair.run();
    pair.rig.trace = Some(Vec::new());
    let data = testkit::pattern(40_960);
    for len in [512, 8192, 8704, 20_480] {
        pair.complete(1, write_io(3, len), data[..len].to_vec());
        let (_, read) = pair.complete(1, read_io(2, len), vec![0; len]);
        pair.rig.note(|| written::bytes(&read));
        let same = Io::Compare {
            blocks: blocks(3, len),
            fua: true,
        };
        pair.complete(1, same, data[..len].to_vec());
    }
    let zeroes = Io::WriteZeroes {
        blocks: blocks(4, 1024),
        fua: true,
        deallocate: false,
    };
    pair.complete(1, zeroes, Vec::new());
    let ranges = [
        Range {
            attributes: 0,
            count: 2,
            start: 15,
        },
        Range {
            attributes: 0,
            count: 1,
            start: 1,
        },
    ];
    let ranges: Vec<u8> = ranges.iter().flat_map(Range::to_bytes).collect();
    pair.complete(
        1,
        Io::DatasetManagement {
            ranges: 2,
            deallocate: true,
        },
        ranges,
    );
    pair.complete(7, Io::Flush, Vec::new());
    compare("nvme_initiator_commands", pair);
}

#[test]
fn commands_that_it_does_not_send() {
    let mut target = rig::config();
    target.subsystems[0].namespaces[1].read_only = true;
    let mut pair = Pair::with(
        Config {
            outstanding: 3,
            io_queues: 1,
            ..config()
        },
        target,
    );
    pair.rig.trace = Some(Vec::new());
    let mut lines = Vec::new();
    let mut ask = |pair: &mut Pair, nsid, io| {
        let said = pair.host.submit(Access { nsid, io });
        lines.push(match said {
            Ok(id) => format!("{io:?} of {nsid}: {}", id.index()),
            Err(error) => format!("{io:?} of {nsid}: {error}"),
        });
    };
    ask(&mut pair, 1, Io::Flush);
    pair.run();
    let zeroes = |start, count| Io::WriteZeroes {
        blocks: wire::nvme::command::Blocks { start, count },
        fua: false,
        deallocate: false,
    };
    for (nsid, io) in [
        (1, read_io(4095, 1024)),
        (1, read_io(u64::MAX, 1024)),
        (1, read_io(0, 0)),
        (1, read_io(0, (1 << 20) + 512)),
        (1, write_io(0, (1 << 20) + 512)),
        (2, read_io(0, 512)),
        (7, write_io(0, 512)),
        (7, zeroes(0, 1)),
        (1, zeroes(4095, 2)),
        (1, zeroes(0, 70_000)),
        (
            1,
            Io::DatasetManagement {
                ranges: 0,
                deallocate: true,
            },
        ),
        (
            1,
            Io::DatasetManagement {
                ranges: 257,
                deallocate: true,
            },
        ),
        (
            7,
            Io::DatasetManagement {
                ranges: 1,
                deallocate: true,
            },
        ),
        (0xffff_ffff, Io::Flush),
        (7, Io::Flush),
        (1, read_io(4095, 512)),
        (1, read_io(0, 512)),
        (1, read_io(0, 512)),
    ] {
        ask(&mut pair, nsid, io);
    }
    pair.rig.trace = Some(lines);
    compare("nvme_initiator_commands_that_it_does_not_send", pair);
}

#[test]
fn failures_of_commands() {
    let mut pair = ready(Config {
        io_queues: 1,
        retries: 2,
        ..config()
    });
    for status in [
        Status::UNRECOVERED_READ_ERROR,
        Status::WRITE_FAULT.do_not_retry(),
        Status::NAMESPACE_NOT_READY,
    ] {
        pair.rig.store_error = Some(status);
        pair.complete(1, read_io(0, 4096), vec![0; 4096]);
        pair.complete(1, write_io(0, 65536), vec![0; 65536]);
    }
    pair.rig.store_error = None;
    for len in [4096, 65536] {
        for io in [read_io(0, len), write_io(0, len)] {
            let mut next = [true, false, true].into_iter();
            pair.damage = Box::new(move || next.next().unwrap_or(false));
            pair.complete(1, io, vec![7; len]);
        }
    }
    compare("nvme_initiator_failures_of_commands", pair);
}

#[test]
fn connections_that_are_lost() {
    let reconnect = Reconnect {
        first: SECOND,
        longest: 3 * SECOND,
        give_up: 20 * SECOND,
    };
    let limited = Config {
        reconnect: Some(reconnect),
        keep_alive: 4 * SECOND,
        io_queues: 1,
        retries: 1,
        ..config()
    };
    let mut pair = ready(limited.clone());
    pair.rig.at_once = false;
    for n in 0..3 {
        pair.submit(1, read_io(n, 512), vec![0; 512]);
    }
    pair.rig.has_memory = false;
    pair.run();
    pair.cut(1);
    pair.rig.has_memory = true;
    pair.rig.at_once = true;
    pair.pass(2 * SECOND);
    pair.completions();
    pair.pass(10 * SECOND);
    pair.rig.target.set_hosts(0, target::Hosts::Only(vec![]));
    pair.cut(0);
    pair.pass(30 * SECOND);
    pair.completions();
    compare("nvme_initiator_connections_that_are_lost", pair);

    // The target does not answer any more.
    let mut pair = ready(Config {
        command_timeout: 3 * SECOND,
        ..limited
    });
    pair.rig.at_once = false;
    pair.submit(1, read_io(5, 512), vec![0; 512]);
    pair.pass(20 * SECOND);
    pair.completions();
    pair.pass(40 * SECOND);
    compare("nvme_initiator_commands_that_take_too_long", pair);
}

#[test]
fn namespaces_that_change() {
    let mut pair = ready(Config {
        io_queues: 1,
        ..config()
    });
    pair.rig.target.remove_namespace(0, 7);
    pair.run();
    pair.rig
        .target
        .set_namespace(
            0,
            target::Namespace {
                blocks: 99,
                ..namespace(5, 2)
            },
        )
        .unwrap();
    pair.run();
    compare("nvme_initiator_namespaces_that_change", pair);
}

#[test]
fn refusals_of_connect() {
    let nowhere = Nqn::new("nqn.2026-01.test:nowhere").unwrap();
    let mut lines = Vec::new();
    let mut told = |name: &str, mut pair: Pair| {
        pair.run();
        pair.pass(25 * SECOND);
        let all = pair.rig.trace.take().unwrap();
        lines.push(name.to_owned());
        lines.extend(
            all.into_iter()
                .filter(|line| line.starts_with("host: ") && !line.contains("Ok(")),
        );
        sum_up_short(&pair, &mut lines);
    };
    told(
        "no such subsystem",
        written_pair(
            Config {
                subsystem: nowhere,
                ..config()
            },
            rig::config(),
        ),
    );
    let mut closed = rig::config();
    closed.subsystems[0].hosts = target::Hosts::Only(vec![]);
    told("not for this host", written_pair(config(), closed));
    let mut full = rig::config();
    full.limits.controllers = 1;
    let mut busy = Pair::with(config(), full.clone());
    busy.run();
    busy.rig.trace = Some(Vec::new());
    busy.restart(config());
    told("no room", busy);
    full.limits.connections = 2;
    told("no room for queues", written_pair(config(), full));
    written::compare(
        env!("CARGO_MANIFEST_DIR"),
        "nvme_initiator_refusals",
        &lines,
    );
}

fn sum_up_short(pair: &Pair, lines: &mut Vec<String>) {
    let state = (pair.host.is_ready(), pair.host.is_ended());
    let next = pair.host.poll_timeout().map(|at| at - pair.rig.now);
    lines.push(format!("ready, ended {state:?}, next {next:?}"));
}

#[test]
fn shutting_down() {
    let mut pair = ready(Config {
        io_queues: 1,
        ..config()
    });
    pair.rig.at_once = false;
    pair.submit(1, write_io(0, 512), vec![3; 512]);
    pair.run();
    pair.rig.at_once = false;
    pair.host.shutdown(pair.rig.now);
    for _ in 0..400 {
        pair.step();
    }
    pair.pass(30 * SECOND);
    pair.completions();
    compare("nvme_initiator_shutting_down", pair);
}
