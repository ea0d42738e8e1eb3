//! Splices whose peers play ping-pong.

use std::time::Instant;

use nic::ring::accel::{Leg, Splice, SpliceId, TimestampState};
use nic::ring::{FunctionConfig, HostFunction, SendDescriptor, function};
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::{self, MacAddr};
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::tcp::{self, Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum, ipv4};

use crate::timing::Timing;

/// Segments of a batch: one each way of half as many splices.
pub const BATCH: usize = 64;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
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
    pub nic: Nic,
    host: HostFunction,
    kind: Kind,
    pairs: u32,
    now: Instant,
    /// The next pair to play, and the round of the play.
    next: u32,
    round: u32,
    frames: Vec<Vec<u8>>,
    out: Vec<u8>,
}

impl Splices {
    pub fn new(pairs: u32, kind: Kind) -> Splices {
        let mut nic = Nic::new(NicConfig::new([9; 16]));
        let (host, device) = function(FunctionConfig::new(OWN));
        nic.attach(device).expect("a free address");
        let mut splices = Splices {
            nic,
            host,
            kind,
            pairs,
            now: Instant::now(),
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
            let (nic, frames, out, now) = (&mut self.nic, &self.frames, &mut self.out, self.now);
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
        let send = &mut self.host.queues[0].send;
        send.post(&SendDescriptor::Splice(&splice))
            .expect("room in the ring");
        let _ = self.host.queues[0].publish();
        assert!(self.nic.poll_transmit(self.now, &mut self.out).is_none());
        self.nic.flush(self.now);
        while let Some(told) = self.host.queues[0].recv.pop() {
            assert!(
                matches!(told, nic::ring::RecvDescriptor::AccelRoom(_)),
                "{told:?}"
            );
        }
        let _ = self.host.queues[0].publish();
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
    };
    Splice {
        splice: SpliceId(n),
        a: leg(0),
        b: leg(1),
        idle_ms: 60_000,
    }
}

/// A segment from the peer of a leg; numbers count from where the splice began.
fn segment(frame: &mut Vec<u8>, leg: &Leg, (seq, ack): (u32, u32), round: u32, payload: usize) {
    let flow = leg.flow.reversed();
    let header = Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq: leg.rcv_nxt + seq,
        ack: leg.snd_nxt + ack,
        flags: Flags::ACK | Flags::PSH,
        window: 8192,
        options: Options {
            timestamps: leg.timestamps.map(|timestamps| Timestamps {
                val: timestamps.recent.wrapping_add(round),
                echo: timestamps.value.wrapping_add(round),
            }),
            ..Options::default()
        },
    };
    frame.clear();
    frame.resize(MAX_TCP_HEADERS_LEN, 0);
    let headers = packet::emit_tcp_headers(frame, leg.hop, OWN, &flow, &header, payload as u32, 64);
    frame.resize(headers, 0);
    frame.resize(headers + payload, 0xa5);
    let l4 = headers - header.len();
    ipv4::fill_checksum(&mut frame[ethernet::HEADER_LEN..l4]);
    tcp::fill_checksum(flow.src.0, flow.dst.0, &mut frame[l4..]);
}
