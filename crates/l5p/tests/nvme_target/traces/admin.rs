//! Admin commands.

use super::*;

/// Namespaces of several kinds.
pub fn many_namespaces() -> Config {
    let mut config = config();
    let namespaces = &mut config.subsystems[0].namespaces;
    namespaces[1] = Namespace {
        block_shift: 12,
        blocks: 500,
        deallocate: false,
        ids: NamespaceIds {
            eui64: Some([0x12; 8]),
            uuid: Some([0x34; 16]),
            ..NamespaceIds::default()
        },
        ..namespaces[1]
    };
    namespaces.push(Namespace {
        read_only: true,
        volatile_cache: false,
        ..namespace(300, 2)
    });
    config.subsystems[0].serial = "a serial that is longer than it may be".into();
    config
}

#[test]
fn identifying() {
    let mut rig = written_rig(many_namespaces());
    let (admin, _) = rig.admin(subsystem(), 0);
    for cns in 0..=8 {
        for nsid in [0, 1, 2, 7, 300, 0xffff_fffd, 0xffff_fffe, 0xffff_ffff] {
            let what = format!("identify {cns:02x} of {nsid:x}");
            brief(&mut rig, admin, &what, identify(cns, nsid, 0));
        }
    }
    for (cns, set) in [(5, 1), (6, 2), (7, 1), (8, 1), (9, 0), (0x10, 0)] {
        let what = format!("identify {cns:02x} of set {set}");
        brief(&mut rig, admin, &what, identify(cns, 1, set));
    }
    let read_only = initialize(&mut rig, 0, Digests::NONE, 0);
    say(
        &mut rig,
        read_only,
        connect(0, 32, 0),
        &connect_data(other_subsystem()).to_bytes(),
    );
    for cns in [0, 1, 8] {
        brief(
            &mut rig,
            read_only,
            "before it is enabled",
            identify(cns, 1, 0),
        );
    }
    compare("nvme_target_identifying", rig);
}

#[test]
fn log_pages() {
    let mut rig = written_rig(config());
    let (admin, controller) = rig.admin(subsystem(), 0);
    let io = rig.io_queue(controller, 1, 0);
    rig.trace = Some(Vec::new());
    rig.wait(5000 * SECOND);
    for count in [1, 250, 250, 250, 248, 1, 1] {
        let write = Io::Write {
            blocks: blocks(0, count),
            fua: false,
        };
        let read = Io::Read {
            blocks: blocks(3, count),
            fua: false,
        };
        let compare = Io::Compare {
            blocks: blocks(3, count),
            fua: false,
        };
        let trace = rig.trace.take();
        for io_command in [write, read, compare] {
            say(
                &mut rig,
                io,
                io_command.entry(1, 1).with_data(transport(512 * count)),
                &[],
            );
        }
        rig.trace = trace;
        brief(
            &mut rig,
            admin,
            &format!("log 02 after {count}"),
            log(2, 0, 512, false),
        );
    }
    for page in [0, 1, 2, 3, 4, 5, 6, 0x0e, 0x70, 0x80] {
        for (offset, len) in [
            (0, 512),
            (0, 4096),
            (4, 8),
            (60, 72),
            (500, 3000),
            (4092, 8),
            (u64::MAX - 3, 64),
        ] {
            brief(
                &mut rig,
                admin,
                &format!("log {page:02x} {offset:x} {len}"),
                log(page, offset, len, false),
            );
        }
    }
    rig.wait(3600 * SECOND);
    brief(&mut rig, admin, "an hour later", log(2, 0, 512, false));
    for nsid in [0, 1, 2, u32::MAX] {
        let mut entry = log(2, 0, 512, false);
        entry.nsid = nsid;
        brief(&mut rig, admin, &format!("log 02 of {nsid:x}"), entry);
    }
    for (len, said) in [
        (512, 508),
        (512, 516),
        (1 << 20, 1 << 20),
        ((1 << 20) + 4, (1 << 20) + 4),
    ] {
        let entry = log(5, 0, len, false).with_data(transport(said));
        brief(&mut rig, admin, &format!("{len} into {said}"), entry);
    }
    compare("nvme_target_log_pages", rig);
}

