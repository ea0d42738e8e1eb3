//! A host that receives the same stream over and over.

use l5p::Layers;
use l5p::nvme::{Parameters, Role};
use nic::ring::{FunctionConfig, RecvDescriptor, SendDescriptor};
use testkit::bare::{CONTEXT, Memory, Rig, function_config, nic_config};
use testkit::fixtures::{MSS, aes_128_gcm, flow, nvme};
use testkit::frames::packets;
use testkit::pdus::{PduStream, data};
use testkit::records::Records;
use wire::SeqNum;

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
        nvme(Role::Controller, digests, digests)
    }
}

pub struct Receiver {
    rig: Rig,
    offload: Offload,
    blocks: Memory,
    frames: Vec<Vec<u8>>,
    bytes: usize,
}

impl Receiver {
    pub fn new(is_guest: bool, offload: Offload) -> Receiver {
        let kinds: Vec<_> = (0..PDUS).map(|tag| data(tag, 0, DATA)).collect();
        let mut stream = PduStream::new(&offload.nvme(), &kinds).wire;
        if offload.has_tls() {
            stream = Records::of(&aes_128_gcm(), stream.chunks(RECORD)).wire;
        }
        let function = FunctionConfig {
            receive_entries: 2048,
            small_entries: 128,
            large_entries: 16,
            ..function_config()
        };
        let mut rig = match is_guest {
            false => Rig::new(nic_config(), function),
            true => Rig::of_guest(nic_config(), function),
        };
        rig.host.refill();
        Receiver {
            blocks: rig.host.allocate(usize::from(PDUS) * DATA as usize),
            frames: packets(&flow(5000).reversed(), SeqNum(0), &stream, MSS),
            rig,
            offload,
            bytes: stream.len(),
        }
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
        let counters = self.rig.nic.counters();
        let rounds = counters.rx_packets / self.frames.len() as u64;
        let all = rounds * u64::from(DATA) * u64::from(PDUS);
        counters.named("rx_nvmeotcp_bytes") as f64 / all as f64
    }

    /// Receives the whole stream with a new context.
    pub fn round(&mut self) {
        self.prepare();
        for from in (0..self.frames.len()).step_by(BATCH) {
            let to = (from + BATCH).min(self.frames.len());
            for frame in &self.frames[from..to] {
                self.rig.receive(frame);
            }
            self.flush();
        }
        if self.offload != Offload::None {
            let destroy = SendDescriptor::DestroyContext { context: CONTEXT };
            self.rig.command(&destroy);
        }
    }

    fn prepare(&mut self) {
        let (crypto, nvme) = (aes_128_gcm(), self.offload.nvme());
        let (layers, mapped) = match self.offload {
            Offload::None => return,
            Offload::Tls => (Layers::of(&crypto), false),
            Offload::Nvme { mapped, .. } => (Layers::of(&nvme), mapped),
            Offload::NvmeInTls { .. } => (Layers::of(&crypto).carrying(&nvme), true),
        };
        let flow = flow(5000).reversed();
        self.rig.offload(CONTEXT, &flow, SeqNum(0), &layers);
        for tag in (0..PDUS).filter(|_| mapped) {
            let offset = u64::from(tag) * u64::from(DATA);
            let buffer = [self.blocks.slice(offset, DATA)];
            self.rig.map(CONTEXT, tag, &buffer);
        }
    }

    fn flush(&mut self) {
        self.rig.nic.flush(self.rig.now);
        self.rig.nic.take_wakeups(|_, _| {});
        while let Some(descriptor) = self.rig.host.pop(0) {
            match descriptor {
                RecvDescriptor::Packet(_) | RecvDescriptor::Placed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        self.rig.host.refill();
        self.rig.work();
    }
}
