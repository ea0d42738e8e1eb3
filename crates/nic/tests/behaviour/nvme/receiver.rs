//! The receiving host: maps its buffers, answers its NIC's questions, and holds all that it finds against what was sent.

use std::ops::Range;
use std::time::Instant;

use nic::FrameMeta;
use nic::ring::{FunctionConfig, InnerPlace, Packet, RecvDescriptor, Slice};
use testkit::bare::{CONTEXT, Delivered, Memory, Rig, function_config, nic_config};
use testkit::fixtures::{GUARD, PEER};

use super::stream::{Stream, byte};

/// Bytes of memory between pieces of buffers.
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
    rig: Rig,
    blocks: Memory,
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
    questions: Vec<RecvDescriptor>,
}

impl Receiver {
    pub fn new(stream: &Stream, now: Instant) -> Receiver {
        let function = FunctionConfig {
            mac: PEER,
            receive_entries: 1024,
            small_entries: 128,
            large_entries: 16,
            contexts: 1,
            ..function_config()
        };
        let mut rig = Rig::filled(nic_config(), function);
        let flow = rig.flow;
        rig.now = now;
        let buffers = stream.ios.iter().map(|io| io.len + (io.pieces + 2) * GAP);
        let blocks = Memory::guarded(&rig.host, buffers.sum::<u32>() as usize + 64);
        let layers = stream.layers();
        rig.offload(CONTEXT, &flow, stream.start, &layers);
        Receiver {
            rig,
            blocks,
            buffers: stream.ios.iter().map(|_| None).collect(),
            used: GAP,
            arrived: vec![None; stream.wire.len()],
            damaged: vec![false; stream.wire.len()],
            next: 0,
            questions: Vec::new(),
        }
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
                slices.push(self.blocks.slice(self.used.into(), bytes));
                self.used += bytes + GAP;
                at += bytes;
            }
            self.rig.map(CONTEXT, stream.tag(io), &slices);
            let placed = vec![false; len as usize];
            self.buffers[io] = Some(Buffer { slices, placed });
        }
    }

    /// Takes the batch's buffers back, and looks at what is in them.
    pub fn unmap(&mut self, stream: &Stream, batch: Range<usize>, damaged: &[bool]) {
        for io in batch {
            if self.buffers[io].is_none() {
                continue;
            }
            self.rig.unmap(CONTEXT, stream.tag(io));
            let send = &mut self.rig.host.queues[0].send;
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
            for found in self.blocks.get(*slice) {
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
        let mut bytes = self.blocks.read(0, self.blocks.region.len());
        for slice in self.buffers.iter().flatten().flat_map(|b| &b.slices) {
            let start = slice.offset as usize;
            bytes[start..start + slice.len as usize].fill(GUARD);
        }
        assert!(bytes.iter().all(|byte| *byte == GUARD));
    }

    pub fn counters(&self) -> nic::Counters {
        self.rig.nic.counters()
    }

    /// A frame from the wire.
    pub fn handle(&mut self, frame: &[u8], meta: FrameMeta) {
        self.rig.nic.handle_frame(self.rig.now, frame, meta);
    }

    /// Ends a batch of frames: takes in what has come. `damaged` tells what of the stream was changed on the way.
    pub fn flush(&mut self, stream: &Stream, damaged: &[bool]) {
        let (packets, others) = self.rig.received();
        for packet in &packets {
            self.packet(stream, packet, damaged);
        }
        self.rig.host.refill();
        for other in &others {
            let RecvDescriptor::ResyncRequest { context, .. } = other else {
                panic!("{other:?}");
            };
            assert_eq!(*context, CONTEXT);
        }
        self.questions.extend(others);
        self.answer(stream);
    }

    fn packet(&mut self, stream: &Stream, delivered: &Delivered, damaged: &[bool]) {
        let packet = &delivered.packet;
        let start = stream.start.distance_to(delivered.seq());
        assert_eq!(packet.context, Some(CONTEXT));
        let payload = delivered.whole(&self.blocks);
        let mut at = 0;
        for part in &delivered.placed {
            let (from, to) = (part.at.start as u32, part.at.end as u32);
            assert!(from >= at, "ascending, and apart");
            let before = &payload[at as usize..part.at.start];
            self.arrive(stream, start + at, before, packet, false, damaged);
            self.check_placed(stream, start + from..start + to, part.slice, part.tag);
            let placed = &payload[part.at.clone()];
            self.arrive(stream, start + from, placed, packet, true, damaged);
            at = to;
        }
        let rest = &payload[at as usize..];
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
        assert_eq!(slice.region, self.blocks.id);
    }

    /// Answers what the stream has passed, as it is.
    fn answer(&mut self, stream: &Stream) {
        let next = stream.start + self.next;
        for question in std::mem::take(&mut self.questions) {
            match question {
                RecvDescriptor::ResyncRequest { tcpsn, inner, .. } if tcpsn.before(next) => {
                    let index = index(stream, stream.start.distance_to(tcpsn), inner);
                    self.rig.answer(&question, index);
                }
                waits => self.questions.push(waits),
            }
        }
    }
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
    let found = stream.pdus.iter().position(|pdu| pdu.start == at)?;
    (at < content.end).then_some(found as u64)
}
