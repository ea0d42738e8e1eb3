//! Asynchronous events and Abort.

use std::time::Duration;

use l5p::nvme::target::{Hosts, Namespace};
use wire::nvme::Nqn;
use wire::nvme::command::{Admin, AsyncEvent, Blocks, DataPointer, EventMask, Feature, Io, Status};
use wire::nvme::identify::NamespaceList;
use wire::nvme::log::LogPage;

use super::admin::log;
use super::rig::*;

pub fn enable(rig: &mut Rig, id: l5p::nvme::target::ConnectionId, mask: EventMask) {
    let feature = Feature::ASYNC_EVENT_CONFIGURATION;
    assert_eq!(rig.set_feature(id, feature, mask.0), Status::SUCCESS);
}

#[test]
fn a_host_hears_of_namespaces_once_until_it_reads_the_page() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    enable(&mut rig, id, EventMask::NAMESPACES);
    for cid in [20, 21] {
        rig.command(id, Admin::AsyncEventRequest.entry(cid), &[]);
    }
    assert!(rig.receive(id).is_none());
    rig.target.remove_namespace(0, 7);
    rig.target.remove_namespace(0, 7);
    let larger = Namespace {
        blocks: 9000,
        ..namespace(1, 0)
    };
    rig.target.set_namespace(0, larger).unwrap();
    let (event, _) = rig.reply(id);
    assert_eq!(event.cid, 20);
    let told = AsyncEvent::from_dword(event.dword0());
    assert_eq!(told, AsyncEvent::NAMESPACES_CHANGED);
    assert!(rig.receive(id).is_none(), "once");
    let (_, data) = rig.ask(id, log(LogPage::CHANGED_NAMESPACES, 0, 4096), 4096);
    let changed: Vec<u32> = NamespaceList::parse(&data).unwrap().iter().collect();
    assert_eq!(changed, [1, 7]);
    assert!(rig.receive(id).is_none(), "the page said it all");
    rig.target.remove_namespace(0, 1);
    assert_eq!(rig.reply(id).0.cid, 21, "a later change");
    let (_, data) = rig.ask(id, log(LogPage::CHANGED_NAMESPACES, 0, 4096), 4096);
    let changed: Vec<u32> = NamespaceList::parse(&data).unwrap().iter().collect();
    assert_eq!(changed, [1]);
}

#[test]
fn events_that_the_host_did_not_enable_are_not_told() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    rig.command(id, Admin::AsyncEventRequest.entry(20), &[]);
    rig.target.remove_namespace(0, 7);
    assert!(rig.receive(id).is_none());
    enable(&mut rig, id, EventMask::NAMESPACES);
    assert_eq!(rig.reply(id).0.cid, 20);
    let feature = Feature::ASYNC_EVENT_CONFIGURATION;
    let refused = rig.set_feature(id, feature, EventMask::DISCOVERY.0);
    assert!(refused.is(Status::INVALID_FIELD));
}

#[test]
fn discovery_tells_when_its_log_changes() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(Nqn::DISCOVERY, 5000);
    enable(&mut rig, id, EventMask::DISCOVERY);
    rig.command(id, Admin::AsyncEventRequest.entry(20), &[]);
    rig.target.set_hosts(1, Hosts::Any);
    let event = AsyncEvent::from_dword(rig.reply(id).0.dword0());
    assert_eq!(event, AsyncEvent::DISCOVERY_CHANGED);
}

#[test]
fn only_so_many_requests_wait() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    for cid in 20..24 {
        rig.command(id, Admin::AsyncEventRequest.entry(cid), &[]);
    }
    let status = rig.simple(id, Admin::AsyncEventRequest.entry(24));
    assert!(status.is(Status::AER_LIMIT_EXCEEDED));
    // Aborting one makes room.
    let abort = Admin::Abort { queue: 0, cid: 22 };
    rig.command(id, abort.entry(30), &[]);
    let first = rig.reply(id).0;
    assert_eq!(first.cid, 22);
    assert!(first.status.is(Status::ABORT_REQUESTED));
    let second = rig.reply(id).0;
    assert_eq!((second.cid, second.dword0()), (30, 0));
    rig.command(id, Admin::AsyncEventRequest.entry(25), &[]);
    assert!(rig.receive(id).is_none());
}

/// SPDK's host does so when it detaches.
#[test]
fn a_command_with_the_identifier_of_a_request_for_events_takes_its_place() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    enable(&mut rig, id, EventMask::NAMESPACES);
    for cid in [20, 21] {
        rig.command(id, Admin::AsyncEventRequest.entry(cid), &[]);
    }
    assert_eq!(rig.simple(id, Admin::KeepAlive.entry(20)), Status::SUCCESS);
    // The identifier is that command's, which has ended: no event comes under it.
    rig.target.remove_namespace(0, 7);
    assert_eq!(rig.reply(id).0.cid, 21);
    assert!(rig.receive(id).is_none());
    // Another command that is under way keeps its identifier.
    rig.command(id, Admin::KeepAlive.entry(30), &[]);
    rig.command(id, Admin::KeepAlive.entry(30), &[]);
    assert_eq!(rig.reply(id).0.status, Status::SUCCESS);
    assert!(rig.reply(id).0.status.is(Status::CID_CONFLICT));
}

#[test]
fn a_command_that_waits_for_memory_can_be_aborted() {
    let mut rig = Rig::new();
    // From the machine of its own queue.
    rig.target.pin(0);
    let (io, admin) = rig.queue();
    rig.has_memory = false;
    let blocks = Blocks {
        start: 0,
        count: 64,
    };
    let data = DataPointer::Transport { len: 64 * 512 };
    let write = Io::Write { blocks, fua: false };
    rig.command(io, write.entry(77, 1).with_data(data), &[]);
    assert_eq!(rig.waiting.len(), 1);
    let (late, len) = rig.waiting[0];
    rig.command(admin, Admin::Abort { queue: 1, cid: 77 }.entry(5), &[]);
    assert_eq!(rig.reply(admin).0.dword0(), 0);
    assert!(rig.reply(io).0.status.is(Status::ABORT_REQUESTED));
    assert!(rig.waiting.is_empty());
    // Memory that comes too late changes nothing.
    rig.give(late, len);
    assert!(rig.receive(io).is_none());

    // What has begun is not given up.
    rig.has_memory = true;
    rig.buffers.clear();
    rig.command(io, write.entry(78, 1).with_data(data), &[]);
    let r2t = rig.r2t(io);
    for (queue, cid) in [(1, 78), (1, 79), (2, 78), (9, 78)] {
        rig.command(admin, Admin::Abort { queue, cid }.entry(5), &[]);
        assert_eq!(rig.reply(admin).0.dword0(), 1);
    }
    rig.answer(io, r2t, &pattern(64 * 512, 1));
    assert!(rig.reply(io).0.status.is_success());
    rig.wait(Duration::from_secs(100));
}
