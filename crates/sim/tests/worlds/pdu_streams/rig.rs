//! A world in which one side's stack carries PDUs, and the other side writes and reads bytes as it likes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host::nvme::{FatalError, Negotiated, PduOffload, opening};
use host::pdus::{DataDigest, Destination, PduData, PduSink, Unmapped};
use host::{CloseReason, Offload, SocketError, SocketId};
use l5p::nvme::Parameters;
use nic::ring::{Region, RegionId, Slice};
use port::impair::Impairment;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use sim::{NodeConfig, Suite, World, WorldConfig};
use wire::nvme::{Digests, Framing, ICReq, ICResp, MAX_HEADER_LEN, Pdu, Role};

use super::script::{Buffer, COMMANDS, SinkEvent};

/// Bytes of memory of the side that carries PDUs.
pub const MEMORY: usize = 1 << 20;

/// Virtual time in which something must come.
const PATIENCE: Duration = Duration::from_secs(3600);

/// How a connection is.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Seeds secrets, impairments and the sizes of writes.
    pub seed: u64,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// What the link does, both ways, once the connection is there.
    pub link: Impairment,
    /// Under TLS, and what the NIC does of it.
    pub tls: Option<(Suite, Offload)>,
    pub digests: Digests,
    /// HPDA and CPDA.
    pub alignment: u8,
    pub offload: PduOffload,
    /// Which side of NVMe/TCP the stack is.
    pub role: Role,
}

impl Mode {
    /// What is agreed on for the PDUs of one direction.
    pub fn parameters(&self, sender: Role) -> Parameters {
        Parameters {
            sender,
            header_digest: self.digests.header,
            data_digest: self.digests.data,
            alignment: self.alignment,
            max_pdu: 2 << 20,
            commands: COMMANDS,
        }
    }
}

/// Why a run ends early.
#[derive(Debug)]
pub enum Cut {
    /// The network would not carry the connection on.
    Off,
    /// The stack has refused a PDU.
    Refused(FatalError),
    /// The connection has ended otherwise.
    Ended(#[allow(dead_code, reason = "a failed test shows it")] CloseReason),
}

/// The world.
pub struct Rig {
    pub world: World,
    mode: Mode,
    /// The crafted side is host 0, the stack's is host 1.
    sockets: [SocketId; 2],
    pub memory: Arc<Region>,
    region: RegionId,
    rng: Pcg64Mcg,
    /// What the crafted side has not written yet.
    unwritten: Vec<u8>,
    /// What the crafted side has read.
    pub read: Vec<u8>,
    pub sink: Sink,
}

/// Takes the PDUs in.
#[derive(Debug, Default)]
pub struct Sink {
    pub told: Vec<SinkEvent>,
    region: Option<RegionId>,
    buffers: BTreeMap<u16, Buffer>,
    slices: Vec<Slice>,
}

impl PduSink<Framing> for Sink {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, FatalError> {
        self.told.push(SinkEvent::Header(*pdu));
        let (tag, at, len) = match pdu {
            Pdu::C2HData(data) => (data.cccid, data.data_offset, data.data_len),
            Pdu::H2CData(data) => (data.ttag, data.data_offset, data.data_len),
            Pdu::CapsuleCmd(_) => return Ok(Destination::Inline),
            _ => return Ok(Destination::Nothing),
        };
        let buffer = self.buffers.get(&tag).ok_or(FatalError::field(8))?;
        let region = self.region.expect("memory");
        let places = buffer.places(at, len);
        self.slices.clear();
        self.slices
            .extend(places.into_iter().map(|(offset, len)| Slice {
                region,
                offset,
                len,
            }));
        Ok(Destination::Slices(&self.slices))
    }

