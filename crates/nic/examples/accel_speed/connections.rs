//! Clients that connect, send a request, take a response and close; the host takes part in the request only.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use nic::FrameMeta;
use nic::ring::accel::{InstallListener, ListenRuleId, ListenerOptions, Teardown, TimestampState};
use nic::ring::{FunctionConfig, RecvDescriptor, SendDescriptor};
use testkit::accel::{listener, teardown};
use testkit::bare::{Rig, function_config, nic_config};
use testkit::fixtures::{HOST, PEER};
use testkit::frames::rewrite;
use testkit::timing::Timing;
use wire::packet::{self, Parsed};
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum};

/// Connections of a batch.
pub const BATCH: usize = 32;

const RULE: ListenRuleId = ListenRuleId(0);
const REQUEST: usize = 64;
const RESPONSE: u32 = 64;

/// Of what the NIC does in a connection's life.
#[derive(Debug, Default)]
pub struct Timings {
    pub syn: Timing,
    pub ack: Timing,
    pub request: Timing,
    pub teardown: Timing,
    pub fin: Timing,
}

/// A NIC with a listener, its host, and clients.
pub struct Connections {
    pub rig: Rig,
    start: Instant,
    /// What leaves in a batch.
    out: Vec<Vec<u8>>,
    left: usize,
    frames: Vec<Vec<u8>>,
}

impl Connections {
    pub fn new() -> Connections {
        let function = FunctionConfig {
            send_entries: 1024,
            receive_entries: 2048,
            ..function_config()
        };
        let mut rig = Rig::filled(nic_config(), function);
        let install = InstallListener {
            rule: RULE,
            address: Ipv4Addr::UNSPECIFIED.into(),
            port: 80,
            options: ListenerOptions {
                backlog: 1024,
                ..listener()
            },
        };
        rig.post(&SendDescriptor::InstallListener(&install));
        rig.host.publish();
        let mut connections = Connections {
            start: rig.now,
            rig,
            out: vec![vec![0; 2048]; 2 * BATCH],
            left: 0,
            frames: vec![Vec::new(); BATCH],
        };
        connections.exchange_with(&mut Timing::default(), &[]);
        connections.rig.host.take();
        connections
    }

    /// Connections that rest in TIME-WAIT, or have not finished.
    pub fn resting(&self) -> u32 {
        let counters = self.rig.nic.counters();
        let limit = u64::from(self.rig.nic.config().accel.closing);
        counters.accel_closing.min(limit) as u32
    }

    pub fn run(&mut self, connections: u32, timings: &mut Timings) {
        for first in (0..connections).step_by(BATCH) {
            self.batch(first, timings);
            self.rig.now += Duration::from_micros(BATCH as u64);
        }
    }

    fn batch(&mut self, first: u32, timings: &mut Timings) {
        self.frames_for(first, |n, _| (segment(n, 0, 0, Flags::SYN, 0), 0));
        self.exchange(&mut timings.syn);
        assert_eq!(self.left, BATCH, "a SYN-ACK each");
        let answers: Vec<Parsed> = self.out[..BATCH]
            .iter()
            .map(|frame| packet::parse(frame).expect("a SYN-ACK"))
            .collect();

        let reply = |at: usize, n: u32, seq: u32, ack: u32, flags: Flags| {
            let answer = &answers[at].tcp;
            let echo = answer
                .options
                .timestamps
                .map_or(0, |timestamps| timestamps.val);
            let mut header = segment(n, 1 + seq, echo, flags, 0);
            header.ack = answer.seq + 1 + ack;
            header
        };
        self.frames_for(first, |n, at| (reply(at, n, 0, 0, Flags::ACK), 0));
        self.exchange(&mut timings.ack);
        assert_eq!(self.left, 0, "kept back");
        self.frames_for(first, |n, at| {
            (reply(at, n, 0, 0, Flags::ACK | Flags::PSH), REQUEST)
        });
        self.exchange(&mut timings.request);

        self.host_answers();
        self.exchange_with(&mut timings.teardown, &[]);
        assert_eq!(self.left, BATCH, "a response with FIN each");
        let fin = Flags::ACK | Flags::FIN;
        self.frames_for(first, |n, at| {
            (reply(at, n, REQUEST as u32, RESPONSE + 1, fin), 0)
        });
        self.exchange(&mut timings.fin);
        assert_eq!(self.left, BATCH, "a last ACK each");
    }

