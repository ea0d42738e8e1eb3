//! A host that receives through a NIC, and holds all that it is given against what is right.

use l5p::Layers;
use nic::ring::{FunctionConfig, RecvDescriptor, SendDescriptor, Slice};
use testkit::bare::{CONTEXT, Delivered, Memory, Rig, function_config, nic_config};
use testkit::frames::{ack, from_peer};
use wire::SeqNum;

use super::Traits;
use super::samples::sample;
use super::stream::Stream;

pub struct Receiver<'a> {
    stream: &'a Stream,
    start: SeqNum,
    rig: Rig,
    blocks: Memory,
    /// By byte of the blocks: written.
    written: Vec<bool>,
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
        let config = FunctionConfig {
            receive_entries: 1024,
            contexts: 1,
            ..function_config()
        };
        let mut rig = Rig::filled(nic_config(), config);
        let total: usize = stream.buffers.iter().sum();
        let blocks = Memory::register(&rig.host, total);
        load(&stream.layers, &mut rig);
        rig.offload(CONTEXT, &rig.flow.reversed(), start, &stream.layers);
        let mut offset = 0;
        for (tag, len) in stream.buffers.iter().enumerate() {
            let slices = [blocks.slice(offset, *len as u32)];
            offset += *len as u64;
            rig.map(CONTEXT, tag as u16, &slices);
        }
        Receiver {
            stream,
            start,
            rig,
            blocks,
            written: vec![false; total],
            checks: (0..stream.layers.ids().len())
                .map(|layer| Traits::of(&stream.layers, layer).checks)
                .collect(),
            processed: false,
            all_processed: 0,
            shown: 0,
            placed: 0,
        }
    }

    /// Brings bytes `from..to` of the stream as a packet.
    pub fn bring(&mut self, from: usize, to: usize) {
        let flow = self.rig.flow.reversed();
        let header = ack(&flow, self.start + from as u32);
        let payload = &self.stream.parts[0].wire[from..to];
        self.rig.receive(&from_peer(&flow, &header, payload));
    }

    /// Ends a batch of packets: looks at what has come, and answers questions as the stream is.
    pub fn flush(&mut self) {
        let (packets, others) = self.rig.received();
        for packet in &packets {
            self.check(packet);
        }
        self.rig.host.refill();
        for request in others {
            let RecvDescriptor::ResyncRequest { tcpsn, inner, .. } = request else {
                panic!("{request:?}");
            };
            let at = self.start.distance_to(tcpsn) as usize;
            let offset = inner.map(|inner| inner.offset as usize);
            let index = self.stream.message_at(at, offset);
            self.rig.answer(&request, index);
        }
    }

    fn check(&mut self, delivered: &Delivered) {
        let packet = &delivered.packet;
        let from = self.start.distance_to(delivered.seq()) as usize;
        let to = from + packet.payload_len as usize;
        let right = match packet.processed.is_replaced() {
            true => &self.stream.received[from..to],
            false => &self.stream.parts[0].wire[from..to],
        };
        assert!(!packet.processed.is_replaced() || packet.processed.by(0));
        let placed_before = self.placed;
        assert_eq!(delivered.whole(&self.blocks), right, "{from}..{to}");
        for part in &delivered.placed {
            self.check_placed(from + part.at.start, part.slice, part.tag);
        }
        let mut last = 0;
        for note in &delivered.notes {
            assert!(last <= note.at && note.at <= packet.payload_len);
            last = note.at;
        }
        let mut checks = self.checks.iter().enumerate();
        let is_checked = checks.all(|(layer, checks)| !checks || packet.processed.by(layer));
        let belong = (from..to).filter(|at| self.stream.belongs(*at).is_some());
        self.processed = is_checked && belong.count() == self.placed - placed_before;
        self.all_processed += usize::from(self.processed);
        self.shown += 1;
    }

    /// Bytes of the stream from `at` on were placed.
    fn check_placed(&mut self, at: usize, slice: Slice, tag: u16) {
        let bytes = self.blocks.get(slice);
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
pub fn load(layers: &Layers, rig: &mut Rig) {
    for id in layers.ids() {
        let Some((resource, bytes)) = sample(*id).resource() else {
            continue;
        };
        let memory = Memory::register(&rig.host, bytes.len());
        memory.write(0, bytes);
        rig.command(&SendDescriptor::LoadResource {
            resource,
            protocol: *id,
            bytes: memory.slice(0, bytes.len() as u32),
        });
        loop {
            let reported = rig.flush();
            if let [reported] = reported[..] {
                let error = None;
                assert_eq!(reported, RecvDescriptor::Resource { resource, error });
                break;
            }
            std::thread::yield_now();
        }
    }
}