    fn end(&mut self, digest: DataDigest, data: &[u8]) -> Result<(), FatalError> {
        let good = digest == DataDigest::Good;
        self.told.push(SinkEvent::End(good, data.to_vec()));
        Ok(())
    }
}

impl Rig {
    /// A connection on which ICReq and ICResp have been exchanged.
    pub fn new(mode: Mode) -> Result<Rig, Cut> {
        let mut world = World::new(WorldConfig {
            seed: mode.seed,
            mtu: mode.mtu,
            nodes: vec![NodeConfig::small(); 2],
            ..WorldConfig::default()
        });
        let (crafted, carrying) = world.connect(4420, mode.seed.is_multiple_of(2));
        let memory = Arc::new(Region::anonymous(MEMORY));
        let region = world.stack(1).register(Arc::clone(&memory), "memory");
        let region = region.expect("an id");
        let mut rig = Rig {
            world,
            mode,
            sockets: [crafted, carrying],
            memory,
            region,
            rng: Pcg64Mcg::seed_from_u64(mode.seed),
            unwritten: Vec::new(),
            read: Vec::new(),
            sink: Sink {
                region: Some(region),
                ..Sink::default()
            },
        };
        if let Some((suite, offload)) = mode.tls {
            rig.secure(suite, offload);
        }
        for node in 0..2 {
            rig.world.impair(node, mode.link);
        }
        rig.negotiate()?;
        Ok(rig)
    }

    fn secure(&mut self, suite: Suite, offload: Offload) {
        let keys = [suite.keys(self.mode.seed), suite.keys(!self.mode.seed)];
        let now = self.world.now();
        for (node, offload) in [(0, Offload::None), (1, offload)] {
            let [transmit, receive] = [keys[node].clone(), keys[1 - node].clone()];
            let socket = self.sockets[node];
            let stack = self.world.stack(node);
            let installed = stack.install_tls(now, socket, transmit, receive, offload);
            installed.expect("connected");
        }
        self.world.settle();
    }

    fn negotiate(&mut self) -> Result<(), Cut> {
        let (mode, socket) = (self.mode, self.sockets[1]);
        let request = Pdu::ICReq(ICReq {
            pfv: 0,
            hpda: mode.alignment,
            digests: mode.digests,
            max_r2t: 0,
        });
        let response = Pdu::ICResp(ICResp {
            pfv: 0,
            cpda: mode.alignment,
            digests: mode.digests,
            max_h2c_data: 1 << 20,
        });
        let mut header = [0; MAX_HEADER_LEN];
        let theirs = match mode.role {
            Role::Host => response,
            Role::Controller => request,
        };
        theirs.emit(&Framing::initializing(mode.role.peer()), &mut header);
        let now = self.world.now();
        let started = self
            .world
            .stack(1)
            .start_pdus(now, socket, opening(mode.role));
        started.expect("connected");
        if mode.role == Role::Host {
            self.send(&request, PduData::None)?;
            self.run_until(|rig| rig.read.len() == MAX_HEADER_LEN)?;
        }
        self.write(&header);
        self.run_until(|rig| rig.sink.told == [SinkEvent::Header(theirs)])?;
        if mode.role == Role::Controller {
            self.send(&response, PduData::None)?;
        }
        let agreed = Negotiated {
            digests: mode.digests,
            hpda: mode.alignment,
            cpda: mode.alignment,
            max_pdu: 2 << 20,
            commands: COMMANDS,
            offload: mode.offload,
        };
        let now = self.world.now();
        let negotiated =
            self.world
                .stack(1)
                .pdus_negotiated(now, socket, agreed.seen_by(mode.role));
        negotiated.expect("between PDUs");
        self.run_until(|rig| rig.read.len() == MAX_HEADER_LEN)?;
        self.read.clear();
        self.sink.told.clear();
        Ok(())
    }

    /// The crafted side is to write these bytes, in pieces of any size.
    pub fn write(&mut self, bytes: &[u8]) {
        self.unwritten.extend_from_slice(bytes);
    }

    /// Sends a PDU from the stack, waiting for room.
    pub fn send(&mut self, pdu: &Pdu, data: PduData<'_>) -> Result<(), Cut> {
        let mut sent = Err(SocketError::WouldBlock);
        self.run_until(|rig| {
            let (now, socket) = (rig.world.now(), rig.sockets[1]);
            sent = rig
                .world
                .stack(1)
                .send_pdu::<Framing>(now, socket, pdu, data);
            !matches!(sent, Err(SocketError::WouldBlock))
        })?;
        sent.map_err(cut)
    }

    /// Runs until the peer has acknowledged all that was sent: what was sent in place may change then.
    pub fn run_until_acknowledged(&mut self) -> Result<(), Cut> {
        let socket = self.sockets[1];
        let mark = self.world.stack(1).send_mark(socket).expect("a socket");
        self.run_until(|rig| rig.world.stack(1).is_acknowledged(socket, mark))
    }

