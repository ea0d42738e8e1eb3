//! Identify, features and log pages.

use std::time::Duration;

use wire::nvme::Nqn;
use wire::nvme::command::{Admin, DataPointer, Feature, GetLogPage, Identify, QueueCounts, Status};
use wire::nvme::identify::{
    Cns, ControllerData, ControllerType, NamespaceData, NamespaceIds, NamespaceList, sgls,
};
use wire::nvme::log::{
    DiscoveryEntry, DiscoveryHeader, ErrorEntry, HealthLog, LogPage, SupportedPages,
};

use super::rig::*;

fn identify(cns: Cns, nsid: u32) -> Admin {
    Admin::Identify(Identify {
        cns,
        nsid,
        controller: 0,
        command_set: 0,
        specific: 0,
    })
}

pub fn log(id: LogPage, offset: u64, len: u64) -> Admin {
    Admin::GetLogPage(GetLogPage {
        id,
        specific: 0,
        retain_event: false,
        len,
        offset,
        nsid: 0xffff_ffff,
    })
}

#[test]
fn identify_controller_says_what_linux_insists_on() {
    let mut rig = Rig::new();
    let (id, controller) = rig.admin(subsystem(), 0);
    let (status, data) = rig.ask(id, identify(Cns::CONTROLLER, 0), 4096);
    assert_eq!(status, Status::SUCCESS);
    let data = ControllerData::parse(&data).unwrap();
    assert_eq!(data.cntlid, controller);
    assert_eq!(data.subnqn, Some(subsystem()));
    assert_eq!(data.controller_type, ControllerType::IO);
    assert!(data.kas > 0 && data.ioccsz == (64 + 8192) / 16 && data.iorcsz == 1);
    assert_eq!((data.icdoff, data.mdts), (0, 8));
    assert_eq!(data.vwc & 1, 1);
    let transport = sgls::SUPPORTED | sgls::OFFSET | sgls::TRANSPORT;
    assert_eq!(data.sgls & transport, transport);
    assert_eq!((data.sqes, data.lpa), (0x66, 0x06));
}

#[test]
fn identify_finds_the_namespaces() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    let (_, data) = rig.ask(id, identify(Cns::ACTIVE_NAMESPACES, 0), 4096);
    let nsids: Vec<u32> = NamespaceList::parse(&data).unwrap().iter().collect();
    assert_eq!(nsids, [1, 7]);
    let (_, data) = rig.ask(id, identify(Cns::ACTIVE_NAMESPACES, 1), 4096);
    let nsids: Vec<u32> = NamespaceList::parse(&data).unwrap().iter().collect();
    assert_eq!(nsids, [7]);
    let (_, data) = rig.ask(id, identify(Cns::NAMESPACE, 7), 4096);
    let data = NamespaceData::parse(&data).unwrap();
    assert_eq!(
        (data.nsze, data.format.lbads, data.nguid),
        (BLOCKS, 9, [2; 16])
    );
    let (_, data) = rig.ask(id, identify(Cns::NAMESPACE, 2), 4096);
    assert_eq!(NamespaceData::parse(&data).unwrap().nsze, 0, "not active");
    let (_, data) = rig.ask(id, identify(Cns::NAMESPACE_IDS, 7), 4096);
    let ids = NamespaceIds::parse(&data).unwrap();
    assert_eq!((ids.nguid, ids.csi), (Some([2; 16]), Some(0)));
    for cns in [
        Cns::COMMAND_SET_NAMESPACE,
        Cns::COMMAND_SET_CONTROLLER,
        Cns::INDEPENDENT_NAMESPACE,
    ] {
        let (status, data) = rig.ask(id, identify(cns, 1), 4096);
        assert_eq!((status, data.len()), (Status::SUCCESS, 4096));
    }
}

