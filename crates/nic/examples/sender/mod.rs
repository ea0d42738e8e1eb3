//! A host that sends the same messages over and over, for the example and the test of allocations.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use l5p::nvme;
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, InnerRecover, Region, SendDescriptor,
    SendFlags, Slice, Verify, function,
};
use nic::{Nic, NicConfig, WireCapabilities};
use wire::ethernet::MacAddr;
use wire::nvme::{C2HData, Pdu, Role};
use wire::packet::{MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::{FlowKey, SeqNum, tcp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const CONTEXT: ContextId = ContextId(0);
/// Bytes of a PDU, and of what a record contains.
const CONTENT: usize = 16_384;
const MSS: u16 = 1448;

/// What the NIC does to the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    None,
    /// It encrypts records.
    Tls,
    /// It makes the digests of PDUs.
    Nvme,
    /// Both.
    NvmeInTls,
}

/// Whether, and how, the sender sends the second half of each message again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    Never,
    /// From memory that does not change.
    Unverified,
    /// From memory that may change.
    Verified,
}

/// What a run has sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    pub frames: u64,
    pub bytes: u64,
}

pub struct Sender {
    nic: Nic,
    host: HostFunction,
    flow: FlowKey,
    /// A record, or a PDU.
    message: Slice,
    offload: Offload,
    repeat: Repeat,
    at: SeqNum,
    index: u64,
    now: Instant,
    out: Vec<u8>,
}

impl Sender {
    /// A sender whose wire segments or does not.
    pub fn new(wire: bool, offload: Offload, repeat: Repeat) -> Sender {
        let mut nic = Nic::new(NicConfig {
            wire: WireCapabilities {
                tso: wire,
                checksum: wire,
            },
            ..NicConfig::new([0; 16])
        });
        let (mut host, device) = function(FunctionConfig {
            contexts: 1,
            ..FunctionConfig::new(MAC)
        });
        nic.attach(device).expect("a free address");
        let crypto = CryptoInfo {
            version: Version::Tls13,
            algorithm: Algorithm::Aes128Gcm,
            key: [1; 32],
            iv: [2; 12],
            sequence: 0,
        };
        let parameters = nvme::Parameters {
            sender: Role::Controller,
            header_digest: false,
            data_digest: true,
            alignment: 0,
            max_pdu: 1 << 20,
            commands: 1,
        };
        let bytes = match offload {
            Offload::Nvme => pdu(&parameters),
            Offload::NvmeInTls => record(&crypto, &pdu(&parameters)),
            _ => record(&crypto, &[3; CONTENT]),
        };
        let region = Region::anonymous(bytes.len());
        region.write(0, &bytes);
        let message = Slice {
            region: host.register(Arc::new(region)).expect("a free id"),
            offset: 0,
            len: bytes.len() as u32,
        };
        let flow = FlowKey::new(
            "10.0.0.1:443".parse().expect("an address"),
            "10.0.0.2:5000".parse().expect("an address"),
        );
        let create = SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Transmit,
            flow,
            tcpsn: SeqNum(0),
            layers: &match offload {
                Offload::Nvme => Layers::of(&parameters),
                Offload::NvmeInTls => Layers::of(&crypto).carrying(&parameters),
                _ => Layers::of(&crypto),
            },
        };
        host.queues[0].send.post(&create).expect("an empty ring");
        Sender {
            nic,
            host,
            flow,
            message,
            offload,
            repeat,
            at: SeqNum(0),
            index: 0,
            now: Instant::now(),
            out: vec![0; 66_000],
        }
    }

    /// Sends so many messages.
    pub fn send(&mut self, messages: u32) -> Sent {
        let mut sent = Sent::default();
        for _ in 0..messages {
            let (start, message) = (self.at, self.message);
            self.post(start, message);
            if self.offload != Offload::None && self.repeat != Repeat::Never {
                self.repeat(start);
            }
            self.at += message.len;
            self.index += 1;
            let _ = self.host.queues[0].publish();
            while let Some((len, _)) = self.nic.poll_transmit(self.now, &mut self.out) {
                sent.frames += 1;
                sent.bytes += len as u64;
            }
            self.nic.flush(self.now);
        }
        let refused = self.host.queues[0].recv.pop();
        assert_eq!(refused, None);
        sent
    }

    fn repeat(&mut self, start: SeqNum) {
        let half = self.message.len / 2;
        let tail = Slice {
            offset: u64::from(half),
            len: self.message.len - half,
            ..self.message
        };
        let (prefix, verify) = match self.repeat {
            Repeat::Verified => (self.message, Verify::WholeMessage),
            _ => (
                Slice {
                    len: half,
                    ..self.message
                },
                Verify::None,
            ),
        };
        let recover = SendDescriptor::RecoverContext {
            context: CONTEXT,
            start,
            index: self.index,
            len: self.message.len,
            resume: start + half,
            prefix: &[prefix],
            verify,
            inner: (self.offload == Offload::NvmeInTls).then_some(InnerRecover {
                index: self.index,
                len: CONTENT as u32,
                offset: 0,
            }),
            toe: None,
        };
        self.host.queues[0].send.post(&recover).expect("room");
        self.post(start + half, tail);
    }

    fn post(&mut self, seq: SeqNum, payload: Slice) {
        let tcp = tcp::Header {
            src_port: self.flow.src.1,
            dst_port: self.flow.dst.1,
            seq,
            ack: SeqNum(0),
            flags: tcp::Flags::ACK,
            window: 100,
            options: tcp::Options::default(),
        };
        let mut header = [0; MAX_TCP_HEADERS_LEN];
        let len = emit_tcp_headers(&mut header, MAC, MacAddr([2; 6]), &self.flow, &tcp, 0, 64);
        let mutable = match self.repeat {
            Repeat::Verified => SendFlags::MUTABLE_SOURCE,
            _ => SendFlags::NONE,
        };
        let send = SendDescriptor::Send {
            header: &header[..len],
            mss: MSS,
            context: (self.offload != Offload::None).then_some(CONTEXT),
            flags: SendFlags::CHECKSUM.union(mutable),
            payload: &[payload],
        };
        self.host.queues[0].send.post(&send).expect("room");
    }
}

/// A PDU with a dummy digest.
fn pdu(parameters: &nvme::Parameters) -> Vec<u8> {
    let framing = parameters.framing();
    let pdu = Pdu::C2HData(C2HData {
        cccid: 0,
        data_offset: 0,
        data_len: CONTENT as u32 - 24 - 4,
        last: true,
        success: false,
    });
    let mut bytes = vec![3; CONTENT];
    pdu.emit(&framing, &mut bytes);
    bytes
}

/// A record as the NIC takes it.
fn record(crypto: &CryptoInfo, content: &[u8]) -> Vec<u8> {
    let writer = Writer::new(crypto.clone());
    let layout = writer.record_layout(ContentType::APPLICATION_DATA, content.len());
    [layout.header(), content, layout.trailer()].concat()
}
