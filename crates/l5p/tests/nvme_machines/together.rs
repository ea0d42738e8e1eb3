//! What machines do for each other.

use l5p::nvme::target::{
    CloseReason, ConfigError, ConnectionId, Namespace, Operation, StoreId, Target,
};
use wire::nvme::command::{Admin, Blocks, Feature, Io, Status};
use wire::nvme::log::LogPage;

use super::admin::log;
use super::events::enable;
use super::rig::*;
use wire::nvme::command::EventMask;

/// An admin queue on the first machine, its controller, and an I/O queue on the second one.
fn apart() -> (Rig, ConnectionId, u16, ConnectionId) {
    let mut rig = Rig::new();
    let (admin, controller) = rig.admin(subsystem(), 0);
    let io = rig.io_queue(controller, 1, 0);
    assert_eq!((admin.machine(), io.machine()), (0, 1));
    (rig, admin, controller, io)
}

fn write(start: u64, count: u32) -> Io {
    let blocks = Blocks { start, count };
    Io::Write { blocks, fua: false }
}

fn read(start: u64, count: u32) -> Io {
    let blocks = Blocks { start, count };
    Io::Read { blocks, fua: false }
}

#[test]
fn a_reset_is_over_when_the_other_machine_has_closed_its_queues() {
    let (mut rig, admin, controller, io) = apart();
    rig.at_once = false;
    let entry = write(0, 1).entry(5, 1).with_data(in_capsule(512));
    rig.command(io, entry, &pattern(BLOCK, 3));
    rig.target.asleep[1] = true;
    rig.enable(admin, false);
    assert!(rig.controller_status(admin).ready(), "it does not know yet");
    assert_eq!(rig.closed, []);
    rig.target.asleep[1] = false;
    rig.act();
    assert_eq!(rig.closed, [(io, CloseReason::ControllerReset)]);
    assert!(rig.controller_status(admin).ready(), "its store works");
    // On neither machine is there a queue before.
    rig.enable(admin, true);
    for machine in [0, 1] {
        rig.target.pin(machine);
        let refused = rig.ask_for_io_queue(subsystem(), controller, 1);
        assert!(refused.status.is(Status::CONNECT_CONTROLLER_BUSY));
    }
    rig.enable(admin, false);
    let asked = rig.asked.remove(0);
    rig.store(asked);
    assert!(!rig.controller_status(admin).ready());
    rig.enable(admin, true);
    rig.io_queue(controller, 1, 0);
}

#[test]
fn a_queue_that_is_to_be_closed_takes_no_command() {
    let (mut rig, admin, _, io) = apart();
    rig.target.asleep[1] = true;
    rig.enable(admin, false);
    rig.enable(admin, true);
    // Its machine looks at its mail first.
    let commands = rig.target.counters().commands;
    rig.command(io, Io::Flush.entry(1, 1), &[]);
    assert!(rig.receive(io).is_none());
    assert_eq!(rig.target.counters().commands, commands);
    rig.target.asleep[1] = false;
    rig.act();
    assert_eq!(rig.closed, [(io, CloseReason::ControllerReset)]);
}

#[test]
fn a_host_is_not_back_before_all_machines_have_closed_its_queues() {
    let (mut rig, admin, _, io) = apart();
    rig.target.asleep[1] = true;
    rig.target.pin(0);
    rig.target.handle_closed(admin);
    let again = rig.open(0);
    let busy = rig.connect_as(again, connect_data(subsystem()), 0, 32, 0);
    assert_eq!(busy.status, Status::CONNECT_CONTROLLER_BUSY);
    rig.target.asleep[1] = false;
    rig.act();
    assert_eq!(rig.closed, [(io, CloseReason::ControllerGone)]);
    let reply = rig.connect_as(again, connect_data(subsystem()), 0, 32, 0);
    assert!(reply.status.is_success());
}

/// The next one's place in the controller is its own, also if the one before is closed late.
#[test]
fn a_queue_that_is_closed_late_takes_nothing_from_the_next_one() {
    let (mut rig, admin, controller, io) = apart();
    rig.enable(admin, false);
    rig.enable(admin, true);
    let next = rig.io_queue(controller, 1, 0);
    assert_eq!(next.machine(), 0);
    rig.target.handle_closed(io);
    let twice = rig.ask_for_io_queue(subsystem(), controller, 1);
    assert!(twice.status.is(Status::SEQUENCE_ERROR), "it is there");
    assert!(rig.simple(next, Io::Flush.entry(1, 1)).is_success());
}

#[test]
fn who_hears_of_a_namespace_can_use_it_on_every_queue() {
    let (mut rig, admin, _, io) = apart();
    enable(&mut rig, admin, EventMask::NAMESPACES);
    rig.command(admin, Admin::AsyncEventRequest.entry(20), &[]);
    let beyond = read(BLOCKS, 1);
    assert!(
        rig.read(io, 1, beyond, BLOCK)
            .0
            .is(Status::LBA_OUT_OF_RANGE)
    );
    rig.target.asleep[1] = true;
    let larger = Namespace {
        blocks: BLOCKS + 1,
        ..namespace(1, 0)
    };
    assert!(rig.target.set_namespace(0, larger).is_ok());
    rig.stores[0].resize((BLOCKS as usize + 1) * BLOCK, 7);
    assert_eq!(rig.reply(admin).0.cid, 20);
    let entry = beyond.entry(3, 1).with_data(transport(BLOCK));
    rig.command(io, entry, &[]);
    rig.target.asleep[1] = false;
    rig.act();
    let (reply, data) = rig.reply(io);
    assert_eq!((reply.status, data), (Status::SUCCESS, vec![7; BLOCK]));
}

