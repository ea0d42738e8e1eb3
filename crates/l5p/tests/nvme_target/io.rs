//! Reads, writes and the rest of the NVM command set.

use wire::nvme::Pdu;
use wire::nvme::command::{Admin, Blocks, DataPointer, Fabrics, Feature, Io, Range, Status};

use l5p::nvme::target::{Operation, StoreId};

use super::rig::*;

fn blocks(start: u64, count: u32) -> Blocks {
    Blocks { start, count }
}

fn write(start: u64, count: u32) -> Io {
    Io::Write {
        blocks: blocks(start, count),
        fua: false,
    }
}

fn read(start: u64, count: u32) -> Io {
    Io::Read {
        blocks: blocks(start, count),
        fua: false,
    }
}

#[test]
fn what_was_written_in_the_capsule_is_read() {
    let mut rig = Rig::new();
    let (id, _) = rig.queue();
    let data = pattern(8192, 3);
    let entry = write(100, 16).entry(1, 7).with_data(in_capsule(8192));
    rig.command(id, entry, &data);
    assert!(rig.reply(id).0.status.is_success());
    assert_eq!(rig.stores[1][51200..51200 + 8192], data);
    let (status, back) = rig.read(id, 7, read(100, 16), 8192);
    assert_eq!((status, back), (Status::SUCCESS, data));
    assert!(rig.buffers.is_empty(), "all memory was given back");
}

#[test]
fn a_large_write_comes_as_it_is_asked_for() {
    let mut rig = Rig::new();
    let (id, _) = rig.queue();
    let data = pattern(1 << 20, 5);
    let pointer = DataPointer::Transport { len: 1 << 20 };
    rig.command(id, write(0, 2048).entry(0x1234, 1).with_data(pointer), &[]);
    let r2t = rig.r2t(id);
    assert_eq!((r2t.cccid, r2t.offset, r2t.len), (0x1234, 0, 1 << 20));
    // In pieces, of which only the last one is marked so.
    for at in (0..1 << 20).step_by(64 << 10) {
        let h2c = Pdu::H2CData(wire::nvme::H2CData {
            cccid: r2t.cccid,
            ttag: r2t.ttag,
            data_offset: at,
            data_len: 64 << 10,
            last: at == (1 << 20) - (64 << 10),
        });
        assert!(rig.receive(id).is_none());
        let piece = &data[at as usize..][..64 << 10];
        assert_eq!(rig.send(id, h2c, piece), Ok(()));
    }
    assert!(rig.reply(id).0.status.is_success());
    let (_, back) = rig.read(id, 1, read(0, 2048), 1 << 20);
    assert_eq!(back, data);
}

#[test]
fn as_many_r2ts_are_out_as_the_host_allows() {
    let mut config = config();
    config.limits.r2t_data = 4096;
    for (max_r2t, outstanding) in [(0, 1), (2, 3), (u32::MAX, 4)] {
        let mut rig = Rig::with(config.clone());
        let (_, controller) = rig.admin(subsystem(), 0);
        let id = rig.io_queue(controller, 1, max_r2t);
        let data = pattern(7 * 4096, 9);
        let pointer = DataPointer::Transport { len: 7 * 4096 };
        rig.command(id, write(8, 56).entry(1, 1).with_data(pointer), &[]);
        let mut r2ts: Vec<_> = (0..outstanding).map(|_| rig.r2t(id)).collect();
        assert!(rig.receive(id).is_none());
        for _ in outstanding..7 {
            // Any of them may be answered first.
            let r2t = r2ts.pop().unwrap();
            rig.answer(id, r2t, &data);
            r2ts.push(rig.r2t(id));
            assert!(rig.receive(id).is_none());
        }
        for r2t in r2ts {
            rig.answer(id, r2t, &data);
        }
        assert!(rig.reply(id).0.status.is_success());
        assert_eq!(rig.stores[0][4096..8 * 4096], data);
    }
}

