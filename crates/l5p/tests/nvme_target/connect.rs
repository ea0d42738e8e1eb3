//! Opening connections, Connect and properties.

use std::time::Duration;

use l5p::nvme::target::{CloseReason, Hosts, PskIdentity};
use wire::nvme::command::{
    Configuration, ConnectReply, Fabrics, Io, Property, ShutdownStatus, Status,
};
use wire::nvme::{Digests, FatalErrorStatus, ICReq, Nqn, Pdu};

use super::rig::*;

fn invalid(in_data: bool, offset: u16) -> u32 {
    ConnectReply::Invalid { in_data, offset }.to_dword()
}

#[test]
fn digests_are_those_that_the_host_asks_for() {
    for digests in [Digests::NONE, Digests::BOTH] {
        let mut rig = Rig::new();
        let id = rig.target.accept(rig.now, None).unwrap();
        let request = ICReq {
            pfv: 0,
            hpda: 3,
            digests,
            max_r2t: 0,
        };
        rig.send(id, Pdu::ICReq(request), &[]).unwrap();
        let Some(Pdu::ICResp(reply)) = rig.receive(id).map(|r| r.pdu) else {
            panic!();
        };
        assert_eq!((reply.digests, reply.cpda), (digests, 0));
        assert_eq!(reply.max_h2c_data, 128 << 10);
        let negotiated = rig.target.negotiated(id).unwrap();
        assert_eq!((negotiated.digests, negotiated.alignment), (digests, 3));
    }
}

#[test]
fn a_host_without_the_digests_that_are_required_is_refused() {
    let mut config = config();
    config.required_digests = Digests {
        header: false,
        data: true,
    };
    let mut rig = Rig::with(config);
    let id = rig.target.accept(rig.now, None).unwrap();
    let request = ICReq {
        pfv: 0,
        hpda: 0,
        digests: Digests {
            header: true,
            data: false,
        },
        max_r2t: 0,
    };
    let refused = rig.send(id, Pdu::ICReq(request), &[]).unwrap_err();
    assert_eq!(refused.fes, FatalErrorStatus::UNSUPPORTED_PARAMETER);
    assert_eq!(refused.fei, 11);
    assert_eq!(rig.target.connections(), 0);
}

#[test]
fn connect_says_which_field_is_wrong() {
    let mut rig = Rig::new();
    let (_, controller) = rig.admin(subsystem(), 0);
    let good = connect_data(subsystem());
    let unknown = Nqn::new("nqn.2026-01.test:nobody").unwrap();
    let cases = [
        (connect_data(unknown), 0, 32, invalid(true, 256)),
        (good, 0, 129, invalid(false, 44)),
        (ConnectDataWith::controller(5), 0, 32, invalid(true, 16)),
        (
            ConnectDataWith::controller(controller + 1),
            1,
            32,
            invalid(true, 16),
        ),
        (
            ConnectDataWith::controller(controller),
            5,
            32,
            invalid(false, 42),
        ),
        (
            ConnectDataWith::controller(controller),
            1,
            129,
            invalid(false, 44),
        ),
    ];
    for (data, queue, entries, dword) in cases {
        let id = rig.open(0);
        let reply = rig.connect_as(id, data, queue, entries, 0);
        assert!(
            reply.status.is(Status::CONNECT_INVALID_PARAMETERS),
            "{reply:?}"
        );
        assert_eq!(reply.dword0(), dword);
        rig.target.handle_closed(id);
    }
    // Another host cannot have a queue of this one's controller.
    let id = rig.open(0);
    let mut data = ConnectDataWith::controller(controller);
    data.host_id = [6; 16];
    let reply = rig.connect_as(id, data, 1, 32, 0);
    assert_eq!(reply.dword0(), invalid(true, 16));
}

struct ConnectDataWith;

impl ConnectDataWith {
    fn controller(controller: u16) -> wire::nvme::command::ConnectData {
        wire::nvme::command::ConnectData {
            controller,
            ..connect_data(subsystem())
        }
    }
}

