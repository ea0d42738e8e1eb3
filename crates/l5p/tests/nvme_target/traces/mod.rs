//! Conversations with a target that are [written] down in `tests/traces`.

mod admin;
mod connecting;
mod io;
mod of_all_kinds;

use std::time::Duration;

use l5p::nvme::target::{Config, ConnectionId, Hosts, Namespace};
use testkit::written;
use wire::nvme::command::{
    Admin, Blocks, ConnectData, DataPointer, EventMask, Fabrics, Feature, Io, Property, Range,
    Status, SubmissionEntry,
};
use wire::nvme::identify::{Cns, NamespaceIds};
use wire::nvme::log::LogPage;
use wire::nvme::{Digests, FatalError, H2CData, ICReq, Nqn, Pdu, R2T, TermReq};

use crate::lines;
use crate::rig::*;

/// Lines written down of a conversation; of what comes behind, only a sum.
const WRITTEN: usize = 100;
const SECOND: Duration = Duration::from_secs(1);

/// A target of which all is written down.
pub fn written_rig(config: Config) -> Rig {
    let mut rig = Rig::with(config);
    rig.trace = Some(Vec::new());
    for (n, store) in rig.stores.iter_mut().enumerate() {
        store.copy_from_slice(&testkit::pattern_of(BLOCK * BLOCKS as usize, n as u32));
    }
    rig
}

/// What the target says of itself.
pub fn sum_up(rig: &mut Rig) {
    let now = rig.now;
    for machine in 0..rig.target.machines.len() {
        let machine = &rig.target.machines[machine];
        let counters = format!("{:?}", machine.counters());
        let queues: Vec<String> = machine
            .queues()
            .map(|queue| {
                let (controller, number, entries) = (queue.controller, queue.queue, queue.entries);
                let deadline = queue.deadline.map(|at| at - now);
                let in_flight = queue.in_flight;
                format!("queue {number} of controller {controller}: {entries} entries, {in_flight} in flight, {deadline:?}")
            })
            .collect();
        let (front, back) = counters.split_at(counters.len() / 2);
        let more = [front.to_owned(), back.to_owned()];
        rig.trace
            .as_mut()
            .unwrap()
            .extend(queues.into_iter().chain(more));
    }
    let timeout = rig.target.poll_timeout().map(|at| at - now);
    let stores: Vec<String> = rig
        .stores
        .iter()
        .map(|store| format!("{:08x}", l5p::crc32c::Crc32c::of(store)))
        .collect();
    let kept = (
        rig.buffers.len(),
        rig.target.connections(),
        rig.target.controllers(),
    );
    rig.note(|| {
        format!("next {timeout:?}, buffers connections controllers {kept:?}, stores {stores:?}")
    });
}

fn compare(name: &str, mut rig: Rig) {
    let lines = rig.trace.take().expect("it was written down");
    let lines = written::shorten(lines, WRITTEN);
    rig.trace = Some(lines);
    sum_up(&mut rig);
    let lines = rig.trace.take().expect("it was written down");
    written::compare(env!("CARGO_MANIFEST_DIR"), name, &lines);
}

/// All that comes.
fn drain(rig: &mut Rig, id: ConnectionId) -> Vec<R2T> {
    let mut r2ts = Vec::new();
    while let Some(received) = rig.receive(id) {
        if let Pdu::R2T(r2t) = received.pdu {
            r2ts.push(r2t);
        }
    }
    r2ts
}

/// A command, and all that comes; answers what data is asked for.
fn say(rig: &mut Rig, id: ConnectionId, entry: SubmissionEntry, data: &[u8]) {
    rig.command(id, entry, data);
    let all = testkit::pattern(1 << 20);
    let mut asked = drain(rig, id);
    while !asked.is_empty() {
        for r2t in asked {
            rig.answer(id, r2t, &all);
        }
        asked = drain(rig, id);
    }
}

/// As [`say`], with what it says on one line: the opcode, what was asked, and what came.
fn brief(rig: &mut Rig, id: ConnectionId, what: &str, entry: SubmissionEntry) {
    let trace = rig.trace.take();
    rig.command(id, entry, &[]);
    let mut data = Vec::new();
    let mut end = String::from("nothing");
    while let Some(received) = rig.receive(id) {
        match received.pdu {
            Pdu::C2HData(_) => data.extend(received.data),
            pdu => end = lines::pdu(&pdu, &received.data),
        }
    }
    rig.trace = trace;
    let data = match data.is_empty() {
        true => String::new(),
        false => format!(" | {}", written::bytes(&data)),
    };
    rig.note(|| format!("{what}: {end}{data}"));
}

fn transport(len: u32) -> DataPointer {
    DataPointer::Transport { len }
}

fn connect(queue: u16, entries: u32, keep_alive: u32) -> SubmissionEntry {
    let connect = Fabrics::Connect {
        queue,
        entries,
        no_flow_control: queue == 2,
        keep_alive,
    };
    connect.entry(0x77).with_data(in_capsule(1024))
}

fn initialize(rig: &mut Rig, hpda: u8, digests: Digests, max_r2t: u32) -> ConnectionId {
    let id = rig.target.accept(rig.now, None).unwrap();
    let request = ICReq {
        pfv: 0,
        hpda,
        digests,
        max_r2t,
    };
    _ = rig.send(id, Pdu::ICReq(request), &[]);
    drain(rig, id);
    let agreed = rig.target.negotiated(id);
    rig.note(|| format!("{agreed:?}"));
    id
}

fn identify(cns: u8, nsid: u32, command_set: u8) -> SubmissionEntry {
    let what = wire::nvme::command::Identify {
        cns: Cns(cns),
        nsid,
        controller: 0,
        command_set,
        specific: 0,
    };
    Admin::Identify(what)
        .entry(u16::from(cns))
        .with_data(transport(4096))
}

fn log(id: u8, offset: u64, len: u32, retain_event: bool) -> SubmissionEntry {
    let page = wire::nvme::command::GetLogPage {
        id: LogPage(id),
        specific: 0,
        retain_event,
        len: len.into(),
        offset,
        nsid: u32::MAX,
    };
    Admin::GetLogPage(page)
        .entry(u16::from(id))
        .with_data(transport(len))
}

fn set(feature: Feature, value: u32) -> SubmissionEntry {
    let set = Admin::SetFeatures {
        feature,
        save: false,
        nsid: 0,
        value,
    };
    set.entry(5)
}

fn get(feature: Feature, value: u32, select: u8) -> SubmissionEntry {
    let get = Admin::GetFeatures {
        feature,
        select,
        nsid: 0,
        value,
    };
    get.entry(6).with_data(transport(16))
}

/// A target that asks for little at a time, and an I/O queue that lets it ask for two pieces at once.
fn in_pieces() -> (Rig, ConnectionId, ConnectionId) {
    let mut config = config();
    config.limits.r2t_data = 4096;
    config.limits.c2h_data = 8192;
    config.limits.h2c_data = 4096;
    config.limits.in_capsule = 4096;
    let mut rig = written_rig(config);
    let (admin, controller) = rig.admin(subsystem(), 30_000);
    let io = rig.io_queue(controller, 1, 1);
    rig.trace = Some(Vec::new());
    (rig, admin, io)
}

fn blocks(start: u64, count: u32) -> Blocks {
    Blocks { start, count }
}
