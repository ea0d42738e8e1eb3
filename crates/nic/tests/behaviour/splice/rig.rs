//! A NIC with one splice, its host's rings, and segments of the two peers.

use std::time::Duration;

use nic::ring::accel::{Leg, Side, Splice, SpliceId, TimestampState};
use nic::ring::{FunctionConfig, RecvDescriptor, SendDescriptor};
use nic::{Counters, FrameMeta, NicConfig};
use testkit::bare::{self, drain, nic_config};
use testkit::fixtures::HOST;
use testkit::frames::{self, frame};
use wire::FlowKey;
use wire::SeqNum;
use wire::ethernet::{self, MacAddr};
use wire::packet::{self, Parsed};
use wire::tcp::{Flags, Header, Options, Timestamps};

pub const HOPS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 0xa]), MacAddr([2, 0, 0, 0, 0, 0xb])];
pub const SPLICE: SpliceId = SpliceId(5);

/// What the NIC took from us and what it gives us, in numbers of the side that says it.
pub const A: usize = 0;
pub const B: usize = 1;

pub struct Rig {
    pub bare: bare::Rig,
    pub splice: Splice,
}

/// The splice of most tests: two IPv4 connections, all that is agreed on different.
pub fn splice() -> Splice {
    let leg = |side: usize| Leg {
        flow: FlowKey {
            src: ([10, 0, 0, 1].into(), [443, 50_000][side]),
            dst: ([10, 0, 1 + side as u8, 9].into(), [40_000, 80][side]),
        },
        hop: HOPS[side],
        hop_limit: 64,
        snd_nxt: SeqNum([1000, 5000][side]),
        rcv_nxt: SeqNum([2000, 6000][side]),
        peer_window: 64 << 10,
        our_window: 128 << 10,
        peer_shift: [2, 7][side],
        our_shift: [4, 3][side],
        mss: 1448,
        our_mss: 1448,
        sack: true,
        timestamps: Some(TimestampState {
            recent: [100, 700][side],
            value: [900, 300][side],
        }),
        ecn: false,
        ecn_echo: false,
    };
    Splice {
        splice: SPLICE,
        a: leg(A),
        b: leg(B),
        idle_ms: 0,
    }
}

pub fn function_config() -> FunctionConfig {
    FunctionConfig {
        receive_entries: 32,
        small_entries: 64,
        large_entries: 16,
        ..FunctionConfig::new(HOST)
    }
}

impl Rig {
    /// With [`splice`] installed.
    pub fn new() -> Rig {
        Rig::with(splice())
    }

    pub fn with(splice: Splice) -> Rig {
        let mut rig = Rig::empty(nic_config(), splice);
        assert!(rig.post(&SendDescriptor::Splice(&splice)).is_empty());
        rig
    }

    /// Without any.
    pub fn empty(config: NicConfig, splice: Splice) -> Rig {
        Rig::of(config, splice, function_config().splices)
    }

    /// Without any, for a function that may have so many.
    pub fn of(config: NicConfig, splice: Splice, splices: u32) -> Rig {
        let function = FunctionConfig {
            splices,
            ..function_config()
        };
        let mut bare = bare::Rig::new(config, function);
        bare.host.fill(32, 0);
        Rig { bare, splice }
    }

    /// Posts a descriptor and lets the device take it. Gives the frames that this makes.
    pub fn post(&mut self, descriptor: &SendDescriptor<'_>) -> Vec<Vec<u8>> {
        self.bare.post(descriptor);
        self.bare.host.publish();
        let frames = self.transmitted();
        frames.into_iter().map(|(frame, _)| frame).collect()
    }

    /// Brings a frame from the wire; gives what leaves.
    pub fn frame(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.bare.receive_unchecked(frame);
        let frames = self.transmitted();
        frames.into_iter().map(|(frame, _)| frame).collect()
    }

    /// Brings a segment, as [`segment`](Self::segment) has it; gives what leaves.
    pub fn bring(
        &mut self,
        side: usize,
        seq: u32,
        ack: u32,
        flags: Flags,
        payload: &[u8],
    ) -> Vec<Vec<u8>> {
        let segment = self.segment(side, seq, ack, flags, payload);
        self.frame(&segment)
    }

    /// Brings a segment, for which one leaves to the other side.
    pub fn forwarded(
        &mut self,
        side: usize,
        seq: u32,
        ack: u32,
        flags: Flags,
        payload: &[u8],
    ) -> Left {
        let left = self.bring(side, seq, ack, flags, payload);
        self.one(1 - side, &left)
    }