#[test]
fn what_identify_cannot_answer_is_refused() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    let cases = [
        (identify(Cns(0x10), 0), Status::INVALID_FIELD),
        (
            identify(Cns::NAMESPACE, 0xffff_ffff),
            Status::INVALID_NAMESPACE,
        ),
        (identify(Cns::NAMESPACE, 0), Status::INVALID_NAMESPACE),
        (identify(Cns::NAMESPACE, 1025), Status::INVALID_NAMESPACE),
        (identify(Cns::NAMESPACE_IDS, 2), Status::INVALID_FIELD),
        (identify(Cns::NAMESPACE_IDS, 1024), Status::INVALID_FIELD),
        (
            identify(Cns::NAMESPACE_IDS, 1025),
            Status::INVALID_NAMESPACE,
        ),
        (
            identify(Cns::INDEPENDENT_NAMESPACE, 0),
            Status::INVALID_NAMESPACE,
        ),
        (
            identify(Cns::ACTIVE_NAMESPACES, 0xffff_fffe),
            Status::INVALID_NAMESPACE,
        ),
    ];
    for (admin, expected) in cases {
        let (status, data) = rig.ask(id, admin, 4096);
        assert!(
            status.is(expected) && data.is_empty(),
            "{admin:?}: {status}"
        );
    }
    let (status, _) = rig.ask(id, identify(Cns::CONTROLLER, 0), 512);
    assert!(status.is(Status::SGL_LENGTH_INVALID));
    let entry = identify(Cns::CONTROLLER, 0)
        .entry(1)
        .with_data(in_capsule(4096));
    rig.command(id, entry, &[0; 4096]);
    assert!(rig.reply(id).0.status.is(Status::SGL_TYPE_INVALID));
}

#[test]
fn discovery_lists_what_the_host_may_have() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(Nqn::DISCOVERY, 0);
    let (_, data) = rig.ask(id, identify(Cns::CONTROLLER, 0), 4096);
    let controller = ControllerData::parse(&data).unwrap();
    assert_eq!(controller.controller_type, ControllerType::DISCOVERY);
    assert_eq!(controller.subnqn, Some(Nqn::DISCOVERY));
    let (_, data) = rig.ask(id, log(LogPage::DISCOVERY, 0, 1024), 1024);
    assert_eq!(DiscoveryHeader::parse(&data).unwrap().records, 2);
    let (_, data) = rig.ask(id, log(LogPage::DISCOVERY, 0, 8192), 8192);
    let entry = DiscoveryEntry::parse(&data[1024..]).unwrap();
    assert_eq!((entry.subnqn, entry.port), (subsystem(), 4420));
    let entry = DiscoveryEntry::parse(&data[2048..]).unwrap();
    assert_eq!(entry.subnqn, other_subsystem());
    assert_eq!(data[3072..], [0; 5120]);
    // Any piece of it is the same bytes.
    let (_, piece) = rig.ask(id, log(LogPage::DISCOVERY, 1500, 1000), 1000);
    assert_eq!(piece, data[1500..2500]);

    // A host that is not on the list sees less.
    let mut other = connect_data(Nqn::DISCOVERY);
    other.host = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:two").unwrap();
    let id = rig.open(0);
    assert!(rig.connect_as(id, other, 0, 32, 0).status.is_success());
    let (_, data) = rig.ask(id, log(LogPage::DISCOVERY, 0, 1024), 1024);
    assert_eq!(DiscoveryHeader::parse(&data).unwrap().records, 1);
    let (status, _) = rig.ask(id, identify(Cns::ACTIVE_NAMESPACES, 0), 4096);
    assert!(status.is(Status::INVALID_FIELD));
}

#[test]
fn log_pages_tell_what_happened() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    let (_, data) = rig.ask(id, log(LogPage::SUPPORTED, 0, 1024), 1024);
    let pages = SupportedPages::parse(&data).unwrap();
    assert!(pages.contains(LogPage::HEALTH) && !pages.contains(LogPage::DISCOVERY));
    let (status, _) = rig.ask(id, log(LogPage::DISCOVERY, 0, 1024), 1024);
    assert!(status.is(Status::INVALID_LOG_PAGE));
    let (_, data) = rig.ask(id, log(LogPage::ERROR, 0, 64), 64);
    let error = ErrorEntry::parse(&data).unwrap();
    assert_eq!((error.count, error.status >> 1), (1, status.bits()));
    let (_, data) = rig.ask(id, log(LogPage::HEALTH, 0, 512), 512);
    let health = HealthLog::parse(&data).unwrap();
    assert_eq!((health.error_log_entries, health.power_on_hours), (1, 0));
    rig.wait(Duration::from_secs(3 * 3600 + 1800));
    let (_, data) = rig.ask(id, log(LogPage::HEALTH, 0, 512), 512);
    assert_eq!(HealthLog::parse(&data).unwrap().power_on_hours, 3);
    for page in [LogPage::FIRMWARE, LogPage::COMMAND_EFFECTS] {
        let (status, _) = rig.ask(id, log(page, 0, 512), 512);
        assert_eq!(status, Status::SUCCESS);
    }
    let (status, data) = rig.ask(id, log(LogPage::HEALTH, 512, 512), 512);
    assert_eq!(
        (status, data),
        (Status::SUCCESS, vec![0; 512]),
        "at its end"
    );
    let (status, _) = rig.ask(id, log(LogPage::HEALTH, 0, 2 << 20), 2 << 20);
    assert!(status.is(Status::INVALID_FIELD), "more than MDTS");
}

