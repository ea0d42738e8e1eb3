//! A target with stores in memory, and hosts that say exactly what a test wants them to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use l5p::nvme::target::{
    Action, CloseReason, CommandRef, Config, ConnectionId, Hosts, Limits, Memory, Namespace,
    Operation, Owner, Place, Portal, PskIdentity, Source, StoreId, StoreRequest, Subsystem, ranges,
};
use wire::nvme::command::{
    Admin, CompletionEntry, Configuration, ConnectData, ConnectReply, ControllerStatus,
    DYNAMIC_CONTROLLER, DataPointer, Fabrics, Feature, Io, Property, Status, SubmissionEntry,
};
use wire::nvme::identify::NamespaceIds;
use wire::nvme::{CapsuleCmd, Digests, FatalError, H2CData, ICReq, Nqn, Pdu, R2T};

use crate::lines;
use crate::targets::Targets;

pub const BLOCK: usize = 512;
pub const BLOCKS: u64 = 4096;

pub fn subsystem() -> Nqn {
    Nqn::new("nqn.2026-01.test:disk").unwrap()
}

pub fn other_subsystem() -> Nqn {
    Nqn::new("nqn.2026-01.test:other").unwrap()
}

pub fn host() -> Nqn {
    Nqn::new("nqn.2014-08.org.nvmexpress:uuid:one").unwrap()
}

pub fn namespace(nsid: u32, store: u32) -> Namespace {
    Namespace {
        nsid,
        store: StoreId(store),
        blocks: BLOCKS,
        block_shift: BLOCK.ilog2() as u8,
        read_only: false,
        volatile_cache: true,
        deallocate: true,
        ids: NamespaceIds {
            nguid: Some([store as u8 + 1; 16]),
            ..NamespaceIds::default()
        },
    }
}

pub fn config() -> Config {
    let with = |nqn, namespaces, hosts| Subsystem {
        nqn,
        serial: "0001".into(),
        model: "test".into(),
        hosts,
        namespaces,
    };
    Config {
        subsystems: vec![
            with(
                subsystem(),
                vec![namespace(1, 0), namespace(7, 1)],
                Hosts::Any,
            ),
            with(
                other_subsystem(),
                vec![Namespace {
                    read_only: true,
                    volatile_cache: false,
                    ..namespace(1, 2)
                }],
                Hosts::Only(vec![host()]),
            ),
        ],
        portals: vec![Portal {
            address: "10.9.0.2".parse().unwrap(),
            port: 4420,
            tls: false,
        }],
        required_digests: Digests::NONE,
        limits: Limits {
            connections: 8,
            controllers: 4,
            io_queues: 4,
            ..Limits::default()
        },
        firmware: "1.0".into(),
    }
}

/// What a host gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub pdu: Pdu,
    pub data: Vec<u8>,
}