    /// Brings a segment, which is answered by one.
    pub fn answered(
        &mut self,
        side: usize,
        seq: u32,
        ack: u32,
        flags: Flags,
        payload: &[u8],
    ) -> Left {
        let left = self.bring(side, seq, ack, flags, payload);
        self.one(side, &left)
    }

    pub fn transmitted(&mut self) -> Vec<(Vec<u8>, FrameMeta)> {
        drain(&mut self.bare.nic, self.bare.now)
    }

    /// What the host finds, but for reports of room.
    pub fn reported(&mut self) -> Vec<RecvDescriptor> {
        let mut reported = self.bare.flush();
        reported.retain(|descriptor| !matches!(descriptor, RecvDescriptor::AccelRoom(_)));
        reported
    }

    /// Lets time pass, with the device called as it wants to be.
    pub fn pass(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let end = self.bare.now + time;
        let mut frames = Vec::new();
        while let Some(at) = self.bare.nic.poll_timeout().filter(|at| *at <= end) {
            self.bare.now = self.bare.now.max(at);
            frames.extend(self.transmitted().into_iter().map(|(frame, _)| frame));
            self.bare.nic.flush(self.bare.now);
            if self.bare.nic.poll_timeout() == Some(at) {
                // It waits for room in a ring.
                break;
            }
        }
        self.bare.now = end;
        frames.extend(self.transmitted().into_iter().map(|(frame, _)| frame));
        frames
    }

    pub fn counters(&self) -> Counters {
        self.bare.nic.counters()
    }

    pub fn leg(&self, side: usize) -> &Leg {
        [&self.splice.a, &self.splice.b][side]
    }

    /// A segment from the peer of `side`, all of whose numbers are how far it is from where the splice began.
    pub fn segment(
        &self,
        side: usize,
        seq: u32,
        ack: u32,
        flags: Flags,
        payload: &[u8],
    ) -> Vec<u8> {
        let leg = self.leg(side);
        let options = Options {
            timestamps: leg.timestamps.map(|timestamps| Timestamps {
                val: timestamps.recent,
                echo: timestamps.value,
            }),
            ..Options::default()
        };
        self.segment_with(side, (seq, ack), flags, 1000, options, payload)
    }

    pub fn segment_with(
        &self,
        side: usize,
        (seq, ack): (u32, u32),
        flags: Flags,
        window: u16,
        options: Options,
        payload: &[u8],
    ) -> Vec<u8> {
        let leg = self.leg(side);
        let flow = leg.flow.reversed();
        let header = Header {
            ack: leg.snd_nxt + ack,
            flags,
            window,
            options,
            ..frames::ack(&flow, leg.rcv_nxt + seq)
        };
        frame(leg.hop, HOST, &flow, &header, payload)
    }

    /// What leaves for the peer of `side`, in numbers as [`segment`](Self::segment)'s.
    pub fn read(&self, side: usize, frame: &[u8]) -> Left {
        let leg = self.leg(side);
        let parsed = packet::parse(frame).expect("a segment");
        assert!(parsed.verify_checksums(frame));
        assert_eq!(parsed.flow, leg.flow);
        assert_eq!(ethernet::destination(frame), Some(leg.hop));
        assert_eq!(frame[6..12], HOST.0);
        Left {
            seq: leg.snd_nxt.distance_to(parsed.tcp.seq),
            ack: leg.rcv_nxt.distance_to(parsed.tcp.ack),
            flags: parsed.tcp.flags,
            payload: parsed.payload(frame).to_vec(),
            parsed,
        }
    }

    /// The only frame that leaves, for the peer of `side`.
    pub fn one(&self, side: usize, frames: &[Vec<u8>]) -> Left {
        let [frame] = frames else {
            panic!("{} frames", frames.len());
        };
        self.read(side, frame)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Left {
    pub seq: u32,
    pub ack: u32,
    pub flags: Flags,
    pub payload: Vec<u8>,
    pub parsed: Parsed,
}

impl Left {
    #[track_caller]
    pub fn is(&self, seq: u32, ack: u32, flags: Flags, payload: &[u8]) {
        let left = (self.seq, self.ack, self.flags, &self.payload[..]);
        assert_eq!(left, (seq, ack, flags, payload));
    }
}

pub fn side(side: usize) -> Side {
    Side::of(side)
}

pub const ACK: Flags = Flags::ACK;
pub const FIN: Flags = Flags::FIN.union(Flags::ACK);
pub const RST: Flags = Flags::RST;
pub const SYN: Flags = Flags::SYN;