    /// Slices of the stack's memory.
    pub fn slices(&self, places: &[(u64, u32)]) -> Vec<Slice> {
        let slice = |&(offset, len): &(u64, u32)| Slice {
            region: self.region,
            offset,
            len,
        };
        places.iter().map(slice).collect()
    }

    /// Gives the buffers to the sink, and to the NIC those that are mapped. Answers which it took.
    pub fn map(&mut self, buffers: &[Buffer]) -> Vec<u16> {
        let mut mapped = Vec::new();
        for buffer in buffers {
            let slices = self.slices(&buffer.slices);
            let (socket, stack) = (self.sockets[1], self.world.stack(1));
            if buffer.is_mapped && stack.map_buffer(socket, buffer.tag, &slices) {
                mapped.push(buffer.tag);
            }
            self.sink.buffers.insert(buffer.tag, buffer.clone());
        }
        mapped
    }

    /// Takes all buffers back.
    pub fn unmap(&mut self, mapped: &[u16]) -> Result<(), Cut> {
        for &tag in mapped {
            let socket = self.sockets[1];
            let unmapping = self.world.stack(1).unmap_buffer(socket, tag);
            let unmapping = unmapping.expect("a mapped buffer");
            let mut unmapped = Unmapped::Pending;
            self.run_until(|rig| {
                unmapped = rig.world.stack(1).poll_unmap(&unmapping);
                unmapped != Unmapped::Pending
            })?;
            assert_eq!(
                unmapped,
                Unmapped::Clean,
                "tag {tag}: nobody forges packets here"
            );
        }
        self.sink.buffers.clear();
        Ok(())
    }

    /// Runs until `done`.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Rig) -> bool) -> Result<(), Cut> {
        let limit = self.world.now() + PATIENCE;
        loop {
            let mut moved = self.write_some()?;
            moved |= self.read_some()?;
            let (now, socket) = (self.world.now(), self.sockets[1]);
            let stack = self.world.stack(1);
            match stack.receive_pdus(now, socket, &mut self.sink) {
                Ok(ended) => moved |= ended > 0,
                Err(SocketError::NotFound | SocketError::Unsupported(_)) => {}
                Err(error) => return Err(cut(error)),
            }
            if done(self) {
                return Ok(());
            }
            moved |= self.world.step();
            assert!(self.world.now() < limit, "nothing has come for long");
            if !moved && !self.world.advance() {
                panic!("nothing will ever come");
            }
        }
    }

    /// Runs until the crafted side has read all that was sent before the connection ended.
    pub fn read_to_end(&mut self) {
        while !matches!(self.read_some(), Err(Cut::Ended(_))) {
            if !self.world.step() && !self.world.advance() {
                break;
            }
        }
    }

    fn write_some(&mut self) -> Result<bool, Cut> {
        if self.unwritten.is_empty() {
            return Ok(false);
        }
        let most = match self.rng.random_range(0..3) {
            0 => 64,
            1 => 5000,
            _ => 60_000,
        };
        let len = self.rng.random_range(1..=most).min(self.unwritten.len());
        let (now, socket) = (self.world.now(), self.sockets[0]);
        let stack = self.world.stack(0);
        match stack.write(now, socket, &self.unwritten[..len]) {
            Ok(written) => {
                self.unwritten.drain(..written);
                Ok(written > 0)
            }
            Err(SocketError::WouldBlock) => Ok(false),
            Err(error) => Err(cut(error)),
        }
    }

    fn read_some(&mut self) -> Result<bool, Cut> {
        let mut bytes = [0; 4096];
        let (now, socket) = (self.world.now(), self.sockets[0]);
        match self.world.stack(0).read(now, socket, &mut bytes) {
            Ok(len) => {
                self.read.extend_from_slice(&bytes[..len]);
                Ok(len > 0)
            }
            Err(SocketError::WouldBlock) => Ok(false),
            Err(error) => Err(cut(error)),
        }
    }
}

fn cut(error: SocketError) -> Cut {
    match error {
        SocketError::Closed(CloseReason::Unreachable | CloseReason::TimedOut) => Cut::Off,
        SocketError::Closed(CloseReason::Pdu(error)) => {
            Cut::Refused(*error.get::<Framing>().expect("an error of NVMe/TCP"))
        }
        SocketError::Closed(reason) => Cut::Ended(reason),
        other => panic!("{other}"),
    }
}
