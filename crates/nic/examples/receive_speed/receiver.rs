//! A host that receives the same stream over and over.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use l5p::crc32c::Crc32c;
use l5p::nvme::{Parameters, Role};
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, RecvDescriptor, Region, RegionId,
    SendDescriptor, Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::MacAddr;
use wire::nvme::{C2HData, Pdu};
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::{FlowKey, SeqNum, tcp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MSS: usize = 1448;
const SMALL: u32 = 2048;
const LARGE: u32 = 65_536 + 2048;
const SMALL_BUFFERS: u32 = 128;
const LARGE_BUFFERS: u32 = 16;
/// Packets of a batch.
const BATCH: usize = 64;
/// Bytes of data of a PDU, and PDUs of the stream.
const DATA: u32 = 256 << 10;
const PDUS: u16 = 4;
const RECORD: usize = 16_384;

/// What the NIC does to the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    None,
    /// It decrypts records.
    Tls,
    /// It follows PDUs, checks their digests and places what is mapped.
    Nvme {
        digests: bool,
        mapped: bool,
    },
    /// Both, with placement.
    NvmeInTls {
        digests: bool,
    },
}

impl Offload {
    pub fn name(self) -> &'static str {
        match self {
            Offload::None => "none",
            Offload::Tls => "TLS",
            Offload::Nvme { mapped: false, .. } => "NVMe, nothing mapped",
            Offload::Nvme { digests: false, .. } => "NVMe, placed",
            Offload::Nvme { digests: true, .. } => "NVMe, placed, digests",
            Offload::NvmeInTls { .. } => "NVMe in TLS",
        }
    }

    fn has_tls(self) -> bool {
        matches!(self, Offload::Tls | Offload::NvmeInTls { .. })
    }

    fn nvme(self) -> Parameters {
        let digests = match self {
            Offload::None | Offload::Tls => true,
            Offload::Nvme { digests, .. } | Offload::NvmeInTls { digests } => digests,
        };
        Parameters {
            sender: Role::Controller,
            header_digest: digests,
            data_digest: digests,
            alignment: 0,
            max_pdu: 1 << 20,
            commands: PDUS,
        }
    }
}

pub struct Receiver {
    nic: Nic,
    host: HostFunction,
    offload: Offload,
    crypto: CryptoInfo,
    region: RegionId,
    blocks: RegionId,
    now: Instant,
    frames: Vec<Vec<u8>>,
    bytes: usize,
}

fn flow() -> FlowKey {
    FlowKey::new(
        "10.0.0.2:4420".parse().expect("an address"),
        "10.0.0.1:5000".parse().expect("an address"),
    )
}

/// The PDUs on the wire.
fn pdus(nvme: &Parameters) -> Vec<u8> {
    let mut stream = Vec::new();
    for tag in 0..PDUS {
        let pdu = Pdu::C2HData(C2HData {
            cccid: tag,
            data_offset: 0,
            data_len: DATA,
            last: true,
            success: false,
        });
        let mut header = [0; 128];
        let len = pdu.emit(&nvme.framing(), &mut header);
        stream.extend_from_slice(&header[..len]);
        if nvme.header_digest {
            stream.extend_from_slice(&Crc32c::of(&header[..len]).to_le_bytes());
        }
        let data: Vec<u8> = (0..DATA).map(|n| (n >> 3) as u8).collect();
        stream.extend_from_slice(&data);
        if nvme.data_digest {
            stream.extend_from_slice(&Crc32c::of(&data).to_le_bytes());
        }
    }
    stream
}

fn sealed(crypto: &CryptoInfo, content: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(crypto.clone());
    let mut stream = Vec::new();
    for content in content.chunks(RECORD) {
        let mut record = vec![0; writer.record_len(content.len())];
        writer.seal_into(ContentType::APPLICATION_DATA, &[content], &mut record);
        stream.extend_from_slice(&record);
    }
    stream
}

fn frame(seq: usize, payload: &[u8]) -> Vec<u8> {
    let tcp = tcp::Header {
        src_port: flow().src.1,
        dst_port: flow().dst.1,
        seq: SeqNum(seq as u32),
        ack: SeqNum(0),
        flags: tcp::Flags::ACK,
        window: 100,
        options: tcp::Options::default(),
    };
    let mut frame = vec![0; MAX_TCP_HEADERS_LEN];
    let len = payload.len() as u32;
    let header = packet::emit_tcp_headers(&mut frame, MacAddr::ZERO, MAC, &flow(), &tcp, len, 64);
    frame.truncate(header);
    frame.extend_from_slice(payload);
    frame
}