#[test]
fn log_pages_end_where_they_end() {
    let mut rig = Rig::new();
    let (io, _) = rig.admin(subsystem(), 0);
    let (discovery, _) = rig.admin(Nqn::DISCOVERY, 0);
    rig.target.remove_namespace(0, 7);
    for (id, page, size) in [
        (io, LogPage::SUPPORTED, 1024),
        (io, LogPage::ERROR, 1024),
        (io, LogPage::HEALTH, 512),
        (io, LogPage::FIRMWARE, 512),
        (io, LogPage::COMMAND_EFFECTS, 4096),
        (io, LogPage::CHANGED_NAMESPACES, 4096),
        (discovery, LogPage::DISCOVERY, 1024 + 2 * 1024),
    ] {
        for beyond in [size + 4, u64::MAX - 3] {
            let (status, _) = rig.ask(id, log(page, beyond, 8), 8);
            assert!(status.is(Status::INVALID_FIELD), "{page:?} {beyond}");
        }
        if page == LogPage::CHANGED_NAMESPACES {
            // What is refused clears nothing.
            let (_, data) = rig.ask(id, log(page, 0, 8), 8);
            assert_eq!(data, [7, 0, 0, 0, 0, 0, 0, 0]);
        }
        let (status, data) = rig.ask(id, log(page, size, 8), 8);
        assert_eq!((status, data), (Status::SUCCESS, vec![0; 8]), "{page:?}");
    }
}

#[test]
fn log_pages_are_of_no_single_namespace() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    for (nsid, is_there) in [(0, true), (1, false), (2, false), (0xffff_ffff, true)] {
        let mut entry = log(LogPage::HEALTH, 0, 512)
            .entry(1)
            .with_data(DataPointer::Transport { len: 512 });
        entry.nsid = nsid;
        rig.command(id, entry, &[]);
        let status = rig.reply(id).0.status;
        let expected = if is_there {
            Status::SUCCESS
        } else {
            Status::INVALID_FIELD
        };
        assert!(status.is(expected), "{nsid:x}: {status}");
    }
}

fn set(feature: Feature, value: u32) -> Admin {
    Admin::SetFeatures {
        feature,
        save: false,
        nsid: 0,
        value,
    }
}

fn get(feature: Feature, value: u32) -> Admin {
    Admin::GetFeatures {
        feature,
        select: 0,
        nsid: 0,
        value,
    }
}

#[test]
fn features_are_set_and_read() {
    let mut rig = Rig::new();
    let (id, controller) = rig.admin(subsystem(), 0);
    let dword = |rig: &mut Rig, admin: Admin| {
        rig.command(id, admin.entry(4), &[]);
        let entry = rig.reply(id).0;
        entry.status.ok().map(|()| entry.dword0())
    };
    let counts = |queues| {
        QueueCounts {
            submission: queues,
            completion: queues,
        }
        .to_dword()
    };
    let queues = Feature::NUMBER_OF_QUEUES;
    assert_eq!(dword(&mut rig, set(queues, counts(64))), Ok(counts(4)));
    assert_eq!(dword(&mut rig, set(queues, counts(2))), Ok(counts(2)));
    assert_eq!(dword(&mut rig, get(queues, 0)), Ok(counts(2)));
    assert!(dword(&mut rig, set(queues, 0xffff)).is_err());
    assert_eq!(
        dword(&mut rig, set(Feature::KEEP_ALIVE_TIMER, 1500)),
        Ok(2000)
    );
    assert_eq!(dword(&mut rig, get(Feature::KEEP_ALIVE_TIMER, 0)), Ok(2000));
    assert_eq!(dword(&mut rig, set(Feature::KEEP_ALIVE_TIMER, 0)), Ok(0));
    assert_eq!(
        dword(&mut rig, get(Feature::VOLATILE_WRITE_CACHE, 0)),
        Ok(1)
    );
    assert_eq!(
        dword(&mut rig, set(Feature::VOLATILE_WRITE_CACHE, 0)),
        Ok(0)
    );
    assert_eq!(
        dword(&mut rig, get(Feature::VOLATILE_WRITE_CACHE, 0)),
        Ok(0)
    );
    let refused = dword(&mut rig, set(Feature::HOST_IDENTIFIER, 1)).unwrap_err();
    assert!(refused.is(Status::SEQUENCE_ERROR));
    let refused = dword(&mut rig, get(Feature(0xc0), 0)).unwrap_err();
    assert!(refused.is(Status::INVALID_FIELD));
    let (_, host_id) = rig.ask(id, get(Feature::HOST_IDENTIFIER, 1), 16);
    assert_eq!(host_id, [5; 16]);
    rig.io_queue(controller, 1, 0);
    let refused = dword(&mut rig, set(queues, counts(2))).unwrap_err();
    assert!(refused.is(Status::SEQUENCE_ERROR), "queues are in use");
}