fn transport(len: usize) -> wire::nvme::command::DataPointer {
    wire::nvme::command::DataPointer::Transport { len: len as u32 }
}

#[test]
fn events_go_to_the_machine_of_the_admin_queue() {
    let mut rig = Rig::new();
    rig.target.pin(1);
    let (admin, _) = rig.admin(subsystem(), 0);
    enable(&mut rig, admin, EventMask::NAMESPACES);
    rig.command(admin, Admin::AsyncEventRequest.entry(20), &[]);
    // The first machine is told, and wakes the second one.
    rig.target.remove_namespace(0, 7);
    rig.act();
    assert_eq!(rig.reply(admin).0.cid, 20);
}

#[test]
fn features_hold_for_queues_of_all_machines() {
    let (mut rig, admin, _, io) = apart();
    rig.at_once = false;
    for (cache, durable) in [(1, false), (0, true)] {
        let feature = Feature::VOLATILE_WRITE_CACHE;
        assert_eq!(rig.set_feature(admin, feature, cache), Status::SUCCESS);
        let entry = write(0, 1).entry(5, 1).with_data(in_capsule(512));
        rig.command(io, entry, &pattern(BLOCK, 3));
        let asked = rig.asked.remove(0);
        assert!(matches!(asked.operation, Operation::Write { fua, .. } if fua == durable));
        rig.store(asked);
        rig.reply(io);
    }
}

#[test]
fn logs_have_what_happened_on_all_machines() {
    let (mut rig, admin, controller, io) = apart();
    let own = rig.io_queue(controller, 2, 0);
    assert_eq!(own.machine(), 0);
    for id in [io, own] {
        let entry = write(0, 2).entry(5, 1).with_data(in_capsule(1024));
        rig.command(id, entry, &pattern(1024, 3));
        assert!(rig.reply(id).0.status.is_success());
        rig.read(id, 1, read(0, 1), BLOCK);
        assert!(!rig.read(id, 1, read(BLOCKS, 1), BLOCK).0.is_success());
    }
    let (_, health) = rig.ask(admin, log(LogPage::HEALTH, 0, 512), 512);
    let number = |at: usize| u128::from_le_bytes(health[at..at + 16].try_into().unwrap());
    // Commands read and written, and entries of the error log.
    assert_eq!((number(64), number(80), number(176)), (2, 2, 2));
    let (_, errors) = rig.ask(admin, log(LogPage::ERROR, 0, 128), 128);
    let queue = |at: usize| u16::from_le_bytes(errors[at..at + 2].try_into().unwrap());
    assert_eq!((queue(8), queue(64 + 8)), (2, 1), "the newest first");
}

#[test]
fn a_machine_is_woken_once_for_all_its_queues_that_a_reset_deletes() {
    let (mut rig, admin, controller, io) = apart();
    rig.target.pin(1);
    let more = [2, 3].map(|queue| rig.io_queue(controller, queue, 0));
    let before = rig.target.wakes;
    rig.enable(admin, false);
    assert_eq!(rig.target.wakes - before, 1);
    let closed = rig.closed.iter().map(|(id, _)| *id);
    assert_eq!(closed.collect::<Vec<_>>(), [io, more[0], more[1]]);
}

/// Whichever machine finds out about the size: what the others have changed stays.
#[test]
fn a_store_that_grows_changes_nothing_but_the_size() {
    let (mut rig, _, _, io) = apart();
    let read_only = Namespace {
        read_only: true,
        ..namespace(1, 0)
    };
    // The first machine has not looked at its mail yet.
    rig.target.machines[1].set_namespace(0, read_only).unwrap();
    rig.target.machines[0].resize(StoreId(0), BLOCKS + 1);
    rig.stores[0].resize((BLOCKS as usize + 1) * BLOCK, 7);
    let (status, data) = rig.read(io, 1, read(BLOCKS, 1), BLOCK);
    assert_eq!((status, data), (Status::SUCCESS, vec![7; BLOCK]));
    let entry = write(0, 1).entry(5, 1).with_data(in_capsule(512));
    rig.command(io, entry, &pattern(BLOCK, 3));
    assert!(rig.reply(io).0.status.is(Status::WRITE_PROTECTED));
}

#[test]
fn connections_that_are_no_queue_yet_are_divided_among_machines() {
    let now = std::time::Instant::now();
    let of = |pending, machines| {
        let mut config = config();
        config.limits.pending = pending;
        Target::several(now, config, machines)
    };
    for (pending, machines) in [(32, 3), (5, 4), (7, 7), (9, 1)] {
        let all = of(pending, machines).unwrap();
        let parts: Vec<_> = all.iter().map(|it| it.config().limits.pending).collect();
        assert_eq!(parts.iter().sum::<usize>(), pending);
        assert!(parts.iter().all(|part| *part >= 1), "{parts:?}");
    }
    let refused = of(3, 4).err();
    assert_eq!(refused, Some(ConfigError::Limit("pending")));
}
