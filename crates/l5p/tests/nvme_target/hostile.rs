//! Hosts that break the rules.

use l5p::nvme::target::CloseReason;
use wire::nvme::command::{Admin, Blocks, DataPointer, Io, Status};
use wire::nvme::{
    CapsuleCmd, CapsuleResp, FatalError, FatalErrorStatus, H2CData, ICReq, Pdu, R2T, TermReq,
};

use super::rig::*;

fn data_of(r2t: R2T) -> H2CData {
    H2CData {
        cccid: r2t.cccid,
        ttag: r2t.ttag,
        data_offset: r2t.offset,
        data_len: r2t.len,
        last: true,
    }
}

/// A write of 64 KiB that waits for its data.
fn asked(rig: &mut Rig) -> (l5p::nvme::target::ConnectionId, R2T) {
    let (id, _) = rig.queue();
    let blocks = Blocks {
        start: 0,
        count: 128,
    };
    let write = Io::Write { blocks, fua: false };
    let pointer = DataPointer::Transport { len: 64 << 10 };
    rig.command(id, write.entry(0x77, 1).with_data(pointer), &[]);
    let r2t = rig.r2t(id);
    (id, r2t)
}

#[test]
fn data_that_nobody_asked_for_ends_the_connection() {
    let range = FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE);
    type Case = (&'static str, fn(H2CData) -> H2CData, FatalError);
    let cases: [Case; 9] = [
        (
            "a tag never given",
            |d| H2CData { ttag: 50, ..d },
            FatalError::field(10),
        ),
        (
            "a tag beyond all",
            |d| H2CData { ttag: 0xffff, ..d },
            FatalError::field(10),
        ),
        (
            "another command's",
            |d| H2CData { cccid: 0x78, ..d },
            FatalError::field(8),
        ),
        (
            "past the end",
            |d| H2CData {
                data_offset: 4,
                ..d
            },
            range,
        ),
        (
            "behind the end",
            |d| H2CData {
                data_offset: 64 << 10,
                data_len: 4,
                ..d
            },
            range,
        ),
        (
            "not from the beginning",
            |d| H2CData {
                data_offset: 4096,
                data_len: 4096,
                last: false,
                ..d
            },
            FatalError::of(FatalErrorStatus::SEQUENCE),
        ),
        (
            "the last that is not",
            |d| H2CData {
                data_len: 4096,
                ..d
            },
            FatalError::field(1),
        ),
        (
            "not the last that is",
            |d| H2CData { last: false, ..d },
            FatalError::field(1),
        ),
        (
            "more than MAXH2CDATA",
            |d| H2CData {
                data_len: (128 << 10) + 4,
                ..d
            },
            FatalError::of(FatalErrorStatus::LIMIT_EXCEEDED),
        ),
    ];
    for (what, change, expected) in cases {
        let mut rig = Rig::new();
        let (id, r2t) = asked(&mut rig);
        let data = change(data_of(r2t));
        let refused = rig.send(id, Pdu::H2CData(data), &[]);
        assert_eq!(refused, Err(expected), "{what}");
        assert!(rig.buffers.is_empty(), "{what}: memory is free");
        assert!(rig.receive(id).is_none());
    }
}

#[test]
fn data_that_overlaps_what_came_ends_the_connection() {
    let mut rig = Rig::new();
    let (id, r2t) = asked(&mut rig);
    let half = H2CData {
        data_len: 32 << 10,
        last: false,
        ..data_of(r2t)
    };
    rig.send(id, Pdu::H2CData(half), &[1; 32 << 10]).unwrap();
    let refused = rig.send(id, Pdu::H2CData(half), &[]);
    assert_eq!(refused, Err(FatalError::of(FatalErrorStatus::SEQUENCE)));
}

#[test]
fn the_data_of_an_r2t_comes_once() {
    let mut config = config();
    config.limits.r2t_data = 4096;
    let mut rig = Rig::with(config);
    let (_, controller) = rig.admin(subsystem(), 0);
    let id = rig.io_queue(controller, 1, 1);
    let blocks = Blocks {
        start: 0,
        count: 128,
    };
    let write = Io::Write { blocks, fua: false };
    let pointer = DataPointer::Transport { len: 64 << 10 };
    rig.command(id, write.entry(0x77, 1).with_data(pointer), &[]);
    let (first, _second) = (rig.r2t(id), rig.r2t(id));
    rig.answer(id, first, &pattern(64 << 10, 0));
    let refused = rig.send(id, Pdu::H2CData(data_of(first)), &[]);
    assert_eq!(refused, Err(FatalError::of(FatalErrorStatus::SEQUENCE)));
}

#[test]
fn data_for_a_command_that_has_all_of_it_ends_the_connection() {
    let mut rig = Rig::new();
    rig.at_once = false;
    let (id, r2t) = asked(&mut rig);
    rig.answer(id, r2t, &pattern(64 << 10, 0));
    let refused = rig.send(id, Pdu::H2CData(data_of(r2t)), &[]);
    assert_eq!(refused, Err(FatalError::field(10)));
    // The store still works on it: its memory is kept until then, and so is the connection's place.
    assert_eq!(rig.buffers.len(), 1);
    let request = rig.asked.pop().unwrap();
    rig.store(request);
    rig.act();
    assert!(rig.buffers.is_empty());
}

