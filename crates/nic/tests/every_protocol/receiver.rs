//! A host that receives through a NIC, and holds all that it is given against what is right.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, Packet, RecvDescriptor, Region, RegionId,
    SendDescriptor, Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig};
use wire::packet::{MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::{SeqNum, tcp};

use crate::samples::sample;
use crate::stream::Stream;
use crate::{HOST, PEER, Traits, flow};

const CONTEXT: ContextId = ContextId(0);
const SMALL: u32 = 2048;
const LARGE: u32 = 1 << 16;
const BUFFERS: u32 = 64;

pub struct Receiver<'a> {
    stream: &'a Stream,
    start: SeqNum,
    nic: Nic,
    host: HostFunction,
    packets: Arc<Region>,
    packets_id: RegionId,
    blocks: Arc<Region>,
    blocks_id: RegionId,
    /// By byte of the blocks: written.
    written: Vec<bool>,
    now: Instant,
    /// By layer: whether its messages are checked.
    checks: Vec<bool>,
    /// Whether the packet that came last was processed by every layer: checked, and all that belongs in a buffer placed.
    pub processed: bool,
    /// Packets that were.
    pub all_processed: usize,
    pub shown: usize,
    /// Bytes placed.
    pub placed: usize,
}

impl<'a> Receiver<'a> {
    pub fn new(stream: &'a Stream, start: SeqNum) -> Receiver<'a> {
        let mut nic = Nic::new(NicConfig::new([1; 16]));
        let (host, device) = function(FunctionConfig {
            send_entries: 256,
            receive_entries: 1024,
            contexts: 1,
            small_bytes: SMALL,
            large_bytes: LARGE,
            ..FunctionConfig::new(HOST)
        });
        nic.attach(device).unwrap();
        let packets = Arc::new(Region::anonymous((BUFFERS * (SMALL + LARGE)) as usize));
        let total: usize = stream.buffers.iter().sum();
        let blocks = Arc::new(Region::anonymous(total.max(1)));
        let packets_id = host.register(Arc::clone(&packets)).unwrap();
        let blocks_id = host.register(Arc::clone(&blocks)).unwrap();
        let mut receiver = Receiver {
            stream,
            start,
            nic,
            host,
            packets,
            packets_id,
            blocks,
            blocks_id,
            written: vec![false; total],
            now: Instant::now(),
            checks: (0..stream.layers.ids().len())
                .map(|layer| Traits::of(&stream.layers, layer).checks)
                .collect(),
            processed: false,
            all_processed: 0,
            shown: 0,
            placed: 0,
        };
        load(&stream.layers, &mut receiver.nic, &mut receiver.host);
        receiver.create();
        for n in 0..BUFFERS {
            receiver.give(u64::from(n * SMALL));
            receiver.give(u64::from(BUFFERS * SMALL + n * LARGE));
        }
        receiver.work();
        receiver
    }

    fn create(&mut self) {
        let stream = self.stream;
        self.post(&SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Receive,
            flow: flow(),
            tcpsn: self.start,
            layers: &stream.layers,
        });
        let mut offset = 0;
        for (tag, len) in stream.buffers.iter().enumerate() {
            let slices = [Slice {
                region: self.blocks_id,
                offset,
                len: *len as u32,
            }];
            offset += *len as u64;
            self.post(&SendDescriptor::AddRrState {
                context: CONTEXT,
                tag: tag as u16,
                slices: &slices,
            });
        }
    }

    fn post(&mut self, descriptor: &SendDescriptor<'_>) {
        self.host.queues[0].send.post(descriptor).unwrap();
    }

    /// Lets the NIC do what was posted.
    fn work(&mut self) {
        let _ = self.host.queues[0].publish();
        assert!(self.nic.poll_transmit(self.now, &mut [0; 64]).is_none());
        self.nic.flush(self.now);
    }

    fn give(&mut self, offset: u64) {
        let queue = &mut self.host.queues[0];
        let (ring, len) = match offset < u64::from(BUFFERS * SMALL) {
            true => (&mut queue.small, SMALL),
            false => (&mut queue.large, LARGE),
        };
        let size = u64::from(len);
        let first = if len == SMALL {
            0
        } else {
            u64::from(BUFFERS * SMALL)
        };
        let offset = first + (offset - first) / size * size;
        assert!(ring.push(Slice {
            region: self.packets_id,
            offset,
            len,
        }));
    }

