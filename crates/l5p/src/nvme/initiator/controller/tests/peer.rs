//! Answers to what a host asks.

use std::collections::{BTreeMap, VecDeque};

use wire::nvme::command::{
    Admin, AsyncEvent, Capabilities, CompletionEntry, Configuration, ConnectReply,
    ControllerStatus, DataPointer, EventMask, Fabrics, Feature, GetLogPage, Property, QueueCounts,
    Shutdown, ShutdownStatus, Status, SubmissionEntry, Version, opcode,
};
use wire::nvme::identify::{
    Cns, ControllerData, ControllerType, LEN, LbaFormat, NamespaceData, NamespaceIds,
    emit_namespace_list, sgls,
};
use wire::nvme::log::{DiscoveryEntry, DiscoveryHeader, LogPage};
use wire::nvme::{C2HData, CapsuleResp, Digests, ICResp, Nqn, Pdu};

use crate::nvme::initiator::{Outgoing, Payload};

use super::BLOCK;

type Answer = Vec<(Pdu, Vec<u8>)>;

/// A controller that does as the test says.
pub(super) struct Peer {
    pub(super) reachable: bool,
    /// What Connect answers, and dword 0.
    pub(super) connect: (Status, u32),
    pub(super) version: Version,
    /// CAP.MPSMIN.
    pub(super) min_page_shift: u64,
    /// CSTS after it was enabled, one for each time it is read; the last one stays.
    pub(super) status: VecDeque<ControllerStatus>,
    pub(super) data: ControllerData,
    pub(super) queues_granted: u32,
    pub(super) namespaces: BTreeMap<u32, NamespaceData>,
    /// UUIDs that are not made of the number.
    pub(super) uuids: BTreeMap<u32, [u8; 16]>,
    pub(super) log: (u64, Vec<DiscoveryEntry>),
    /// Called after each answer about the log.
    pub(super) log_changes: u32,
    /// Entries that the log has left once some were read.
    pub(super) log_left: Option<usize>,
    pub(super) answers_io: bool,
    pub(super) answers_keep_alive: bool,
    /// The open request for events.
    pub(super) event_cid: Option<u16>,
    pub(super) keep_alives: usize,
    pub(super) asked: Vec<Admin>,
    pub(super) configuration: Configuration,
    /// I/O that was not answered: queue and identifier.
    pub(super) io: Vec<(u16, SubmissionEntry)>,
    pub(super) keep_alive_ms: u32,
}

impl Default for Peer {
    fn default() -> Peer {
        let namespace = NamespaceData {
            nsze: 1000,
            ncap: 1000,
            format: LbaFormat {
                metadata: 0,
                lbads: BLOCK.trailing_zeros() as u8,
                performance: 0,
            },
            ..NamespaceData::default()
        };
        let mut data = ControllerData::parse(&[0; LEN]).unwrap();
        data.cntlid = 7;
        data.controller_type = ControllerType::IO;
        data.kas = 10;
        data.sgls = sgls::SUPPORTED | sgls::OFFSET | sgls::TRANSPORT;
        data.ioccsz = 4 + 512;
        data.iorcsz = 1;
        data.mdts = 5;
        data.oaes = EventMask::NAMESPACES.0;
        let accepted = ConnectReply::Accepted {
            controller: 7,
            authentication: false,
        };
        Peer {
            reachable: true,
            connect: (Status::SUCCESS, accepted.to_dword()),
            version: Version::new(1, 4, 0),
            min_page_shift: 0,
            status: [ControllerStatus::new(true, false, ShutdownStatus::None)].into(),
            data,
            queues_granted: 64,
            namespaces: [(1, namespace), (4, namespace)].into(),
            uuids: BTreeMap::new(),
            log: (1, Vec::new()),
            log_changes: 0,
            log_left: None,
            answers_io: true,
            answers_keep_alive: true,
            event_cid: None,
            keep_alives: 0,
            asked: Vec::new(),
            configuration: Configuration(0),
            io: Vec::new(),
            keep_alive_ms: 0,
        }
    }
}

fn response(cid: u16, status: Status, result: u64) -> (Pdu, Vec<u8>) {
    let entry = CompletionEntry {
        result,
        sq_head: 0xffff,
        cid,
        status,
    };
    let cqe = entry.to_bytes();
    (Pdu::CapsuleResp(CapsuleResp { cqe }), Vec::new())
}

fn with_data(cid: u16, data: Vec<u8>) -> Answer {
    let pdu = C2HData {
        cccid: cid,
        data_offset: 0,
        data_len: data.len() as u32,
        last: true,
        success: false,
    };
    vec![(Pdu::C2HData(pdu), data), response(cid, Status::SUCCESS, 0)]
}

impl Peer {
    pub(super) fn connected(&mut self, queue: u16) {
        if queue == 0 {
            self.event_cid = None;
        }
    }

    pub(super) fn answer(&mut self, queue: u16, outgoing: &Outgoing) -> Answer {
        match &outgoing.pdu {
            Pdu::ICReq(_) => {
                let response = ICResp {
                    pfv: 0,
                    cpda: 0,
                    digests: Digests::NONE,
                    max_h2c_data: 65536,
                };
                vec![(Pdu::ICResp(response), Vec::new())]
            }
            Pdu::CapsuleCmd(capsule) => {
                let entry = SubmissionEntry::parse(&capsule.sqe);
                assert!(entry.uses_sgl());
                match entry.opcode {
                    opcode::FABRICS => self.fabrics(&entry, outgoing),
                    _ if queue == 0 => self.admin(&entry),
                    _ if self.answers_io => self.answer_io(&entry),
                    _ => {
                        self.io.push((queue, entry));
                        Vec::new()
                    }
                }
            }
            other => panic!("not expected: {other:?}"),
        }
    }