#[test]
fn an_identifier_in_use_is_refused_and_the_first_command_goes_on() {
    let mut rig = Rig::new();
    let (id, r2t) = asked(&mut rig);
    let status = rig.simple(id, Io::Flush.entry(0x77, 1));
    assert!(status.is(Status::CID_CONFLICT) && status.is_final());
    let entry = Io::Write {
        blocks: Blocks { start: 0, count: 1 },
        fua: false,
    }
    .entry(0x77, 1)
    .with_data(in_capsule(512));
    rig.command(id, entry, &[9; 512]);
    assert!(rig.reply(id).0.status.is(Status::CID_CONFLICT));
    rig.answer(id, r2t, &pattern(64 << 10, 1));
    assert!(rig.reply(id).0.status.is_success());
    assert!(rig.simple(id, Io::Flush.entry(0x77, 1)).is_success());
}

#[test]
fn more_commands_than_the_queue_has_entries_end_the_connection() {
    let mut rig = Rig::new();
    rig.at_once = false;
    let (id, _) = rig.queue();
    let flush = |cid| {
        Pdu::CapsuleCmd(CapsuleCmd {
            sqe: Io::Flush.entry(cid, 1).to_bytes(),
            data_len: 0,
        })
    };
    for cid in 0..128 {
        rig.send(id, flush(cid), &[]).unwrap();
    }
    let refused = rig.send(id, flush(128), &[]);
    assert_eq!(refused, Err(FatalError::of(FatalErrorStatus::SEQUENCE)));
    // Its place is free when the stores are done.
    assert_eq!(rig.target.connections(), 2);
    while let Some(request) = rig.asked.pop() {
        rig.store(request);
    }
    assert_eq!(rig.target.connections(), 1);
}

#[test]
fn a_capsule_holds_no_more_than_the_controller_said() {
    let mut config = config();
    config.limits.in_capsule = 4096;
    let mut rig = Rig::with(config);
    let (id, admin) = rig.queue();
    let capsule = |len: u32| {
        let blocks = Blocks {
            start: 0,
            count: len / 512,
        };
        let io = Io::Write { blocks, fua: false };
        Pdu::CapsuleCmd(CapsuleCmd {
            sqe: io.entry(1, 1).with_data(in_capsule(len)).to_bytes(),
            data_len: len,
        })
    };
    rig.send(id, capsule(4096), &[1; 4096]).unwrap();
    assert!(rig.reply(id).0.status.is_success());
    assert_eq!(rig.send(id, capsule(4608), &[]), Err(FatalError::field(4)));
    assert_eq!(
        rig.send(admin, capsule(16384), &[]),
        Err(FatalError::field(4))
    );
}

#[test]
fn data_that_a_command_does_not_speak_of_is_refused() {
    let mut rig = Rig::new();
    let (id, admin) = rig.queue();
    let capsule = |sqe, data_len| Pdu::CapsuleCmd(CapsuleCmd { sqe, data_len });
    let keep_alive = Admin::KeepAlive.entry(1).to_bytes();
    rig.send(admin, capsule(keep_alive, 64), &[1; 64]).unwrap();
    assert!(rig.reply(admin).0.status.is(Status::SGL_TYPE_INVALID));
    let blocks = Blocks { start: 0, count: 1 };
    let write = Io::Write { blocks, fua: false };
    let short = write.entry(1, 1).with_data(in_capsule(512)).to_bytes();
    rig.send(id, capsule(short, 256), &[1; 256]).unwrap();
    assert!(rig.reply(id).0.status.is(Status::SGL_LENGTH_INVALID));
    rig.send(id, capsule(short, 0), &[]).unwrap();
    assert!(rig.reply(id).0.status.is(Status::SGL_LENGTH_INVALID));
    assert_eq!(rig.stores[0][0], 0);
}

#[test]
fn pdus_out_of_turn_end_the_connection() {
    let mut rig = Rig::new();
    let sequence = Err(FatalError::of(FatalErrorStatus::SEQUENCE));
    let request = Pdu::ICReq(ICReq {
        pfv: 0,
        hpda: 0,
        digests: wire::nvme::Digests::NONE,
        max_r2t: 0,
    });
    let (id, _) = rig.queue();
    assert_eq!(rig.send(id, request, &[]), sequence);
    let id = rig.target.accept(rig.now, None).unwrap();
    let flush = Pdu::CapsuleCmd(CapsuleCmd {
        sqe: Io::Flush.entry(1, 1).to_bytes(),
        data_len: 0,
    });
    assert_eq!(rig.send(id, flush, &[]), sequence);
    let id = rig.open(0);
    let response = Pdu::CapsuleResp(CapsuleResp { cqe: [0; 16] });
    assert_eq!(rig.send(id, response, &[]), Err(FatalError::field(0)));
}

#[test]
fn a_host_that_gives_up_is_let_go() {
    let mut rig = Rig::new();
    let (id, _) = asked(&mut rig);
    let error = FatalError::field(3);
    let request = TermReq { error, data_len: 0 };
    rig.send(id, Pdu::H2CTermReq(request), &[]).unwrap();
    assert_eq!(rig.closed, [(id, CloseReason::HostTerminated(error))]);
    assert!(rig.buffers.is_empty());
    assert_eq!(rig.target.connections(), 1, "the admin queue");
}