pub struct Rig {
    pub target: Targets,
    pub now: Instant,
    pub stores: Vec<Vec<u8>>,
    /// What the stores were asked and have not answered, if they do not answer at once.
    pub asked: Vec<StoreRequest>,
    pub at_once: bool,
    /// Whether memory is there at once.
    pub has_memory: bool,
    pub waiting: Vec<(CommandRef, u32)>,
    pub buffers: BTreeMap<CommandRef, Vec<u8>>,
    pub in_capsule: BTreeMap<CommandRef, Vec<u8>>,
    pub closed: Vec<(ConnectionId, CloseReason)>,
    pub store_error: Option<Status>,
    /// What was said and done, if it is written down.
    pub trace: Option<Vec<String>>,
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(config())
    }

    pub fn with(config: Config) -> Rig {
        Rig::of(config, crate::MACHINES)
    }

    /// A target of so many machines.
    pub fn of(config: Config, machines: usize) -> Rig {
        let now = Instant::now();
        Rig {
            target: Targets::new(now, config, machines),
            now,
            stores: vec![vec![0; BLOCK * BLOCKS as usize]; 3],
            asked: Vec::new(),
            at_once: true,
            has_memory: true,
            waiting: Vec::new(),
            buffers: BTreeMap::new(),
            in_capsule: BTreeMap::new(),
            closed: Vec::new(),
            store_error: None,
            trace: None,
        }
    }

    /// Writes a line down.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    pub fn wait(&mut self, time: Duration) {
        self.now += time;
        self.target.handle_timeout(self.now);
        self.act();
    }

    /// A connection that has exchanged ICReq and ICResp.
    pub fn open(&mut self, max_r2t: u32) -> ConnectionId {
        self.open_as(None, max_r2t)
    }

    /// As [`Rig::open`], of a host that TLS has proved something of.
    pub fn open_as(&mut self, proved: Option<PskIdentity>, max_r2t: u32) -> ConnectionId {
        let id = self.target.accept(self.now, proved).unwrap();
        let request = Pdu::ICReq(ICReq {
            pfv: 0,
            hpda: 0,
            digests: Digests::BOTH,
            max_r2t,
        });
        assert_eq!(self.send(id, request, &[]), Ok(()));
        let reply = self.receive(id).unwrap().pdu;
        let Pdu::ICResp(reply) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(reply.digests, Digests::BOTH);
        id
    }

    /// Hands a PDU over, with its data.
    pub fn send(&mut self, id: ConnectionId, pdu: Pdu, data: &[u8]) -> Result<(), FatalError> {
        self.send_damaged(id, pdu, data, true)
    }

    pub fn send_damaged(
        &mut self,
        id: ConnectionId,
        pdu: Pdu,
        data: &[u8],
        intact: bool,
    ) -> Result<(), FatalError> {
        let place = self.target.handle_pdu(self.now, id, &pdu);
        self.note(|| {
            let place = match &place {
                Ok(place) => lines::place(*place),
                Err(error) => format!("refused: {error}"),
            };
            let damaged = if intact { "" } else { ", damaged" };
            let pdu = lines::pdu(&pdu, data);
            format!("{} < {pdu}{damaged} -> {place}", lines::connection(id))
        });
        self.act();
        let mut inline = &[][..];
        match place? {
            Place::None => assert_eq!(data, &[]),
            Place::Discard => {}
            Place::Inline => inline = data,
            Place::InCapsule { command, len } => {
                assert_eq!(len as usize, data.len());
                self.in_capsule.insert(command, data.to_vec());
            }
            Place::Command {
                command,
                offset,
                len,
            } => {
                assert_eq!(len as usize, data.len());
                let buffer = self.buffers.get_mut(&command).expect("it was given memory");
                buffer[offset as usize..][..data.len()].copy_from_slice(data);
            }
        }
        if !data.is_empty() {
            self.target.handle_pdu_end(self.now, id, intact, inline);
        }
        self.act();
        Ok(())
    }

    pub fn command(&mut self, id: ConnectionId, entry: SubmissionEntry, data: &[u8]) {
        let capsule = CapsuleCmd {
            sqe: entry.to_bytes(),
            data_len: data.len() as u32,
        };
        assert_eq!(self.send(id, Pdu::CapsuleCmd(capsule), data), Ok(()));
    }

    pub fn receive(&mut self, id: ConnectionId) -> Option<Received> {
        let outgoing = self.target.peek_pdu(self.now, id)?;
        let pdu = outgoing.pdu;
        let data = match outgoing.data {
            Source::None => Vec::new(),
            Source::Bytes(bytes) => bytes.to_vec(),
            Source::Command {
                command,
                offset,
                len,
            } => self.buffers[&command][offset as usize..][..len as usize].to_vec(),
        };
        assert_eq!(pdu.data_len() as usize, data.len());
        self.target.pdu_sent(id);
        self.note(|| format!("{} > {}", lines::connection(id), lines::pdu(&pdu, &data)));
        self.act();
        Some(Received { pdu, data })
    }

    /// The data that comes up to the next response, and the response.
    pub fn reply(&mut self, id: ConnectionId) -> (CompletionEntry, Vec<u8>) {
        let mut all = Vec::new();
        loop {
            let Some(received) = self.receive(id) else {
                panic!("no response");
            };
            match received.pdu {
                Pdu::CapsuleResp(response) => {
                    return (CompletionEntry::parse(&response.cqe), all);
                }
                Pdu::C2HData(data) => {
                    assert_eq!(data.data_offset as usize, all.len());
                    all.extend(received.data);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub fn r2t(&mut self, id: ConnectionId) -> R2T {
        match self.receive(id).expect("an R2T").pdu {
            Pdu::R2T(r2t) => r2t,
            other => panic!("{other:?}"),
        }
    }

    /// Answers an R2T with this part of `data`, which is all of the command's.
    pub fn answer(&mut self, id: ConnectionId, r2t: R2T, data: &[u8]) {
        let data = &data[r2t.offset as usize..][..r2t.len as usize];
        let h2c = Pdu::H2CData(H2CData {
            cccid: r2t.cccid,
            ttag: r2t.ttag,
            data_offset: r2t.offset,
            data_len: r2t.len,
            last: true,
        });
        assert_eq!(self.send(id, h2c, data), Ok(()));
    }

    pub fn connect_as(
        &mut self,
        id: ConnectionId,
        data: ConnectData,
        queue: u16,
        entries: u32,
        keep_alive: u32,
    ) -> CompletionEntry {
        self.connect_with(id, &data.to_bytes(), queue, entries, keep_alive)
    }

    /// As [`Rig::connect_as`], with data of any bytes.
    pub fn connect_with(
        &mut self,
        id: ConnectionId,
        data: &[u8],
        queue: u16,
        entries: u32,
        keep_alive: u32,
    ) -> CompletionEntry {
        let connect = Fabrics::Connect {
            queue,
            entries,
            no_flow_control: false,
            keep_alive,
        };
        let entry = connect.entry(0xbeef).with_data(in_capsule(1024));
        self.command(id, entry, data);
        self.reply(id).0
    }

    /// Sets or clears CC.EN.
    pub fn enable(&mut self, admin: ConnectionId, enabled: bool) {
        let configuration = Configuration(Configuration::ENABLED.0 & !u32::from(!enabled));
        let set = Fabrics::PropertySet(Property::CC, configuration.0.into());
        assert_eq!(self.simple(admin, set.entry(1)), Status::SUCCESS);
    }

    pub fn set_feature(&mut self, admin: ConnectionId, feature: Feature, value: u32) -> Status {
        let set = Admin::SetFeatures {
            feature,
            save: false,
            nsid: 0,
            value,
        };
        self.simple(admin, set.entry(1))
    }

    /// Dword 0 of what Get Features answers.
    pub fn feature(
        &mut self,
        admin: ConnectionId,
        feature: Feature,
        value: u32,
    ) -> Result<u32, Status> {
        let get = Admin::GetFeatures {
            feature,
            select: 0,
            nsid: 0,
            value,
        };
        self.command(admin, get.entry(4), &[]);
        let entry = self.reply(admin).0;
        entry.status.ok().map(|()| entry.dword0())
    }

    /// An admin queue, and its controller.
    pub fn admin(&mut self, nqn: Nqn, keep_alive: u32) -> (ConnectionId, u16) {
        let id = self.open(0);
        let reply = self.connect_as(id, connect_data(nqn), 0, 32, keep_alive);
        let ConnectReply::Accepted { controller, .. } =
            ConnectReply::from_dword(reply.dword0(), reply.status.is_success())
        else {
            panic!("{reply:?}");
        };
        self.enable(id, true);
        (id, controller)
    }

    pub fn io_queue(&mut self, controller: u16, queue: u16, max_r2t: u32) -> ConnectionId {
        let id = self.open(max_r2t);
        let data = ConnectData {
            controller,
            ..connect_data(subsystem())
        };
        let reply = self.connect_as(id, data, queue, 128, 0);
        assert!(reply.status.is_success(), "{reply:?}");
        id
    }

    /// A new connection asks to be an I/O queue of 32 entries.
    pub fn ask_for_io_queue(&mut self, nqn: Nqn, controller: u16, queue: u16) -> CompletionEntry {
        let id = self.open(0);
        let data = ConnectData {
            controller,
            ..connect_data(nqn)
        };
        self.connect_as(id, data, queue, 32, 0)
    }

    /// CSTS of a controller.
    pub fn controller_status(&mut self, admin: ConnectionId) -> ControllerStatus {
        self.command(admin, Fabrics::PropertyGet(Property::CSTS).entry(2), &[]);
        ControllerStatus(self.reply(admin).0.result as u32)
    }

    /// An I/O queue of a controller of its own, and that one's admin queue.
    pub fn queue(&mut self) -> (ConnectionId, ConnectionId) {
        let (admin, controller) = self.admin(subsystem(), 0);
        (self.io_queue(controller, 1, 0), admin)
    }

    /// A command without data; answers its status.
    pub fn simple(&mut self, id: ConnectionId, entry: SubmissionEntry) -> Status {
        self.command(id, entry, &[]);
        self.reply(id).0.status
    }

    /// An admin command that answers `len` bytes.
    pub fn ask(&mut self, id: ConnectionId, admin: Admin, len: u32) -> (Status, Vec<u8>) {
        let entry = admin.entry(9).with_data(DataPointer::Transport { len });
        self.command(id, entry, &[]);
        let (entry, data) = self.reply(id);
        (entry.status, data)
    }

    pub fn read(&mut self, id: ConnectionId, nsid: u32, io: Io, len: usize) -> (Status, Vec<u8>) {
        let data = DataPointer::Transport { len: len as u32 };
        self.command(id, io.entry(3, nsid).with_data(data), &[]);
        let (entry, data) = self.reply(id);
        (entry.status, data)
    }

    /// Does what the target asks.
    pub fn act(&mut self) {
        while let Some(action) = self.target.poll_action() {
            self.note(|| format!("  {}", lines::action(&action)));
            match action {
                Action::Buffer { command, len, .. } => {
                    if self.has_memory {
                        self.give(command, len);
                    } else {
                        self.waiting.push((command, len));
                    }
                }
                Action::Store(request) if self.at_once => self.store(request),
                Action::Store(request) => self.asked.push(request),
                Action::Release(command) => {
                    self.waiting.retain(|(waiting, _)| *waiting != command);
                    self.buffers.remove(&command);
                }
                Action::Close { connection, why } => self.closed.push((connection, why)),
                Action::Wake { machine } => unreachable!("{machine} was woken"),
            }
        }
    }

    pub fn give(&mut self, command: CommandRef, len: u32) {
        let had = self.buffers.insert(command, vec![0xee; len as usize]);
        assert_eq!(had, None, "memory twice");
        self.target.handle_buffer(command);
    }

    pub fn store(&mut self, request: StoreRequest) {
        let result = match self.store_error {
            Some(status) => Err(status),
            None => self.execute(request),
        };
        self.target.handle_stored(request.owner, result);
    }

    fn execute(&mut self, request: StoreRequest) -> Result<(), Status> {
        let Owner::Command(command) = request.owner else {
            return Ok(());
        };
        let store = &mut self.stores[request.store.0 as usize];
        let range = |offset: u64, len: u64| offset as usize..(offset + len) as usize;
        let data = |memory| match memory {
            Memory::InCapsule => self.in_capsule[&command].clone(),
            Memory::Buffer => self.buffers[&command].clone(),
        };
        match request.operation {
            Operation::Read { offset, len, .. } => {
                let from = &store[range(offset, len.into())];
                self.buffers.get_mut(&command).unwrap()[..len as usize].copy_from_slice(from);
            }
            Operation::Write {
                offset,
                len,
                memory,
                ..
            } => store[range(offset, len.into())].copy_from_slice(&data(memory)[..len as usize]),
            Operation::Compare {
                offset,
                len,
                memory,
                ..
            } => {
                let room = self.buffers[&command].len();
                let needed = match memory {
                    Memory::InCapsule => len as usize,
                    Memory::Buffer => 2 * len as usize,
                };
                assert_eq!(room, needed);
                if store[range(offset, len.into())] != data(memory)[..len as usize] {
                    return Err(Status::COMPARE_FAILURE);
                }
            }
            Operation::WriteZeroes { offset, len, .. } => store[range(offset, len)].fill(0),
            Operation::Deallocate {
                ranges: count,
                memory,
                blocks,
                block_shift,
            } => {
                let data = data(memory);
                for (offset, len) in ranges(&data[..16 * usize::from(count)], blocks, block_shift)?
                {
                    store[range(offset, len)].fill(0);
                }
            }
            Operation::Flush => {}
        }
        Ok(())
    }
}

pub fn connect_data(subsystem: Nqn) -> ConnectData {
    ConnectData {
        host_id: [5; 16],
        controller: DYNAMIC_CONTROLLER,
        subsystem,
        host: host(),
    }
}

pub fn in_capsule(len: u32) -> DataPointer {
    DataPointer::InCapsule { offset: 0, len }
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}
