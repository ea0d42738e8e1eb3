//! A NIC with one function, driven by hand as a host's driver would.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Direction, Version, Writer};
use wire::ethernet::MacAddr;
use wire::packet::{self, Parsed};
use wire::tcp::{self, Flags};
use wire::{FlowKey, SeqNum};

use crate::ring::{
    ContextId, ErrorCode, FunctionConfig, HostFunction, InnerRecover, RecvDescriptor, Region,
    RegionId, SendDescriptor, SendFlags, Slice, Verify, function,
};
use crate::{FrameMeta, Nic, NicConfig, WireCapabilities};

pub(super) const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(super) const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
pub(super) const CONTEXT: ContextId = ContextId(0);
pub(super) const MEMORY: usize = 1 << 18;

pub(super) struct Rig {
    pub(super) nic: Nic,
    pub(super) host: HostFunction,
    pub(super) region: Arc<Region>,
    pub(super) id: RegionId,
    pub(super) flow: FlowKey,
    pub(super) now: Instant,
}

pub(super) fn flow(v6: bool) -> FlowKey {
    let (src, dst) = match v6 {
        false => ("10.0.0.1:443", "10.0.0.2:50000"),
        true => ("[fd00::1]:443", "[fd00::2]:50000"),
    };
    FlowKey::new(src.parse().unwrap(), dst.parse().unwrap())
}

impl Rig {
    pub(super) fn new(wire: WireCapabilities) -> Rig {
        let mut nic = Nic::new(NicConfig {
            wire,
            ..NicConfig::new([7; 16])
        });
        let (host, device) = function(FunctionConfig {
            send_entries: 256,
            receive_entries: 256,
            contexts: 4,
            ..FunctionConfig::new(MAC)
        });
        nic.attach(device).unwrap();
        let region = Arc::new(Region::anonymous(MEMORY));
        let id = host.register(Arc::clone(&region)).unwrap();
        Rig {
            nic,
            host,
            region,
            id,
            flow: flow(false),
            now: Instant::now(),
        }
    }

    pub(super) fn plain() -> Rig {
        Rig::new(WireCapabilities::default())
    }

    pub(super) fn slice(&self, offset: u64, len: u32) -> Slice {
        Slice {
            offset,
            len,
            region: self.id,
        }
    }

    /// Headers of a data segment, as a host writes them.
    pub(super) fn header(&self, seq: SeqNum, flags: Flags) -> Vec<u8> {
        let tcp = tcp::Header {
            src_port: self.flow.src.1,
            dst_port: self.flow.dst.1,
            seq,
            ack: SeqNum(99),
            flags: Flags::ACK.union(flags),
            window: 1000,
            options: tcp::Options::default(),
        };
        let mut header = vec![0; packet::MAX_TCP_HEADERS_LEN];
        let len = packet::emit_tcp_headers(&mut header, MAC, PEER, &self.flow, &tcp, 0, 64);
        header.truncate(len);
        header
    }

    pub(super) fn post(&mut self, descriptor: &SendDescriptor<'_>) -> u64 {
        self.host.queues[0].send.post(descriptor).unwrap()
    }

    pub(super) fn create(&mut self, tcpsn: SeqNum, crypto: &CryptoInfo) {
        self.create_for(tcpsn, &Layers::of(crypto));
    }

    pub(super) fn create_for(&mut self, tcpsn: SeqNum, layers: &Layers) {
        let flow = self.flow;
        self.post(&SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Transmit,
            flow,
            tcpsn,
            layers,
        });
    }

    pub(super) fn send(
        &mut self,
        seq: SeqNum,
        mss: u16,
        context: Option<ContextId>,
        flags: SendFlags,
        payload: &[Slice],
    ) -> u64 {
        let header = self.header(seq, Flags::PSH);
        self.post(&SendDescriptor::Send {
            header: &header,
            mss,
            context,
            flags: flags.union(SendFlags::CHECKSUM),
            payload,
        })
    }

    pub(super) fn recover(
        &mut self,
        record: &Record,
        resume: SeqNum,
        prefix: &[Slice],
        verify: Verify,
    ) {
        self.recover_layers(record, resume, prefix, verify, None);
    }

    pub(super) fn recover_layers(
        &mut self,
        record: &Record,
        resume: SeqNum,
        prefix: &[Slice],
        verify: Verify,
        inner: Option<InnerRecover>,
    ) {
        self.post(&SendDescriptor::RecoverContext {
            context: CONTEXT,
            start: record.start,
            index: record.index,
            len: record.len,
            resume,
            prefix,
            verify,
            inner,
            toe: None,
        });
    }

    /// Everything that reaches the wire now.
    pub(super) fn frames(&mut self) -> Vec<(Vec<u8>, FrameMeta)> {
        let _ = self.host.queues[0].publish();
        let mut out = vec![0xee; 66_000];
        let mut frames = Vec::new();
        while let Some((len, meta)) = self.nic.poll_transmit(self.now, &mut out) {
            frames.push((out[..len].to_vec(), meta));
        }
        self.nic.flush(self.now);
        frames
    }

    /// Everything that reaches the wire now, put together from where it lies; and the bytes that were lent.
    pub(super) fn lent_frames(&mut self) -> (Vec<(Vec<u8>, FrameMeta)>, usize) {
        let _ = self.host.queues[0].publish();
        let mut out = vec![0xee; 66_000];
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while let Some(lent) = self.nic.poll_transmit_lent(self.now, &mut out) {
            let mut frame = out[..lent.head].to_vec();
            for piece in lent.payload.into_iter().flatten() {
                frame.extend(piece.to_vec());
                bytes += piece.len();
            }
            frames.push((frame, lent.meta));
        }
        self.nic.flush(self.now);
        (frames, bytes)
    }

    /// Everything that reaches the wire now, as TCP segments with their payload; their checksums are right.
    pub(super) fn segments(&mut self) -> Vec<(Parsed, Vec<u8>)> {
        let parse = |(frame, _): (Vec<u8>, FrameMeta)| {
            let parsed = packet::parse(&frame).unwrap();
            assert!(parsed.verify_checksums(&frame));
            let payload = parsed.payload(&frame).to_vec();
            (parsed, payload)
        };
        self.frames().into_iter().map(parse).collect()
    }

    /// The errors that the host was told of.
    pub(super) fn errors(&mut self) -> Vec<(u64, ErrorCode)> {
        let mut errors = Vec::new();
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            if let RecvDescriptor::Completion {
                send_index, error, ..
            } = descriptor
            {
                errors.push((send_index, error));
            }
        }
        self.host.queues[0].recv.publish();
        errors
    }
}

