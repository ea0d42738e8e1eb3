//! A NIC with connections that it runs or is about to run, their host, and segments of peers written by hand.

use std::sync::Arc;
use std::time::Instant;

use nic::ring::toe::{TCB_IMAGE_BYTES, TcbImage, ToeCommand, ToeEvent, ToeId, ToeOffer};
use nic::ring::{
    FunctionConfig, HostFunction, Packet, RecvDescriptor, Region, RegionId, SendDescriptor,
    SendFlags, Slice, function,
};
use nic::{Counters, FrameMeta, FunctionId, Nic, NicConfig, ToeConfig};
use tcp::{Config, Connection};
use wire::ethernet::{self, MacAddr};
use wire::packet::{self, MAX_TCP_HEADERS_LEN, Parsed, emit_tcp_headers};
use wire::tcp::{self as header, Flags, Header, Options};
use wire::{FlowKey, SeqNum, ipv4};

pub const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SMALL: u64 = 2048;
/// First positions: data begin one behind.
const OURS: SeqNum = SeqNum(1000);
const THEIRS: SeqNum = SeqNum(5000);

pub struct Rig {
    pub nic: Nic,
    pub host: HostFunction,
    pub id: FunctionId,
    region: Arc<Region>,
    region_id: RegionId,
    pub now: Instant,
    tcb_at: u64,
}

/// What the host finds on its receive ring.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Event(ToeEvent),
    /// A segment: its port at the peer, its position in the peer's stream, and its payload.
    Segment(u16, u32, Vec<u8>),
    Reset(u32),
}

impl Rig {
    pub fn new(toe: ToeConfig, buffers: u32) -> Rig {
        let mut nic = Nic::new(NicConfig {
            toe,
            ..NicConfig::new([9; 16])
        });
        let (mut host, device) = function(FunctionConfig {
            receive_entries: 256,
            ..FunctionConfig::new(OWN)
        });
        let id = nic.attach(device).expect("a free address");
        let tcb_at = u64::from(buffers) * SMALL;
        let region = Arc::new(Region::anonymous(tcb_at as usize + TCB_IMAGE_BYTES));
        let region_id = host.register(Arc::clone(&region)).expect("a free id");
        for n in 0..u64::from(buffers) {
            let buffer = Slice {
                offset: n * SMALL,
                len: SMALL as u32,
                region: region_id,
            };
            assert!(host.queues[0].small.push(buffer));
        }
        let _ = host.queues[0].publish();
        Rig {
            nic,
            host,
            id,
            region,
            region_id,
            now: Instant::now(),
            tcb_at,
        }
    }

    pub fn counters(&self) -> Counters {
        self.nic.counters()
    }

    /// What the peer at this port sends at a position of its stream.
    pub fn segment(&mut self, port: u16, at: u32, payload: &[u8]) {
        self.segment_with(port, at, payload, Flags::ACK | Flags::PSH);
    }