#[test]
fn features() {
    let mut rig = written_rig(config());
    let (admin, controller) = rig.admin(subsystem(), 7300);
    rig.trace = Some(Vec::new());
    let values = [
        0,
        1,
        2,
        0x1f,
        0x20,
        0xff,
        0x100,
        300,
        1500,
        0xffff,
        0x1_0000,
        0x2_0003,
        0xf_0150,
        0x10_0140,
        0x20_0000,
        0x8000_0000,
        u32::MAX,
    ];
    let name = |feature: u8| format!("feature {feature:02x}");
    for feature in (0..=0x12).chain([0x16, 0x78, 0x80, 0x81, 0x82, 0x84, 0xc0, 0xff]) {
        let mut line = name(feature);
        let mut at_once = |rig: &mut Rig, what: &str, entry: SubmissionEntry| {
            rig.command(admin, entry, &[]);
            let (end, data) = rig.reply(admin);
            let (status, dword) = (end.status.bits(), end.dword0());
            line += &match (status, data.is_empty()) {
                (0, true) => format!(" {what}={dword:x}"),
                (0, false) => format!(" {what}={}", written::bytes(&data)),
                _ => format!(" {what}!{status:x}"),
            };
        };
        let trace = rig.trace.take();
        for select in 0..4 {
            at_once(
                &mut rig,
                &format!("get{select}"),
                get(Feature(feature), 0, select),
            );
        }
        for value in values {
            at_once(
                &mut rig,
                &format!("set{value:x}"),
                set(Feature(feature), value),
            );
            let seen = get(Feature(feature), value & 0x3f_0000 | value & 1, 0);
            at_once(&mut rig, "get", seen);
        }
        rig.trace = trace;
        for part in line.as_bytes().chunks(180) {
            rig.note(|| String::from_utf8_lossy(part).into_owned());
        }
    }
    let saved = Admin::SetFeatures {
        feature: Feature::ARBITRATION,
        save: true,
        nsid: 0,
        value: 1,
    };
    brief(&mut rig, admin, "saved", saved.entry(1));
    let into = |data| get(Feature::HOST_IDENTIFIER, 1, 0).with_data(data);
    brief(&mut rig, admin, "8 bytes", into(transport(8)));
    brief(&mut rig, admin, "no bytes", into(DataPointer::NONE));
    rig.io_queue(controller, 1, 0);
    brief(
        &mut rig,
        admin,
        "with queues",
        set(Feature::NUMBER_OF_QUEUES, 0x1_0001),
    );
    compare("nvme_target_features", rig);
}