#[test]
fn names_in_connect_that_are_no_names_are_refused() {
    let mut rig = Rig::new();
    let id = rig.open(0);
    let mut bytes = connect_data(subsystem()).to_bytes();
    bytes[512..768].fill(0xff);
    let connect = Fabrics::Connect {
        queue: 0,
        entries: 32,
        no_flow_control: false,
        keep_alive: 0,
    };
    rig.command(id, connect.entry(1).with_data(in_capsule(1024)), &bytes);
    assert_eq!(rig.reply(id).0.dword0(), invalid(true, 512));
}

#[test]
fn hosts_that_are_not_on_the_list_are_refused() {
    let mut rig = Rig::new();
    let mut data = connect_data(other_subsystem());
    data.host = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:two").unwrap();
    let id = rig.open(0);
    let reply = rig.connect_as(id, data, 0, 32, 0);
    assert!(reply.status.is(Status::CONNECT_INVALID_HOST) && reply.status.is_final());
    rig.target.set_hosts(1, Hosts::Any);
    let reply = rig.connect_as(id, data, 0, 32, 0);
    assert!(reply.status.is_success());
}

#[test]
fn a_host_is_held_to_the_names_that_its_key_stands_for() {
    let mut rig = Rig::new();
    let identity = PskIdentity {
        host: host(),
        subsystem: subsystem(),
    };
    let id = rig.target.accept(rig.now, Some(identity)).unwrap();
    let request = ICReq {
        pfv: 0,
        hpda: 0,
        digests: Digests::NONE,
        max_r2t: 0,
    };
    rig.send(id, Pdu::ICReq(request), &[]).unwrap();
    rig.receive(id).unwrap();
    let mut another = connect_data(subsystem());
    another.host = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:two").unwrap();
    for data in [connect_data(other_subsystem()), another] {
        let reply = rig.connect_as(id, data, 0, 32, 0);
        assert!(reply.status.is(Status::CONNECT_INVALID_HOST));
    }
    let reply = rig.connect_as(id, connect_data(subsystem()), 0, 32, 0);
    assert!(reply.status.is_success());
}

#[test]
fn nothing_but_connect_comes_first() {
    let mut rig = Rig::new();
    let id = rig.open(0);
    let status = rig.simple(id, Io::Flush.entry(1, 1));
    assert!(status.is(Status::SEQUENCE_ERROR));
    let status = rig.simple(id, Fabrics::PropertyGet(Property::CAP).entry(1));
    assert!(status.is(Status::SEQUENCE_ERROR));
}

#[test]
fn properties_are_as_a_host_expects_them() {
    let mut rig = Rig::new();
    let id = rig.open(0);
    assert!(
        rig.connect_as(id, connect_data(subsystem()), 0, 32, 0)
            .status
            .is_success()
    );
    let get = |rig: &mut Rig, property| {
        rig.command(id, Fabrics::PropertyGet(property).entry(1), &[]);
        rig.reply(id).0
    };
    assert_eq!(get(&mut rig, Property::CAP).result & 0xffff, 127);
    assert_eq!(get(&mut rig, Property::VS).result, 0x10400);
    assert_eq!(get(&mut rig, Property::CSTS).result, 0);
    let nssr = get(&mut rig, Property::NSSR).status;
    assert!(nssr.is(Status::INVALID_FIELD));
    let set = |rig: &mut Rig, value: u32| {
        let set = Fabrics::PropertySet(Property::CC, value.into());
        assert_eq!(rig.simple(id, set.entry(1)), Status::SUCCESS);
    };
    set(&mut rig, 1 | 6 << 16 | 4 << 20 | 1 << 7);
    assert_eq!(get(&mut rig, Property::CSTS).result, 2, "pages of 8 KiB");
    set(&mut rig, 0);
    set(&mut rig, Configuration::ENABLED.0);
    assert_eq!(get(&mut rig, Property::CSTS).result, 1);
    assert_eq!(
        get(&mut rig, Property::CC).result,
        u64::from(Configuration::ENABLED.0)
    );
}