#[test]
fn without_flow_control_success_needs_no_response() {
    let mut rig = Rig::new();
    let (_, controller) = rig.admin(subsystem(), 0);
    let id = rig.open(0);
    let connect = Fabrics::Connect {
        queue: 1,
        entries: 128,
        no_flow_control: true,
        keep_alive: 0,
    };
    let data = wire::nvme::command::ConnectData {
        controller,
        ..connect_data(subsystem())
    };
    rig.command(
        id,
        connect.entry(1).with_data(in_capsule(1024)),
        &data.to_bytes(),
    );
    assert_eq!(rig.reply(id).0.sq_head, 0xffff);
    let pointer = DataPointer::Transport { len: 256 << 10 };
    rig.command(id, read(0, 512).entry(1, 1).with_data(pointer), &[]);
    let parts: Vec<_> = std::iter::from_fn(|| rig.receive(id)).collect();
    let flags = |at: usize| match parts[at].pdu {
        Pdu::C2HData(data) => (data.last, data.success),
        other => panic!("{other:?}"),
    };
    assert_eq!(parts.len(), 2);
    assert_eq!((flags(0), flags(1)), ((false, false), (true, true)));
    assert!(rig.buffers.is_empty());
    // A failure needs one.
    rig.command(
        id,
        read(BLOCKS, 1)
            .entry(1, 1)
            .with_data(DataPointer::Transport { len: 512 }),
        &[],
    );
    assert!(rig.reply(id).0.status.is(Status::LBA_OUT_OF_RANGE));
}

#[test]
fn reads_and_compares_with_fua_are_of_what_is_durable() {
    let blocks = blocks(0, 1);
    for (fua, volatile_cache) in [(false, true), (true, true), (true, false)] {
        let mut config = config();
        for namespace in &mut config.subsystems[0].namespaces {
            namespace.volatile_cache = volatile_cache;
        }
        let mut rig = Rig::with(config);
        let (id, _) = rig.queue();
        rig.at_once = false;
        for (cid, io) in [
            (1, Io::Read { blocks, fua }),
            (2, Io::Compare { blocks, fua }),
        ] {
            let data = DataPointer::Transport { len: 512 };
            rig.command(id, io.entry(cid, 1).with_data(data), &[]);
            if let Io::Compare { .. } = io {
                let r2t = rig.r2t(id);
                rig.answer(id, r2t, &[0; 512]);
            }
            let asked = rig.asked.pop().expect("work for the store");
            let (Operation::Read { fua: asked, .. } | Operation::Compare { fua: asked, .. }) =
                asked.operation
            else {
                panic!("{asked:?}");
            };
            assert_eq!(asked, fua && volatile_cache);
        }
    }
}

#[test]
fn the_queue_head_counts_entries() {
    let mut rig = Rig::new();
    let (id, _) = rig.queue();
    // Connect was the first.
    for expected in 2..300u32 {
        rig.command(id, Io::Flush.entry(1, 1), &[]);
        assert_eq!(u32::from(rig.reply(id).0.sq_head), expected % 128);
    }
}

#[test]
fn what_is_out_of_bounds_is_refused() {
    let mut rig = Rig::new();
    let (id, _) = rig.queue();
    let cases = [
        (1, read(BLOCKS - 1, 2), 1024, Status::LBA_OUT_OF_RANGE),
        (1, read(u64::MAX, 1), 512, Status::LBA_OUT_OF_RANGE),
        (1, read(1 << 55, 1), 512, Status::LBA_OUT_OF_RANGE),
        (2, read(0, 1), 512, Status::INVALID_FIELD),
        (1024, read(0, 1), 512, Status::INVALID_FIELD),
        (1025, read(0, 1), 512, Status::INVALID_NAMESPACE),
        (0, read(0, 1), 512, Status::INVALID_NAMESPACE),
        (0xffff_ffff, read(0, 1), 512, Status::INVALID_NAMESPACE),
        (1, read(0, 1), 1024, Status::SGL_LENGTH_INVALID),
        (1, read(0, 2), 512, Status::SGL_LENGTH_INVALID),
        (1, read(0, 2049), 2049 * 512, Status::INVALID_FIELD),
    ];
    for (nsid, io, len, expected) in cases {
        let (status, data) = rig.read(id, nsid, io, len);
        assert!(status.is(expected) && status.is_final(), "{io:?}: {status}");
        assert!(data.is_empty());
    }
    let (status, _) = {
        let entry = read(0, 1).entry(1, 1).with_data(in_capsule(512));
        rig.command(id, entry, &[0; 512]);
        let (entry, data) = rig.reply(id);
        (entry.status, data)
    };
    assert!(status.is(Status::SGL_TYPE_INVALID));
    let keyed = read(0, 1)
        .entry(1, 1)
        .with_data(DataPointer::parse(&[0x40; 16]));
    assert!(rig.simple(id, keyed).is(Status::SGL_TYPE_INVALID));
}

