//! Clients that connect, send a request, take a response and close; the host takes part in the request only.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nic::ring::accel::{InstallListener, ListenRuleId, ListenerOptions, Teardown, TimestampState};
use nic::ring::{
    FunctionConfig, HostFunction, RecvDescriptor, Region, RegionId, SendDescriptor, Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::{self, MacAddr};
use wire::packet::{self, MAX_TCP_HEADERS_LEN, Parsed};
use wire::tcp::{self, Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum, ipv4};

use crate::timing::Timing;

/// Connections of a batch.
pub const BATCH: usize = 32;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const RULE: ListenRuleId = ListenRuleId(0);
const REQUEST: usize = 64;
const RESPONSE: u32 = 64;
const BUFFER: u32 = 2048;
const BUFFERS: u64 = 256;

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
    pub nic: Nic,
    host: HostFunction,
    region: RegionId,
    now: Instant,
    start: Instant,
    /// What leaves in a batch.
    out: Vec<Vec<u8>>,
    left: usize,
    frames: Vec<Vec<u8>>,
}

impl Connections {
    pub fn new() -> Connections {
        let mut nic = Nic::new(NicConfig::new([9; 16]));
        let (mut host, device) = function(FunctionConfig {
            small_entries: BUFFERS as u32,
            ..FunctionConfig::new(OWN)
        });
        nic.attach(device).expect("a free address");
        let memory = Region::anonymous((BUFFERS + 1) as usize * BUFFER as usize);
        let region = host.register(Arc::new(memory)).expect("a free id");
        let install = InstallListener {
            rule: RULE,
            address: Ipv4Addr::UNSPECIFIED.into(),
            port: 80,
            options: ListenerOptions {
                mss: 1460,
                window: 65_535,
                window_scale: Some(9),
                sack: true,
                backlog: 1024,
                defer: true,
                hop_limit: 64,
            },
        };
        let queue = &mut host.queues[0];
        queue
            .send
            .post(&SendDescriptor::InstallListener(&install))
            .expect("room");
        let now = Instant::now();
        let mut connections = Connections {
            nic,
            host,
            region,
            now,
            start: now,
            out: vec![vec![0; 2048]; 2 * BATCH],
            left: 0,
            frames: vec![Vec::new(); BATCH],
        };
        (0..BUFFERS).for_each(|n| connections.give(n * u64::from(BUFFER)));
        let _ = connections.host.queues[0].publish();
        connections.drain();
        connections
    }

    /// Connections that rest in TIME-WAIT, or have not finished.
    pub fn resting(&self) -> u32 {
        let counters = self.nic.counters();
        let limit = u64::from(self.nic.config().accel.closing);
        counters.accel_closing.min(limit) as u32
    }

    pub fn run(&mut self, connections: u32, timings: &mut Timings) {
        for first in (0..connections).step_by(BATCH) {
            self.batch(first, timings);
            self.now += Duration::from_micros(BATCH as u64);
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
        while let Some(told) = self.host.queues[0].recv.pop() {
            match told {
                RecvDescriptor::Established(told) => established = Some(told),
                RecvDescriptor::Packet(received) => {
                    let mut bytes = vec![0; received.buffer.len as usize];
                    let memory = self.host.regions.get(self.region).expect("registered");
                    assert!(memory.read(received.buffer.offset, &mut bytes));
                    self.give(received.buffer.offset);
                    let request = packet::parse(&bytes).expect("a request");
                    let told = established.take().expect("it was told before");
                    self.hand_back(&request, told.timestamp);
                    credits += 1;
                }
                RecvDescriptor::AccelRoom(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(credits as usize, BATCH, "a request each");
        let credit = SendDescriptor::ListenerCredit {
            rule: RULE,
            credits,
        };
        self.host.queues[0].send.post(&credit).expect("room");
        let _ = self.host.queues[0].publish();
    }

    fn hand_back(&mut self, request: &Parsed, value: u32) {
        let tcp = &request.tcp;
        let teardown = Teardown {
            ticket: 0,
            flow: request.flow.reversed(),
            hop: ROUTER,
            hop_limit: 64,
            peer_closed: false,
            snd_una: tcp.ack,
            snd_nxt: tcp.ack,
            rcv_nxt: tcp.seq + REQUEST as u32,
            peer_window: 1 << 20,
            peer_shift: 7,
            our_shift: 9,
            window: 128,
            mss: 1448,
            timestamps: tcp.options.timestamps.map(|timestamps| TimestampState {
                recent: timestamps.val,
                value,
            }),
            rto_us: 200_000,
            retransmits: 0,
            time_wait_ms: 60_000,
            fin_wait2_ms: 60_000,
        };
        let payload = [Slice {
            offset: BUFFERS * u64::from(BUFFER),
            len: RESPONSE,
            region: self.region,
        }];
        let descriptor = SendDescriptor::Teardown {
            teardown: &teardown,
            payload: &payload,
        };
        self.host.queues[0]
            .send
            .post(&descriptor)
            .expect("room in the ring");
    }

    fn give(&mut self, offset: u64) {
        let buffer = Slice {
            offset,
            len: BUFFER,
            region: self.region,
        };
        assert!(self.host.queues[0].small.push(buffer));
    }

    fn frames_for(&mut self, first: u32, of: impl Fn(u32, usize) -> (Header, usize)) {
        for (at, frame) in self.frames.iter_mut().enumerate() {
            let n = first + at as u32;
            let (mut header, payload) = of(n, at);
            if let Some(timestamps) = &mut header.options.timestamps {
                timestamps.val = 7 + (self.now - self.start).as_millis() as u32;
            }
            write(frame, &flow(n), &header, payload);
        }
    }

    /// A batch of the frames prepared.
    fn exchange(&mut self, timing: &mut Timing) {
        let frames = std::mem::take(&mut self.frames);
        self.exchange_with(timing, &frames);
        self.frames = frames;
    }

    fn exchange_with(&mut self, timing: &mut Timing, frames: &[Vec<u8>]) {
        let (nic, out, now) = (&mut self.nic, &mut self.out, self.now);
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

    fn drain(&mut self) {
        self.exchange_with(&mut Timing::default(), &[]);
        while self.host.queues[0].recv.pop().is_some() {}
        let _ = self.host.queues[0].publish();
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
    }
}

fn write(frame: &mut Vec<u8>, flow: &FlowKey, header: &Header, payload: usize) {
    frame.clear();
    frame.resize(MAX_TCP_HEADERS_LEN, 0);
    let headers = packet::emit_tcp_headers(frame, ROUTER, OWN, flow, header, payload as u32, 64);
    frame.resize(headers, 0);
    frame.resize(headers + payload, 0xa5);
    let l4 = headers - header.len();
    ipv4::fill_checksum(&mut frame[ethernet::HEADER_LEN..l4]);
    tcp::fill_checksum(flow.src.0, flow.dst.0, &mut frame[l4..]);
}
