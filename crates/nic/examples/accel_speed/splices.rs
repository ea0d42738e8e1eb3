//! Splices whose peers play ping-pong.

use nic::FrameMeta;
use nic::ring::accel::{Leg, Splice, SpliceId, TimestampState};
use nic::ring::{RecvDescriptor, SendDescriptor};
use testkit::bare::{Rig, function_config, nic_config};
use testkit::fixtures::{HOST, MSS};
use testkit::frames::{ack, rewrite};
use testkit::timing::Timing;
use wire::ethernet::MacAddr;
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum};

/// Segments of a batch: one each way of half as many splices.
pub const BATCH: usize = 64;

const HOPS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 0xa]), MacAddr([2, 0, 0, 0, 0, 0xb])];

/// What segments look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Frames of 64 bytes, without timestamps.
    Frame64,
    /// So many bytes of payload, with timestamps.
    Payload(usize),
}

impl Kind {
    pub fn name(self) -> String {
        match self {
            Kind::Frame64 => "64 bytes in all".into(),
            Kind::Payload(bytes) => format!("{bytes} bytes of payload"),
        }
    }

    fn payload(self) -> usize {
        match self {
            Kind::Frame64 => 64 - 54,
            Kind::Payload(bytes) => bytes,
        }
    }
}

/// A NIC with splices.
pub struct Splices {
    pub rig: Rig,
    kind: Kind,
    pairs: u32,
    /// The next pair to play, and the round of the play.
    next: u32,
    round: u32,
    frames: Vec<Vec<u8>>,
    out: Vec<u8>,
}

impl Splices {
    pub fn new(pairs: u32, kind: Kind) -> Splices {
        let mut splices = Splices {
            rig: Rig::new(nic_config(), function_config()),
            kind,
            pairs,
            next: 0,
            round: 0,
            frames: vec![Vec::new(); BATCH],
            out: vec![0; 2048],
        };
        for n in 0..pairs {
            splices.install(n);
        }
        splices
    }

    /// So many batches.
    pub fn run(&mut self, batches: u32, timing: &mut Timing) {
        for _ in 0..batches {
            self.prepare();
            let (nic, now) = (&mut self.rig.nic, self.rig.now);
            let (frames, out) = (&self.frames, &mut self.out);
            let left = timing.batch(|| {
                for frame in frames {
                    nic.handle_frame(now, frame, FrameMeta::default());
                }
                let mut left = 0;
                while nic.poll_transmit(now, out).is_some() {
                    left += 1;
                }
                nic.flush(now);
                left
            });
            assert_eq!(left, BATCH, "all were forwarded");
        }
    }

    fn install(&mut self, n: u32) {
        let splice = splice(n, self.kind);
        self.rig.command(&SendDescriptor::Splice(&splice));
        let reported = self.rig.flush();
        let is_room = |reported: &RecvDescriptor| matches!(reported, RecvDescriptor::AccelRoom(_));
        assert!(reported.iter().all(is_room), "{reported:?}");
    }

    /// The segments of the next pairs: a request, and its response.
    fn prepare(&mut self) {
        let payload = self.kind.payload();
        for frames in self.frames.chunks_exact_mut(2) {
            let splice = splice(self.next, self.kind);
            let before = self.round.wrapping_mul(payload as u32);
            let after = before.wrapping_add(payload as u32);
            let [there, back] = frames else {
                continue;
            };
            segment(there, &splice.a, (before, before), self.round, payload);
            segment(back, &splice.b, (before, after), self.round, payload);
            self.next += 1;
            if self.next == self.pairs {
                (self.next, self.round) = (0, self.round + 1);
            }
        }
    }
}

fn splice(n: u32, kind: Kind) -> Splice {
    let leg = |side: u8| Leg {
        flow: FlowKey {
            src: (
                [10, 0, 0, 1].into(),
                [443, 1024 + (n % 60_000) as u16][usize::from(side)],
            ),
            dst: (
                [10, 1 + side, (n >> 8) as u8, n as u8].into(),
                [40_000 + (n >> 16) as u16, 80][usize::from(side)],
            ),
        },
        hop: HOPS[usize::from(side)],
        hop_limit: 64,
        snd_nxt: SeqNum(n.wrapping_mul(0x9e37_79b9) ^ u32::from(side)),
        rcv_nxt: SeqNum(n.wrapping_mul(0x85eb_ca6b) ^ u32::from(side)),
        peer_window: 1 << 20,
        our_window: 1 << 20,
        peer_shift: 7,
        our_shift: 8 - side,
        mss: 1448,
        our_mss: 1448,
        sack: true,
        timestamps: (kind != Kind::Frame64).then_some(TimestampState {
            recent: n,
            value: !n,
        }),
        ecn: false,
        ecn_echo: false,
    };
    Splice {
        splice: SpliceId(n),
        a: leg(0),
        b: leg(1),
        idle_ms: 60_000,
    }
}

/// A segment from the peer of a leg; numbers count from where the splice began.
fn segment(frame: &mut Vec<u8>, leg: &Leg, (seq, ack_to): (u32, u32), round: u32, payload: usize) {
    let flow = leg.flow.reversed();
    let header = Header {
        ack: leg.snd_nxt + ack_to,
        flags: Flags::ACK | Flags::PSH,
        window: 8192,
        options: Options {
            timestamps: leg.timestamps.map(|timestamps| Timestamps {
                val: timestamps.recent.wrapping_add(round),
                echo: timestamps.value.wrapping_add(round),
            }),
            ..Options::default()
        },
        ..ack(&flow, leg.rcv_nxt + seq)
    };
    let payload = &[0xa5; MSS][..payload];
    rewrite(frame, [leg.hop, HOST], &flow, &header, payload);
}