    /// The host finds the requests, and hands each connection back with its response.
    fn host_answers(&mut self) {
        let mut credits = 0;
        let mut established = None;
        while let Some(reported) = self.rig.host.pop(0) {
            match reported {
                RecvDescriptor::Established(reported) => established = Some(reported),
                RecvDescriptor::Packet(_) => {
                    let request = self.rig.host.read(reported).expect("a request");
                    let reported = established.take().expect("it was reported before");
                    self.hand_back(&request.parsed(), reported.timestamp);
                    credits += 1;
                }
                RecvDescriptor::AccelRoom(_) => {}
                other => panic!("{other:?}"),
            }
        }
        self.rig.host.refill();
        assert_eq!(credits as usize, BATCH, "a request each");
        let credit = SendDescriptor::ListenerCredit {
            rule: RULE,
            credits,
        };
        self.rig.post(&credit);
        self.rig.host.publish();
    }

    fn hand_back(&mut self, request: &Parsed, value: u32) {
        let tcp = &request.tcp;
        let flow = request.flow.reversed();
        let teardown = Teardown {
            peer_window: 1 << 20,
            peer_shift: 7,
            our_shift: 9,
            window: 128,
            timestamps: tcp.options.timestamps.map(|timestamps| TimestampState {
                recent: timestamps.val,
                value,
            }),
            ..teardown(flow, tcp.ack, tcp.seq + REQUEST as u32)
        };
        let payload = [self.rig.slice(0, RESPONSE)];
        self.rig.post(&SendDescriptor::Teardown {
            teardown: &teardown,
            payload: &payload,
        });
    }

    fn frames_for(&mut self, first: u32, of: impl Fn(u32, usize) -> (Header, usize)) {
        for (at, frame) in self.frames.iter_mut().enumerate() {
            let n = first + at as u32;
            let (mut header, payload) = of(n, at);
            if let Some(timestamps) = &mut header.options.timestamps {
                timestamps.val = 7 + (self.rig.now - self.start).as_millis() as u32;
            }
            rewrite(
                frame,
                [PEER, HOST],
                &flow(n),
                &header,
                &[0xa5; REQUEST][..payload],
            );
        }
    }

    /// A batch of the frames prepared.
    fn exchange(&mut self, timing: &mut Timing) {
        let frames = std::mem::take(&mut self.frames);
        self.exchange_with(timing, &frames);
        self.frames = frames;
    }

    fn exchange_with(&mut self, timing: &mut Timing, frames: &[Vec<u8>]) {
        let (nic, out, now) = (&mut self.rig.nic, &mut self.out, self.rig.now);
        self.left = timing.batch(|| {
            for frame in frames {
                nic.handle_frame(now, frame, FrameMeta::default());
            }
            let mut left = 0;
            while nic.poll_transmit(now, &mut out[left]).is_some() {
                left += 1;
            }
            nic.flush(now);
            left
        });
    }
}

fn flow(client: u32) -> FlowKey {
    FlowKey {
        src: (
            Ipv4Addr::from_bits(0x0a80_0000 + (client >> 8)).into(),
            1024 + (client & 255) as u16,
        ),
        dst: (Ipv4Addr::new(10, 0, 0, 1).into(), 80),
    }
}

/// A client's segment, `seq` behind its SYN.
fn segment(client: u32, seq: u32, echo: u32, flags: Flags, ack: u32) -> Header {
    let is_syn = flags.contains(Flags::SYN);
    Header {
        src_port: flow(client).src.1,
        dst_port: 80,
        seq: SeqNum(client.wrapping_mul(0x9e37_79b9)) + seq,
        ack: SeqNum(ack),
        flags,
        window: 64_240,
        options: Options {
            mss: is_syn.then_some(1460),
            window_scale: is_syn.then_some(7),
            sack_permitted: is_syn,
            timestamps: Some(Timestamps { val: 0, echo }),
            ..Options::default()
        },
        ecn: wire::Ecn::NotEct,
    }
}
