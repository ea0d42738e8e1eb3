//! What a host makes of controllers of many kinds, as it is written down in `tests/traces`.

use testkit::written;
use wire::nvme::command::{ConnectReply, ControllerStatus, ShutdownStatus, Version};
use wire::nvme::identify::{ControllerData, ControllerType, LbaFormat, NamespaceData};

use super::*;

fn compare(name: &str, lines: &[String]) {
    written::compare(env!("CARGO_MANIFEST_DIR"), name, lines);
}

/// What became of a host, and of what was lost on the way.
fn told(pair: &mut Pair, events: &mut Vec<String>) -> String {
    while let Some(event) = pair.host.poll_event() {
        events.push(match event {
            Event::Lost(failure) => format!("lost: {failure}"),
            Event::Ended(Some(failure)) => format!("ended: {failure}"),
            event => format!("{event:?}"),
        });
    }
    let next = pair.host.poll_timeout().map(|at| at - pair.now);
    let state = (pair.host.is_ready(), pair.host.is_ended());
    format!("{state:?} {next:?} {:?} {events:?}", pair.closed)
}

/// A controller that is found again answers so: another attempt follows, or not.
#[test]
fn answers_to_a_reconnect() {
    let invalid = |in_data, offset| ConnectReply::Invalid { in_data, offset }.to_dword();
    let mut answers = vec![
        (Status::SUCCESS, 7),
        (Status::SUCCESS, 9),
        (Status::SUCCESS, 7 | 1 << 16),
        (Status::SUCCESS, 7 | 1 << 17),
        (Status::SUCCESS, 7 | 1 << 18),
        (Status::SUCCESS, 7 | 1 << 19),
    ];
    for offset in [0, 16, 256, 511, 512, 767, 768] {
        answers.push((Status::CONNECT_INVALID_PARAMETERS, invalid(true, offset)));
    }
    for offset in [42, 44, 45, 46, 48, 52] {
        answers.push((Status::CONNECT_INVALID_PARAMETERS, invalid(false, offset)));
    }
    for status in [
        Status::CONNECT_INVALID_HOST,
        Status::CONNECT_CONTROLLER_BUSY,
        Status::INVALID_FIELD,
        Status::SEQUENCE_ERROR,
    ] {
        answers.extend([(status, 0), (status.do_not_retry(), 0)]);
    }
    let mut lines = Vec::new();
    for (status, dword) in answers {
        let mut pair = Pair::ready(config());
        pair.peer.connect = (status, dword);
        pair.host.handle_lost(pair.now, 0, "reset".into());
        pair.run();
        pair.closed.clear();
        pair.pass(Duration::from_secs(3));
        let end = told(&mut pair, &mut Vec::new());
        lines.push(format!("{status} {dword:x}: {end}"));
    }
    for status in [
        ControllerStatus::new(false, true, ShutdownStatus::None),
        ControllerStatus::new(false, false, ShutdownStatus::None),
        ControllerStatus::new(true, false, ShutdownStatus::Occurring),
        ControllerStatus::new(true, true, ShutdownStatus::Complete),
    ] {
        let mut pair = Pair::ready(config());
        pair.peer.status = [status].into();
        pair.host.handle_lost(pair.now, 1, "reset".into());
        pair.run();
        pair.closed.clear();
        let mut events = Vec::new();
        let soon = told(&mut pair, &mut events);
        pair.pass(Duration::from_secs(30));
        let late = told(&mut pair, &mut events);
        lines.push(format!("{status:?}: {soon}"));
        lines.push(format!("  {late}"));
    }
    compare("nvme_initiator_answers_to_a_reconnect", &lines);
}

