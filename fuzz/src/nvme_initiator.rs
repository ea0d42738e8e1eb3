//! An initiator against a target that answers anything: it never panics, never takes data outside of a command's memory, never
//! sends data that the command doesn't have, and every command ends once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use l5p::nvme::initiator::{
    Access, Action, CommandId, Config, Controller, Incoming, Outgoing, Payload,
};
use wire::nvme::command::{
    Blocks, Capabilities, CompletionEntry, DataPointer, Fabrics, Io, Property, Status,
    SubmissionEntry, opcode,
};
use wire::nvme::{C2HData, CapsuleResp, FatalError, ICResp, Nqn, Pdu, R2T, Role, TermReq};

const BLOCK: u32 = 512;

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

    fn word(&mut self) -> u32 {
        u32::from(self.byte()) << 8 | u32::from(self.byte())
    }

    /// Bytes of data that begin with `head`.
    fn fill(&mut self, len: u32, head: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let known = head.len().min(bytes.len());
        bytes[..known].copy_from_slice(&head[..known]);
        for _ in 0..self.byte() {
            let at = self.word() as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = self.byte();
            }
        }
        bytes
    }
}

struct World<'a> {
    input: Input<'a>,
    now: Instant,
    host: Controller,
    /// Commands that came and were not answered: queue and entry.
    asked: Vec<(u16, SubmissionEntry)>,
    /// Bytes of data of each command that is not complete.
    pending: BTreeMap<usize, (CommandId, u32)>,
}

/// Each step takes a byte that says what happens, and more that say how.
pub fn run(data: &[u8]) {
    let now = Instant::now();
    let host: Nqn = "nqn.2014-08.org.nvmexpress:uuid:host"
        .parse()
        .expect("a name");
    let mut input = Input(data);
    let choice = input.byte();
    let config = match choice & 1 {
        0 => Config {
            io_queues: 2,
            depth: 8,
            outstanding: 16,
            retries: choice >> 6,
            ..Config::new(
                "nqn.2024-01.test:one".parse().expect("a name"),
                host,
                [1; 16],
            )
        },
        _ => Config::discovery(host, [1; 16]),
    };
    let mut world = World {
        input,
        now,
        host: Controller::new(config),
        asked: Vec::new(),
        pending: BTreeMap::new(),
    };
    world.host.start(now);
    while !world.input.0.is_empty() && !world.host.is_ended() {
        world.pump();
        world.step();
    }
    // Whatever state it is in, its commands end.
    world.host.shutdown(world.now);
    while !world.host.is_ended() {
        let Some(at) = world.host.poll_timeout() else {
            panic!("it waits for nothing");
        };
        world.now = world.now.max(at);
        world.host.handle_timeout(world.now);
        world.pump();
    }
    world.pump();
    assert!(world.pending.is_empty(), "a command never ended");
}

