//! Whatever comes from the wire, in whatever order, and whatever the host answers: an offloaded packet holds the records'
//! plaintext at its place, any other one exactly what was on the wire, and a record all of whose packets were offloaded
//! is authentic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use l5p::Layers;
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, Packet, RecvDescriptor, Region, RegionId,
    SendDescriptor, Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::MacAddr;
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::{FlowKey, SeqNum, tcp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const CONTEXT: ContextId = ContextId(0);
const FIRST: SeqNum = SeqNum(u32::MAX - 3_000);
/// Contents of the records.
const CONTENTS: [usize; 12] = [900, 10, 0, 3000, 700, 700, 1, 5000, 250, 250, 250, 1200];
const SMALL: u32 = 2048;
const LARGE: u32 = 65_536 + 2048;
/// Bytes of one step's description.
const STEP: usize = 8;

/// Takes `data` for keys and a list of steps.
pub fn run(data: &[u8]) {
    let Some((&first, steps)) = data.split_first() else {
        return;
    };
    let mut world = World::new(first);
    for step in steps.chunks_exact(STEP) {
        world.step(step);
    }
    world.flush();
    for (index, bounds) in world.starts.windows(2).enumerate() {
        let record = bounds[0]..bounds[1];
        let whole = world.shown[record.clone()].iter().all(|shown| *shown);
        assert!(
            !whole || !world.damaged[record].contains(&true),
            "record {index}"
        );
    }
}

/// Where in the stream a frame's payload begins and ends, and which byte of it was changed.
type Sent = (usize, usize, Option<usize>);

struct World {
    nic: Nic,
    host: HostFunction,
    region: Arc<Region>,
    id: RegionId,
    now: Instant,
    wire: Vec<u8>,
    opened: Vec<u8>,
    starts: Vec<usize>,
    /// What an offloaded packet has shown of the stream.
    shown: Vec<bool>,
    /// Where what was shown had been changed on the way.
    damaged: Vec<bool>,
    /// Frames of the current batch.
    batch: Vec<Sent>,
}

impl World {
    fn new(first: u8) -> World {
        let (version, algorithm) = match first % 4 {
            0 => (Version::Tls13, Algorithm::Aes128Gcm),
            1 => (Version::Tls12, Algorithm::Aes256Gcm),
            2 => (Version::Tls13, Algorithm::ChaCha20Poly1305),
            _ => (Version::Tls12, Algorithm::ChaCha20Poly1305),
        };
        let crypto = CryptoInfo {
            version,
            algorithm,
            key: [3; 32],
            iv: [4; 12],
            sequence: 0,
        };
        let mut nic = Nic::new(NicConfig::new([1; 16]));
        let (mut host, device) = function(FunctionConfig {
            send_entries: 64,
            receive_entries: 64,
            small_entries: 64,
            large_entries: 8,
            contexts: 2,
            ..FunctionConfig::new(MAC)
        });
        nic.attach(device).expect("a free address");
        let region = Arc::new(Region::anonymous(64 * SMALL as usize + 8 * LARGE as usize));
        let id = host.register(Arc::clone(&region)).expect("a free id");
        let create = SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Receive,
            flow: flow(),
            tcpsn: FIRST,
            layers: &Layers::of(&crypto),
        };
        host.queues[0].send.post(&create).expect("an empty ring");
        let mut world = World {
            nic,
            host,
            region,
            id,
            now: Instant::now(),
            wire: Vec::new(),
            opened: Vec::new(),
            starts: vec![0],
            shown: Vec::new(),
            damaged: Vec::new(),
            batch: Vec::new(),
        };
        world.write_records(&crypto);
        for n in 0..64 {
            world.give(Slice {
                offset: u64::from(n * SMALL),
                len: SMALL,
                region: id,
            });
        }
        for n in 0..8 {
            world.give(Slice {
                offset: u64::from(64 * SMALL + n * LARGE),
                len: LARGE,
                region: id,
            });
        }
        world.work();
        world
    }

    fn write_records(&mut self, crypto: &CryptoInfo) {
        let mut writer = Writer::new(crypto.clone());
        for (n, len) in CONTENTS.iter().cycle().take(4 * CONTENTS.len()).enumerate() {
            let content = vec![n as u8; *len];
            let layout = writer.record_layout(ContentType::APPLICATION_DATA, *len);
            let mut record = vec![0; writer.record_len(*len)];
            writer.seal_into(ContentType::APPLICATION_DATA, &[&content], &mut record);
            let mut opened = [layout.header(), &content, layout.trailer()].concat();
            let icv = record.len() - 16;
            opened[icv..].copy_from_slice(&record[icv..]);
            let header = layout.header().len();
            opened[..header].copy_from_slice(&record[..header]);
            self.wire.extend_from_slice(&record);
            self.opened.extend_from_slice(&opened);
            self.starts.push(self.wire.len());
        }
        self.shown = vec![false; self.wire.len()];
        self.damaged = vec![false; self.wire.len()];
    }

    fn step(&mut self, step: &[u8]) {
        let at = usize::from(u16::from_le_bytes([step[1], step[2]]));
        let len = usize::from(u16::from_le_bytes([step[3], step[4]]));
        match step[0] % 8 {
            0..=4 => {
                let from = at % self.wire.len();
                let to = (from + 1 + len % 4000).min(self.wire.len());
                let damage =
                    (step[0] & 0x80 != 0).then(|| from + usize::from(step[5]) % (to - from));
                self.send(from, to, damage, step[6]);
            }
            5 => self.flush(),
            6 => self.answer(FIRST + at as u32, step[5] & 1 != 0, u64::from(step[6])),
            _ => {
                self.now += Duration::from_millis(len as u64);
                // Not a frame at all, or not this flow's.
                let mut frame = frame(FIRST + at as u32, step, step[6]);
                let end = frame.len();
                frame[len % end] ^= step[5];
                let meta = FrameMeta::default();
                self.nic.handle_frame(self.now, &frame, meta);
                self.flush();
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, damage: Option<usize>, flags: u8) {
        let mut payload = self.wire[from..to].to_vec();
        if let Some(at) = damage {
            // Headers are not protected on the wire, and are the same for a host without a NIC. Another explicit nonce
            // (TLS 1.2) makes another plaintext.
            let record = self.starts.partition_point(|start| *start <= at) - 1;
            if at < self.starts[record] + 13 {
                return;
            }
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

    /// Ends the batch, and holds what the host finds against what was sent.
    fn flush(&mut self) {
        self.nic.flush(self.now);
        while let Some(descriptor) = self.host.queues[0].recv.pop() {
            match descriptor {
                RecvDescriptor::Packet(packet) => {
                    if packet.header_len > 0 {
                        self.check_packet(&packet);
                    }
                    let class = if packet.buffer.offset < u64::from(64 * SMALL) {
                        SMALL
                    } else {
                        LARGE
                    };
                    self.give(Slice {
                        len: class,
                        ..packet.buffer
                    });
                }
                RecvDescriptor::ResyncRequest { context, tcpsn, .. } => {
                    assert_eq!(context, CONTEXT);
                    let at = FIRST.distance_to(tcpsn) as usize;
                    if at.is_multiple_of(3) {
                        continue;
                    }
                    let index = self.starts.binary_search(&at).ok();
                    self.answer(tcpsn, index.is_some(), index.unwrap_or(0) as u64);
                }
                RecvDescriptor::Placed { .. }
                | RecvDescriptor::Completion { .. }
                | RecvDescriptor::AccelRoom(_) => {}
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

    fn check_packet(&mut self, packet: &Packet) {
        let mut bytes = vec![0; packet.buffer.len as usize];
        assert!(self.region.read(packet.buffer.offset, &mut bytes));
        let parsed = packet::parse(&bytes).expect("valid headers");
        let header = usize::from(packet.header_len);
        assert_eq!(parsed.payload_offset, header);
        assert_eq!(parsed.payload_len, packet.payload_len);
        if packet.context == Some(CONTEXT) {
            self.check(parsed.tcp.seq, &bytes[header..], packet.processed.by(0));
        } else {
            assert!(!packet.processed.by(0));
        }
    }

    /// What the host finds must be what frames of this batch, one after the other, brought to this place.
    fn check(&mut self, seq: SeqNum, found: &[u8], offloaded: bool) {
        let at = FIRST.distance_to(seq) as usize;
        let mut frames = Vec::new();
        let explained = self.explain(at, found, offloaded, &mut frames);
        assert!(
            explained,
            "{at}: {} bytes, offloaded {offloaded}",
            found.len()
        );
        for (from, to, damage) in frames.into_iter().filter(|_| offloaded) {
            self.shown[from..to].fill(true);
            if let Some(damage) = damage {
                self.damaged[damage] = true;
            }
        }
    }

    fn explain(&self, at: usize, found: &[u8], offloaded: bool, frames: &mut Vec<Sent>) -> bool {
        if found.is_empty() {
            return true;
        }
        let source = if offloaded { &self.opened } else { &self.wire };
        for sent @ (from, to, damage) in self.batch.iter().copied() {
            if from != at || to - from > found.len() {
                continue;
            }
            let mut expected = source[from..to].to_vec();
            if let Some(damage) = damage {
                expected[damage - from] ^= 0x20;
            }
            let (first, rest) = found.split_at(to - from);
            if first == expected && self.explain(to, rest, offloaded, frames) {
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

    /// Gives a buffer to the device.
    fn give(&mut self, buffer: Slice) {
        let queue = &mut self.host.queues[0];
        let ring = if buffer.len == SMALL {
            &mut queue.small
        } else {
            &mut queue.large
        };
        let buffer = Slice {
            region: self.id,
            ..buffer
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

fn flow() -> FlowKey {
    FlowKey::new(
        "10.0.0.2:5000".parse().expect("an address"),
        "10.0.0.1:443".parse().expect("an address"),
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