impl Receiver {
    pub fn new(offload: Offload) -> Receiver {
        let crypto = CryptoInfo {
            version: Version::Tls13,
            algorithm: Algorithm::Aes128Gcm,
            key: [3; 32],
            iv: [4; 12],
            sequence: 0,
        };
        let mut stream = pdus(&offload.nvme());
        if offload.has_tls() {
            stream = sealed(&crypto, &stream);
        }
        let frames = stream.chunks(MSS).enumerate();
        let frames = frames.map(|(n, payload)| frame(n * MSS, payload)).collect();
        let mut nic = Nic::new(NicConfig::new([1; 16]));
        let (host, device) = function(FunctionConfig {
            small_entries: SMALL_BUFFERS,
            large_entries: LARGE_BUFFERS,
            contexts: 2,
            ..FunctionConfig::new(MAC)
        });
        nic.attach(device).expect("a free address");
        let register = |bytes: u32| {
            let region = Arc::new(Region::anonymous(bytes as usize));
            host.register(region).expect("a free id")
        };
        let region = register(SMALL_BUFFERS * SMALL + LARGE_BUFFERS * LARGE);
        let blocks = register(u32::from(PDUS) * DATA);
        let mut receiver = Receiver {
            nic,
            host,
            offload,
            crypto,
            region,
            blocks,
            now: Instant::now(),
            frames,
            bytes: stream.len(),
        };
        for n in 0..SMALL_BUFFERS {
            receiver.give(u64::from(n * SMALL));
        }
        for n in 0..LARGE_BUFFERS {
            receiver.give(u64::from(SMALL_BUFFERS * SMALL + n * LARGE));
        }
        receiver
    }

    /// Bytes of payload of a round.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn packets(&self) -> usize {
        self.frames.len()
    }

    /// The share of all data that was placed.
    pub fn placed(&self) -> f64 {
        let counters = self.nic.counters();
        let rounds = counters.rx_packets / self.frames.len() as u64;
        let all = rounds * u64::from(DATA) * u64::from(PDUS);
        counters.named("rx_nvmeotcp_bytes") as f64 / all as f64
    }

    /// Receives the whole stream with a new context.
    pub fn round(&mut self) {
        self.prepare();
        let meta = FrameMeta {
            checksum_valid: true,
            ..FrameMeta::default()
        };
        for from in (0..self.frames.len()).step_by(BATCH) {
            let to = (from + BATCH).min(self.frames.len());
            for frame in &self.frames[from..to] {
                self.nic.handle_frame(self.now, frame, meta);
            }
            self.flush();
        }
        if self.offload != Offload::None {
            let context = ContextId(0);
            self.post(&SendDescriptor::DestroyContext { context });
        }
    }

    fn prepare(&mut self) {
        let nvme = self.offload.nvme();
        let crypto = self.crypto.clone();
        let (layers, mapped) = match self.offload {
            Offload::None => return,
            Offload::Tls => (Layers::of(&crypto), false),
            Offload::Nvme { mapped, .. } => (Layers::of(&nvme), mapped),
            Offload::NvmeInTls { .. } => (Layers::of(&crypto).carrying(&nvme), true),
        };
        let context = ContextId(0);
        self.post(&SendDescriptor::CreateContext {
            context,
            direction: Direction::Receive,
            flow: flow(),
            tcpsn: SeqNum(0),
            layers: &layers,
        });
        for tag in (0..PDUS).filter(|_| mapped) {
            let slices = [Slice {
                offset: u64::from(tag) * u64::from(DATA),
                len: DATA,
                region: self.blocks,
            }];
            self.post(&SendDescriptor::AddRrState {
                context,
                tag,
                slices: &slices,
            });
        }
    }

    fn post(&mut self, descriptor: &SendDescriptor<'_>) {
        self.host.queues[0]
            .send
            .post(descriptor)
            .expect("room in the ring");
        self.work();
    }

    fn give(&mut self, offset: u64) {
        let queue = &mut self.host.queues[0];
        let small = offset < u64::from(SMALL_BUFFERS * SMALL);
        let (ring, len) = if small {
            (&mut queue.small, SMALL)
        } else {
            (&mut queue.large, LARGE)
        };
        let region = self.region;
        let given = ring.push(Slice {
            offset,
            len,
            region,
        });
        assert!(given, "as many buffers as slots");
    }

    fn work(&mut self) {
        let _ = self.host.queues[0].publish();
        while self.nic.poll_transmit(self.now, &mut [0; 2048]).is_some() {}
    }

    fn flush(&mut self) {
        self.nic.flush(self.now);
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            match descriptor {
                RecvDescriptor::Packet(packet) => self.give(packet.buffer.offset),
                RecvDescriptor::Placed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        self.work();
    }
}
