//! Whatever PDUs come from the wire, in whatever order, and whatever buffers the host maps meanwhile: the NIC writes into
//! mapped buffers and nowhere else, each byte to its place, a packet and what was placed of it hold what a frame brought,
//! and a PDU all of whose packets were vouched for is undamaged.

use std::time::Duration;

use l5p::Layers;
use l5p::nvme::{Parameters, Role};
use nic::ring::{FunctionConfig, RecvDescriptor, Slice};
use testkit::bare::{CONTEXT, Delivered, Memory, Rig, function_config, nic_config};
use testkit::fixtures::{GUARD, flow, nvme};
use testkit::pdus::{Kind, PduStream, data, pdu};
use wire::nvme::{C2HData, H2CData, Pdu};

use super::nic_packets::{FIRST, PORT, STEP, Sent, explain, frame, garbage, numbers, part};

/// Bytes of data in each PDU; of a capsule if 0.
const DATA: [u32; 10] = [900, 10, 0, 3000, 700, 1, 5000, 250, 0, 1200];
const PDUS: usize = 4 * DATA.len();
const TAGS: u16 = 4;
/// Pieces of a buffer.
const PIECES: [u32; 3] = [1000, 1, 11_000];
const GAP: u32 = 5;
const BLOCKS: usize = 1 << 18;

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
    for pdu in &world.stream.pdus {
        let vouched = world.vouched[pdu.all.clone()]
            .iter()
            .all(|vouched| *vouched);
        let damaged = world.damaged[pdu.all.clone()].contains(&true);
        assert!(
            !vouched || !damaged || pdu.digest.is_empty() || world.lied,
            "PDU at {pdu:?}"
        );
    }
}

/// A buffer, and what was in it when it was unmapped.
struct Buffer {
    tag: u16,
    slices: Vec<Slice>,
    unmapped: Option<Vec<u8>>,
}

