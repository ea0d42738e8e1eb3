//! Connections with peers that ask, and a host that answers.

use nic::ring::toe::{ToeCommand, ToeEvent};
use nic::ring::{FunctionConfig, RecvDescriptor, SendFlags};
use nic::{FrameMeta, NicConfig, ToeConfig};
use tcp::Config;
use testkit::bare::{Rig, nic_config};
use testkit::fixtures::{HOST, PEER};
use testkit::frames::{ack, rewrite};
use testkit::timing::Timing;
use testkit::toe::{established, image, toe};
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum};

/// Requests, and responses, of a batch.
pub const BATCH: usize = 64;

const BYTES: u32 = 64;
/// First positions.
const OURS: SeqNum = SeqNum(1000);
const THEIRS: SeqNum = SeqNum(5000);

/// A NIC that runs connections.
pub struct Connections {
    rig: Rig,
    count: u32,
    /// By connection, the timestamp that its peer began with.
    recent: Vec<u32>,
    /// The next connection to ask, and the round of requests.
    next: u32,
    round: u32,
    frames: Vec<Vec<u8>>,
    out: Vec<u8>,
}

/// From the peer to us.
fn flow(number: u32) -> FlowKey {
    let [a, b, c, d] = (0x0a01_0000 + number).to_be_bytes();
    FlowKey {
        src: ([a, b, c, d].into(), 40_000),
        dst: ([10, 0, 0, 1].into(), 80),
    }
}

impl Connections {
    pub fn new(count: u32) -> Connections {
        let config = NicConfig {
            toe: ToeConfig {
                hard_limit: count,
                load_control: false,
                packets_per_turn: None,
                ..ToeConfig::default()
            },
            ..nic_config()
        };
        let mut rig = Rig::new(config, FunctionConfig::new(HOST));
        rig.host.fill(1024, 0);
        let mut connections = Connections {
            rig,
            count,
            recent: Vec::new(),
            next: 0,
            round: 0,
            frames: vec![Vec::new(); BATCH],
            out: vec![0; 2048],
        };
        for number in 0..count {
            connections.hand_off(number);
        }
        connections
    }

    /// So many batches: of requests, of responses, and of requests to the host's connections.
    pub fn run(&mut self, batches: u32, timings: &mut [Timing; 3]) {
        for _ in 0..batches {
            let first = self.next;
            self.prepare(0);
            self.frames_in(&mut timings[0]);
            assert_eq!(self.take_in(), BATCH, "all were delivered");
            self.answer(first);
            let (nic, out, now) = (&mut self.rig.nic, &mut self.out, self.rig.now);
            let sent = timings[1].batch(|| {
                let mut sent = 0;
                while nic.poll_transmit(now, out).is_some() {
                    sent += 1;
                }
                nic.flush(now);
                sent
            });
            assert!(sent >= BATCH, "{sent} answers");
            self.take_in();
            self.prepare(self.count);
            self.frames_in(&mut timings[2]);
            assert_eq!(self.take_in(), 0);
            self.next += BATCH as u32;
            if self.next >= self.count {
                (self.next, self.round) = (0, self.round + 1);
            }
        }
    }

    fn poll(&mut self) {
        let (nic, now) = (&mut self.rig.nic, self.rig.now);
        nic.flush(now);
        while nic.poll_transmit(now, &mut self.out).is_some() {}
        nic.flush(now);
    }

    fn hand_off(&mut self, number: u32) {
        let (flow, now) = (flow(number).reversed(), self.rig.now);
        let toe = toe(number);
        self.rig.host.begin(0, toe, flow);
        self.poll();
        let [host, _] = established(now, &Config::default(), &flow, OURS, THEIRS);
        let image = image(now, &host);
        let timestamps = image.tcb.timestamps.as_ref().expect("agreed on");
        self.recent.push(timestamps.recent);
        self.rig.host.offer(0, toe, flow, &image);
        self.poll();
        let accepted = RecvDescriptor::Toe(ToeEvent::Accepted { toe });
        assert!(self.rig.host.take().contains(&accepted));
    }

    /// The next requests, from peers of other connections for those of the host.
    fn prepare(&mut self, others: u32) {
        let (count, next, sent) = (self.count, self.next, self.round * BYTES);
        for (n, out) in (0..).zip(&mut self.frames) {
            let number = (next + n) % count;
            let flow = flow(others + number);
            let tcp = Header {
                ack: OURS + 1 + sent,
                flags: Flags::ACK | Flags::PSH,
                window: 60_000,
                options: Options {
                    timestamps: Some(Timestamps {
                        val: self.recent[number as usize].wrapping_add(1 + self.round),
                        echo: 0,
                    }),
                    ..Options::default()
                },
                ..ack(&flow, THEIRS + 1 + sent)
            };
            rewrite(out, [PEER, HOST], &flow, &tcp, &[7; BYTES as usize]);
        }
    }

    fn frames_in(&mut self, timing: &mut Timing) {
        let (nic, now) = (&mut self.rig.nic, self.rig.now);
        let (frames, out) = (&self.frames, &mut self.out);
        timing.batch(|| {
            for frame in frames {
                nic.handle_frame(now, frame, FrameMeta::default());
            }
            nic.flush(now);
            while nic.poll_transmit(now, out).is_some() {}
            nic.flush(now);
        });
    }

    /// Takes what is on the receive ring; gives how many packets of connections of the NIC's were among it.
    fn take_in(&mut self) -> usize {
        let mut delivered = 0;
        while let Some(reported) = self.rig.host.pop(0) {
            if let RecvDescriptor::Toe(ToeEvent::Delivered { len, .. }) = reported {
                assert_eq!(len, BYTES);
                delivered += 1;
            }
        }
        self.rig.host.fill(1024, 0);
        delivered
    }

    fn answer(&mut self, first: u32) {
        let sent = self.round * BYTES;
        let payload = [self.rig.slice(0, BYTES)];
        for n in 0..BATCH as u32 {
            let toe = toe((first + n) % self.count);
            let host = &mut self.rig.host;
            host.command(0, ToeCommand::Consumed { toe, bytes: BYTES });
            let send = ToeCommand::Send {
                toe,
                seq: OURS + 1 + sent,
                context: None,
                flags: SendFlags::NONE,
                payload: &payload,
            };
            host.command(0, send);
        }
    }
}
