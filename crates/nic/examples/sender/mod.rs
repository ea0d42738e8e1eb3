//! A host that sends the same records over and over, for the example and the test of allocations.

use std::sync::Arc;
use std::time::Instant;

use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, L5Parameters, Region, SendDescriptor,
    SendFlags, Slice, Verify, function,
};
use nic::{Nic, NicConfig, WireCapabilities};
use wire::ethernet::MacAddr;
use wire::packet::{MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::{FlowKey, SeqNum, tcp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const CONTEXT: ContextId = ContextId(0);
const CONTENT: usize = 16_384;
const MSS: u16 = 1448;

/// Whether, and how, the sender sends the first half of each record again.
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
    record: Slice,
    offload: bool,
    repeat: Repeat,
    at: SeqNum,
    index: u64,
    now: Instant,
    out: Vec<u8>,
}

impl Sender {
    /// A sender whose wire segments or does not, with TLS offload or none.
    pub fn new(wire: bool, offload: bool, repeat: Repeat) -> Sender {
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
        let layout =
            Writer::new(crypto.clone()).record_layout(ContentType::APPLICATION_DATA, CONTENT);
        let bytes = [layout.header(), &[3; CONTENT], layout.trailer()].concat();
        let region = Region::anonymous(bytes.len());
        region.write(0, &bytes);
        let record = Slice {
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
            l5: L5Parameters::Tls(&crypto),
        };
        host.queues[0].send.post(&create).expect("an empty ring");
        Sender {
            nic,
            host,
            flow,
            record,
            offload,
            repeat,
            at: SeqNum(0),
            index: 0,
            now: Instant::now(),
            out: vec![0; 66_000],
        }
    }

    /// Sends so many records.
    pub fn send(&mut self, records: u32) -> Sent {
        let mut sent = Sent::default();
        for _ in 0..records {
            let (start, record) = (self.at, self.record);
            self.post(start, record);
            if self.offload && self.repeat != Repeat::Never {
                self.repeat(start);
            }
            self.at += record.len;
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
        let half = self.record.len / 2;
        let tail = Slice {
            offset: u64::from(half),
            len: self.record.len - half,
            ..self.record
        };
        let (prefix, verify) = match self.repeat {
            Repeat::Verified => (self.record, Verify::WholeMessage),
            _ => (
                Slice {
                    len: half,
                    ..self.record
                },
                Verify::None,
            ),
        };
        let recover = SendDescriptor::RecoverContext {
            context: CONTEXT,
            start,
            index: self.index,
            len: self.record.len,
            resume: start + half,
            prefix: &[prefix],
            verify,
            inner: None,
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
            context: self.offload.then_some(CONTEXT),
            flags: SendFlags::CHECKSUM.union(mutable),
            payload: &[payload],
        };
        self.host.queues[0].send.post(&send).expect("room");
    }
}