#[test]
fn a_shutdown_is_complete_when_everything_is_flushed() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    rig.at_once = false;
    let down = Configuration::ENABLED.with_normal_shutdown();
    let set = Fabrics::PropertySet(Property::CC, down.0.into());
    assert_eq!(rig.simple(id, set.entry(1)), Status::SUCCESS);
    assert_eq!(rig.asked.len(), 2, "two namespaces");
    for expected in [ShutdownStatus::Occurring, ShutdownStatus::Occurring] {
        rig.command(id, Fabrics::PropertyGet(Property::CSTS).entry(1), &[]);
        let status = rig.reply(id).0.dword0();
        assert_eq!(
            wire::nvme::command::ControllerStatus(status).shutdown(),
            expected
        );
        let request = rig.asked.pop().unwrap();
        rig.store(request);
    }
    rig.command(id, Fabrics::PropertyGet(Property::CSTS).entry(1), &[]);
    let status = rig.reply(id).0.dword0();
    let done = ShutdownStatus::Complete;
    assert_eq!(
        wire::nvme::command::ControllerStatus(status).shutdown(),
        done
    );
}

#[test]
fn a_shutdown_that_could_not_flush_is_never_told_complete() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    rig.at_once = false;
    let set = |rig: &mut Rig, value: Configuration| {
        let set = Fabrics::PropertySet(Property::CC, value.0.into());
        assert_eq!(rig.simple(id, set.entry(1)), Status::SUCCESS);
    };
    let down = Configuration::ENABLED.with_normal_shutdown();
    set(&mut rig, down);
    let [good, bad] = [rig.asked.pop().unwrap(), rig.asked.pop().unwrap()];
    rig.target
        .handle_stored(bad.owner, Err(Status::WRITE_FAULT));
    rig.store(good);
    let failed = rig.controller_status(id);
    assert_eq!(
        (failed.fatal(), failed.shutdown()),
        (true, ShutdownStatus::Occurring)
    );
    assert_eq!(rig.target.counters().failed_shutdown_flushes, 1);
    // It is as good as new after a reset.
    set(&mut rig, Configuration(0));
    set(&mut rig, Configuration::ENABLED);
    let reset = rig.controller_status(id);
    assert_eq!(
        (reset.fatal(), reset.shutdown()),
        (false, ShutdownStatus::None)
    );
    set(&mut rig, down);
    while let Some(request) = rig.asked.pop() {
        rig.store(request);
    }
    assert_eq!(
        rig.controller_status(id).shutdown(),
        ShutdownStatus::Complete
    );
}

#[test]
fn shutdowns_that_are_asked_for_again_and_again_make_no_more_work() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    rig.at_once = false;
    let down = Configuration::ENABLED.with_normal_shutdown();
    for _ in 0..100 {
        for value in [0, Configuration::ENABLED.0, down.0] {
            let set = Fabrics::PropertySet(Property::CC, value.into());
            assert_eq!(rig.simple(id, set.entry(1)), Status::SUCCESS);
        }
    }
    assert_eq!(rig.asked.len(), 2, "two namespaces");
    for expected in [
        ShutdownStatus::Occurring,
        // What was written between the first shutdown and the last is flushed too.
        ShutdownStatus::Occurring,
        ShutdownStatus::Occurring,
        ShutdownStatus::Complete,
    ] {
        let request = rig.asked.pop().unwrap();
        rig.store(request);
        rig.command(id, Fabrics::PropertyGet(Property::CSTS).entry(1), &[]);
        let status = rig.reply(id).0.dword0();
        assert_eq!(
            wire::nvme::command::ControllerStatus(status).shutdown(),
            expected
        );
    }
    assert!(rig.asked.is_empty());
}

