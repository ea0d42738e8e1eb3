//! Connections, properties, the discovery controller, and time.

use super::*;

#[test]
fn connecting() {
    let mut config = config();
    config.required_digests = Digests {
        header: true,
        data: false,
    };
    let mut rig = written_rig(config);
    for (pfv, hpda, digests) in [
        (1, 0, Digests::BOTH),
        (0, 32, Digests::BOTH),
        (0, 0, Digests::NONE),
    ] {
        let id = rig.target.accept(rig.now, None).unwrap();
        let request = ICReq {
            pfv,
            hpda,
            digests,
            max_r2t: 0,
        };
        _ = rig.send(id, Pdu::ICReq(request), &[]);
        drain(&mut rig, id);
    }
    let header = Digests {
        header: true,
        data: false,
    };
    let admin = initialize(&mut rig, 31, header, 0);
    let early = [
        Io::Flush.entry(1, 1),
        Admin::KeepAlive.entry(2),
        Fabrics::PropertyGet(Property::CAP).entry(3),
        Fabrics::Disconnect.entry(4),
        connect(0, 32, 0).with_data(transport(1024)),
    ];
    for entry in early {
        say(&mut rig, admin, entry, &[]);
    }
    let data = connect_data(subsystem());
    let short = connect(0, 32, 0).with_data(in_capsule(512));
    say(&mut rig, admin, short, &data.to_bytes()[..512]);
    let other_host = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:two").unwrap();
    let nowhere = Nqn::new("nqn.2026-01.test:nowhere").unwrap();
    let mut unnamed = data.to_bytes();
    unnamed[256] = 0;
    say(&mut rig, admin, connect(0, 32, 0), &unnamed);
    let refused = [
        (
            0,
            32,
            ConnectData {
                controller: 1,
                ..data
            },
        ),
        (
            0,
            32,
            ConnectData {
                subsystem: nowhere,
                ..data
            },
        ),
        (
            0,
            32,
            ConnectData {
                subsystem: other_subsystem(),
                host: other_host,
                ..data
            },
        ),
        (0, 129, data),
        (0, 65536, data),
        (0, 1, data),
        (1, 1, data),
        (1, 32, data),
        (
            1,
            32,
            ConnectData {
                controller: 1,
                ..data
            },
        ),
    ];
    for (queue, entries, data) in refused {
        say(
            &mut rig,
            admin,
            connect(queue, entries, 0),
            &data.to_bytes(),
        );
    }
    say(&mut rig, admin, connect(0, 128, 5001), &data.to_bytes());
    say(&mut rig, admin, connect(0, 128, 5000), &data.to_bytes());
    say(&mut rig, admin, Io::Flush.entry(9, 1), &[]);
    let both = Digests::BOTH;
    let io = initialize(&mut rig, 3, both, 1);
    say(
        &mut rig,
        io,
        connect(1, 32, 0),
        &ConnectData {
            controller: 1,
            ..data
        }
        .to_bytes(),
    );
    rig.enable(admin, true);
    let of = |controller, queue, entries| (controller, queue, entries, data);
    let asked = [
        of(2, 1, 32),
        of(1, 5, 32),
        of(1, 1, 129),
        (
            1,
            1,
            32,
            ConnectData {
                host: other_host,
                ..data
            },
        ),
        (
            1,
            1,
            32,
            ConnectData {
                host_id: [6; 16],
                ..data
            },
        ),
        (
            1,
            1,
            32,
            ConnectData {
                subsystem: other_subsystem(),
                ..data
            },
        ),
        of(1, 1, 128),
        of(1, 1, 32),
        of(1, 2, 2),
        of(1, 4, 3),
    ];
    for (controller, queue, entries, data) in asked {
        let io = initialize(&mut rig, 0, both, 0);
        let data = ConnectData { controller, ..data }.to_bytes();
        say(&mut rig, io, connect(queue, entries, 7000), &data);
        say(&mut rig, io, Io::Flush.entry(9, 7), &[]);
        say(&mut rig, io, connect(queue, entries, 0), &data);
    }
    compare("nvme_target_connecting", rig);
}