impl World<'_> {
    /// Does what the host asks, as far as its own work goes.
    fn pump(&mut self) {
        while let Some(action) = self.host.poll_action() {
            match action {
                Action::Connect { queue } => self.host.handle_connected(self.now, queue),
                Action::Close { queue, .. } => self.asked.retain(|(of, _)| *of != queue),
                Action::Negotiated { .. } => {}
            }
        }
        while self.host.poll_event().is_some() {}
        for queue in 0..3 {
            while let Some(outgoing) = self.host.poll_pdu(queue) {
                self.take(queue, &outgoing);
            }
        }
        while let Some(id) = self.host.poll_ended() {
            if let Some(done) = self.host.release(id, true) {
                let known = self.pending.remove(&done.id.index());
                assert_eq!(known.expect("it was submitted").0, done.id);
            }
        }
    }

    fn take(&mut self, queue: u16, outgoing: &Outgoing) {
        let framing = self
            .host
            .queue(queue)
            .expect("it has sent")
            .framing(Role::Host);
        let mut bytes = [0; wire::nvme::MAX_HEADER_LEN];
        outgoing.pdu.emit(&framing, &mut bytes);
        if let Payload::Command { token, offset, len } = outgoing.payload {
            let (_, total) = self.pending[&token.index()];
            assert!(offset + len <= total && len > 0);
        }
        match &outgoing.pdu {
            Pdu::CapsuleCmd(capsule) => {
                self.asked
                    .push((queue, SubmissionEntry::parse(&capsule.sqe)));
            }
            Pdu::ICReq(request) => {
                let response = ICResp {
                    pfv: 0,
                    cpda: self.input.byte() & 31,
                    digests: request.digests,
                    max_h2c_data: 4096,
                };
                self.give(queue, &Pdu::ICResp(response), &[]);
            }
            _ => {}
        }
    }

    fn step(&mut self) {
        let step = self.input.byte();
        match step {
            0..128 => self.answer(step),
            128..144 => self.submit(),
            144..160 => {
                let wait = Duration::from_millis(u64::from(self.input.word()));
                self.now += wait;
                self.host.handle_timeout(self.now);
            }
            160..164 => {
                let queue = u16::from(step & 3);
                self.host.handle_lost(self.now, queue, String::new());
            }
            _ => {
                let (queue, pdu) = self.any_pdu(step);
                let data = vec![0; pdu.data_len() as usize];
                self.give(queue, &pdu, &data);
            }
        }
    }

    /// Answers a command as a target might that means well, but for the bytes that say otherwise.
    fn answer(&mut self, step: u8) {
        if self.asked.is_empty() {
            return;
        }
        let at = usize::from(step) % self.asked.len();
        let (queue, entry) = self.asked.swap_remove(at);
        let mut result = 0;
        match Fabrics::parse(&entry) {
            Ok(Fabrics::Connect { .. }) => result = 1,
            Ok(Fabrics::PropertyGet(Property::CAP)) => result = Capabilities::new(64, 1).0,
            Ok(Fabrics::PropertyGet(Property::CSTS)) => result = 1 | u64::from(step & 2),
            Ok(Fabrics::PropertyGet(_)) => result = 0x0001_0300 << (step & 1),
            _ => {}
        }
        let transfer = match entry.data {
            DataPointer::Transport { len } if is_read(&entry) => len.min(1 << 16),
            _ => 0,
        };
        if transfer > 0 {
            let head = likely_answer(&entry);
            let data = self.input.fill(transfer, &head);
            let pdu = C2HData {
                cccid: entry.cid,
                data_offset: 0,
                data_len: transfer,
                last: true,
                success: step & 1 != 0,
            };
            self.give(queue, &Pdu::C2HData(pdu), &data);
            if step & 1 != 0 {
                return;
            }
        }
        let status = match step {
            120.. => Status::from_bits(self.input.word() as u16),
            _ => Status::SUCCESS,
        };
        self.give(queue, &response(entry.cid, status, result), &[]);
    }

    fn submit(&mut self) {
        let blocks = Blocks {
            start: u64::from(self.input.byte()),
            count: u32::from(self.input.byte()),
        };
        let fua = false;
        let io = match self.input.byte() % 5 {
            0 => Io::Read { blocks, fua },
            1 => Io::Write { blocks, fua },
            2 => Io::Compare { blocks, fua },
            3 => Io::Flush,
            _ => Io::DatasetManagement {
                ranges: u16::from(self.input.byte()),
                deallocate: true,
            },
        };
        let nsid = u32::from(self.input.byte() < 250);
        let shift = self
            .host
            .namespaces()
            .iter()
            .find(|namespace| namespace.nsid == nsid);
        let block = shift.map_or(BLOCK, |namespace| namespace.block_size());
        let len = match io {
            Io::DatasetManagement { ranges, .. } => 16 * u32::from(ranges.clamp(1, 256)),
            _ => blocks.count.saturating_mul(block),
        };
        if let Ok(id) = self.host.submit(Access { nsid, io }) {
            let taken = self.pending.insert(id.index(), (id, len));
            assert!(taken.is_none(), "a name twice");
        }
    }

    fn any_pdu(&mut self, step: u8) -> (u16, Pdu) {
        let queue = u16::from(self.input.byte() % 4);
        let cid = match self.input.byte() {
            any @ 0..16 => u16::from(any),
            any => match self.asked.get(usize::from(any)) {
                Some((_, entry)) => entry.cid,
                None => u16::from(any),
            },
        };
        let (offset, len) = (self.input.word() * 16, self.input.word().max(1));
        let flags = self.input.byte();
        let pdu = match step % 5 {
            0 | 1 => Pdu::C2HData(C2HData {
                cccid: cid,
                data_offset: offset,
                data_len: len,
                last: flags & 1 != 0,
                success: flags & 3 == 3,
            }),
            2 => Pdu::R2T(R2T {
                cccid: cid,
                ttag: u16::from(flags),
                offset,
                len,
            }),
            3 => response(cid, Status::from_bits(u16::from(flags)), len.into()),
            _ => Pdu::C2HTermReq(TermReq {
                error: FatalError::field(offset),
                data_len: 0,
            }),
        };
        (queue, pdu)
    }

    /// Hands a PDU to the host.
    fn give(&mut self, queue: u16, pdu: &Pdu, data: &[u8]) {
        let intact = pdu.data_len() % 97 != 1;
        let Ok(incoming) = self.host.handle_header(self.now, queue, pdu) else {
            return;
        };
        let inline = match incoming {
            Incoming::Data {
                token, offset, len, ..
            } => {
                let (_, total) = self.pending[&token.index()];
                assert!(offset.checked_add(len).is_some_and(|end| end <= total));
                &[][..]
            }
            Incoming::Inline => data,
            Incoming::Nothing | Incoming::Discard => &[],
        };
        self.host.handle_end(self.now, queue, intact, inline);
    }
}

fn is_read(entry: &SubmissionEntry) -> bool {
    matches!(entry.opcode, opcode::READ | opcode::IDENTIFY)
}

/// What lets a setup go on.
fn likely_answer(entry: &SubmissionEntry) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    match (entry.opcode, entry.cdw10[0] as u8) {
        (opcode::IDENTIFY, 0) => {
            bytes[1] = 1;
            bytes[130] = 9;
        }
        (opcode::IDENTIFY, 1) => {
            bytes[78] = 1;
            bytes[93] = 1;
            bytes[320] = 1;
            bytes[536] = 1;
            bytes[538] = 0x10;
            bytes[1792] = 36;
            bytes[1796] = 1;
        }
        (opcode::IDENTIFY, 2) if entry.nsid == 0 => bytes[0] = 1,
        _ => {}
    }
    bytes
}

fn response(cid: u16, status: Status, result: u64) -> Pdu {
    let entry = CompletionEntry {
        result,
        sq_head: 0,
        cid,
        status,
    };
    Pdu::CapsuleResp(CapsuleResp {
        cqe: entry.to_bytes(),
    })
}
