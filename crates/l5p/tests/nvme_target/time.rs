//! Deadlines.

use std::time::Duration;

use l5p::nvme::target::{CloseReason, Config, ConnectionId, Limits};
use wire::nvme::command::{Admin, Blocks, DataPointer, Io, Status};
use wire::nvme::{H2CData, Nqn, Pdu};

use super::rig::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_host_that_falls_silent_loses_everything() {
    let mut rig = Rig::new();
    let (admin, controller) = rig.admin(subsystem(), 4500);
    let io = rig.io_queue(controller, 1, 0);
    let blocks = Blocks {
        start: 0,
        count: 128,
    };
    let write = Io::Write { blocks, fua: false };
    let pointer = DataPointer::Transport { len: 64 << 10 };
    rig.command(io, write.entry(1, 1).with_data(pointer), &[]);
    assert_eq!(rig.buffers.len(), 1);
    rig.wait(4 * SECOND);
    assert_eq!(rig.target.connections(), 2);
    // Any command is a sign of life, on any queue.
    rig.command(io, Io::Flush.entry(2, 1), &[]);
    rig.wait(4 * SECOND);
    rig.simple(admin, Admin::KeepAlive.entry(3));
    rig.wait(4 * SECOND);
    assert_eq!(rig.target.connections(), 2);
    rig.wait(SECOND);
    let mut closed = rig.closed.clone();
    closed.sort_by_key(|(id, _)| *id);
    let expected = [
        (admin, CloseReason::KeepAlive),
        (io, CloseReason::ControllerGone),
    ];
    assert_eq!(closed, expected);
    assert!(rig.buffers.is_empty());
    assert_eq!((rig.target.connections(), rig.target.controllers()), (0, 0));
    rig.wait(15 * SECOND);
    assert_eq!(rig.target.poll_timeout(), None);
}

#[test]
fn without_a_timeout_a_host_may_be_silent() {
    let mut rig = Rig::new();
    let (_, _) = rig.admin(subsystem(), 0);
    rig.wait(1_000_000 * SECOND);
    assert_eq!(rig.target.connections(), 1);
}

#[test]
fn a_silent_discovery_controller_ends_also_without_a_timeout() {
    let mut rig = Rig::new();
    let (idle, _) = rig.admin(Nqn::DISCOVERY, 0);
    let (asks, _) = rig.admin(Nqn::DISCOVERY, 0);
    let (kept, _) = rig.admin(subsystem(), 0);
    rig.wait(60 * SECOND);
    rig.simple(asks, Admin::KeepAlive.entry(3));
    rig.wait(59 * SECOND);
    assert_eq!(rig.closed, []);
    rig.wait(SECOND);
    assert_eq!(rig.closed, [(idle, CloseReason::KeepAlive)]);
    rig.wait(60 * SECOND);
    assert_eq!(rig.closed[1..], [(asks, CloseReason::KeepAlive)]);
    rig.wait(1_000 * SECOND);
    assert_eq!(rig.simple(kept, Admin::KeepAlive.entry(4)), Status::SUCCESS);
}

#[test]
fn discovery_leaves_controllers_for_others() {
    let mut rig = Rig::with(Config {
        limits: Limits::default(),
        ..config()
    });
    for at in 0..32 {
        let id = rig.open(0);
        let reply = rig.connect_as(id, connect_data(Nqn::DISCOVERY), 0, 32, 0);
        match at {
            0..16 => assert!(reply.status.is_success()),
            _ => assert!(reply.status.is(Status::CONNECT_CONTROLLER_BUSY)),
        }
    }
    for _ in 0..16 {
        rig.admin(subsystem(), 0);
    }
}

#[test]
fn a_connection_must_become_a_queue_in_time() {
    let mut rig = Rig::new();
    let never = rig.target.accept(rig.now, None).unwrap();
    rig.wait(10 * SECOND);
    let half = rig.open(0);
    assert!(rig.target.poll_timeout().unwrap() <= rig.now + 5 * SECOND);
    rig.wait(5 * SECOND);
    assert_eq!(rig.closed, [(never, CloseReason::Handshake)]);
    rig.wait(10 * SECOND);
    assert_eq!(rig.closed[1..], [(half, CloseReason::Handshake)]);
}