#[test]
fn being_configured() {
    let mut rig = written_rig(config());
    let id = initialize(&mut rig, 0, Digests::NONE, 0);
    say(
        &mut rig,
        id,
        connect(0, 32, 0),
        &connect_data(subsystem()).to_bytes(),
    );
    let cc = |value: u32| Fabrics::PropertySet(Property::CC, value.into()).entry(1);
    let see = |rig: &mut Rig, what: &str| {
        for property in [Property::CC, Property::CSTS] {
            brief(
                rig,
                id,
                &format!("{what}: {:x}", property.offset),
                Fabrics::PropertyGet(property).entry(2),
            );
        }
    };
    see(&mut rig, "at first");
    let on = 0x0046_0001;
    for value in [
        0,
        0x0046_0000,
        on,
        0x0046_4001,
        0,
        0x0045_0001,
        0,
        0x0056_0001,
        0,
        0x0046_0801,
        0,
        0x0046_0081,
        0,
        0x0046_0011,
        0,
        1,
        0,
        0x0046_8001,
        0,
    ] {
        rig.command(id, cc(value), &[]);
        drain(&mut rig, id);
        see(&mut rig, &format!("{value:x}"));
    }
    rig.at_once = false;
    let io = |rig: &mut Rig| {
        let io = rig.open(0);
        let data = ConnectData {
            controller: 1,
            ..connect_data(subsystem())
        };
        rig.connect_as(io, data, 1, 32, 0);
        io
    };
    say(&mut rig, id, cc(on), &[]);
    let first = io(&mut rig);
    let write = Io::Write {
        blocks: Blocks { start: 1, count: 1 },
        fua: false,
    };
    rig.command(
        first,
        write.entry(3, 1).with_data(in_capsule(512)),
        &[5; 512],
    );
    for (value, failure) in [
        (0x0046_4001, None),
        (0x0046_8001, Some(Status::WRITE_FAULT)),
    ] {
        say(&mut rig, id, cc(value), &[]);
        see(&mut rig, "shuts down");
        say(&mut rig, id, cc(value), &[]);
        rig.store_error = failure;
        while !rig.asked.is_empty() {
            let request = rig.asked.remove(0);
            rig.store(request);
            rig.act();
            see(&mut rig, "flushed one");
        }
        drain(&mut rig, first);
        say(&mut rig, id, cc(0), &[]);
        see(&mut rig, "reset");
        say(&mut rig, id, cc(on), &[]);
        see(&mut rig, "on again");
    }
    brief(&mut rig, id, "errors", log(1, 0, 256, false));
    compare("nvme_target_being_configured", rig);
}

#[test]
fn discovering() {
    let mut config = config();
    let tls = l5p::nvme::target::Portal {
        address: "fd00::2".parse().unwrap(),
        port: 8009,
        tls: true,
    };
    config.portals.push(tls);
    let mut rig = written_rig(config);
    let id = initialize(&mut rig, 0, Digests::NONE, 0);
    say(
        &mut rig,
        id,
        connect(0, 32, 9000),
        &connect_data(Nqn::DISCOVERY).to_bytes(),
    );
    rig.enable(id, true);
    say(&mut rig, id, Admin::AsyncEventRequest.entry(20), &[]);
    for value in [EventMask::NAMESPACES.0, EventMask::DISCOVERY.0] {
        say(
            &mut rig,
            id,
            set(Feature::ASYNC_EVENT_CONFIGURATION, value),
            &[],
        );
    }
    for (page, offset, len) in [
        (0, 0, 1024),
        (1, 0, 64),
        (2, 0, 512),
        (4, 0, 512),
        (0x70, 0, 1024),
        (0x70, 1024, 1024),
        (0x70, 2048, 2048),
        (0x70, 4000, 3000),
        (0x70, u64::MAX - 3, 8),
    ] {
        brief(
            &mut rig,
            id,
            &format!("log {page:x} {offset:x} {len}"),
            log(page, offset, len, false),
        );
    }
    for change in [Hosts::Any, Hosts::Any, Hosts::Only(vec![])] {
        rig.target.set_hosts(1, change);
        rig.act();
        drain(&mut rig, id);
        brief(&mut rig, id, "read, and kept", log(0x70, 0, 16, true));
        say(&mut rig, id, Admin::AsyncEventRequest.entry(21), &[]);
        brief(&mut rig, id, "read", log(0x70, 0, 16, false));
    }
    for cns in 0..=8 {
        brief(
            &mut rig,
            id,
            &format!("identify {cns}"),
            identify(cns, 1, 0),
        );
    }
    for feature in [1, 2, 4, 6, 7, 0xb, 0xf, 0x81] {
        brief(
            &mut rig,
            id,
            &format!("get {feature:x}"),
            get(Feature(feature), 1, 0),
        );
        brief(
            &mut rig,
            id,
            &format!("set {feature:x}"),
            set(Feature(feature), 1),
        );
    }
    let io = rig.open(0);
    let data = ConnectData {
        controller: 1,
        ..connect_data(Nqn::DISCOVERY)
    };
    say(&mut rig, io, connect(1, 32, 0), &data.to_bytes());
    compare("nvme_target_discovering", rig);
}

#[test]
fn time_that_passes() {
    let (mut rig, admin, io) = in_pieces();
    for _ in 0..3 {
        rig.target.accept(rig.now, None).unwrap();
    }
    let write = Io::Write {
        blocks: blocks(0, 32),
        fua: false,
    };
    rig.command(io, write.entry(1, 1).with_data(transport(32 * 512)), &[]);
    let asked = drain(&mut rig, io);
    for step in 0..24 {
        let next = rig.target.poll_timeout().map(|at| at - rig.now);
        rig.note(|| format!("{step}: {next:?}"));
        match step {
            2 => rig.answer(io, asked[0], &testkit::pattern(1 << 14)),
            6 => say(&mut rig, admin, Admin::KeepAlive.entry(3), &[]),
            _ => {}
        }
        rig.wait(5 * SECOND);
    }
    compare("nvme_target_time_that_passes", rig);
}
