//! Nothing allocates per received packet once flows are running: offload, loss, reordering, search and merging included.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, RecvDescriptor, Region, RegionId,
    SendDescriptor, Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig};
use testkit::allocations;
use wire::ethernet::MacAddr;
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::{FlowKey, SeqNum, tcp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MSS: usize = 1448;
const SMALL: u32 = 2048;
const LARGE: u32 = 65_536 + 2048;
const SMALL_BUFFERS: u32 = 256;
const LARGE_BUFFERS: u32 = 32;

fn flow() -> FlowKey {
    FlowKey::new(
        "10.0.0.2:5000".parse().unwrap(),
        "10.0.0.1:443".parse().unwrap(),
    )
}

/// Frames of a stream of 16 KiB records, without their sequence numbers' order.
fn frames(crypto: &CryptoInfo, records: usize) -> (Vec<Vec<u8>>, Vec<u32>) {
    let mut writer = Writer::new(crypto.clone());
    let mut stream = Vec::new();
    let mut starts = Vec::new();
    for _ in 0..records {
        let content = [7; 16384];
        let mut record = vec![0; writer.record_len(content.len())];
        writer.seal_into(ContentType::APPLICATION_DATA, &[&content], &mut record);
        starts.push(stream.len() as u32);
        stream.extend_from_slice(&record);
    }
    let frames = stream.chunks(MSS).enumerate().map(|(n, payload)| {
        let tcp = tcp::Header {
            src_port: flow().src.1,
            dst_port: flow().dst.1,
            seq: SeqNum((n * MSS) as u32),
            ack: SeqNum(0),
            flags: tcp::Flags::ACK,
            window: 100,
            options: tcp::Options::default(),
        };
        let mut frame = vec![0; MAX_TCP_HEADERS_LEN];
        let len = payload.len() as u32;
        let header =
            packet::emit_tcp_headers(&mut frame, MacAddr::ZERO, MAC, &flow(), &tcp, len, 64);
        frame.truncate(header);
        frame.extend_from_slice(payload);
        frame
    });
    (frames.collect(), starts)
}

struct Receiver {
    nic: Nic,
    host: HostFunction,
    region: RegionId,
    now: Instant,
    starts: Vec<u32>,
    asked: u32,
    offloaded: u32,
}

impl Receiver {
    fn new(crypto: &CryptoInfo, starts: Vec<u32>) -> Receiver {
        let mut nic = Nic::new(NicConfig::new([1; 16]));
        let (mut host, device) = function(FunctionConfig {
            small_entries: SMALL_BUFFERS,
            large_entries: LARGE_BUFFERS,
            contexts: 2,
            ..FunctionConfig::new(MAC)
        });
        nic.attach(device).unwrap();
        let memory = SMALL_BUFFERS * SMALL + LARGE_BUFFERS * LARGE;
        let region = host
            .register(Arc::new(Region::anonymous(memory as usize)))
            .unwrap();
        let create = SendDescriptor::CreateContext {
            context: ContextId(0),
            direction: Direction::Receive,
            flow: flow(),
            tcpsn: SeqNum(0),
            layers: &Layers::of(crypto),
        };
        host.queues[0].send.post(&create).unwrap();
        let mut receiver = Receiver {
            nic,
            host,
            region,
            now: Instant::now(),
            starts,
            asked: 0,
            offloaded: 0,
        };
        for n in 0..SMALL_BUFFERS {
            receiver.give(u64::from(n * SMALL));
        }
        for n in 0..LARGE_BUFFERS {
            receiver.give(u64::from(SMALL_BUFFERS * SMALL + n * LARGE));
        }
        receiver.work();
        receiver
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
        assert!(ring.push(Slice {
            offset,
            len,
            region
        }));
    }

    fn work(&mut self) {
        let _ = self.host.queues[0].publish();
        while self.nic.poll_transmit(self.now, &mut [0; 2048]).is_some() {}
    }

    fn flush(&mut self) {
        self.nic.flush(self.now);
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            match descriptor {
                RecvDescriptor::Packet(packet) => {
                    self.offloaded += u32::from(packet.processed.by(0));
                    self.give(packet.buffer.offset);
                }
                RecvDescriptor::ResyncRequest { context, tcpsn, .. } => {
                    self.asked += 1;
                    let index = self.starts.binary_search(&tcpsn.0).ok();
                    let answer = SendDescriptor::ResyncResponse {
                        context,
                        tcpsn,
                        inner: None,
                        confirmed: index.is_some(),
                        index: index.unwrap_or(0) as u64,
                    };
                    self.host.queues[0].send.post(&answer).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        self.work();
    }
}

#[test]
fn a_running_receiver_does_not_allocate() {
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::ChaCha20Poly1305] {
        let crypto = CryptoInfo {
            version: Version::Tls13,
            algorithm,
            key: [3; 32],
            iv: [4; 12],
            sequence: 0,
        };
        let (frames, starts) = frames(&crypto, 200);
        let mut receiver = Receiver::new(&crypto, starts);
        let meta = FrameMeta {
            checksum_valid: true,
            ..FrameMeta::default()
        };
        let mut before = 0;
        for n in 0..frames.len() {
            if n == frames.len() / 4 {
                before = allocations();
            }
            // Every 25th packet comes ten packets later, every 60th is lost for good.
            if n % 60 == 59 || n % 25 == 0 {
                continue;
            }
            receiver.nic.handle_frame(receiver.now, &frames[n], meta);
            if n % 25 == 10 && n > 25 {
                receiver
                    .nic
                    .handle_frame(receiver.now, &frames[n - 10], meta);
            }
            if n % 16 == 0 {
                receiver.flush();
            }
        }
        receiver.flush();
        assert_eq!(allocations() - before, 0, "{algorithm:?}");
        assert!(
            receiver.asked > 0 && receiver.offloaded > 50,
            "{algorithm:?}"
        );
    }
}
