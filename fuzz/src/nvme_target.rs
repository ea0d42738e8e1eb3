//! A target against hosts that send anything: it never panics, never has data put outside of a command's memory, asks for memory and for the
//! stores' work once, gives all memory back, and stays within its limits.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use l5p::nvme::target::{
    Action, CommandRef, Config, ConnectionId, Hosts, Limits, Namespace, Owner, Place, Source,
    StoreId, StoreRequest, Subsystem, Target,
};
use wire::nvme::command::{
    Admin, Blocks, Configuration, ConnectData, DataPointer, Fabrics, Io, Property, Status,
    SubmissionEntry,
};
use wire::nvme::identify::NamespaceIds;
use wire::nvme::{
    CapsuleCmd, Digests, FatalError, Framing, H2CData, ICReq, Nqn, Pdu, Phase, R2T, Role, TermReq,
};

const CONNECTIONS: usize = 6;
/// Connections that are no queue yet, beside these.
const PENDING: usize = 2;
const ENTRIES: u32 = 16;
const DATA: u32 = 16384;

/// Bytes, read from the front; zeroes behind their end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from(self.byte()) << 8 | u16::from(self.byte())
    }
}

struct World<'a> {
    input: Input<'a>,
    now: Instant,
    target: Target,
    /// Connections, and the R2Ts that were not answered.
    links: Vec<(ConnectionId, VecDeque<R2T>)>,
    waiting: Vec<(CommandRef, u32)>,
    /// Bytes of memory that each command was given.
    memory: BTreeMap<CommandRef, u32>,
    asked: Vec<StoreRequest>,
    controller: u16,
}

/// Each step takes a byte that says what happens, and more that say how.
pub fn run(data: &[u8]) {
    let now = Instant::now();
    let namespace = |nsid, read_only| Namespace {
        nsid,
        store: StoreId(nsid),
        blocks: 64,
        block_shift: 9,
        read_only,
        volatile_cache: !read_only,
        deallocate: !read_only,
        ids: NamespaceIds {
            nguid: Some([1; 16]),
            ..NamespaceIds::default()
        },
    };
    let config = Config {
        subsystems: vec![Subsystem {
            nqn: subsystem(),
            serial: "1".into(),
            model: "fuzz".into(),
            hosts: Hosts::Any,
            namespaces: vec![namespace(1, false), namespace(2, true)],
        }],
        portals: Vec::new(),
        required_digests: Digests::NONE,
        limits: Limits {
            connections: CONNECTIONS,
            pending: PENDING,
            controllers: 3,
            io_queues: 2,
            queue_entries: ENTRIES,
            data: DATA,
            h2c_data: 8192,
            c2h_data: 4096,
            r2t_data: 8192,
            ..Limits::default()
        },
        firmware: "1".into(),
    };
    let mut world = World {
        input: Input(data),
        now,
        target: Target::new(now, config).expect("a sound configuration"),
        links: Vec::new(),
        waiting: Vec::new(),
        memory: BTreeMap::new(),
        asked: Vec::new(),
        controller: 1,
    };
    while !world.input.0.is_empty() {
        let patient = world.step();
        world.act();
        if !patient {
            (0..world.links.len()).for_each(|at| world.receive(at));
            world.act();
        }
        assert!(world.target.connections() <= CONNECTIONS + PENDING);
        let most = CONNECTIONS * ENTRIES as usize;
        assert!(world.memory.len() + world.waiting.len() <= most && world.asked.len() <= most + 12);
    }
    world.end();
}

fn subsystem() -> Nqn {
    Nqn::new("nqn.2026-01.test:fuzz").expect("a name")
}

