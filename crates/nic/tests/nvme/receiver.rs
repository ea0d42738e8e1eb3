//! The receiving host: maps its buffers, answers its NIC's questions, and holds all that it finds against what was sent.

use l5p::Layers;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, InnerPlace, Packet, RecvDescriptor, Region,
    RegionId, SendDescriptor, Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig};
use wire::SeqNum;

use crate::stream::{Stream, byte};
use crate::{RECEIVER, flow};

const CONTEXT: ContextId = ContextId(0);
const SMALL: u32 = 2048;
const LARGE: u32 = 65_536 + 2048;
const SMALLS: u32 = 128;
const LARGES: u32 = 16;
/// What memory around buffers holds.
const GUARD: u8 = 0xa5;
/// Bytes of it between pieces of buffers.
const GAP: u32 = 13;

/// An I/O's buffer.
struct Buffer {
    /// Its pieces, in order.
    slices: Vec<Slice>,
    /// Which bytes the NIC said that it placed.
    placed: Vec<bool>,
}

/// A byte of the stream that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// The packet was decrypted.
    pub offloaded: bool,
    /// The packet's digests were vouched for.
    pub digest_ok: bool,
    /// The byte was placed.
    pub placed: bool,
}

pub struct Receiver {
    nic: Nic,
    host: HostFunction,
    packets: Arc<Region>,
    packets_id: RegionId,
    blocks: Arc<Region>,
    blocks_id: RegionId,
    /// By number of I/O.
    buffers: Vec<Option<Buffer>>,
    /// Bytes of `blocks` in use.
    used: u32,
    /// How the first copy of each byte came, if it has.
    pub arrived: Vec<Option<Arrival>>,
    /// Bytes whose first copy was not as it was sent.
    pub damaged: Vec<bool>,
    /// End of what came without a gap.
    pub next: u32,
    /// Questions that the stream has not passed yet.
    questions: Vec<(SeqNum, Option<InnerPlace>)>,
    now: Instant,
}