#[test]
fn controllers_of_many_kinds() {
    type Change = (&'static str, fn(&mut ControllerData));
    let changes: [Change; 32] = [
        ("plain", |_| {}),
        ("mdts 0", |d| d.mdts = 0),
        ("mdts 1", |d| d.mdts = 1),
        ("mdts 8", |d| d.mdts = 8),
        ("mdts 20", |d| d.mdts = 20),
        ("mdts 255", |d| d.mdts = 255),
        ("ioccsz 3", |d| d.ioccsz = 3),
        ("ioccsz 4", |d| d.ioccsz = 4),
        ("ioccsz 5", |d| d.ioccsz = 5),
        ("ioccsz most", |d| d.ioccsz = u32::MAX),
        ("iorcsz 0", |d| d.iorcsz = 0),
        ("iorcsz 2", |d| d.iorcsz = 2),
        ("icdoff 0", |d| d.icdoff = 0),
        ("icdoff 1", |d| d.icdoff = 1),
        ("no SGLs", |d| d.sgls = 0),
        ("no offsets", |d| {
            d.sgls &= !wire::nvme::identify::sgls::OFFSET
        }),
        ("no transport", |d| {
            d.sgls &= !wire::nvme::identify::sgls::TRANSPORT
        }),
        ("kas 0", |d| d.kas = 0),
        ("kas 600", |d| d.kas = 600),
        ("maxcmd 1", |d| d.maxcmd = 1),
        ("maxcmd 3", |d| d.maxcmd = 3),
        ("maxcmd 300", |d| d.maxcmd = 300),
        ("oncs 1", |d| d.oncs = 1),
        ("oncs 4", |d| d.oncs = 4),
        ("oncs 8", |d| d.oncs = 8),
        ("vwc 1", |d| d.vwc = 1),
        ("vwc 6", |d| d.vwc = 6),
        ("cntlid 8", |d| d.cntlid = 8),
        ("no events", |d| d.oaes = 0),
        ("discovery", |d| {
            d.controller_type = ControllerType::DISCOVERY
        }),
        ("administrative", |d| d.controller_type = ControllerType(3)),
        ("no type", |d| d.controller_type = ControllerType(0)),
    ];
    let mut lines = Vec::new();
    for (name, change) in changes {
        let versions = [Version::new(1, 2, 1), Version::new(1, 4, 0)];
        // What a version changes shows in one that has no type.
        let first = usize::from(!["plain", "no type", "discovery"].contains(&name));
        for version in versions.into_iter().skip(first) {
            let mut pair = Pair::new(config());
            pair.peer.version = version;
            change(&mut pair.peer.data);
            pair.run();
            let end = told(&mut pair, &mut Vec::new());
            lines.push(format!("{name} {version:?}: {end}"));
            if let Some(info) = pair.host.info() {
                let limits = pair.host.limits();
                let (compare, dsm) = (info.has_compare(), info.has_dataset_management());
                let (zeroes, cache) = (info.has_write_zeroes(), info.has_write_cache());
                let asked = written::sum(format!("{:?}", pair.peer.asked).as_bytes()) as u32;
                lines.push(format!(
                    "  {limits:?} {compare} {dsm} {zeroes} {cache} {} {asked:08x}",
                    pair.peer.keep_alive_ms
                ));
            }
        }
    }
    compare("nvme_initiator_controllers_of_many_kinds", &lines);
}

#[test]
fn namespaces_of_many_kinds() {
    let format = |lbads, metadata| LbaFormat {
        metadata,
        lbads,
        performance: 0,
    };
    let of = |nsze, format, nsattr| NamespaceData {
        nsze,
        ncap: nsze,
        format,
        nsattr,
        ..NamespaceData::default()
    };
    let mut lines = Vec::new();
    for (name, data) in [
        ("of 512", of(1000, format(9, 0), 0)),
        ("protected", of(1000, format(12, 0), 1)),
        ("with metadata", of(1000, format(9, 8), 0)),
        ("empty", of(0, format(9, 0), 0)),
        ("of 256", of(1000, format(8, 0), 0)),
        ("of 64 KiB", of(1000, format(16, 0), 0)),
        ("of 128 KiB", of(1000, format(17, 0), 0)),
        ("of 2 GiB", of(1000, format(31, 0), 0)),
        ("of 4 GiB", of(1000, format(32, 0), 0)),
        ("large", of(1 << 54, format(9, 0), 0)),
        ("too large", of(1 << 55, format(9, 0), 0)),
        ("of no format", of(1000, format(0, 0), 0)),
    ] {
        let mut pair = Pair::new(config());
        // Beside it, one that is as it should be.
        pair.peer.namespaces = [(3, data), (4, of(8, format(9, 0), 0))].into();
        pair.run();
        lines.push(format!("{name}: {}", told(&mut pair, &mut Vec::new())));
        let blocks = Blocks { start: 0, count: 1 };
        let io = Io::Read { blocks, fua: false };
        for nsid in [2, 3, 4] {
            let asked = pair.host.submit(Access { nsid, io });
            pair.run();
            let ends: Vec<_> = pair
                .completions()
                .into_iter()
                .map(|end| end.status)
                .collect();
            let asked = asked.map(|id| (id.index(), ends));
            let asked = asked.map_err(|error| error.to_string());
            let found = pair.host.namespaces().iter().find(|it| it.nsid == nsid);
            let about = found.map(|it| {
                let usable = it.is_usable();
                let size = if usable { it.size() } else { 0 };
                (usable, it.is_write_protected(), size, it.unusable())
            });
            lines.push(format!("  {nsid}: {about:?} {asked:?}"));
        }
    }
    compare("nvme_initiator_namespaces_of_many_kinds", &lines);
}