    pub fn segment_with(&mut self, port: u16, at: u32, payload: &[u8], flags: Flags) {
        let flow = flow(port);
        let tcp = Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq: THEIRS + 1 + at,
            ack: OURS + 1,
            flags,
            window: 60_000,
            options: Options::default(),
        };
        let mut out = vec![0; MAX_TCP_HEADERS_LEN + payload.len()];
        let len = payload.len() as u32;
        let l7 = emit_tcp_headers(&mut out, PEER, OWN, &flow, &tcp, len, 64);
        out.truncate(l7 + payload.len());
        out[l7..].copy_from_slice(payload);
        let l4 = l7 - tcp.len();
        ipv4::fill_checksum(&mut out[ethernet::HEADER_LEN..l4]);
        header::fill_checksum(flow.src.0, flow.dst.0, &mut out[l4..]);
        self.nic.handle_frame(self.now, &out, FrameMeta::default());
    }

    /// A frame of the host's own.
    pub fn post_frame(&mut self, port: u16) {
        let flow = flow(port).reversed();
        let tcp = Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            flags: Flags::ACK,
            ..Header::default()
        };
        let mut out = [0; MAX_TCP_HEADERS_LEN];
        let len = emit_tcp_headers(&mut out, OWN, PEER, &flow, &tcp, 0, 64);
        let send = SendDescriptor::Send {
            header: &out[..len],
            mss: 0,
            context: None,
            flags: SendFlags::CHECKSUM,
            payload: &[],
        };
        self.host.queues[0].send.post(&send).expect("room");
    }

    pub fn command(&mut self, command: ToeCommand<'_>) {
        let commands = &mut self.host.queues[0].commands;
        let posted = commands.post(&SendDescriptor::Toe(command));
        posted.expect("room");
    }

    pub fn publish(&mut self) {
        let _ = self.host.queues[0].publish();
    }

    pub fn begin(&mut self, port: u16) {
        let flow = flow(port).reversed();
        let toe = toe(port);
        self.command(ToeCommand::Begin { toe, flow });
        self.publish();
    }

    pub fn offer(&mut self, port: u16) {
        let flow = flow(port);
        let image = TcbImage {
            tcb: established(self.now, &flow).tcb(self.now).expect("it is"),
            config: Config::default(),
            cork: false,
        };
        let mut bytes = [0; TCB_IMAGE_BYTES];
        image.encode(&mut bytes).expect("nothing is held");
        assert!(self.region.write(self.tcb_at, &bytes));
        self.command(ToeCommand::Offer(&ToeOffer {
            toe: toe(port),
            flow: flow.reversed(),
            hop: PEER,
            hop_limit: 64,
            tcb: Slice {
                offset: self.tcb_at,
                len: TCB_IMAGE_BYTES as u32,
                region: self.region_id,
            },
        }));
        self.publish();
    }

    /// Hands a connection off.
    pub fn hand_off(&mut self, port: u16) {
        self.begin(port);
        self.run();
        assert!(self.told().contains(&ready(port)));
        self.offer(port);
        self.run();
        let accepted = ToeEvent::Accepted { toe: toe(port) };
        assert!(self.told().contains(&Told::Event(accepted)));
    }

    /// One turn; gives the frames that were sent.
    pub fn turn(&mut self) -> usize {
        let mut out = [0; 2048];
        self.nic.flush(self.now);
        let mut sent = 0;
        while self.nic.poll_transmit(self.now, &mut out).is_some() {
            sent += 1;
        }
        sent
    }

    /// Turns until the NIC has nothing more to do now.
    pub fn run(&mut self) -> usize {
        let mut sent = self.turn();
        self.nic.flush(self.now);
        while self.nic.poll_timeout().is_some_and(|when| when <= self.now) {
            sent += self.turn();
            self.nic.flush(self.now);
        }
        sent
    }

    /// What the host was told, in order. Buffers go back.
    pub fn told(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            told.push(match descriptor {
                RecvDescriptor::Packet(packet) => self.take(&packet),
                RecvDescriptor::Toe(event) => Told::Event(event),
                RecvDescriptor::Reset { epoch } => Told::Reset(epoch),
                other => panic!("{other:?}"),
            });
        }
        self.publish();
        told
    }

    fn take(&mut self, packet: &Packet) -> Told {
        let mut bytes = vec![0; packet.buffer.len as usize];
        assert!(self.region.read(packet.buffer.offset, &mut bytes));
        let whole = Slice {
            offset: packet.buffer.offset - packet.buffer.offset % SMALL,
            len: SMALL as u32,
            region: packet.buffer.region,
        };
        assert!(self.host.queues[0].small.push(whole));
        let parsed: Parsed = packet::parse(&bytes).expect("a segment");
        assert!(packet.segments > 1 || parsed.verify_checksums(&bytes));
        let at = (THEIRS + 1).distance_to(parsed.tcp.seq);
        Told::Segment(parsed.flow.src.1, at, parsed.payload(&bytes).to_vec())
    }
}

pub fn ready(port: u16) -> Told {
    Told::Event(ToeEvent::Ready { toe: toe(port) })
}

/// The connection with the peer at this port.
pub fn toe(port: u16) -> ToeId {
    ToeId {
        index: port.into(),
        generation: 1,
    }
}

/// From the peer to us.
fn flow(port: u16) -> FlowKey {
    FlowKey {
        src: ([10, 0, 0, 2].into(), port),
        dst: ([10, 0, 0, 1].into(), 80),
    }
}

fn established(now: Instant, flow: &FlowKey) -> Connection {
    let syn = Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq: THEIRS,
        flags: Flags::SYN,
        window: 60_000,
        options: Options {
            mss: Some(1460),
            ..Options::default()
        },
        ..Header::default()
    };
    let mut connection = Connection::accept(now, &Config::default(), &syn, OURS);
    assert!(connection.poll_transmit(now).is_some());
    let ack = Header {
        seq: THEIRS + 1,
        ack: OURS + 1,
        flags: Flags::ACK,
        options: Options::default(),
        ..syn
    };
    connection.handle_segment(now, &ack, 0, 1);
    connection
}