impl Receiver {
    pub fn new(stream: &Stream, now: Instant) -> Receiver {
        let mut nic = Nic::new(NicConfig::new([2; 16]));
        let (mut host, device) = function(FunctionConfig {
            send_entries: 256,
            receive_entries: 1024,
            small_entries: SMALLS,
            large_entries: LARGES,
            contexts: 1,
            ..FunctionConfig::new(RECEIVER)
        });
        nic.attach(device).unwrap();
        let bytes: u32 = stream
            .ios
            .iter()
            .map(|io| io.len + (io.pieces + 2) * GAP)
            .sum();
        let packets = Arc::new(Region::anonymous(
            (SMALLS * SMALL + LARGES * LARGE) as usize,
        ));
        let blocks = Arc::new(Region::anonymous(bytes as usize + 64));
        blocks.write(0, &vec![GUARD; blocks.len()]);
        let packets_id = host.register(Arc::clone(&packets)).unwrap();
        let blocks_id = host.register(Arc::clone(&blocks)).unwrap();
        let layers = match &stream.crypto {
            None => Layers::of(&stream.parameters),
            Some(crypto) => Layers::of(crypto).carrying(&stream.parameters),
        };
        let create = SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Receive,
            flow: flow(),
            tcpsn: stream.start,
            layers: &layers,
        };
        host.queues[0].send.post(&create).unwrap();
        let mut receiver = Receiver {
            nic,
            host,
            packets,
            packets_id,
            blocks,
            blocks_id,
            buffers: stream.ios.iter().map(|_| None).collect(),
            used: GAP,
            arrived: vec![None; stream.wire.len()],
            damaged: vec![false; stream.wire.len()],
            next: 0,
            questions: Vec::new(),
            now,
        };
        for n in 0..SMALLS {
            receiver.give(u64::from(n * SMALL));
        }
        for n in 0..LARGES {
            receiver.give(u64::from(SMALLS * SMALL + n * LARGE));
        }
        receiver.work();
        receiver
    }

    /// Maps a buffer for each I/O of the batch that wants one.
    pub fn map(&mut self, stream: &Stream, batch: Range<usize>) {
        for io in batch {
            let Some(most) = stream.ios[io].pieces.checked_sub(1) else {
                continue;
            };
            let len = stream.ios[io].len;
            let piece = len / (most + 1) + 1;
            let mut slices = Vec::new();
            let mut at = 0;
            while at < len {
                let bytes = piece.min(len - at);
                slices.push(Slice {
                    region: self.blocks_id,
                    offset: self.used.into(),
                    len: bytes,
                });
                self.used += bytes + GAP;
                at += bytes;
            }
            let add = SendDescriptor::AddRrState {
                context: CONTEXT,
                tag: stream.tag(io),
                slices: &slices,
            };
            self.host.queues[0].send.post(&add).unwrap();
            let placed = vec![false; len as usize];
            self.buffers[io] = Some(Buffer { slices, placed });
            self.work();
        }
    }

    /// Takes the batch's buffers back, and looks at what is in them.
    pub fn unmap(&mut self, stream: &Stream, batch: Range<usize>, damaged: &[bool]) {
        for io in batch {
            if self.buffers[io].is_none() {
                continue;
            }
            let del = SendDescriptor::DelRrState {
                context: CONTEXT,
                tag: stream.tag(io),
            };
            self.host.queues[0].send.post(&del).unwrap();
            self.work();
            let send = &mut self.host.queues[0].send;
            assert_eq!(send.completed(), send.posted());
            self.check_buffer(stream, io, damaged);
        }
    }

    fn check_buffer(&self, stream: &Stream, io: usize, damaged: &[bool]) {
        let buffer = self.buffers[io].as_ref().unwrap();
        let expected: Vec<u8> = (0..stream.ios[io].len).map(|at| byte(io, at)).collect();
        let extents = stream.extents.iter().filter(|extent| extent.io == io);
        let mut spoilt = vec![false; expected.len()];
        for extent in extents {
            let data = extent.at as usize..(extent.at + extent.to - extent.from) as usize;
            spoilt[data].copy_from_slice(&damaged[extent.from as usize..extent.to as usize]);
        }
        let mut at = 0;
        for slice in &buffer.slices {
            let mut bytes = vec![0; slice.len as usize];
            assert!(self.blocks.read(slice.offset, &mut bytes));
            for found in bytes {
                let placed = buffer.placed[at];
                // What was placed with a packet that was lost on its way up may be there or not.
                let untouched = found == GUARD && !placed;
                let sent = found == expected[at] || spoilt[at];
                assert!(sent || untouched, "byte {at} of I/O {io}");
                at += 1;
            }
        }
    }

    /// Bytes outside of all buffers are as they were.
    pub fn check_guards(&self) {
        let mut bytes = vec![0; self.blocks.len()];
        assert!(self.blocks.read(0, &mut bytes));
        for slice in self.buffers.iter().flatten().flat_map(|b| &b.slices) {
            let start = slice.offset as usize;
            bytes[start..start + slice.len as usize].fill(GUARD);
        }
        assert!(bytes.iter().all(|byte| *byte == GUARD));
    }

    pub fn counters(&self) -> nic::Counters {
        self.nic.counters()
    }

    /// A frame from the wire.
    pub fn handle(&mut self, frame: &[u8], meta: FrameMeta) {
        self.nic.handle_frame(self.now, frame, meta);
    }

    /// Ends a batch of frames: takes in what has come. `damaged` tells what of the stream was changed on the way.
    pub fn flush(&mut self, stream: &Stream, damaged: &[bool]) {
        self.nic.flush(self.now);
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            match descriptor {
                RecvDescriptor::Packet(packet) => self.packet(stream, &packet, damaged),
                RecvDescriptor::ResyncRequest {
                    context,
                    tcpsn,
                    inner,
                } => {
                    assert_eq!(context, CONTEXT);
                    self.questions.push((tcpsn, inner));
                }
                other => panic!("{other:?}"),
            }
        }
        self.answer(stream);
        self.work();
    }

    fn packet(&mut self, stream: &Stream, packet: &Packet, damaged: &[bool]) {
        let mut placed = Vec::new();
        for _ in 0..packet.placed {
            match self.host.queues[0].recv.pop() {
                Some(RecvDescriptor::Placed { at, slice, tag }) => placed.push((at, slice, tag)),
                other => panic!("{other:?} in place of a placed range"),
            }
        }
        let mut bytes = vec![0; packet.buffer.len as usize];
        assert!(self.packets.read(packet.buffer.offset, &mut bytes));
        self.give(packet.buffer.offset);
        let header = usize::from(packet.header_len);
        let start = stream.start.distance_to(sequence_number(&bytes));
        assert_eq!(packet.context, Some(CONTEXT));
        let mut rest = &bytes[header..];
        let mut at = 0;
        for (from, slice, tag) in placed {
            assert!(from >= at, "ascending, and apart");
            let (now, later) = rest.split_at((from - at) as usize);
            self.arrive(stream, start + at, now, packet, false, damaged);
            rest = later;
            at = from + slice.len;
            self.check_placed(stream, start + from..start + at, slice, tag);
            let mut now = vec![0; slice.len as usize];
            assert!(self.blocks.read(slice.offset, &mut now));
            self.arrive(stream, start + from, &now, packet, true, damaged);
        }
        assert_eq!(rest.len() as u32, packet.payload_len - at);
        self.arrive(stream, start + at, rest, packet, false, damaged);
    }

    /// Takes in bytes from `at` on.
    fn arrive(
        &mut self,
        stream: &Stream,
        at: u32,
        found: &[u8],
        packet: &Packet,
        placed: bool,
        damaged: &[bool],
    ) {
        let expected = match packet.processed.by(0) {
            true => &stream.opened,
            false => &stream.wire,
        };
        let arrival = Arrival {
            offloaded: packet.processed.by(0),
            digest_ok: packet.processed.by(0),
            placed,
        };
        for (at, found) in (at as usize..).zip(found) {
            let is_right = *found == expected[at];
            assert!(is_right || damaged[at], "byte {at} of the stream");
            if self.arrived[at].is_none() {
                self.arrived[at] = Some(arrival);
                self.damaged[at] = !is_right;
            }
        }
        let arrived = |at: u32| self.arrived.get(at as usize).is_some_and(Option::is_some);
        self.next = (self.next..).find(|at| !arrived(*at)).unwrap_or(0);
    }

    /// What was placed must be where the host wanted those bytes.
    fn check_placed(&mut self, stream: &Stream, range: Range<u32>, slice: Slice, tag: u16) {
        let mut offset = slice.offset;
        let mut at = range.start;
        for extent in stream.data(range.clone()) {
            assert_eq!(extent.from, at, "nothing but data is placed");
            assert_eq!(stream.tag(extent.io), tag);
            let buffer = self.buffers[extent.io].as_mut().expect("a mapped buffer");
            for n in 0..extent.to - extent.from {
                let byte = extent.at + n;
                assert_eq!(place(&buffer.slices, byte), offset, "byte {byte}");
                let placed = &mut buffer.placed[byte as usize];
                assert!(
                    !*placed,
                    "byte {byte} of I/O {} was placed twice",
                    extent.io
                );
                *placed = true;
                offset += 1;
            }
            at = extent.to;
        }
        assert_eq!(at, range.end);
        assert_eq!(slice.region, self.blocks_id);
    }

    /// Answers what the stream has passed, as it is.
    fn answer(&mut self, stream: &Stream) {
        let next = stream.start + self.next;
        let (passed, waiting) = std::mem::take(&mut self.questions)
            .into_iter()
            .partition(|(tcpsn, _)| tcpsn.before(next));
        self.questions = waiting;
        let passed: Vec<(SeqNum, Option<InnerPlace>)> = passed;
        for (tcpsn, inner) in passed {
            let index = index(stream, stream.start.distance_to(tcpsn), inner);
            let answer = SendDescriptor::ResyncResponse {
                context: CONTEXT,
                tcpsn,
                inner,
                confirmed: index.is_some(),
                index: index.unwrap_or(0),
            };
            self.host.queues[0].send.post(&answer).unwrap();
        }
    }

    fn give(&mut self, offset: u64) {
        let smalls = u64::from(SMALLS * SMALL);
        let queue = &mut self.host.queues[0];
        let (ring, len) = match offset < smalls {
            true => (&mut queue.small, SMALL),
            false => (&mut queue.large, LARGE),
        };
        let start = match offset < smalls {
            true => offset - offset % u64::from(SMALL),
            false => offset - (offset - smalls) % u64::from(LARGE),
        };
        let buffer = Slice {
            region: self.packets_id,
            offset: start,
            len,
        };
        assert!(ring.push(buffer));
    }

    fn work(&mut self) {
        let _ = self.host.queues[0].publish();
        while self.nic.poll_transmit(self.now, &mut [0; 2048]).is_some() {}
        self.host.queues[0].recv.publish();
    }
}

/// The sequence number of an IPv4 frame, whose payload need not be there.
fn sequence_number(frame: &[u8]) -> SeqNum {
    let at = wire::ethernet::HEADER_LEN + wire::ipv4::HEADER_LEN + 4;
    SeqNum(u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()))
}

/// Where byte `at` of a scattered buffer is.
fn place(slices: &[Slice], mut at: u32) -> u64 {
    for slice in slices {
        if at < slice.len {
            return slice.offset + u64::from(at);
        }
        at -= slice.len;
    }
    panic!("a byte behind the buffer");
}

/// The index of the message that begins at `at`, or at a byte of that record's content, if one does.
fn index(stream: &Stream, at: u32, inner: Option<InnerPlace>) -> Option<u64> {
    let message = stream.messages.iter().position(|m| m.start == at)?;
    let Some(inner) = inner else {
        return Some(message as u64);
    };
    let (content, _) = stream.contents.get(message)?;
    let at = content.start + inner.offset;
    let found = stream.pdus.iter().position(|(pdu, _)| pdu.start == at)?;
    (at < content.end).then_some(found as u64)
}