    pub(super) fn answer_io(&self, entry: &SubmissionEntry) -> Answer {
        match (entry.opcode, entry.data) {
            (opcode::READ, DataPointer::Transport { len }) => {
                with_data(entry.cid, vec![0; len as usize])
            }
            _ => vec![response(entry.cid, Status::SUCCESS, 0)],
        }
    }

    pub(super) fn event(&mut self, event: AsyncEvent) -> Answer {
        let cid = self.event_cid.take().expect("an event is asked for");
        vec![response(cid, Status::SUCCESS, event.to_dword().into())]
    }

    fn fabrics(&mut self, entry: &SubmissionEntry, outgoing: &Outgoing) -> Answer {
        let mut result = 0;
        match Fabrics::parse(entry).unwrap() {
            Fabrics::Connect {
                queue, keep_alive, ..
            } => {
                let Payload::Connect(identity) = &outgoing.payload else {
                    panic!("Connect has data");
                };
                let controller = if queue == 0 { 0xffff } else { 7 };
                assert_eq!(identity.controller, controller);
                if queue == 0 {
                    self.keep_alive_ms = keep_alive;
                }
                return vec![response(entry.cid, self.connect.0, self.connect.1.into())];
            }
            Fabrics::PropertyGet(Property::CAP) => {
                result = Capabilities::new(128, 10).0 | self.min_page_shift << 48;
            }
            Fabrics::PropertyGet(Property::VS) => result = self.version.0.into(),
            Fabrics::PropertyGet(Property::CSTS) => {
                result = self.status[0].0.into();
                if self.status.len() > 1 {
                    self.status.pop_front();
                }
            }
            Fabrics::PropertySet(Property::CC, value) => {
                self.configuration = Configuration(value as u32);
                if self.configuration.shutdown() == Shutdown::Normal {
                    let done = ControllerStatus::new(true, false, ShutdownStatus::Complete);
                    self.status = [done].into();
                }
            }
            other => panic!("not expected: {other:?}"),
        }
        vec![response(entry.cid, Status::SUCCESS, result)]
    }

    fn admin(&mut self, entry: &SubmissionEntry) -> Answer {
        let admin = Admin::parse(entry).unwrap();
        self.asked.push(admin);
        match admin {
            Admin::Identify(identify) => {
                let mut answer = vec![0; LEN];
                match identify.cns {
                    Cns::CONTROLLER => self.data.emit(&mut answer),
                    Cns::ACTIVE_NAMESPACES => {
                        let active = self.namespaces.keys().copied();
                        emit_namespace_list(
                            &mut answer,
                            active.filter(|nsid| *nsid > identify.nsid),
                        );
                    }
                    Cns::NAMESPACE => self.namespaces[&identify.nsid].emit(&mut answer),
                    Cns::NAMESPACE_IDS => NamespaceIds {
                        uuid: match self.uuids.get(&identify.nsid) {
                            None => Some([identify.nsid as u8; 16]),
                            other => other.copied(),
                        },
                        ..NamespaceIds::default()
                    }
                    .emit(&mut answer),
                    _ => {
                        let status = Status::INVALID_FIELD.do_not_retry();
                        return vec![response(entry.cid, status, 0)];
                    }
                }
                with_data(entry.cid, answer)
            }
            Admin::SetFeatures { feature, .. } => {
                let count = self.queues_granted;
                let counts = QueueCounts {
                    submission: count,
                    completion: count,
                };
                let result = match feature {
                    Feature::NUMBER_OF_QUEUES => counts.to_dword(),
                    _ => 0,
                };
                vec![response(entry.cid, Status::SUCCESS, result.into())]
            }
            Admin::GetLogPage(page) => match self.log_page(&page) {
                Some(log) => with_data(entry.cid, log),
                None => {
                    let status = Status::INVALID_FIELD.do_not_retry();
                    vec![response(entry.cid, status, 0)]
                }
            },
            Admin::AsyncEventRequest => {
                self.event_cid = Some(entry.cid);
                Vec::new()
            }
            Admin::KeepAlive => {
                self.keep_alives += 1;
                match self.answers_keep_alive {
                    true => vec![response(entry.cid, Status::SUCCESS, 0)],
                    false => Vec::new(),
                }
            }
            other => panic!("not expected: {other:?}"),
        }
    }

    /// `None`: it ends before the offset.
    fn log_page(&mut self, page: &GetLogPage) -> Option<Vec<u8>> {
        if page.id != LogPage::DISCOVERY {
            return Some(vec![0; page.len as usize]);
        }
        let (generation, entries) = &self.log;
        let mut log = vec![0; DiscoveryHeader::LEN + entries.len() * DiscoveryEntry::LEN];
        DiscoveryHeader {
            generation: *generation,
            records: entries.len() as u64,
        }
        .emit(&mut log);
        let places = log[DiscoveryHeader::LEN..].chunks_exact_mut(DiscoveryEntry::LEN);
        for (entry, place) in entries.iter().zip(places) {
            entry.emit(place);
        }
        if self.log_changes > 0 && page.offset > 0 {
            self.log_changes -= 1;
            self.log.0 += 1;
            self.log.1.pop();
        }
        if let (Some(left), true) = (self.log_left, page.offset > 0) {
            self.log_left = None;
            self.log.0 += 1;
            self.log.1.truncate(left);
        }
        if page.offset as usize > log.len() {
            return None;
        }
        log.resize(log.len().max((page.offset + page.len) as usize), 0);
        Some(log[page.offset as usize..(page.offset + page.len) as usize].to_vec())
    }
}

/// A name of a subsystem.
pub(super) fn subsystem(n: u16) -> Nqn {
    format!("nqn.2024-01.test:{n}").parse().unwrap()
}