/// A record of a [`Stream`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) start: SeqNum,
    pub(super) len: u32,
    pub(super) index: u64,
}

/// A stream of records: framed for the NIC in the region's memory, and as software would encrypt it.
pub(super) struct Stream {
    pub(super) start: SeqNum,
    pub(super) crypto: CryptoInfo,
    pub(super) records: Vec<Record>,
    pub(super) expected: Vec<u8>,
}

/// A version and an algorithm.
pub(super) type Suite = (Version, Algorithm);

pub(super) const SUITES: [Suite; 6] = [
    (Version::Tls12, Algorithm::Aes128Gcm),
    (Version::Tls12, Algorithm::Aes256Gcm),
    (Version::Tls12, Algorithm::ChaCha20Poly1305),
    (Version::Tls13, Algorithm::Aes128Gcm),
    (Version::Tls13, Algorithm::Aes256Gcm),
    (Version::Tls13, Algorithm::ChaCha20Poly1305),
];

/// A byte that plaintext has everywhere, so that it is found where it must not be.
pub(super) const PLAIN: u8 = b'P';

pub(super) fn crypto(suite: Suite) -> CryptoInfo {
    let mut key = [0; 32];
    for (i, byte) in key[..suite.1.key_len()].iter_mut().enumerate() {
        *byte = i as u8 + 1;
    }
    CryptoInfo {
        version: suite.0,
        algorithm: suite.1,
        key,
        iv: [5; 12],
        sequence: 3,
    }
}

impl Stream {
    /// Frames records of these sizes at the region's start.
    pub(super) fn new(rig: &Rig, suite: Suite, start: SeqNum, sizes: &[usize]) -> Stream {
        let contents: Vec<_> = sizes.iter().map(|&size| vec![PLAIN; size]).collect();
        let pairs = contents.iter().map(|content| (&content[..], &content[..]));
        Stream::of(rig, suite, start, pairs)
    }

    /// Frames records at the region's start: of each, what the NIC is given as its content, and what is to be encrypted.
    pub(super) fn of<'a>(
        rig: &Rig,
        suite: Suite,
        start: SeqNum,
        contents: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Stream {
        let crypto = crypto(suite);
        let (mut framer, mut sealer) = (Writer::new(crypto.clone()), Writer::new(crypto.clone()));
        let (mut records, mut expected) = (Vec::new(), Vec::new());
        for (given, content) in contents {
            let layout = framer.record_layout(ContentType::APPLICATION_DATA, given.len());
            let at = expected.len();
            let framed = [layout.header(), given, layout.trailer()].concat();
            assert!(rig.region.write(at as u64, &framed));
            let state = framer.commit(start + at as u32, given.len());
            records.push(Record {
                start: state.start,
                len: state.len,
                index: state.index,
            });
            expected.resize(at + state.len as usize, 0);
            sealer.seal_into(
                ContentType::APPLICATION_DATA,
                &[content],
                &mut expected[at..],
            );
        }
        Stream {
            start,
            crypto,
            records,
            expected,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.expected.len() as u32
    }

    pub(super) fn end(&self) -> SeqNum {
        self.start + self.len()
    }

    /// Offset of a sequence number in the region, and in `expected`.
    pub(super) fn offset(&self, tcpsn: SeqNum) -> u32 {
        self.start.distance_to(tcpsn)
    }

    pub(super) fn record_at(&self, tcpsn: SeqNum) -> Option<&Record> {
        self.records
            .iter()
            .find(|record| tcpsn.is_within(record.start, record.len))
    }

    /// The stream's bytes from `from` up to `to`, in slices of uneven lengths.
    pub(super) fn slices(&self, rig: &Rig, from: SeqNum, to: SeqNum, cut: u32) -> Vec<Slice> {
        let (mut at, end) = (self.offset(from), self.offset(to));
        let cut = cut.max((end - at) / 12 + 1);
        let mut slices = Vec::new();
        while at < end {
            let len = (cut - at % cut).min(end - at);
            slices.push(rig.slice(u64::from(at), len));
            at += len;
        }
        slices
    }

    /// Checks that a segment carries what software would have sent there.
    pub(super) fn check(&self, parsed: &Parsed, payload: &[u8]) {
        let at = self.offset(parsed.tcp.seq) as usize;
        assert!(
            self.expected[at..at + payload.len()] == *payload,
            "segment of {} bytes at {at} is not what software sends",
            payload.len()
        );
    }
}
