//! Two sides of an NVMe/TCP connection, without the machines that would run it.

use std::sync::Arc;
use std::time::Duration;

use handshake::Options;
use nic::ring::{Region, RegionId, Slice};
use wire::nvme::{C2HData, CapsuleCmd, CapsuleResp, H2CData, ICReq, ICResp};

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts, slice};
use host::nvme::{Digests, FatalError, Framing, Negotiated, Pdu, PduOffload, Role, opening};
use host::pdus::{DataDigest, Destination, PduData, PduSink, Unmapped};
use host::{Offload, SocketError, SocketId};

/// Bytes of registered memory on each side.
pub const MEMORY: usize = 4 << 20;
/// Where data for a tag begins, by tag.
pub const STRIDE: u64 = 256 << 10;

/// What a connection is to use.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub tls: Option<Offload>,
    pub digests: Digests,
    pub offload: PduOffload,
    pub hpda: u8,
    pub cpda: u8,
}

impl Mode {
    pub const PLAIN: Mode = Mode {
        tls: None,
        digests: Digests::NONE,
        offload: PduOffload::NONE,
        hpda: 0,
        cpda: 0,
    };
}

/// One side.
pub struct Side {
    pub id: SocketId,
    pub memory: Arc<Region>,
    pub region: RegionId,
    pub log: Log,
}

/// What has come.
#[derive(Debug, Default)]
pub struct Log {
    pub region: Option<RegionId>,
    pub headers: Vec<Pdu>,
    pub ends: Vec<DataDigest>,
    pub inline: Vec<Vec<u8>>,
    pub slices: Vec<Slice>,
    /// Data of this tag is not wanted.
    pub discard: Option<u16>,
    /// This tag is none of ours.
    pub unknown: Option<u16>,
}

impl PduSink<Framing> for Log {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, FatalError> {
        self.headers.push(*pdu);
        let (tag, offset, len) = match pdu {
            Pdu::C2HData(data) => (data.cccid, data.data_offset, data.data_len),
            Pdu::H2CData(data) => (data.ttag, data.data_offset, data.data_len),
            Pdu::CapsuleCmd(_) | Pdu::H2CTermReq(_) | Pdu::C2HTermReq(_) => {
                return Ok(Destination::Inline);
            }
            _ => return Ok(Destination::Nothing),
        };
        if self.unknown == Some(tag) {
            return Err(FatalError::field(8));
        }
        if self.discard == Some(tag) {
            return Ok(Destination::Discard);
        }
        let at = u64::from(tag) * STRIDE + u64::from(offset);
        let region = self.region.expect("memory");
        self.slices.clear();
        self.slices.extend(scattered(region, at, len));
        Ok(Destination::Slices(&self.slices))
    }

    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), FatalError> {
        self.ends.push(digest);
        if !data.is_empty() {
            self.inline.push(data.to_vec());
        }
        Ok(())
    }
}

/// Memory in slices of 60,000 bytes that follow one another.
pub fn scattered(region: RegionId, at: u64, len: u32) -> Vec<Slice> {
    let mut slices = Vec::new();
    let mut done = 0;
    while done < len {
        let part = (len - done).min(60_000);
        slices.push(slice(region, at + u64::from(done), part));
        done += part;
    }
    slices
}

/// A connection on which PDUs may go both ways.
pub struct Rig {
    pub pair: Pair,
    pub sides: [Side; 2],
    /// Done again and again while it runs, with the number of the time.
    pub disturb: Option<fn(&mut Pair, [SocketId; 2], u32)>,
    turns: u32,
}

pub const ROLES: [Role; 2] = [Role::Host, Role::Controller];

impl Rig {
    pub fn new(mode: Mode) -> Self {
        Self::on(hosts(), mode)
    }

    pub fn on(mut pair: Pair, mode: Mode) -> Self {
        let (client, server) = match mode.tls {
            Some(offload) => pair.secured(&Options::default(), [offload; 2]),
            None => pair.connected(crate::pair::v4),
        };
        let sides = [client, server].map(|id| {
            let memory = Arc::new(Region::anonymous(MEMORY));
            (id, memory)
        });
        let mut at = 0;
        let sides = sides.map(|(id, memory)| {
            let region = pair.register(at, Arc::clone(&memory), "memory");
            let now = pair.now();
            pair.stack(at)
                .start_pdus(now, id, opening(ROLES[at]))
                .expect("connected");
            at += 1;
            Side {
                id,
                memory,
                region,
                log: Log {
                    region: Some(region),
                    ..Log::default()
                },
            }
        });
        let mut rig = Self {
            pair,
            sides,
            disturb: None,
            turns: 0,
        };
        rig.negotiate(mode);
        rig
    }