#[test]
fn queues_have_two_entries_and_hosts_an_identifier() {
    let mut rig = Rig::new();
    let (admin, controller) = rig.admin(subsystem(), 0);
    let data = ConnectDataWith::controller(controller);
    let unnamed = wire::nvme::command::ConnectData {
        host_id: [0; 16],
        ..data
    };
    let id = rig.open(0);
    for (data, queue, entries, expected) in [
        (data, 1, 1, invalid(false, 44)),
        (connect_data(subsystem()), 0, 1, invalid(false, 44)),
        (unnamed, 1, 128, invalid(true, 0)),
    ] {
        let refused = rig.connect_as(id, data, queue, entries, 0);
        assert!(refused.status.is(Status::CONNECT_INVALID_PARAMETERS));
        assert_eq!(refused.dword0(), expected);
    }
    rig.enable(admin, false);
    let refused = rig.connect_as(id, data, 1, 128, 0);
    assert!(refused.status.is(Status::CONNECT_INVALID_PARAMETERS));
    let machines = rig.target.machines.iter();
    let counted: u64 = machines.map(|it| it.counters().refused_connects).sum();
    assert_eq!(counted, 4);
}

#[test]
fn queues_come_once() {
    let mut rig = Rig::new();
    let (_, controller) = rig.admin(subsystem(), 0);
    let io = rig.io_queue(controller, 2, 0);
    let id = rig.open(0);
    let again = rig.connect_as(id, ConnectDataWith::controller(controller), 2, 128, 0);
    assert!(again.status.is(Status::SEQUENCE_ERROR));
    let on_itself = rig.connect_as(io, ConnectDataWith::controller(controller), 2, 128, 0);
    assert!(on_itself.status.is(Status::SEQUENCE_ERROR));
    rig.target.handle_closed(io);
    let again = rig.connect_as(id, ConnectDataWith::controller(controller), 2, 128, 0);
    assert!(again.status.is_success());
}

#[test]
fn an_admin_queue_takes_its_io_queues_with_it() {
    let mut rig = Rig::new();
    let (io, admin) = rig.queue();
    assert_eq!((rig.target.connections(), rig.target.controllers()), (2, 1));
    rig.target.handle_closed(admin);
    rig.act();
    assert_eq!(rig.closed.len(), 1);
    assert_eq!(rig.closed[0].0, io);
    assert_eq!((rig.target.connections(), rig.target.controllers()), (0, 0));
}

#[test]
fn there_are_no_more_connections_and_controllers_than_allowed() {
    let mut rig = Rig::new();
    for at in 0..6 {
        let id = rig.open(0);
        let reply = rig.connect_as(id, connect_data(subsystem()), 0, 32, 0);
        match at {
            0..4 => assert!(reply.status.is_success()),
            _ => assert!(reply.status.is(Status::CONNECT_CONTROLLER_BUSY)),
        }
    }
    let mut rig = Rig::new();
    let (_, controller) = rig.admin(subsystem(), 0);
    for queue in 1..5 {
        rig.io_queue(controller, queue, 0);
    }
    for at in 5..10 {
        let id = rig.open(0);
        let reply = rig.connect_as(id, connect_data(subsystem()), 0, 32, 0);
        match at {
            0..8 => assert!(reply.status.is_success()),
            _ => assert!(reply.status.is(Status::CONNECT_CONTROLLER_BUSY)),
        }
    }
    assert_eq!(rig.target.counters().busy_connects, 2);
}

#[test]
fn connections_that_say_nothing_make_way_for_others_the_oldest_first() {
    let mut rig = Rig::new();
    let (io, _) = rig.queue();
    let idle: Vec<_> = (0..100)
        .map(|at| {
            let id = match at % 2 {
                0 => rig.target.accept(rig.now, None).unwrap(),
                _ => rig.open(0),
            };
            rig.wait(Duration::from_millis(1));
            id
        })
        .collect();
    let closed: Vec<_> = rig.closed.drain(..).collect();
    let evicted = idle[..100 - 32].iter();
    assert!(
        closed
            .into_iter()
            .eq(evicted.map(|id| (*id, CloseReason::Evicted)))
    );
    let (_, _) = rig.admin(subsystem(), 0);
    assert_eq!(rig.simple(io, Io::Flush.entry(2, 1)), Status::SUCCESS);
}