    /// Brings bytes `from..to` of the stream as a packet.
    pub fn bring(&mut self, from: usize, to: usize) {
        let flow = flow();
        let header = tcp::Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq: self.start + from as u32,
            ack: SeqNum(9),
            flags: tcp::Flags::ACK,
            window: 1000,
            options: tcp::Options::default(),
        };
        let payload = &self.stream.parts[0].wire[from..to];
        let mut frame = vec![0; MAX_TCP_HEADERS_LEN];
        let len = emit_tcp_headers(
            &mut frame,
            PEER,
            HOST,
            &flow,
            &header,
            payload.len() as u32,
            64,
        );
        frame.truncate(len);
        frame.extend(payload);
        let meta = FrameMeta {
            checksum_valid: true,
            ..FrameMeta::default()
        };
        self.nic.handle_frame(self.now, &frame, meta);
    }

    /// Ends a batch of packets: looks at what has come, and answers questions as the stream is.
    pub fn flush(&mut self) {
        self.nic.flush(self.now);
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            match descriptor {
                RecvDescriptor::Packet(packet) => self.check(&packet),
                RecvDescriptor::ResyncRequest {
                    context,
                    tcpsn,
                    inner,
                } => {
                    let at = self.start.distance_to(tcpsn) as usize;
                    let offset = inner.map(|inner| inner.offset as usize);
                    let index = self.stream.message_at(at, offset);
                    self.post(&SendDescriptor::ResyncResponse {
                        context,
                        tcpsn,
                        inner,
                        confirmed: index.is_some(),
                        index: index.unwrap_or(0),
                    });
                }
                other => panic!("{other:?}"),
            }
        }
        self.work();
    }

    fn check(&mut self, packet: &Packet) {
        let mut stored = vec![0; packet.buffer.len as usize];
        assert!(self.packets.read(packet.buffer.offset, &mut stored));
        self.give(packet.buffer.offset);
        let header_len = usize::from(packet.header_len);
        let seq = u32::from_be_bytes(stored[38..42].try_into().unwrap());
        let from = self.start.distance_to(SeqNum(seq)) as usize;
        let to = from + packet.payload_len as usize;
        let right = match packet.processed.is_replaced() {
            true => &self.stream.received[from..to],
            false => &self.stream.parts[0].wire[from..to],
        };
        assert!(!packet.processed.is_replaced() || packet.processed.by(0));
        let placed_before = self.placed;
        let (mut at, mut rest) = (from, &stored[header_len..]);
        for _ in 0..packet.placed {
            let Some(RecvDescriptor::Placed {
                at: first,
                slice,
                tag,
            }) = self.host.queues[0].recv.pop()
            else {
                panic!("a placed part is missing");
            };
            let begin = from + first as usize;
            let (now, later) = rest.split_at(begin - at);
            assert_eq!(now, &right[at - from..begin - from]);
            self.check_placed(begin, slice, tag);
            (at, rest) = (begin + slice.len as usize, later);
        }
        assert_eq!(rest, &right[at - from..], "{from}..{to}");
        self.check_notes(packet);
        let mut checks = self.checks.iter().enumerate();
        let is_checked = checks.all(|(layer, checks)| !checks || packet.processed.by(layer));
        let belong = (from..to).filter(|at| self.stream.belongs(*at).is_some());
        self.processed = is_checked && belong.count() == self.placed - placed_before;
        self.all_processed += usize::from(self.processed);
        self.shown += 1;
    }

    /// Takes the notes on a packet, which are in the order of its bytes.
    fn check_notes(&mut self, packet: &Packet) {
        let (mut left, mut last) = (usize::from(packet.notes), 0);
        while left > 0 {
            let Some(RecvDescriptor::Notes { notes, count }) = self.host.queues[0].recv.pop()
            else {
                panic!("notes are missing");
            };
            assert_eq!(usize::from(count), left.min(notes.len()));
            for note in &notes[..usize::from(count)] {
                assert!(last <= note.at && note.at <= packet.payload_len);
                last = note.at;
            }
            left -= usize::from(count);
        }
    }

    /// Bytes of the stream from `at` on were placed.
    fn check_placed(&mut self, at: usize, slice: Slice, tag: u16) {
        assert_eq!(slice.region, self.blocks_id);
        let mut bytes = vec![0; slice.len as usize];
        assert!(self.blocks.read(slice.offset, &mut bytes));
        let first: usize = self.stream.buffers[..usize::from(tag)].iter().sum();
        for (n, found) in bytes.iter().enumerate() {
            let place = slice.offset as usize + n;
            let belongs = self.stream.belongs(at + n);
            if !self.stream.has_others {
                assert_eq!(belongs, Some((tag, place - first)), "byte {}", at + n);
            }
            assert_eq!(*found, self.stream.received[at + n], "byte {}", at + n);
            assert!(
                !std::mem::replace(&mut self.written[place], true),
                "placed twice"
            );
        }
        self.placed += bytes.len();
    }
}

/// Loads what the contexts of these protocols share, which is written to a region of its own.
pub fn load(layers: &Layers, nic: &mut Nic, host: &mut HostFunction) {
    for id in layers.ids() {
        let Some((resource, bytes)) = sample(*id).resource() else {
            continue;
        };
        let region = Region::anonymous(bytes.len());
        assert!(region.write(0, bytes));
        let region = host.register(Arc::new(region)).unwrap();
        let load = SendDescriptor::LoadResource {
            resource,
            protocol: *id,
            bytes: Slice {
                region,
                offset: 0,
                len: bytes.len() as u32,
            },
        };
        host.queues[0].send.post(&load).unwrap();
        let _ = host.queues[0].publish();
        let now = Instant::now();
        assert!(nic.poll_transmit(now, &mut [0; 64]).is_none());
        loop {
            nic.flush(now);
            match host.queues[0].recv.pop() {
                Some(told) => {
                    let error = None;
                    assert_eq!(told, RecvDescriptor::Resource { resource, error });
                    break;
                }
                None => std::thread::yield_now(),
            }
        }
    }
}
