//! A NIC, a host that takes what it delivers, and a peer that sends records.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Direction, Version, Writer};
use wire::ethernet::MacAddr;
use wire::packet::{self, MAX_TCP_HEADERS_LEN, Parsed};
use wire::tcp::{self, Flags, Options, Timestamps};
use wire::{FlowKey, SeqNum, ipv4};

use crate::ring::{
    ContextId, FunctionConfig, HostFunction, Packet, RecvDescriptor, Region, RegionId,
    SendDescriptor, Slice, function,
};
use crate::{Counters, FrameMeta, FunctionId, Nic, NicConfig};

pub(super) const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(super) const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub(super) const VALID: FrameMeta = FrameMeta {
    gso_size: 0,
    needs_checksum: None,
    checksum_valid: true,
};

pub(super) struct Rig {
    pub(super) nic: Nic,
    pub(super) host: HostFunction,
    pub(super) id: FunctionId,
    pub(super) now: Instant,
    pub(super) region: Arc<Region>,
    region_id: RegionId,
    /// By queue, the bytes given out so far of its memory for small buffers and of that for large ones.
    given: Vec<[u64; 2]>,
}

/// Bytes of memory of each queue for small buffers and for large ones: more than its rings hold.
const AREAS: [u64; 2] = [1 << 20, 4 << 20];

/// A packet as the host finds it.
#[derive(Debug, Clone)]
pub(super) struct Delivered {
    pub(super) packet: Packet,
    pub(super) bytes: Vec<u8>,
}

impl Delivered {
    pub(super) fn parsed(&self) -> Parsed {
        packet::parse(&self.bytes).expect("valid headers")
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[usize::from(self.packet.header_len)..]
    }
}

pub(super) fn config() -> FunctionConfig {
    FunctionConfig {
        receive_entries: 256,
        small_entries: 256,
        large_entries: 32,
        contexts: 16,
        ..FunctionConfig::new(MAC)
    }
}

impl Rig {
    pub(super) fn new(config: FunctionConfig) -> Rig {
        let mut nic = Nic::new(NicConfig::new([7; 16]));
        let (host, device) = function(config);
        let id = nic.attach(device).expect("a free address");
        let queues = host.queues.len();
        let bytes = queues * (AREAS[0] + AREAS[1]) as usize;
        let region = Arc::new(Region::anonymous(bytes));
        let region_id = host.register(Arc::clone(&region)).expect("a free id");
        Rig {
            nic,
            host,
            id,
            now: Instant::now(),
            region,
            region_id,
            given: vec![[0; 2]; queues],
        }
    }

    /// A rig whose queues have buffers of both classes.
    pub(super) fn filled() -> Rig {
        let mut rig = Rig::new(config());
        rig.fill(200, 30);
        rig
    }

    /// Gives each queue so many buffers.
    pub(super) fn fill(&mut self, small: usize, large: usize) {
        let config = self.host.config;
        for queue in 0..self.host.queues.len() {
            for (count, len) in [(small, config.small_bytes), (large, config.large_bytes)] {
                for _ in 0..count {
                    let is_small = len == config.small_bytes;
                    let rings = &mut self.host.queues[queue];
                    let ring = if is_small {
                        &mut rings.small
                    } else {
                        &mut rings.large
                    };
                    if ring.free(1) == 0 {
                        break;
                    }
                    let buffer = self.buffer(queue, len);
                    let rings = &mut self.host.queues[queue];
                    let ring = if is_small {
                        &mut rings.small
                    } else {
                        &mut rings.large
                    };
                    assert!(ring.push(buffer));
                }
            }
            let _ = self.host.queues[queue].publish();
        }
    }

    /// The next part of the memory for a queue's buffers of this length, which it goes round in.
    pub(super) fn buffer(&mut self, queue: usize, len: u32) -> Slice {
        let class = usize::from(len != self.host.config.small_bytes);
        let begin = queue as u64 * (AREAS[0] + AREAS[1]) + AREAS[0] * class as u64;
        let given = &mut self.given[queue][class];
        if *given + u64::from(len) > AREAS[class] {
            *given = 0;
        }
        let offset = begin + *given;
        *given += u64::from(len);
        Slice {
            offset,
            len,
            region: self.region_id,
        }
    }

    pub(super) fn offload(&mut self, id: u32, flow: FlowKey, tcpsn: SeqNum, crypto: &CryptoInfo) {
        self.command(&SendDescriptor::CreateContext {
            context: ContextId(id),
            direction: Direction::Receive,
            flow,
            tcpsn,
            layers: &Layers::of(crypto),
        });
    }