#[test]
fn nobody_writes_to_a_read_only_namespace() {
    let mut rig = Rig::new();
    let id = rig.open(0);
    let mut data = connect_data(other_subsystem());
    let reply = rig.connect_as(id, data, 0, 32, 0);
    let on = Fabrics::PropertySet(
        wire::nvme::command::Property::CC,
        wire::nvme::command::Configuration::ENABLED.0.into(),
    );
    rig.simple(id, on.entry(1));
    data.controller = reply.dword0() as u16;
    let id = rig.open(0);
    assert!(rig.connect_as(id, data, 1, 32, 0).status.is_success());
    let entry = write(0, 1).entry(1, 1).with_data(in_capsule(512));
    rig.command(id, entry, &[1; 512]);
    assert!(rig.reply(id).0.status.is(Status::WRITE_PROTECTED));
    let zeroes = Io::WriteZeroes {
        blocks: blocks(0, 1),
        fua: false,
        deallocate: false,
    };
    assert!(
        rig.simple(id, zeroes.entry(1, 1))
            .is(Status::WRITE_PROTECTED)
    );
    assert!(rig.read(id, 1, read(0, 1), 512).0.is_success());
}

#[test]
fn compare_compares_in_the_capsule_and_not() {
    let mut rig = Rig::new();
    let (id, _) = rig.queue();
    let data = pattern(64 << 10, 1);
    rig.stores[0][..64 << 10].copy_from_slice(&data);
    let mut wrong = data.clone();
    wrong[40_000] ^= 1;
    let compare = |count| Io::Compare {
        blocks: blocks(0, count),
        fua: false,
    };
    let pointer = DataPointer::Transport { len: 64 << 10 };
    for (data, equal) in [(&data, true), (&wrong, false)] {
        rig.command(id, compare(128).entry(1, 1).with_data(pointer), &[]);
        let r2t = rig.r2t(id);
        rig.answer(id, r2t, data);
        let status = rig.reply(id).0.status;
        assert_eq!(status.is_success(), equal);
        assert_eq!(status.is(Status::COMPARE_FAILURE), !equal);
    }
    rig.command(
        id,
        compare(8).entry(1, 1).with_data(in_capsule(4096)),
        &data[..4096],
    );
    assert!(rig.reply(id).0.status.is_success());
    assert!(rig.buffers.is_empty());
}

#[test]
fn zeroes_and_deallocation_reach_the_store() {
    let mut rig = Rig::new();
    let (id, _) = rig.queue();
    rig.stores[0].fill(7);
    let zeroes = Io::WriteZeroes {
        blocks: blocks(10, 5),
        fua: true,
        deallocate: true,
    };
    assert!(rig.simple(id, zeroes.entry(1, 1)).is_success());
    assert_eq!(rig.stores[0][5120..7680], [0; 2560]);
    assert_eq!(rig.stores[0][7680], 7);
    let range = |start, count| Range {
        attributes: 0,
        count,
        start,
    };
    let encode = |ranges: &[Range]| ranges.iter().flat_map(|r| r.to_bytes()).collect::<Vec<_>>();
    let dsm = |ranges, deallocate| Io::DatasetManagement { ranges, deallocate };
    let data = encode(&[range(0, 1), range(5, 0), range(20, 2)]);
    rig.command(
        id,
        dsm(3, true).entry(1, 1).with_data(in_capsule(48)),
        &data,
    );
    assert!(rig.reply(id).0.status.is_success());
    assert_eq!((rig.stores[0][511], rig.stores[0][512]), (0, 7));
    assert_eq!(rig.stores[0][10240..11264], [0; 1024]);
    // As Linux sends it: with room for the most ranges.
    let mut data = encode(&[range(30, 1)]);
    data.resize(4096, 0xff);
    let entry = dsm(1, true).entry(1, 1).with_data(in_capsule(4096));
    rig.command(id, entry, &data);
    assert!(rig.reply(id).0.status.is_success());
    assert_eq!(rig.stores[0][30 * 512..31 * 512], [0; 512]);
    // One bad range spoils all.
    let data = encode(&[range(1, 1), range(BLOCKS, 1)]);
    rig.command(
        id,
        dsm(2, true).entry(1, 1).with_data(in_capsule(32)),
        &data,
    );
    assert!(rig.reply(id).0.status.is(Status::LBA_OUT_OF_RANGE));
    assert_eq!(rig.stores[0][512], 7);
    // A hint changes nothing.
    rig.command(
        id,
        dsm(2, false).entry(1, 1).with_data(in_capsule(32)),
        &data,
    );
    assert!(rig.reply(id).0.status.is_success());
}