#[test]
fn opcodes() {
    let mut rig = written_rig(config());
    let (admin, controller) = rig.admin(subsystem(), 0);
    let io = rig.io_queue(controller, 1, 0);
    rig.trace = Some(Vec::new());
    for (name, id) in [("admin", admin), ("I/O", io)] {
        let trace = rig.trace.take();
        let ends: Vec<String> = (0..=255)
            .map(|opcode| {
                rig.command(id, SubmissionEntry::new(opcode, 1, 1), &[]);
                let all = std::iter::from_fn(|| rig.receive(id));
                let all: Vec<_> = all.map(|it| lines::pdu(&it.pdu, &it.data)).collect();
                all.join(", ")
                    .replace(" head", "\0")
                    .split('\0')
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        rig.trace = trace;
        let mut at = 0;
        for same in ends.chunk_by(|one, other| one == other) {
            let to = at + same.len() - 1;
            rig.note(|| format!("{name} {at:02x} to {to:02x}: {}", same[0]));
            at = to + 1;
        }
    }
    // Properties, and fabrics commands.
    for offset in (0..0x30).step_by(4) {
        for wide in [false, true] {
            let property = Property { offset, wide };
            brief(
                &mut rig,
                admin,
                &format!("{offset:x} {wide}"),
                Fabrics::PropertyGet(property).entry(2),
            );
        }
    }
    for (property, value) in [
        (Property::CAP, 1),
        (Property::CSTS, 1),
        (Property::NSSR, 0x4e56_4d65),
    ] {
        let set = Fabrics::PropertySet(property, value);
        brief(&mut rig, admin, &format!("{property:?} set"), set.entry(3));
    }
    for id in [admin, io] {
        brief(&mut rig, id, "disconnect", Fabrics::Disconnect.entry(4));
        for kind in 0..=9 {
            brief(
                &mut rig,
                id,
                &format!("fabrics {kind}"),
                SubmissionEntry::new(0x7f, 5, kind),
            );
        }
        for flags in [0, 0x40, 0x41, 0x80, 0xc0] {
            let mut entry = Fabrics::PropertyGet(Property::VS).entry(7);
            entry.flags = flags;
            brief(&mut rig, id, &format!("fabrics flags {flags:02x}"), entry);
        }
        for flags in [0, 0x01, 0x40, 0x41, 0x42, 0x80, 0xc0] {
            let mut entry = SubmissionEntry::new(if id == io { 0 } else { 0x18 }, 6, 1);
            entry.flags = flags;
            brief(&mut rig, id, &format!("flags {flags:02x}"), entry);
        }
    }
    compare("nvme_target_opcodes", rig);
}

#[test]
fn events_and_aborts() {
    let mut rig = written_rig(config());
    let (admin, controller) = rig.admin(subsystem(), 0);
    let io = rig.io_queue(controller, 1, 0);
    rig.trace = Some(Vec::new());
    for value in [
        EventMask::DISCOVERY.0,
        0xff,
        EventMask::NAMESPACES.0 | 0x11,
        EventMask::NAMESPACES.0 | 0x200,
    ] {
        say(
            &mut rig,
            admin,
            set(Feature::ASYNC_EVENT_CONFIGURATION, value),
            &[],
        );
    }
    for cid in 20..26 {
        say(&mut rig, admin, Admin::AsyncEventRequest.entry(cid), &[]);
    }
    rig.target.remove_namespace(0, 9);
    drain(&mut rig, admin);
    rig.target.set_namespace(0, namespace(9, 2)).unwrap();
    drain(&mut rig, admin);
    rig.target.remove_namespace(0, 7);
    drain(&mut rig, admin);
    say(&mut rig, admin, log(4, 0, 16, true), &[]);
    rig.target
        .set_namespace(
            0,
            Namespace {
                blocks: 77,
                ..namespace(1, 0)
            },
        )
        .unwrap();
    drain(&mut rig, admin);
    say(&mut rig, admin, log(4, 0, 16, false), &[]);
    rig.target
        .set_namespace(
            0,
            Namespace {
                read_only: true,
                ..namespace(1, 0)
            },
        )
        .unwrap();
    drain(&mut rig, admin);
    say(&mut rig, admin, log(4, 4, 16, false), &[]);
    say(&mut rig, admin, log(4, 0, 16, false), &[]);
    // One of the requests' identifiers is used for something else, and others are given up.
    say(&mut rig, admin, set(Feature::ARBITRATION, 0), &[]);
    say(&mut rig, admin, Admin::KeepAlive.entry(22), &[]);
    let abort = |queue, cid| Admin::Abort { queue, cid }.entry(50);
    for (queue, cid) in [
        (0, 23),
        (0, 23),
        (0, 50),
        (0, 99),
        (1, 23),
        (2, 23),
        (0xffff, 1),
    ] {
        say(&mut rig, admin, abort(queue, cid), &[]);
    }
    rig.has_memory = false;
    rig.at_once = false;
    let blocks = Blocks {
        start: 0,
        count: 64,
    };
    for (cid, io_command) in [
        (1, Io::Read { blocks, fua: false }),
        (2, Io::Write { blocks, fua: false }),
        (3, Io::Flush),
    ] {
        let len = if cid == 3 { 0 } else { 64 * 512 };
        say(
            &mut rig,
            io,
            io_command.entry(cid, 9).with_data(transport(len)),
            &[],
        );
    }
    let (command, len) = rig.waiting.remove(1);
    rig.give(command, len);
    for cid in 1..5 {
        say(&mut rig, admin, abort(1, cid), &[]);
        drain(&mut rig, io);
    }
    rig.target.handle_closed(io);
    rig.act();
    while let Some(request) = rig.asked.pop() {
        rig.store(request);
        rig.act();
    }
    brief(&mut rig, admin, "errors", log(1, 0, 512, false));
    rig.target.handle_closed(admin);
    rig.act();
    compare("nvme_target_events_and_aborts", rig);
}