#[test]
fn features_that_change_nothing_are_kept() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    let under = 1 << 20;
    // What they are at first, and dword 11 of a value that is set.
    let cases = [
        (Feature::ARBITRATION, 0, 0x07, 0x0102_0304),
        (Feature::POWER_MANAGEMENT, 0, 0, 1 << 5),
        (Feature::TEMPERATURE_THRESHOLD, 0, 0xffff, 340),
        (Feature::TEMPERATURE_THRESHOLD, under, 0, under | 270),
        (Feature::ERROR_RECOVERY, 0, 0, 20),
    ];
    for (feature, select, first, value) in cases {
        assert_eq!(rig.feature(id, feature, select), Ok(first), "{feature:?}");
        assert_eq!(rig.set_feature(id, feature, value), Status::SUCCESS);
        let set = rig.feature(id, feature, select);
        assert_eq!(set, Ok(value & !select), "{feature:?}");
    }
    let temperature = Feature::TEMPERATURE_THRESHOLD;
    assert_eq!(rig.feature(id, temperature, 0), Ok(340), "the other one");
    // There is one power state, no sensor but the composite one, and no error for deallocated blocks.
    let refused = [
        (Feature::POWER_MANAGEMENT, 1),
        (temperature, 1 << 16 | 340),
        (temperature, 2 << 20 | 340),
        (Feature::ERROR_RECOVERY, 1 << 16),
    ];
    for (feature, value) in refused {
        let status = rig.set_feature(id, feature, value);
        assert!(status.is(Status::INVALID_FIELD), "{feature:?}");
    }
    assert!(rig.feature(id, temperature, 1 << 16).is_err());

    // A discovery controller has none of them.
    let (discovery, _) = rig.admin(Nqn::DISCOVERY, 0);
    for (feature, ..) in cases {
        assert!(rig.feature(discovery, feature, 0).is_err());
        let status = rig.set_feature(discovery, feature, 0);
        assert!(status.is(Status::INVALID_FIELD), "{feature:?}");
    }
}

#[test]
fn commands_that_the_controller_does_not_have_are_refused() {
    let mut rig = Rig::new();
    let (id, _) = rig.admin(subsystem(), 0);
    for opcode in [0x00, 0x01, 0x0d, 0x10, 0x80, 0xff] {
        let entry = wire::nvme::command::SubmissionEntry::new(opcode, 1, 0);
        assert!(rig.simple(id, entry).is(Status::INVALID_OPCODE));
    }
    let mut fused = Admin::KeepAlive.entry(1);
    fused.flags |= 1;
    assert!(rig.simple(id, fused).is(Status::INVALID_FIELD));
    let mut prp = Admin::KeepAlive.entry(1);
    prp.flags = 0;
    assert!(rig.simple(id, prp).is(Status::INVALID_FIELD));
    let offset = Admin::KeepAlive
        .entry(1)
        .with_data(DataPointer::InCapsule { offset: 8, len: 0 });
    assert!(rig.simple(id, offset).is(Status::SGL_OFFSET_INVALID));
    assert_eq!(rig.simple(id, Admin::KeepAlive.entry(1)), Status::SUCCESS);
}