#[test]
fn writes_are_durable_when_the_host_says_so() {
    let mut rig = Rig::new();
    let (id, admin) = rig.queue();
    rig.at_once = false;
    let fua = |rig: &mut Rig, fua| {
        let io = Io::Write {
            blocks: blocks(0, 1),
            fua,
        };
        rig.command(id, io.entry(1, 1).with_data(in_capsule(512)), &[1; 512]);
        let request = rig.asked.pop().unwrap();
        rig.store(request);
        assert!(rig.reply(id).0.status.is_success());
        match request.operation {
            Operation::Write { fua, .. } => fua,
            other => panic!("{other:?}"),
        }
    };
    assert!(!fua(&mut rig, false));
    assert!(fua(&mut rig, true));
    let off = Admin::SetFeatures {
        feature: Feature::VOLATILE_WRITE_CACHE,
        save: false,
        nsid: 0,
        value: 0,
    };
    assert!(rig.simple(admin, off.entry(1)).is_success());
    assert!(fua(&mut rig, false), "the host disabled the cache");
    rig.command(id, Io::Flush.entry(1, 7), &[]);
    let request = rig.asked.pop().unwrap();
    assert_eq!(
        (request.store, request.operation),
        (StoreId(1), Operation::Flush)
    );
    let all = rig.target.counters();
    assert_eq!((all.writes, all.bytes_written), (3, 1536));
}

#[test]
fn an_error_of_the_store_reaches_the_host() {
    let mut rig = Rig::new();
    let (id, _) = rig.queue();
    rig.store_error = Some(Status::UNRECOVERED_READ_ERROR);
    let (status, data) = rig.read(id, 1, read(0, 1), 512);
    assert_eq!((status, data.len()), (Status::UNRECOVERED_READ_ERROR, 0));
    rig.store_error = None;
    assert!(rig.read(id, 1, read(0, 1), 512).0.is_success());
}

#[test]
fn a_damaged_capsule_fails_that_command_alone() {
    let mut rig = Rig::new();
    let (id, _) = rig.queue();
    let entry = write(0, 1).entry(1, 1).with_data(in_capsule(512));
    let capsule = Pdu::CapsuleCmd(wire::nvme::CapsuleCmd {
        sqe: entry.to_bytes(),
        data_len: 512,
    });
    rig.send_damaged(id, capsule, &[1; 512], false).unwrap();
    assert_eq!(rig.reply(id).0.status, Status::TRANSIENT_TRANSPORT_ERROR);
    assert_eq!(rig.stores[0][0], 0);
    rig.command(id, entry, &[1; 512]);
    assert!(rig.reply(id).0.status.is_success());
}

#[test]
fn damaged_data_fails_its_command_when_all_of_it_has_come() {
    let mut config = config();
    config.limits.r2t_data = 4096;
    let mut rig = Rig::with(config);
    let (_, controller) = rig.admin(subsystem(), 0);
    let id = rig.io_queue(controller, 1, 1);
    let pointer = DataPointer::Transport { len: 16384 };
    rig.command(id, write(0, 32).entry(1, 1).with_data(pointer), &[]);
    let (first, second) = (rig.r2t(id), rig.r2t(id));
    let h2c = |r2t: wire::nvme::R2T| {
        Pdu::H2CData(wire::nvme::H2CData {
            cccid: r2t.cccid,
            ttag: r2t.ttag,
            data_offset: r2t.offset,
            data_len: r2t.len,
            last: true,
        })
    };
    rig.send_damaged(id, h2c(first), &[1; 4096], false).unwrap();
    assert!(
        rig.receive(id).is_none(),
        "no more is asked for, but more comes"
    );
    rig.send(id, h2c(second), &[1; 4096]).unwrap();
    assert_eq!(rig.reply(id).0.status, Status::TRANSIENT_TRANSPORT_ERROR);
    assert!(rig.buffers.is_empty());
    assert_eq!(rig.stores[0][0], 0);
    assert!(rig.read(id, 1, read(0, 1), 512).0.is_success());
}