impl World<'_> {
    /// Does something. Whether the hosts take nothing for now.
    fn step(&mut self) -> bool {
        let what = self.input.byte();
        let which = usize::from(self.input.byte());
        let link = (!self.links.is_empty()).then(|| which % self.links.len());
        match (what & 15, link) {
            (0, _) | (_, None) => self.connect(what & 16 == 0),
            (1, Some(at)) if which > 200 => {
                let (id, _) = self.links.swap_remove(at);
                self.target.handle_closed(id);
            }
            (2, _) => {
                let longest = if which == 99 { u16::MAX } else { 127 };
                let time = self.input.word() & longest;
                self.now += Duration::from_millis(u64::from(time));
                self.target.handle_timeout(self.now);
            }
            (3, _) if !self.waiting.is_empty() => {
                let (command, len) = self.waiting.swap_remove(which % self.waiting.len());
                assert_eq!(self.memory.insert(command, len), None, "memory twice");
                self.target.handle_buffer(command);
            }
            (4, _) if !self.asked.is_empty() => {
                let request = self.asked.swap_remove(which % self.asked.len());
                let result = match what & 16 {
                    0 => Ok(()),
                    _ => Err(Status::WRITE_FAULT),
                };
                self.target.handle_stored(request.owner, result);
            }
            (5, _) => match what & 16 {
                0 => self.target.remove_namespace(0, 2),
                _ => self
                    .target
                    .resize(StoreId(1), 1 + u64::from(self.input.byte())),
            },
            (6..=8, Some(at)) if !self.links[at].1.is_empty() || which == 200 => {
                let pdu = self.data(at);
                self.send(at, &pdu);
            }
            (9, Some(at)) if which > 240 => self.raw(at),
            (_, Some(at)) => {
                let pdu = self.capsule();
                self.send(at, &pdu);
            }
        }
        what & 0xc0 == 0xc0
    }

    /// A connection; a `queue` at once if that is wanted.
    fn connect(&mut self, queue: bool) {
        let Some(id) = self.target.accept(self.now, None) else {
            return;
        };
        self.links.push((id, VecDeque::new()));
        let at = self.links.len() - 1;
        let request = ICReq {
            pfv: 0,
            hpda: self.input.byte() & 31,
            digests: Digests::NONE,
            max_r2t: u32::from(self.input.byte() & 7),
        };
        self.send(at, &Pdu::ICReq(request));
        self.receive(at);
        if !queue {
            return;
        }
        let queue = u16::from(self.input.byte() % 4);
        let connect = Fabrics::Connect {
            queue,
            entries: 16,
            no_flow_control: queue & 2 != 0,
            keep_alive: 4000,
        };
        let entry = connect.entry(1).with_data(DataPointer::InCapsule {
            offset: 0,
            len: 1024,
        });
        self.send(at, &capsule_of(&entry, 1024));
        self.receive(at);
        if queue == 0 {
            let set = Fabrics::PropertySet(Property::CC, Configuration::ENABLED.0.into());
            self.send(at, &capsule_of(&set.entry(2), 0));
        }
    }

    fn capsule(&mut self) -> Pdu {
        let kind = self.input.byte();
        let blocks = Blocks {
            start: u64::from(self.input.byte() & 63),
            count: u32::from(self.input.byte() & 31) + 1,
        };
        let fua = kind & 128 != 0;
        let nsid = [1, 1, 2, 3][usize::from(kind >> 5 & 3)];
        let cid = u16::from(self.input.byte());
        let mut len = blocks.count * 512;
        let mut entry = match kind & 15 {
            0 | 1 => Io::Read { blocks, fua }.entry(cid, nsid),
            2..=4 => Io::Write { blocks, fua }.entry(cid, nsid),
            5 => Io::Compare { blocks, fua }.entry(cid, nsid),
            6 => {
                let deallocate = fua;
                let zeroes = Io::WriteZeroes {
                    blocks,
                    fua,
                    deallocate,
                };
                len = 0;
                zeroes.entry(cid, nsid)
            }
            7 => {
                len = 64;
                let (ranges, deallocate) = (4, true);
                Io::DatasetManagement { ranges, deallocate }.entry(cid, nsid)
            }
            8 => {
                len = 0;
                Admin::AsyncEventRequest.entry(cid)
            }
            9 => {
                len = 0;
                let (queue, cid) = (nsid as u16, blocks.start as u16);
                Admin::Abort { queue, cid }.entry(cid)
            }
            10 => {
                len = 4096;
                let mut entry = SubmissionEntry::new(0x06, cid, nsid);
                entry.cdw10[0] = blocks.start as u32;
                entry
            }
            11 => {
                let mut entry = SubmissionEntry::new(0x02, cid, nsid);
                entry.cdw10[0] = blocks.start as u32 | (blocks.count * 128 - 1) << 16;
                entry.cdw10[2] = u32::from(self.input.byte()) << 8;
                entry
            }
            12 => {
                len = 0;
                let mut entry = SubmissionEntry::new(0x09 + (kind >> 4 & 1), cid, nsid);
                entry.cdw10[0] = blocks.start as u32;
                entry.cdw10[1] = self.input.word().into();
                entry
            }
            _ => {
                let mut bytes = [0; 64];
                bytes.fill_with(|| self.input.byte());
                return Pdu::CapsuleCmd(CapsuleCmd {
                    sqe: bytes,
                    data_len: u32::from(self.input.word()) & 0x3fff,
                });
            }
        };
        let in_capsule = self.input.byte();
        entry.data = match in_capsule & 3 {
            0 => DataPointer::InCapsule { offset: 0, len },
            _ => DataPointer::Transport { len },
        };
        let data_len = match in_capsule {
            255 => len / 2,
            _ if in_capsule & 3 == 0 => len,
            _ => 0,
        };
        capsule_of(&entry, data_len)
    }

    /// What an R2T asked for, or nearly.
    fn data(&mut self, at: usize) -> Pdu {
        let how = self.input.byte();
        let mut data = match self.links[at].1.pop_front() {
            Some(r2t) => H2CData {
                cccid: r2t.cccid,
                ttag: r2t.ttag,
                data_offset: r2t.offset,
                data_len: r2t.len,
                last: true,
            },
            None => H2CData {
                cccid: self.input.word(),
                ttag: self.input.word() & 15,
                data_offset: 0,
                data_len: 512,
                last: true,
            },
        };
        match how {
            0..200 => {}
            200..210 => data.ttag ^= 1,
            210..220 => data.data_offset += 512,
            220..230 => (data.data_len, data.last) = (data.data_len / 2 + 1, false),
            230..240 => data.cccid ^= 1,
            240..250 => data.last = false,
            _ => data.data_len += 4,
        }
        Pdu::H2CData(data)
    }

    /// A header of bytes, if the framing lets it pass.
    fn raw(&mut self, at: usize) {
        let framing = Framing {
            sender: Role::Host,
            phase: Phase::Established,
            header_digest: false,
            data_digest: false,
            alignment: 0,
            max_pdu: 1 << 16,
        };
        let mut bytes = [0; 128];
        bytes.fill_with(|| self.input.byte());
        if framing.check(&bytes).is_ok_and(|layout| layout.is_some())
            && let Ok(pdu) = Pdu::parse(&bytes, &framing)
        {
            self.send(at, &pdu);
        } else if bytes[1] == 99 {
            let request = TermReq {
                error: FatalError::field(0),
                data_len: 0,
            };
            self.send(at, &Pdu::H2CTermReq(request));
        }
    }

    fn send(&mut self, at: usize, pdu: &Pdu) {
        let id = self.links[at].0;
        let Ok(place) = self.target.handle_pdu(self.now, id, pdu) else {
            return;
        };
        let mut inline = Vec::new();
        match place {
            Place::None => assert_eq!(pdu.data_len(), 0),
            Place::Discard => {}
            Place::Inline => {
                assert!(pdu.data_len() <= 8192);
                inline = self.connect_data();
                inline.resize(pdu.data_len() as usize, 0);
            }
            Place::InCapsule { command, len } => {
                assert!(len <= 8192 && len == pdu.data_len());
                assert!(u32::from(command.slot) < ENTRIES && command.connection == id);
            }
            Place::Command {
                command,
                offset,
                len,
            } => {
                let room = self.memory[&command];
                assert!(offset + len <= room, "{offset}+{len} of {room}");
            }
        }
        if pdu.data_len() > 0 {
            let intact = self.input.byte() != 77;
            self.target.handle_pdu_end(self.now, id, intact, &inline);
        }
    }

    fn connect_data(&mut self) -> Vec<u8> {
        let what = self.input.byte();
        let data = ConnectData {
            host_id: [what & 1; 16],
            controller: match what & 14 {
                0 => self.controller,
                _ => 0xffff,
            },
            subsystem: match what & 16 {
                0 => subsystem(),
                _ => Nqn::DISCOVERY,
            },
            host: Nqn::new("nqn.2014-08.org.nvmexpress:uuid:fuzz").expect("a name"),
        };
        data.to_bytes().to_vec()
    }

    /// Takes what the target sends, but what the input has it keep.
    fn receive(&mut self, at: usize) {
        let id = self.links[at].0;
        for _ in 0..64 {
            let Some(outgoing) = self.target.peek_pdu(self.now, id) else {
                return;
            };
            match (outgoing.pdu, outgoing.data) {
                (Pdu::R2T(r2t), _) => self.links[at].1.push_back(r2t),
                (
                    Pdu::C2HData(data),
                    Source::Command {
                        command,
                        offset,
                        len,
                    },
                ) => {
                    assert_eq!((data.data_offset, data.data_len), (offset, len));
                    assert!(offset + len <= self.memory[&command]);
                }
                (Pdu::C2HData(data), Source::Bytes(bytes)) => {
                    assert_eq!(data.data_len as usize, bytes.len());
                }
                (Pdu::CapsuleResp(response), _) => {
                    let controller = u16::from_le_bytes([response.cqe[0], response.cqe[1]]);
                    self.controller = controller.clamp(1, 1000);
                }
                _ => {}
            }
            self.target.pdu_sent(id);
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.target.poll_action() {
            match action {
                Action::Buffer { command, len, .. } => {
                    assert!(len <= 2 * DATA && !self.memory.contains_key(&command));
                    assert!(self.waiting.iter().all(|(waiting, _)| *waiting != command));
                    self.waiting.push((command, len));
                }
                Action::Store(request) => {
                    if let Owner::Command(_) = request.owner {
                        let twice = self.asked.iter().any(|other| other.owner == request.owner);
                        assert!(!twice, "one thing at a time");
                    }
                    self.asked.push(request);
                }
                Action::Release(command) => {
                    let waited = self.waiting.len();
                    self.waiting.retain(|(waiting, _)| *waiting != command);
                    let had = self.memory.remove(&command).is_some();
                    assert!(had || self.waiting.len() < waited, "nothing to give back");
                }
                Action::Wake { machine } => unreachable!("machine {machine}: there is one"),
                Action::Close { connection, .. } => {
                    self.links.retain(|(id, _)| *id != connection);
                }
            }
        }
    }

    /// Everybody leaves: nothing is left.
    fn end(&mut self) {
        for (id, _) in std::mem::take(&mut self.links) {
            self.target.handle_closed(id);
        }
        self.act();
        while let Some(request) = self.asked.pop() {
            self.target.handle_stored(request.owner, Ok(()));
            self.act();
        }
        assert!(
            self.memory.is_empty() && self.waiting.is_empty(),
            "memory was kept"
        );
        assert_eq!(
            (self.target.connections(), self.target.controllers()),
            (0, 0)
        );
    }
}

fn capsule_of(entry: &SubmissionEntry, data_len: u32) -> Pdu {
    Pdu::CapsuleCmd(CapsuleCmd {
        sqe: entry.to_bytes(),
        data_len,
    })
}