    fn negotiate(&mut self, mode: Mode) {
        let request = Pdu::ICReq(ICReq {
            pfv: 0,
            hpda: mode.hpda,
            digests: mode.digests,
            max_r2t: 0,
        });
        let response = Pdu::ICResp(ICResp {
            pfv: 0,
            cpda: mode.cpda,
            digests: mode.digests,
            max_h2c_data: 1 << 20,
        });
        let agreed = Negotiated {
            digests: mode.digests,
            hpda: mode.hpda,
            cpda: mode.cpda,
            max_pdu: 2 << 20,
            commands: 16,
            offload: mode.offload,
        };
        self.send(CLIENT, &request, PduData::None);
        self.run_until(|rig| rig.sides[SERVER].log.headers == [request]);
        self.send(SERVER, &response, PduData::None);
        let (now, id) = (self.pair.now(), self.sides[SERVER].id);
        self.pair
            .stack(SERVER)
            .pdus_negotiated(now, id, agreed.seen_by(ROLES[SERVER]))
            .expect("between PDUs");
        self.run_until(|rig| rig.sides[CLIENT].log.headers == [response]);
        let (now, id) = (self.pair.now(), self.sides[CLIENT].id);
        self.pair
            .stack(CLIENT)
            .pdus_negotiated(now, id, agreed.seen_by(ROLES[CLIENT]))
            .expect("between PDUs");
        for side in &mut self.sides {
            side.log.headers.clear();
        }
    }

    /// Sends a PDU, waiting for room.
    pub fn send(&mut self, from: usize, pdu: &Pdu, data: PduData<'_>) {
        let mut result = Err(SocketError::WouldBlock);
        self.run_until(|rig| {
            let (now, id) = (rig.pair.now(), rig.sides[from].id);
            result = rig.pair.stack(from).send_pdu::<Framing>(now, id, pdu, data);
            result != Err(SocketError::WouldBlock)
        });
        assert_eq!(result, Ok(()));
    }

    /// Sends a PDU without a look at what has come.
    pub fn send_unread(&mut self, from: usize, pdu: &Pdu, data: PduData<'_>) {
        let (now, id) = (self.pair.now(), self.sides[from].id);
        let sent = self
            .pair
            .stack(from)
            .send_pdu::<Framing>(now, id, pdu, data);
        assert_eq!(sent, Ok(()));
    }

    /// Takes in what has come to one side.
    pub fn receive(&mut self, at: usize) -> Result<usize, SocketError> {
        let (now, side) = (self.pair.now(), &mut self.sides[at]);
        self.pair
            .stack(at)
            .receive_pdus(now, side.id, &mut side.log)
    }

    /// Runs, and takes in what comes to both sides, until `done`.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let limit = self.pair.now() + Duration::from_secs(600);
        loop {
            for at in 0..2 {
                self.receive(at).expect("connected");
            }
            if done(self) {
                return;
            }
            assert!(self.pair.now() < limit, "nothing has come for long");
            if let Some(disturb) = self.disturb {
                self.turns += 1;
                let ids = [self.sides[CLIENT].id, self.sides[SERVER].id];
                disturb(&mut self.pair, ids, self.turns);
            }
            if !self.pair.step() && !self.pair.advance() {
                panic!("nothing will ever come");
            }
        }
    }

    /// Maps the memory of a tag, from `offset` of it on.
    pub fn map(&mut self, at: usize, tag: u16, offset: u64, len: u32) -> bool {
        let slices = self.slices(at, u64::from(tag) * STRIDE + offset, len);
        let id = self.sides[at].id;
        self.pair.stack(at).map_buffer(id, tag, &slices)
    }

    /// Unmaps a tag, and waits for that.
    pub fn unmap(&mut self, at: usize, tag: u16) -> Option<Unmapped> {
        let id = self.sides[at].id;
        let unmapping = self.pair.stack(at).unmap_buffer(id, tag)?;
        let mut end = Unmapped::Pending;
        self.run_until(|rig| {
            end = rig.pair.stack(at).poll_unmap(&unmapping);
            end != Unmapped::Pending
        });
        Some(end)
    }

    /// Fills memory of one side.
    pub fn fill(&mut self, at: usize, offset: u64, bytes: &[u8]) {
        assert!(self.sides[at].memory.write(offset, bytes));
    }

    /// Memory of one side.
    pub fn memory(&self, at: usize, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.sides[at].memory.read(offset, &mut bytes));
        bytes
    }

    pub fn slices(&self, at: usize, offset: u64, len: u32) -> Vec<Slice> {
        scattered(self.sides[at].region, offset, len)
    }
}

pub fn c2h(tag: u16, offset: u32, len: u32) -> Pdu {
    Pdu::C2HData(C2HData {
        cccid: tag,
        data_offset: offset,
        data_len: len,
        last: true,
        success: false,
    })
}

pub fn h2c(tag: u16, offset: u32, len: u32) -> Pdu {
    Pdu::H2CData(H2CData {
        cccid: 7,
        ttag: tag,
        data_offset: offset,
        data_len: len,
        last: true,
    })
}

pub fn command(byte: u8, data_len: u32) -> Pdu {
    Pdu::CapsuleCmd(CapsuleCmd {
        sqe: [byte; 64],
        data_len,
    })
}

pub fn response(byte: u8) -> Pdu {
    Pdu::CapsuleResp(CapsuleResp { cqe: [byte; 16] })
}
