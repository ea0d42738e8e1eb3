//! Conversations of an initiator with a target that are [written] down in `tests/traces`.

use std::time::Duration;

use l5p::nvme::initiator::{Access, Config, Incoming, Reconnect};
use l5p::nvme::target;
use testkit::{Dice, written};
use wire::nvme::command::{CompletionEntry, Io, Range, Status};
use wire::nvme::{
    C2HData, CapsuleResp, Digests, FatalError, H2CData, ICResp, Nqn, Pdu, R2T, TermReq,
};

use crate::pair::{Pair, blocks, config, read_io, write_io};
use crate::rig::{self, BLOCK, namespace};

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

/// PDUs that no controller may send, each to a host with a read of 8 KiB and a write of 64 KiB in flight; and some that one may.
#[test]
fn pdus_made_by_hand() {
    let response = |cid: u16, status: Status| {
        let entry = CompletionEntry {
            result: 5,
            sq_head: 3,
            cid,
            status,
        };
        Pdu::CapsuleResp(CapsuleResp {
            cqe: entry.to_bytes(),
        })
    };
    let data = |cccid, data_offset, data_len, last, success| {
        Pdu::C2HData(C2HData {
            cccid,
            data_offset,
            data_len,
            last,
            success,
        })
    };
    let r2t = |cccid, offset, len| {
        Pdu::R2T(R2T {
            cccid,
            ttag: 9,
            offset,
            len,
        })
    };
    let term = TermReq {
        error: FatalError::field(8),
        data_len: 0,
    };
    let ic = ICResp {
        pfv: 0,
        cpda: 0,
        digests: Digests::BOTH,
        max_h2c_data: 4096,
    };
    let h2c = H2CData {
        cccid: 0,
        ttag: 0,
        data_offset: 0,
        data_len: 4,
        last: true,
    };
    let cases = [
        vec![response(0, Status::SUCCESS)],
        vec![response(1, Status::SUCCESS)],
        vec![response(1, Status::WRITE_FAULT)],
        vec![response(2, Status::SUCCESS)],
        vec![response(99, Status::SUCCESS)],
        vec![response(0, Status::LBA_OUT_OF_RANGE.do_not_retry())],
        vec![data(0, 0, 8192, true, true)],
        vec![data(0, 0, 8192, true, false), response(0, Status::SUCCESS)],
        vec![data(0, 0, 4096, false, false), response(0, Status::SUCCESS)],
        vec![
            data(0, 0, 4096, false, false),
            data(0, 4096, 4096, true, true),
        ],
        vec![data(0, 0, 4096, false, false), data(0, 0, 4096, true, true)],
        vec![data(0, 0, 4096, true, true)],
        vec![data(0, 0, 8192, false, true)],
        vec![data(0, 0, 8192, false, false), response(0, Status::SUCCESS)],
        vec![data(0, 4096, 4096, true, false)],
        vec![data(0, 0, 8196, true, false)],
        vec![data(0, 8192, 4, true, false)],
        vec![data(1, 0, 4096, true, false)],
        vec![data(2, 0, 4096, true, false)],
        vec![
            r2t(1, 0, 4096),
            r2t(1, 4096, 61_440),
            response(1, Status::SUCCESS),
        ],
        vec![r2t(1, 0, 65_536), response(1, Status::SUCCESS)],
        vec![r2t(1, 0, 4096), r2t(1, 4096, 4096), r2t(1, 8192, 4096)],
        vec![r2t(1, 4096, 4096)],
        vec![r2t(1, 0, 65_540)],
        vec![r2t(1, 65_532, 8)],
        vec![r2t(1, 0, 0)],
        vec![r2t(1, 0, 4096), r2t(1, 0, 4096)],
        vec![r2t(0, 0, 4096)],
        vec![r2t(7, 0, 4096)],
        vec![Pdu::C2HTermReq(term)],
        vec![Pdu::H2CTermReq(term)],
        vec![Pdu::ICResp(ic)],
        vec![Pdu::H2CData(h2c)],
    ];
    let mut lines = Vec::new();
    for pdus in cases {
        let mut pair = ready(Config {
            io_queues: 1,
            retries: 0,
            reconnect: None,
            max_r2ts: 2,
            ..config()
        });
        let reads = pair
            .host
            .submit(Access {
                nsid: 1,
                io: read_io(0, 8192),
            })
            .unwrap();
        let writes = pair
            .host
            .submit(Access {
                nsid: 1,
                io: write_io(0, 65_536),
            })
            .unwrap();
        let sent = |pair: &mut Pair| {
            let all: Vec<String> = std::iter::from_fn(|| pair.host.poll_pdu(1))
                .map(|outgoing| match outgoing.pdu {
                    Pdu::CapsuleCmd(_) => "command".to_owned(),
                    pdu => format!("{pdu:?}"),
                })
                .collect();
            all.join(", ")
        };
        assert_eq!(
            (sent(&mut pair).as_str(), reads.index(), writes.index()),
            ("command, command", 0, 1)
        );
        for pdu in pdus {
            let (now, len) = (pair.rig.now, pdu.data_len());
            let incoming = pair.host.handle_header(now, 1, &pdu);
            let said = match incoming {
                Ok(Incoming::Data { offset, len, .. }) => format!("{len} at {offset}"),
                Ok(other) => format!("{other:?}"),
                Err(error) => error.to_string(),
            };
            if incoming.is_ok() {
                pair.host.handle_end(now, 1, true, &[]);
            }
            let mut short = crate::lines::pdu(&pdu, &[]);
            short.truncate(90);
            lines.push(format!("{short} [{len}] -> {said} | {}", sent(&mut pair)));
        }
        pair.completions();
        while let Some(action) = pair.host.poll_action() {
            pair.rig.note(|| format!("host: {action:?}"));
        }
        lines.extend(
            pair.rig
                .trace
                .take()
                .unwrap()
                .into_iter()
                .map(|line| format!("  {line}")),
        );
    }
    written::compare(
        env!("CARGO_MANIFEST_DIR"),
        "nvme_initiator_pdus_made_by_hand",
        &lines,
    );
}