#[test]
fn memory_that_a_store_uses_outlives_its_connection() {
    let mut rig = Rig::new();
    rig.at_once = false;
    let (admin, controller) = rig.admin(subsystem(), 1000);
    let io = rig.io_queue(controller, 1, 0);
    let blocks = Blocks { start: 0, count: 8 };
    let pointer = DataPointer::Transport { len: 4096 };
    let read = Io::Read { blocks, fua: false };
    rig.command(io, read.entry(1, 1).with_data(pointer), &[]);
    rig.wait(2 * SECOND);
    assert_eq!(rig.closed.len(), 2);
    assert_eq!(rig.buffers.len(), 1, "the store may still write to it");
    let fresh = rig.target.accept(rig.now, None).unwrap();
    let place = |id: ConnectionId| (id.machine(), id.index());
    assert_ne!(place(fresh), place(io));
    // The same host must wait until nothing of it is under way any more.
    let again = rig.open(0);
    let busy = rig.connect_as(again, connect_data(subsystem()), 0, 32, 0);
    assert_eq!(busy.status, Status::CONNECT_CONTROLLER_BUSY);
    let request = rig.asked.pop().unwrap();
    rig.store(request);
    rig.act();
    assert!(rig.buffers.is_empty());
    let reply = rig.connect_as(again, connect_data(subsystem()), 0, 32, 0);
    assert!(reply.status.is_success());
    assert!(rig.receive(io).is_none() && rig.receive(admin).is_none());
}

#[test]
fn a_host_must_send_data_for_some_r2t_in_time() {
    let mut rig = Rig::new();
    let (io, _) = rig.queue();
    let data = vec![7; 64 << 10];
    let ask = |rig: &mut Rig, cid: u16| {
        let blocks = Blocks {
            start: 0,
            count: 128,
        };
        let write = Io::Write { blocks, fua: false };
        let pointer = DataPointer::Transport { len: 64 << 10 };
        rig.command(io, write.entry(cid, 1).with_data(pointer), &[]);
        rig.r2t(io)
    };
    // As long as one of them is answered in time, all is well.
    let mut r2ts = [ask(&mut rig, 1), ask(&mut rig, 2)];
    for cid in 3..6 {
        rig.wait(20 * SECOND);
        rig.answer(io, r2ts[0], &data);
        assert!(rig.reply(io).0.status.is_success());
        r2ts = [r2ts[1], ask(&mut rig, cid)];
    }
    for r2t in r2ts {
        rig.answer(io, r2t, &data);
        assert!(rig.reply(io).0.status.is_success());
    }
    // Without an R2T there is no time limit.
    rig.wait(100 * SECOND);
    assert_eq!(rig.closed, []);
    ask(&mut rig, 9);
    rig.wait(29 * SECOND);
    assert_eq!(rig.closed, []);
    rig.wait(SECOND);
    assert_eq!(rig.closed, [(io, CloseReason::R2t)]);
    assert!(rig.buffers.is_empty());
    assert_eq!(rig.target.counters().r2t_expired, 1);
}

#[test]
fn it_is_data_and_not_its_header_that_answers_an_r2t() {
    let len = 64 << 10;
    let write = |rig: &mut Rig, io, cid| {
        let blocks = Blocks {
            start: 0,
            count: 128,
        };
        let write = Io::Write { blocks, fua: false };
        let pointer = DataPointer::Transport { len };
        rig.command(io, write.entry(cid, 1).with_data(pointer), &[]);
        let r2t = rig.r2t(io);
        Pdu::H2CData(H2CData {
            cccid: r2t.cccid,
            ttag: r2t.ttag,
            data_offset: 0,
            data_len: len,
            last: true,
        })
    };
    let mut rig = Rig::new();
    let (io, _) = rig.queue();
    // One PDU may take long, and keeps the time of the R2T behind it from running out.
    let [slow, next] = [1, 2].map(|cid| write(&mut rig, io, cid));
    for pdu in [slow, next] {
        assert!(rig.target.handle_pdu(rig.now, io, &pdu).is_ok());
        for _ in 0..5 {
            rig.wait(20 * SECOND);
            rig.target.handle_data(rig.now, io);
        }
        rig.target.handle_pdu_end(rig.now, io, true, &[]);
        rig.act();
        assert!(rig.reply(io).0.status.is_success());
    }
    rig.wait(100 * SECOND);
    assert_eq!(rig.closed, []);
    // The last header without its data is no answer.
    let silent = write(&mut rig, io, 3);
    rig.wait(20 * SECOND);
    assert!(rig.target.handle_pdu(rig.now, io, &silent).is_ok());
    rig.wait(9 * SECOND);
    assert_eq!(rig.closed, []);
    rig.wait(SECOND);
    assert_eq!(rig.closed, [(io, CloseReason::R2t)]);
    assert!(rig.buffers.is_empty());
}
