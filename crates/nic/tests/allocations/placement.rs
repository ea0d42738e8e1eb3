//! Nothing allocates per packet or per command while data are placed: merging, loss, reordering, search, mapping and unmapping
//! included.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use l5p::crc32c::Crc32c;
use l5p::nvme::{Parameters, Role};
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, InnerPlace, RecvDescriptor, Region,
    RegionId, SendDescriptor, Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig};
use testkit::allocations;
use wire::ethernet::MacAddr;
use wire::nvme::{C2HData, Pdu};
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::{FlowKey, SeqNum, tcp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MSS: usize = 1448;
const SMALL: u32 = 2048;
const LARGE: u32 = 65_536 + 2048;
const SMALL_BUFFERS: u32 = 256;
const LARGE_BUFFERS: u32 = 32;
const TAGS: u16 = 64;
const DATA: u32 = 16_384;
const NVME: Parameters = Parameters {
    sender: Role::Controller,
    header_digest: true,
    data_digest: true,
    alignment: 0,
    max_pdu: 1 << 20,
    commands: TAGS,
};

fn flow() -> FlowKey {
    FlowKey::new(
        "10.0.0.2:4420".parse().unwrap(),
        "10.0.0.1:5000".parse().unwrap(),
    )
}

/// Content bytes of a record, a few of which are as long as a PDU.
const RECORD: usize = 4000;

fn crypto() -> CryptoInfo {
    CryptoInfo {
        version: Version::Tls13,
        algorithm: Algorithm::Aes128Gcm,
        key: [3; 32],
        iv: [4; 12],
        sequence: 0,
    }
}

/// A stream of PDUs, and where these begin.
fn pdus(pdus: usize) -> (Vec<u8>, Vec<u32>) {
    let mut stream = Vec::new();
    let mut starts = Vec::new();
    for n in 0..pdus {
        starts.push(stream.len() as u32);
        let pdu = Pdu::C2HData(C2HData {
            cccid: (n % usize::from(TAGS)) as u16,
            data_offset: 0,
            data_len: DATA,
            last: true,
            success: false,
        });
        let mut header = [0; 128];
        let len = pdu.emit(&NVME.framing(), &mut header);
        stream.extend_from_slice(&header[..len]);
        stream.extend_from_slice(&Crc32c::of(&header[..len]).to_le_bytes());
        let data = [n as u8; DATA as usize];
        stream.extend_from_slice(&data);
        stream.extend_from_slice(&Crc32c::of(&data).to_le_bytes());
    }
    (stream, starts)
}

/// The stream as the contents of TLS records, and where these begin.
fn sealed(stream: &[u8]) -> (Vec<u8>, Vec<u32>) {
    let mut writer = Writer::new(crypto());
    let mut records = Vec::new();
    let mut starts = Vec::new();
    for content in stream.chunks(RECORD) {
        starts.push(records.len() as u32);
        let mut record = vec![0; writer.record_len(content.len())];
        writer.seal_into(ContentType::APPLICATION_DATA, &[content], &mut record);
        records.extend_from_slice(&record);
    }
    (records, starts)
}

fn frames(stream: &[u8]) -> Vec<Vec<u8>> {
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
    frames.collect()
}

struct Receiver {
    nic: Nic,
    host: HostFunction,
    region: RegionId,
    blocks: RegionId,
    now: Instant,
    pdus: Vec<u32>,
    records: Option<Vec<u32>>,
    asked: u32,
}

impl Receiver {
    fn new(pdus: Vec<u32>, records: Option<Vec<u32>>) -> Receiver {
        let mut nic = Nic::new(NicConfig::new([1; 16]));
        let (mut host, device) = function(FunctionConfig {
            small_entries: SMALL_BUFFERS,
            large_entries: LARGE_BUFFERS,
            contexts: 2,
            ..FunctionConfig::new(MAC)
        });
        nic.attach(device).unwrap();
        let memory = SMALL_BUFFERS * SMALL + LARGE_BUFFERS * LARGE;
        let register = |bytes: u32| {
            let region = Arc::new(Region::anonymous(bytes as usize));
            host.register(region).unwrap()
        };
        let (region, blocks) = (register(memory), register(u32::from(TAGS) * DATA));
        let crypto = crypto();
        let create = SendDescriptor::CreateContext {
            context: ContextId(0),
            direction: Direction::Receive,
            flow: flow(),
            tcpsn: SeqNum(0),
            layers: &match records {
                Some(_) => Layers::of(&crypto).carrying(&NVME),
                None => Layers::of(&NVME),
            },
        };
        host.queues[0].send.post(&create).unwrap();
        let mut receiver = Receiver {
            nic,
            host,
            region,
            blocks,
            now: Instant::now(),
            pdus,
            records,
            asked: 0,
        };
        for n in 0..SMALL_BUFFERS {
            receiver.give(u64::from(n * SMALL));
        }
        for n in 0..LARGE_BUFFERS {
            receiver.give(u64::from(SMALL_BUFFERS * SMALL + n * LARGE));
        }
        receiver.work();
        for tag in 0..TAGS {
            receiver.map(tag);
        }
        receiver
    }

    fn map(&mut self, tag: u16) {
        let slice = |offset, len| Slice {
            offset: u64::from(tag) * u64::from(DATA) + offset,
            len,
            region: self.blocks,
        };
        let add = SendDescriptor::AddRrState {
            context: ContextId(0),
            tag,
            slices: &[slice(0, 4096), slice(4096, DATA - 4096)],
        };
        self.host.queues[0].send.post(&add).unwrap();
        self.work();
    }

    fn remap(&mut self, tag: u16) {
        let del = SendDescriptor::DelRrState {
            context: ContextId(0),
            tag,
        };
        self.host.queues[0].send.post(&del).unwrap();
        self.map(tag);
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

    /// The index of the message that begins there.
    fn answer(&self, tcpsn: SeqNum, inner: Option<InnerPlace>) -> Option<u64> {
        let find = |starts: &[u32], at: u32| starts.binary_search(&at).ok();
        let index = match (&self.records, inner) {
            (None, None) => find(&self.pdus, tcpsn.0),
            (Some(records), None) => find(records, tcpsn.0),
            (Some(records), Some(InnerPlace { offset, .. })) => {
                let record = find(records, tcpsn.0)?;
                find(&self.pdus, (record * RECORD) as u32 + offset)
            }
            (None, Some(_)) => None,
        };
        index.map(|index| index as u64)
    }

    fn flush(&mut self) {
        self.nic.flush(self.now);
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            match descriptor {
                RecvDescriptor::Packet(packet) => self.give(packet.buffer.offset),
                RecvDescriptor::Placed { .. } => {}
                RecvDescriptor::ResyncRequest {
                    context,
                    tcpsn,
                    inner,
                } => {
                    self.asked += 1;
                    let index = self.answer(tcpsn, inner);
                    let answer = SendDescriptor::ResyncResponse {
                        context,
                        tcpsn,
                        inner,
                        confirmed: index.is_some(),
                        index: index.unwrap_or(0),
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
fn placing_does_not_allocate() {
    let (stream, pdus) = pdus(400);
    run(&frames(&stream), Receiver::new(pdus, None));
}

#[test]
fn placing_inside_of_tls_does_not_allocate() {
    let (stream, pdus) = pdus(400);
    let (stream, records) = sealed(&stream);
    run(&frames(&stream), Receiver::new(pdus, Some(records)));
}

fn run(frames: &[Vec<u8>], mut receiver: Receiver) {
    let meta = FrameMeta {
        checksum_valid: true,
        ..FrameMeta::default()
    };
    let mut before = 0;
    for n in 0..frames.len() {
        if n == frames.len() / 4 {
            before = allocations();
        }
        if n * MSS % DATA as usize <= MSS {
            // The buffer of a command that is done is mapped for another one.
            let done = n * MSS / DATA as usize + usize::from(TAGS) - 3;
            receiver.remap((done % usize::from(TAGS)) as u16);
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
    assert_eq!(allocations() - before, 0);
    let counters = receiver.nic.counters();
    assert!(receiver.asked > 0);
    let all = 400 * u64::from(DATA);
    let placed = counters.named("rx_nvmeotcp_bytes");
    assert!(placed > all / 4, "{placed} of {all}");
    assert!(counters.rx_lro_packets > 0 && counters.named("rx_nvmeotcp_late_packets") > 0);
}