/// Commands, damage, lost connections and time of all kinds; a line for each conversation.
#[test]
fn of_all_kinds() {
    let lines: Vec<String> = (0..40).map(conversation).collect();
    written::compare(
        env!("CARGO_MANIFEST_DIR"),
        "nvme_initiator_of_all_kinds",
        &lines,
    );
}

fn conversation(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let mut target = rig::config();
    target.limits.r2t_data = dice.of(&[4096, 65_536]);
    target.limits.h2c_data = dice.of(&[4096, 131_072]);
    target.limits.c2h_data = dice.of(&[4096, 32_768]);
    target.limits.in_capsule = dice.of(&[512, 8192]);
    let config = Config {
        io_queues: 1 + dice.below(3) as u16,
        depth: dice.of(&[2, 16]),
        digests: Digests {
            header: dice.rarely(2),
            data: dice.rarely(2),
        },
        max_r2ts: dice.of(&[1, 4]),
        max_h2c_data: dice.of(&[4096, u32::MAX]),
        outstanding: 12,
        retries: dice.below(3) as u8,
        keep_alive: dice.of(&[0, 5]) * SECOND,
        command_timeout: 6 * SECOND,
        ..config()
    };
    let mut pair = written_pair(config, target);
    let mut order = Dice::new(seed ^ 0xff);
    pair.choose_by(move |most| order.below(most as u64) as usize);
    let mut damage = Dice::new(seed ^ 0xffff);
    pair.damage = Box::new(move || damage.rarely(40));
    pair.run();
    for _ in 0..120 {
        pair.rig.at_once = dice.rarely(2);
        pair.rig.has_memory = !dice.rarely(3);
        pair.rig.store_error = dice
            .rarely(20)
            .then(|| dice.of(&[Status::WRITE_FAULT, Status::NAMESPACE_NOT_READY]));
        match dice.below(30) {
            0..=11 => submit(&mut pair, &mut dice),
            12..=24 => {
                for _ in 0..dice.below(30) {
                    pair.step();
                }
            }
            25..=26 => drop(pair.completions()),
            27 => pair.pass(Duration::from_millis(dice.below(4000))),
            28 if dice.rarely(3) => {
                let queue = dice.below(3) as u16;
                pair.cut(queue);
            }
            29 if dice.rarely(4) => pair.rig.target.remove_namespace(0, 7),
            _ => pair.rig.target.set_namespace(0, namespace(7, 1)).unwrap(),
        }
        for id in pair.completions() {
            pair.memory.remove(&id.id.index());
        }
    }
    sum_up(&mut pair);
    let lines = pair.rig.trace.take().unwrap();
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    let (said, answers, good) = (count(" < "), count(" > "), count("ends: success"));
    let (again, lost) = (count(" again"), count("host: lost"));
    let sum = written::sum_lines(&lines);
    format!("{said} PDUs, {answers} back, {good} good, {again} again, {lost} lost, {sum:016x}")
}

fn submit(pair: &mut Pair, dice: &mut Dice) {
    let len = BLOCK * dice.of(&[1, 2, 8, 16, 17, 64, 150]);
    let (start, fua) = (dice.below(3000), dice.rarely(4));
    let io = match dice.below(6) {
        0 | 1 => read_io(start, len),
        2 | 3 => write_io(start, len),
        4 => Io::Compare {
            blocks: blocks(start, len),
            fua,
        },
        _ => Io::WriteZeroes {
            blocks: blocks(start, len),
            fua,
            deallocate: fua,
        },
    };
    let submitted = pair.host.submit(Access {
        nsid: dice.of(&[1, 1, 7]),
        io,
    });
    pair.rig.note(|| format!("{io:?}: {submitted:?}"));
    if let Ok(id) = submitted {
        pair.memory
            .insert(id.index(), testkit::pattern_of(len, start as u32));
    }
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
