//! Whatever PDUs come from the wire, in whatever order, and whatever buffers the host maps meanwhile: the NIC writes into
//! mapped buffers and nowhere else, each byte to its place, a packet and what was placed of it hold what a frame brought,
//! and a PDU all of whose packets were vouched for is undamaged.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use l5p::Layers;
use l5p::crc32c::Crc32c;
use l5p::nvme::{Parameters, Role};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, Packet, RecvDescriptor, Region, RegionId,
    SendDescriptor, Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::MacAddr;
use wire::nvme::{C2HData, CapsuleCmd, CapsuleResp, H2CData, Pdu};
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::{FlowKey, SeqNum, tcp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const CONTEXT: ContextId = ContextId(0);
const FIRST: SeqNum = SeqNum(u32::MAX - 3_000);
/// Bytes of data in each PDU; of a capsule if 0.
const DATA: [u32; 10] = [900, 10, 0, 3000, 700, 1, 5000, 250, 0, 1200];
const PDUS: usize = 4 * DATA.len();
const TAGS: u16 = 4;
/// Pieces of a buffer.
const PIECES: [u32; 3] = [1000, 1, 11_000];
/// What is around buffers.
const GUARD: u8 = 0xa5;
const GAP: u32 = 5;
const BLOCKS: usize = 1 << 18;
const SMALL: u32 = 2048;
const LARGE: u32 = 65_536 + 2048;
/// Bytes of one step's description.
const STEP: usize = 8;

/// Takes `data` for parameters and a list of steps.
pub fn run(data: &[u8]) {
    let Some((&first, steps)) = data.split_first() else {
        return;
    };
    let mut world = World::new(first);
    for step in steps.chunks_exact(STEP) {
        world.step(step);
    }
    world.flush();
    for tag in 0..TAGS {
        world.unmap(tag);
    }
    world.check_memory();
    for (pdu, has_digest) in &world.pdus {
        let vouched = world.vouched[pdu.clone()].iter().all(|vouched| *vouched);
        let damaged = world.damaged[pdu.clone()].contains(&true);
        assert!(
            !vouched || !damaged || !has_digest || world.lied,
            "PDU at {pdu:?}"
        );
    }
}

/// Where in the stream a frame's payload begins and ends, and which byte of it was changed.
type Sent = (usize, usize, Option<usize>);

/// A buffer, and what was in it when it was unmapped.
struct Buffer {
    tag: u16,
    slices: Vec<Slice>,
    unmapped: Option<Vec<u8>>,
}

struct World {
    nic: Nic,
    host: HostFunction,
    packets: Arc<Region>,
    packets_id: RegionId,
    blocks: Arc<Region>,
    blocks_id: RegionId,
    now: Instant,
    wire: Vec<u8>,
    /// Each PDU, and whether its data has a digest.
    pdus: Vec<(Range<usize>, bool)>,
    /// Of each byte, its tag and place in the tag's buffer, if it is data.
    places: Vec<Option<(u16, u32)>>,
    /// Where bytes may be damaged: data and their digests.
    fragile: Vec<bool>,
    buffers: Vec<Buffer>,
    /// Bytes of `blocks` in use.
    used: u32,
    /// What a packet that was vouched for has shown of the stream.
    vouched: Vec<bool>,
    /// Where what such a packet has shown had been changed on the way.
    damaged: Vec<bool>,
    /// The host has answered without knowing.
    lied: bool,
    /// Frames of the current batch.
    batch: Vec<Sent>,
}

impl World {
    fn new(first: u8) -> World {
        let parameters = Parameters {
            sender: match first & 4 {
                0 => Role::Controller,
                _ => Role::Host,
            },
            header_digest: first & 1 != 0,
            data_digest: first & 2 != 0,
            alignment: first >> 4,
            max_pdu: 1 << 16,
            commands: TAGS,
        };
        let mut nic = Nic::new(NicConfig::new([1; 16]));
        let (mut host, device) = function(FunctionConfig {
            send_entries: 64,
            receive_entries: 256,
            small_entries: 64,
            large_entries: 8,
            contexts: 2,
            ..FunctionConfig::new(MAC)
        });
        nic.attach(device).expect("a free address");
        let packets = Arc::new(Region::anonymous(64 * SMALL as usize + 8 * LARGE as usize));
        let packets_id = host.register(Arc::clone(&packets)).expect("a free id");
        let blocks = Arc::new(Region::anonymous(BLOCKS));
        blocks.write(0, &[GUARD; BLOCKS]);
        let blocks_id = host.register(Arc::clone(&blocks)).expect("a free id");
        let create = SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Receive,
            flow: flow(),
            tcpsn: FIRST,
            layers: &Layers::of(&parameters),
        };
        host.queues[0].send.post(&create).expect("an empty ring");
        let mut world = World {
            nic,
            host,
            packets,
            packets_id,
            blocks,
            blocks_id,
            now: Instant::now(),
            wire: Vec::new(),
            pdus: Vec::new(),
            places: Vec::new(),
            fragile: Vec::new(),
            buffers: Vec::new(),
            used: GAP,
            vouched: Vec::new(),
            damaged: Vec::new(),
            lied: false,
            batch: Vec::new(),
        };
        for n in 0..PDUS {
            world.write_pdu(&parameters, n);
        }
        world.vouched = vec![false; world.wire.len()];
        world.damaged = world.vouched.clone();
        for n in 0..64 {
            world.give(u64::from(n * SMALL));
        }
        for n in 0..8 {
            world.give(u64::from(64 * SMALL + n * LARGE));
        }
        world.work();
        for tag in 0..TAGS / 2 {
            world.map(tag);
        }
        world
    }

    fn write_pdu(&mut self, parameters: &Parameters, n: usize) {
        let framing = parameters.framing();
        let tag = n as u16 % TAGS;
        let data_len = DATA[n % DATA.len()];
        let before = (usize::from(tag)..n).step_by(TAGS.into());
        // One after the other, but for a few that overlap others or lie behind the buffer's end.
        let stray = if n % 11 == 5 { 8000 } else { 0 };
        let data_offset = before.map(|n| DATA[n % DATA.len()]).sum::<u32>() + stray;
        let last = n.is_multiple_of(3);
        let pdu = match (parameters.sender, data_len) {
            (Role::Controller, 0) => Pdu::CapsuleResp(CapsuleResp { cqe: [n as u8; 16] }),
            (Role::Controller, _) => Pdu::C2HData(C2HData {
                cccid: tag,
                data_offset,
                data_len,
                last,
                success: false,
            }),
            (Role::Host, 0) => Pdu::CapsuleCmd(CapsuleCmd {
                sqe: [n as u8; 64],
                data_len: n as u32 * 20,
            }),
            (Role::Host, _) => Pdu::H2CData(H2CData {
                cccid: 1,
                ttag: tag,
                data_offset,
                data_len,
                last,
            }),
        };
        let layout = framing.layout(pdu.pdu_type(), pdu.data_len());
        let mut bytes = vec![n as u8; layout.pdu_len() as usize];
        pdu.emit(&framing, &mut bytes);
        let range = |range: Range<u32>| range.start as usize..range.end as usize;
        if layout.header_digest {
            let digest = Crc32c::of(&bytes[..layout.header_len()]).to_le_bytes();
            bytes[range(layout.header_digest())].copy_from_slice(&digest);
        }
        let data = range(layout.data());
        for (at, byte) in bytes[data.clone()].iter_mut().enumerate() {
            *byte = (at * 3 + at / 251 + n) as u8;
        }
        if layout.data_digest {
            let digest = Crc32c::of(&bytes[data.clone()]).to_le_bytes();
            bytes[range(layout.data_digest())].copy_from_slice(&digest);
        }
        let start = self.wire.len();
        self.places.resize(start + bytes.len(), None);
        self.fragile.resize(start + bytes.len(), false);
        self.fragile[start + data.start..].fill(true);
        if data_len > 0 {
            for (at, place) in (data_offset..).zip(&mut self.places[start..][data]) {
                *place = Some((tag, at));
            }
        }
        self.pdus
            .push((start..start + bytes.len(), layout.data_digest));
        self.wire.extend_from_slice(&bytes);
    }

    fn step(&mut self, step: &[u8]) {
        let at = usize::from(u16::from_le_bytes([step[1], step[2]]));
        let len = usize::from(u16::from_le_bytes([step[3], step[4]]));
        match step[0] % 10 {
            0..=4 => {
                let from = at % self.wire.len();
                let to = (from + 1 + len % 4000).min(self.wire.len());
                let damage =
                    (step[0] & 0x80 != 0).then(|| from + usize::from(step[5]) % (to - from));
                self.send(from, to, damage, step[6]);
            }
            5 => self.flush(),
            6 => {
                self.flush();
                self.lied = true;
                self.answer(FIRST + at as u32, step[5] & 1 != 0, u64::from(step[6]));
            }
            7 => {
                self.flush();
                self.unmap(at as u16 % TAGS);
            }
            8 => {
                self.flush();
                self.map(at as u16 % TAGS);
            }
            _ => {
                self.now += Duration::from_millis(len as u64);
                // Not a frame at all, or not this flow's.
                let mut frame = frame(FIRST + at as u32, step, step[6]);
                let end = frame.len();
                frame[len % end] ^= step[5];
                self.nic
                    .handle_frame(self.now, &frame, FrameMeta::default());
                // No checksum covers the sender's address.
                self.lied |= step[5] == 0 || (6..12).contains(&(len % end));
                self.flush();
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, damage: Option<usize>, flags: u8) {
        let damage = damage.filter(|at| self.fragile[*at]);
        let mut payload = self.wire[from..to].to_vec();
        if let Some(at) = damage {
            payload[at - from] ^= 0x20;
        }
        if self.batch.len() >= 16 {
            self.flush();
        }
        self.batch.push((from, to, damage));
        let frame = frame(FIRST + from as u32, &payload, flags);
        let meta = FrameMeta {
            checksum_valid: true,
            ..FrameMeta::default()
        };
        self.nic.handle_frame(self.now, &frame, meta);
    }

    /// Maps a new buffer, if the tag has none.
    fn map(&mut self, tag: u16) {
        let bytes: u32 = PIECES.iter().map(|piece| piece + GAP).sum();
        if self.current(tag).is_some() || (self.used + bytes) as usize > BLOCKS {
            return;
        }
        let slices: Vec<Slice> = PIECES.iter().map(|len| self.block(*len)).collect();
        let add = SendDescriptor::AddRrState {
            context: CONTEXT,
            tag,
            slices: &slices,
        };
        self.host.queues[0].send.post(&add).expect("an empty ring");
        self.work();
        self.buffers.push(Buffer {
            tag,
            slices,
            unmapped: None,
        });
    }

    fn block(&mut self, len: u32) -> Slice {
        let slice = Slice {
            region: self.blocks_id,
            offset: self.used.into(),
            len,
        };
        self.used += len + GAP;
        slice
    }

    fn unmap(&mut self, tag: u16) {
        let Some(n) = self.current(tag) else {
            return;
        };
        let del = SendDescriptor::DelRrState {
            context: CONTEXT,
            tag,
        };
        self.host.queues[0].send.post(&del).expect("an empty ring");
        self.work();
        let send = &mut self.host.queues[0].send;
        assert_eq!(send.completed(), send.posted());
        self.buffers[n].unmapped = Some(self.contents(n));
    }

    /// Number of the buffer that the tag is mapped to.
    fn current(&self, tag: u16) -> Option<usize> {
        let is_current = |buffer: &Buffer| buffer.tag == tag && buffer.unmapped.is_none();
        self.buffers.iter().position(is_current)
    }

    fn contents(&self, buffer: usize) -> Vec<u8> {
        let slices = self.buffers[buffer].slices.iter();
        slices.flat_map(|slice| self.read(*slice)).collect()
    }

    fn read(&self, slice: Slice) -> Vec<u8> {
        let mut bytes = vec![0; slice.len as usize];
        assert!(self.blocks.read(slice.offset, &mut bytes));
        bytes
    }

    /// Nothing was written behind the host's back, nor outside of buffers.
    fn check_memory(&self) {
        let mut bytes = vec![0; BLOCKS];
        assert!(self.blocks.read(0, &mut bytes));
        for (n, buffer) in self.buffers.iter().enumerate() {
            assert_eq!(
                buffer.unmapped,
                Some(self.contents(n)),
                "written to after it was unmapped"
            );
            for slice in &buffer.slices {
                let start = slice.offset as usize;
                bytes[start..start + slice.len as usize].fill(GUARD);
            }
        }
        assert!(bytes.iter().all(|byte| *byte == GUARD));
    }

    /// Ends the batch, and holds what the host finds against what was sent.
    fn flush(&mut self) {
        self.nic.flush(self.now);
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            match descriptor {
                RecvDescriptor::Packet(packet) => self.packet(&packet),
                RecvDescriptor::ResyncRequest { context, tcpsn, .. } => {
                    assert_eq!(context, CONTEXT);
                    let at = FIRST.distance_to(tcpsn) as usize;
                    if !at.is_multiple_of(3) {
                        let index = self.pdus.iter().position(|(pdu, _)| pdu.start == at);
                        self.answer(tcpsn, index.is_some(), index.unwrap_or(0) as u64);
                    }
                }
                RecvDescriptor::Completion { error, .. } => {
                    assert!(self.lied, "{error}");
                }
                RecvDescriptor::Placed { .. } => panic!("placed without a packet"),
                RecvDescriptor::AccelRoom(_) => {}
                RecvDescriptor::Established(_)
                | RecvDescriptor::Notes { .. }
                | RecvDescriptor::Resource { .. }
                | RecvDescriptor::SpliceEnded(_)
                | RecvDescriptor::SpliceState(_)
                | RecvDescriptor::Toe(_)
                | RecvDescriptor::Reset { .. } => panic!("nothing was installed"),
            }
        }
        self.batch.clear();
        self.work();
    }

    fn packet(&mut self, packet: &Packet) {
        let mut bytes = vec![0; packet.buffer.len as usize];
        assert!(self.packets.read(packet.buffer.offset, &mut bytes));
        let mut rest = &bytes[usize::from(packet.header_len)..];
        let (mut payload, mut ranges) = (Vec::new(), Vec::new());
        for _ in 0..packet.placed {
            let placed = self.host.queues[0].recv.pop();
            let Some(RecvDescriptor::Placed { at, slice, tag }) = placed else {
                panic!("{placed:?} in place of a placed range");
            };
            let (before, behind) = rest.split_at(at as usize - payload.len());
            rest = behind;
            payload.extend_from_slice(before);
            payload.extend_from_slice(&self.read(slice));
            ranges.push((at as usize, slice, tag));
        }
        payload.extend_from_slice(rest);
        if packet.header_len > 0 {
            assert_eq!(payload.len(), packet.payload_len as usize);
        }
        if packet.context == Some(CONTEXT) {
            let seq = sequence_number(&bytes);
            let at = FIRST.distance_to(seq) as usize;
            self.check(at, &payload, packet.processed.by(0));
            for (offset, slice, tag) in ranges {
                self.check_place(at + offset, slice, tag);
            }
        } else {
            assert!(!packet.processed.by(0) && ranges.is_empty());
        }
        self.give(packet.buffer.offset);
    }

    /// What was placed is in the buffer that is mapped, and unless the host has lied, where its header says.
    fn check_place(&self, at: usize, slice: Slice, tag: u16) {
        let current = self.current(tag).expect("a mapped buffer");
        let slices = &self.buffers[current].slices;
        let inside = |piece: &Slice| {
            let end = piece.offset + u64::from(piece.len);
            slice.offset >= piece.offset && slice.offset + u64::from(slice.len) <= end
        };
        assert!(slices.iter().any(inside) && slice.region == self.blocks_id);
        if self.lied {
            return;
        }
        for n in 0..slice.len {
            let place = self.places[at + n as usize].expect("nothing but data is placed");
            assert_eq!(place.0, tag);
            let mut offset = place.1;
            let piece = slices.iter().find(|piece| {
                let found = offset < piece.len;
                offset -= if found { 0 } else { piece.len };
                found
            });
            let piece = piece.expect("a byte of the buffer");
            let expected = piece.offset + u64::from(offset);
            assert_eq!(slice.offset + u64::from(n), expected);
        }
    }

    /// What the host finds must be what frames of this batch, one after the other, brought to this place.
    fn check(&mut self, at: usize, found: &[u8], vouched: bool) {
        let mut frames = Vec::new();
        let explained = self.explain(at, found, &mut frames);
        assert!(explained || self.lied, "{at}: {} bytes", found.len());
        for (from, to, damage) in frames.into_iter().filter(|_| vouched) {
            self.vouched[from..to].fill(true);
            if let Some(damage) = damage {
                self.damaged[damage] = true;
            }
        }
    }

    fn explain(&self, at: usize, found: &[u8], frames: &mut Vec<Sent>) -> bool {
        if found.is_empty() {
            return true;
        }
        for sent @ (from, to, damage) in self.batch.iter().copied() {
            if from != at || to - from > found.len() {
                continue;
            }
            let mut expected = self.wire[from..to].to_vec();
            if let Some(damage) = damage {
                expected[damage - from] ^= 0x20;
            }
            let (first, rest) = found.split_at(to - from);
            if first == expected && self.explain(to, rest, frames) {
                frames.push(sent);
                return true;
            }
        }
        false
    }

    fn answer(&mut self, tcpsn: SeqNum, confirmed: bool, index: u64) {
        let answer = SendDescriptor::ResyncResponse {
            context: CONTEXT,
            tcpsn,
            inner: None,
            confirmed,
            index,
        };
        self.host.queues[0]
            .send
            .post(&answer)
            .expect("an empty ring");
        self.work();
    }

    /// Gives the buffer with this byte to the device.
    fn give(&mut self, offset: u64) {
        let smalls = u64::from(64 * SMALL);
        let queue = &mut self.host.queues[0];
        let (ring, base, len) = match offset < smalls {
            true => (&mut queue.small, 0, SMALL),
            false => (&mut queue.large, smalls, LARGE),
        };
        let buffer = Slice {
            region: self.packets_id,
            offset: offset - (offset - base) % u64::from(len),
            len,
        };
        assert!(ring.push(buffer), "as many buffers as slots");
    }

    /// Lets the device take what the host has posted.
    fn work(&mut self) {
        let _ = self.host.queues[0].publish();
        while self.nic.poll_transmit(self.now, &mut [0; 2048]).is_some() {}
        self.host.queues[0].recv.publish();
    }
}

/// The sequence number in a frame of the flow, whose payload may be elsewhere.
fn sequence_number(frame: &[u8]) -> SeqNum {
    let at = wire::ethernet::HEADER_LEN + wire::ipv4::HEADER_LEN + 4;
    SeqNum(u32::from_be_bytes(
        frame[at..at + 4].try_into().expect("4 bytes"),
    ))
}

fn flow() -> FlowKey {
    FlowKey::new(
        "10.0.0.2:4420".parse().expect("an address"),
        "10.0.0.1:5000".parse().expect("an address"),
    )
}

/// A frame of the flow; `flags` chooses what in the header LRO looks at.
fn frame(seq: SeqNum, payload: &[u8], flags: u8) -> Vec<u8> {
    let flow = flow();
    let mut tcp = tcp::Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq,
        ack: SeqNum(u32::from(flags >> 6)),
        flags: tcp::Flags::ACK,
        window: 100,
        options: tcp::Options::default(),
    };
    if flags & 1 != 0 {
        tcp.flags.insert(tcp::Flags::PSH);
    }
    if flags & 2 != 0 {
        tcp.options.timestamps = Some(tcp::Timestamps {
            val: u32::from(flags >> 4),
            echo: 1,
        });
    }
    let mut frame = vec![0; MAX_TCP_HEADERS_LEN];
    let len = payload.len() as u32;
    let header = packet::emit_tcp_headers(&mut frame, PEER, MAC, &flow, &tcp, len, 64);
    frame.truncate(header);
    frame.extend_from_slice(payload);
    frame
}