    /// Posts a descriptor and lets the device take it.
    pub(super) fn command(&mut self, descriptor: &SendDescriptor<'_>) {
        let queue = &mut self.host.queues[0];
        queue.send.post(descriptor).expect("room in the ring");
        let _ = queue.publish();
        assert!(self.nic.poll_transmit(self.now, &mut [0; 2048]).is_none());
    }

    pub(super) fn frame(&mut self, frame: &[u8], meta: FrameMeta) {
        self.nic.handle_frame(self.now, frame, meta);
    }

    /// Ends the batch; gives what the host finds in all queues, which it gives new buffers for.
    pub(super) fn flush(&mut self) -> Vec<RecvDescriptor> {
        self.nic.flush(self.now);
        let mut found = Vec::new();
        for queue in &mut self.host.queues {
            while let Some(descriptor) = queue.recv.pop() {
                found.push(descriptor);
            }
            let _ = queue.publish();
        }
        found
    }

    /// As [`flush`](Self::flush), packets alone, with their bytes.
    pub(super) fn packets(&mut self) -> Vec<Delivered> {
        let found = self.flush();
        found
            .into_iter()
            .filter_map(|descriptor| self.read(descriptor))
            .collect()
    }

    pub(super) fn read(&self, descriptor: RecvDescriptor) -> Option<Delivered> {
        let RecvDescriptor::Packet(packet) = descriptor else {
            return None;
        };
        let mut bytes = vec![0; packet.buffer.len as usize];
        assert!(self.region.read(packet.buffer.offset, &mut bytes));
        Some(Delivered { packet, bytes })
    }

    pub(super) fn counters(&self) -> Counters {
        *self.nic.function_counters(self.id).expect("attached")
    }
}

pub(super) fn flow(port: u16) -> FlowKey {
    FlowKey {
        src: (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), port),
        dst: (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443),
    }
}

pub(super) fn flow_v6(port: u16) -> FlowKey {
    FlowKey {
        src: (IpAddr::V6(Ipv6Addr::LOCALHOST), port),
        dst: (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 443),
    }
}

/// A segment's header: an ACK with timestamps.
pub(super) fn segment(flow: &FlowKey, seq: SeqNum) -> tcp::Header {
    tcp::Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq,
        ack: SeqNum(1000),
        flags: Flags::ACK,
        window: 512,
        options: Options {
            timestamps: Some(Timestamps { val: 10, echo: 20 }),
            ..Options::default()
        },
    }
}

/// A frame with valid checksums.
pub(super) fn frame(flow: &FlowKey, tcp: &tcp::Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; MAX_TCP_HEADERS_LEN];
    let len = payload.len() as u32;
    let header_len = packet::emit_tcp_headers(&mut frame, PEER, MAC, flow, tcp, len, 64);
    frame.truncate(header_len);
    frame.extend_from_slice(payload);
    let parsed = packet::parse(&frame).expect("valid headers");
    if flow.src.0.is_ipv4() {
        ipv4::fill_checksum(&mut frame[parsed.l3_offset..parsed.l4_offset]);
    }
    tcp::fill_checksum(flow.src.0, flow.dst.0, &mut frame[parsed.l4_offset..]);
    frame
}

pub(super) fn crypto(algorithm: Algorithm, version: Version) -> CryptoInfo {
    CryptoInfo {
        version,
        algorithm,
        key: [3; 32],
        iv: [4; 12],
        sequence: 5,
    }
}

/// A stream of records on the wire, and what offloaded packets show of it.
pub(super) struct Records {
    pub(super) wire: Vec<u8>,
    pub(super) opened: Vec<u8>,
    pub(super) starts: Vec<usize>,
}

impl Records {
    pub(super) fn new(crypto: &CryptoInfo, contents: &[Vec<u8>]) -> Records {
        let mut writer = Writer::new(crypto.clone());
        let mut records = Records {
            wire: Vec::new(),
            opened: Vec::new(),
            starts: Vec::new(),
        };
        for content in contents {
            let layout = writer.record_layout(ContentType::APPLICATION_DATA, content.len());
            let mut record = vec![0; writer.record_len(content.len())];
            writer.seal_into(ContentType::APPLICATION_DATA, &[content], &mut record);
            records.starts.push(records.wire.len());
            records.wire.extend_from_slice(&record);
            // As it was framed, but for the check value, which stays as it came.
            let mut opened = [layout.header(), content, layout.trailer()].concat();
            let icv = record.len() - 16;
            opened[icv..].copy_from_slice(&record[icv..]);
            opened[..layout.header().len()].copy_from_slice(&record[..layout.header().len()]);
            records.opened.extend_from_slice(&opened);
        }
        records
    }

    pub(super) fn index_at(&self, at: usize) -> Option<u64> {
        self.starts.binary_search(&at).ok().map(|n| n as u64)
    }
}
