//! Whatever comes from the wire, in whatever order, and whatever the host answers: an offloaded packet holds the records'
//! plaintext at its place, any other one exactly what was on the wire, and a record all of whose packets were offloaded
//! is authentic.

use std::time::Duration;

use l5p::Layers;
use l5p::tls::{Algorithm, Version};
use nic::ring::{FunctionConfig, RecvDescriptor};
use testkit::bare::{CONTEXT, Delivered, Rig, function_config, nic_config};
use testkit::fixtures::{crypto, flow};
use testkit::records::Records;

use super::nic_packets::{FIRST, PORT, STEP, Sent, explain, frame, garbage, numbers, part};

/// Contents of the records.
const CONTENTS: [usize; 12] = [900, 10, 0, 3000, 700, 700, 1, 5000, 250, 250, 250, 1200];

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
    for (index, bounds) in world.records.starts.windows(2).enumerate() {
        let record = bounds[0]..bounds[1];
        let whole = world.shown[record.clone()].iter().all(|shown| *shown);
        assert!(
            !whole || !world.damaged[record].contains(&true),
            "record {index}"
        );
    }
}

struct World {
    rig: Rig,
    records: Records,
    /// What an offloaded packet has shown of the stream.
    shown: Vec<bool>,
    /// Where what was shown had been changed on the way.
    damaged: Vec<bool>,
    /// Frames of the current batch.
    batch: Vec<Sent>,
}

impl World {
    fn new(first: u8) -> World {
        let crypto = crypto(match first % 4 {
            0 => (Version::Tls13, Algorithm::Aes128Gcm),
            1 => (Version::Tls12, Algorithm::Aes256Gcm),
            2 => (Version::Tls13, Algorithm::ChaCha20Poly1305),
            _ => (Version::Tls12, Algorithm::ChaCha20Poly1305),
        });
        let config = FunctionConfig {
            send_entries: 64,
            receive_entries: 64,
            small_entries: 64,
            large_entries: 8,
            contexts: 2,
            ..function_config()
        };
        let mut rig = Rig::filled(nic_config(), config);
        let flow = flow(PORT).reversed();
        rig.offload(CONTEXT, &flow, FIRST, &Layers::of(&crypto));
        let lens = CONTENTS.iter().cycle().take(4 * CONTENTS.len());
        let contents = lens.enumerate().map(|(n, len)| vec![n as u8; *len]);
        let records = Records::of(&crypto, contents);
        World {
            rig,
            shown: vec![false; records.len()],
            damaged: vec![false; records.len()],
            records,
            batch: Vec::new(),
        }
    }

    fn step(&mut self, step: &[u8]) {
        let (at, len) = numbers(step);
        match step[0] % 8 {
            0..=4 => self.send(part(step, self.records.len()), step[6]),
            5 => self.flush(),
            6 => {
                let request = RecvDescriptor::ResyncRequest {
                    context: CONTEXT,
                    tcpsn: FIRST + at as u32,
                    inner: None,
                };
                let index = (step[5] & 1 != 0).then_some(u64::from(step[6]));
                self.rig.answer(&request, index);
            }
            _ => {
                self.rig.now += Duration::from_millis(len as u64);
                self.rig.receive_unchecked(&garbage(step));
                self.flush();
            }
        }
    }

    fn send(&mut self, (from, to, damage): Sent, flags: u8) {
        let mut payload = self.records.wire[from..to].to_vec();
        if let Some(at) = damage {
            // Headers are not protected on the wire, and are the same for a host without a NIC. Another explicit nonce
            // (TLS 1.2) makes another plaintext.
            let record = self.records.starts.partition_point(|start| *start <= at) - 1;
            if at < self.records.starts[record] + 13 {
                return;
            }
            payload[at - from] ^= 0x20;
        }
        if self.batch.len() >= 16 {
            self.flush();
        }
        self.batch.push((from, to, damage));
        let frame = frame(FIRST + from as u32, &payload, flags);
        self.rig.receive(&frame);
    }

    /// Ends the batch, and holds what the host finds against what was sent.
    fn flush(&mut self) {
        let (packets, others) = self.rig.received();
        for packet in packets.iter().filter(|it| it.packet.header_len > 0) {
            self.check_packet(packet);
        }
        self.rig.host.refill();
        for other in others {
            match other {
                RecvDescriptor::ResyncRequest { context, tcpsn, .. } => {
                    assert_eq!(context, CONTEXT);
                    let at = FIRST.distance_to(tcpsn) as usize;
                    if !at.is_multiple_of(3) {
                        self.rig.answer(&other, self.records.index_at(at));
                    }
                }
                RecvDescriptor::Completion { .. } | RecvDescriptor::AccelRoom(_) => {}
                other => panic!("nothing was installed: {other:?}"),
            }
        }
        self.batch.clear();
        self.rig.work();
    }

    fn check_packet(&mut self, delivered: &Delivered) {
        let packet = &delivered.packet;
        let parsed = wire::packet::parse(&delivered.bytes).expect("valid headers");
        assert_eq!(parsed.payload_offset, usize::from(packet.header_len));
        assert_eq!(parsed.payload_len, packet.payload_len);
        if packet.context == Some(CONTEXT) {
            let at = FIRST.distance_to(parsed.tcp.seq) as usize;
            self.check(at, delivered.payload(), packet.processed.by(0));
        } else {
            assert!(!packet.processed.by(0));
        }
    }

    /// What the host finds must be what frames of this batch, one after the other, brought to this place.
    fn check(&mut self, at: usize, found: &[u8], offloaded: bool) {
        let source = match offloaded {
            true => &self.records.opened,
            false => &self.records.wire,
        };
        let mut frames = Vec::new();
        assert!(
            explain(&self.batch, source, at, found, &mut frames),
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
}