struct World {
    rig: Rig,
    blocks: Memory,
    stream: PduStream,
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
        let sender = match first & 4 {
            0 => Role::Controller,
            _ => Role::Host,
        };
        let parameters = Parameters {
            alignment: first >> 4,
            max_pdu: 1 << 16,
            commands: TAGS,
            ..nvme(sender, first & 1 != 0, first & 2 != 0)
        };
        let config = FunctionConfig {
            send_entries: 64,
            small_entries: 64,
            large_entries: 8,
            contexts: 2,
            ..function_config()
        };
        let mut rig = Rig::filled(nic_config(), config);
        let flow = flow(PORT).reversed();
        rig.offload(CONTEXT, &flow, FIRST, &Layers::of(&parameters));
        let mut world = World {
            blocks: Memory::guarded(&rig.host, BLOCKS),
            rig,
            stream: PduStream::new(&parameters, &[]),
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
            world.write_pdu(n);
        }
        world.vouched = vec![false; world.stream.len()];
        world.damaged = world.vouched.clone();
        for tag in 0..TAGS / 2 {
            world.map(tag);
        }
        world
    }

    fn write_pdu(&mut self, n: usize) {
        let tag = n as u16 % TAGS;
        let data_len = DATA[n % DATA.len()];
        let before = (usize::from(tag)..n).step_by(TAGS.into());
        // One after the other, but for a few that overlap others or lie behind the buffer's end.
        let stray = if n % 11 == 5 { 8000 } else { 0 };
        let data_offset = before.map(|n| DATA[n % DATA.len()]).sum::<u32>() + stray;
        let kind = match data_len {
            0 => Kind::Capsule(n as u32 * 20),
            _ => data(tag, data_offset, data_len),
        };
        let mut pdu = pdu(self.stream.parameters.sender, kind);
        if let Pdu::C2HData(C2HData { last, .. }) | Pdu::H2CData(H2CData { last, .. }) = &mut pdu {
            *last = n.is_multiple_of(3);
        }
        let bytes = |at: usize| (at * 3 + at / 251 + n) as u8;
        let placed = self.stream.push_pdu(&pdu, bytes);
        self.places.resize(self.stream.len(), None);
        self.fragile.resize(placed.data.start, false);
        self.fragile.resize(self.stream.len(), true);
        if data_len > 0 {
            for (at, place) in (data_offset..).zip(&mut self.places[placed.data]) {
                *place = Some((tag, at));
            }
        }
    }

    fn step(&mut self, step: &[u8]) {
        let (at, len) = numbers(step);
        match step[0] % 10 {
            0..=4 => self.send(part(step, self.stream.len()), step[6]),
            5 => self.flush(),
            6 => {
                self.flush();
                self.lied = true;
                let request = RecvDescriptor::ResyncRequest {
                    context: CONTEXT,
                    tcpsn: FIRST + at as u32,
                    inner: None,
                };
                let index = (step[5] & 1 != 0).then_some(u64::from(step[6]));
                self.rig.answer(&request, index);
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
                self.rig.now += Duration::from_millis(len as u64);
                let frame = garbage(step);
                self.rig.receive_unchecked(&frame);
                // No checksum covers the sender's address.
                self.lied |= step[5] == 0 || (6..12).contains(&(len % frame.len()));
                self.flush();
            }
        }
    }

    fn send(&mut self, (from, to, damage): Sent, flags: u8) {
        let damage = damage.filter(|at| self.fragile[*at]);
        let mut payload = self.stream.wire[from..to].to_vec();
        if let Some(at) = damage {
            payload[at - from] ^= 0x20;
        }
        if self.batch.len() >= 16 {
            self.flush();
        }
        self.batch.push((from, to, damage));
        let frame = frame(FIRST + from as u32, &payload, flags);
        self.rig.receive(&frame);
    }

    /// Maps a new buffer, if the tag has none.
    fn map(&mut self, tag: u16) {
        let bytes: u32 = PIECES.iter().map(|piece| piece + GAP).sum();
        if self.current(tag).is_some() || (self.used + bytes) as usize > BLOCKS {
            return;
        }
        let slices: Vec<Slice> = PIECES.iter().map(|len| self.block(*len)).collect();
        self.rig.map(CONTEXT, tag, &slices);
        self.buffers.push(Buffer {
            tag,
            slices,
            unmapped: None,
        });
    }

    fn block(&mut self, len: u32) -> Slice {
        let slice = self.blocks.slice(self.used.into(), len);
        self.used += len + GAP;
        slice
    }

    fn unmap(&mut self, tag: u16) {
        let Some(n) = self.current(tag) else {
            return;
        };
        self.rig.unmap(CONTEXT, tag);
        let send = &mut self.rig.host.queues[0].send;
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
        slices.flat_map(|slice| self.blocks.get(*slice)).collect()
    }

    /// Nothing was written behind the host's back, nor outside of buffers.
    fn check_memory(&self) {
        let mut bytes = self.blocks.read(0, BLOCKS);
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
        let (packets, others) = self.rig.received();
        for packet in &packets {
            self.packet(packet);
        }
        self.rig.host.refill();
        for other in others {
            match other {
                RecvDescriptor::ResyncRequest { context, tcpsn, .. } => {
                    assert_eq!(context, CONTEXT);
                    let at = FIRST.distance_to(tcpsn) as usize;
                    if !at.is_multiple_of(3) {
                        let index = self.stream.index_at(at).map(|index| index as u64);
                        self.rig.answer(&other, index);
                    }
                }
                RecvDescriptor::Completion { error, .. } => {
                    assert!(self.lied, "{error}");
                }
                RecvDescriptor::AccelRoom(_) => {}
                other => panic!("nothing was installed: {other:?}"),
            }
        }
        self.batch.clear();
        self.rig.work();
    }

    fn packet(&mut self, delivered: &Delivered) {
        let packet = &delivered.packet;
        if packet.context == Some(CONTEXT) {
            let at = FIRST.distance_to(delivered.seq()) as usize;
            let payload = delivered.whole(&self.blocks);
            self.check(at, &payload, packet.processed.by(0));
            for part in &delivered.placed {
                self.check_place(at + part.at.start, part.slice, part.tag);
            }
        } else {
            assert!(!packet.processed.by(0) && delivered.placed.is_empty());
            if packet.header_len > 0 {
                assert_eq!(delivered.payload().len(), packet.payload_len as usize);
            }
        }
    }

    /// What was placed is in the buffer that is mapped, and unless the host has lied, where its header says.
    fn check_place(&self, at: usize, slice: Slice, tag: u16) {
        let current = self.current(tag).expect("a mapped buffer");
        let slices = &self.buffers[current].slices;
        let inside = |piece: &Slice| {
            let end = piece.offset + u64::from(piece.len);
            slice.offset >= piece.offset && slice.offset + u64::from(slice.len) <= end
        };
        assert!(slices.iter().any(inside) && slice.region == self.blocks.id);
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
        let explained = explain(&self.batch, &self.stream.wire, at, found, &mut frames);
        assert!(explained || self.lied, "{at}: {} bytes", found.len());
        for (from, to, damage) in frames.into_iter().filter(|_| vouched) {
            self.vouched[from..to].fill(true);
            if let Some(damage) = damage {
                self.damaged[damage] = true;
            }
        }
    }
}
