//! Connections with peers that ask, and a host that answers.

use std::sync::Arc;
use std::time::Instant;

use nic::ring::toe::{TCB_IMAGE_BYTES, TcbImage, ToeCommand, ToeEvent, ToeId, ToeOffer};
use nic::ring::{
    FunctionConfig, HostFunction, RecvDescriptor, Region, RegionId, SendDescriptor, SendFlags,
    Slice, function,
};
use nic::{FrameMeta, Nic, NicConfig, ToeConfig};
use tcp::{Config, Connection};
use wire::ethernet::{self, MacAddr};
use wire::packet::{MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::tcp::{self as header, Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum, ipv4};

use crate::timing::Timing;

/// Requests, and responses, of a batch.
pub const BATCH: usize = 64;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const BYTES: u32 = 64;
const SMALLS: u64 = 1024;
const SMALL: u64 = 2048;
const TCB_AT: u64 = SMALLS * SMALL;
const RESPONSE_AT: u64 = TCB_AT + TCB_IMAGE_BYTES as u64;
/// First positions.
const OURS: SeqNum = SeqNum(1000);
const THEIRS: SeqNum = SeqNum(5000);

/// A NIC that runs connections.
pub struct Connections {
    nic: Nic,
    host: HostFunction,
    region: Arc<Region>,
    id: RegionId,
    now: Instant,
    count: u32,
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

fn frame(out: &mut Vec<u8>, flow: &FlowKey, tcp: &Header, payload: u32) {
    out.clear();
    out.resize(MAX_TCP_HEADERS_LEN + payload as usize, 7);
    let len = emit_tcp_headers(out, PEER, OWN, flow, tcp, payload, 64);
    out.truncate(len + payload as usize);
    let l4 = len - tcp.len();
    ipv4::fill_checksum(&mut out[ethernet::HEADER_LEN..l4]);
    header::fill_checksum(flow.src.0, flow.dst.0, &mut out[l4..]);
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
            ..NicConfig::new([9; 16])
        };
        let mut nic = Nic::new(config);
        let (mut host, device) = function(FunctionConfig::new(OWN));
        nic.attach(device).expect("a free address");
        let region = Arc::new(Region::anonymous(RESPONSE_AT as usize + BYTES as usize));
        let id = host.register(Arc::clone(&region)).expect("a free id");
        for n in 0..SMALLS {
            let buffer = Slice {
                offset: n * SMALL,
                len: SMALL as u32,
                region: id,
            };
            assert!(host.queues[0].small.push(buffer));
        }
        let mut connections = Connections {
            nic,
            host,
            region,
            id,
            now: Instant::now(),
            count,
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
            let (nic, out, now) = (&mut self.nic, &mut self.out, self.now);
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

    fn command(&mut self, command: ToeCommand<'_>) {
        let commands = &mut self.host.queues[0].commands;
        commands
            .post(&SendDescriptor::Toe(command))
            .expect("room in the ring");
    }

    fn poll(&mut self) {
        let _ = self.host.queues[0].publish();
        self.nic.flush(self.now);
        while self.nic.poll_transmit(self.now, &mut self.out).is_some() {}
        self.nic.flush(self.now);
    }

    fn hand_off(&mut self, number: u32) {
        let flow = flow(number);
        let toe = ToeId {
            index: number,
            generation: 1,
        };
        let begin = ToeCommand::Begin {
            toe,
            flow: flow.reversed(),
        };
        self.command(begin);
        self.poll();
        let image = TcbImage {
            tcb: established(self.now, &flow)
                .tcb(self.now)
                .expect("established"),
            config: Config::default(),
            cork: false,
        };
        let mut bytes = [0; TCB_IMAGE_BYTES];
        image.encode(&mut bytes).expect("nothing is held");
        assert!(self.region.write(TCB_AT, &bytes));
        self.command(ToeCommand::Offer(&ToeOffer {
            toe,
            flow: flow.reversed(),
            hop: PEER,
            hop_limit: 64,
            tcb: Slice {
                offset: TCB_AT,
                len: TCB_IMAGE_BYTES as u32,
                region: self.id,
            },
        }));
        self.poll();
        let mut accepted = false;
        while let Some(told) = self.host.queues[0].recv.pop() {
            accepted |= told == RecvDescriptor::Toe(ToeEvent::Accepted { toe });
        }
        assert!(accepted);
    }

    /// The next requests, from peers of other connections for those of the host.
    fn prepare(&mut self, others: u32) {
        let (count, next, sent) = (self.count, self.next, self.round * BYTES);
        for (n, out) in (0..).zip(&mut self.frames) {
            let flow = flow(others + (next + n) % count);
            let tcp = Header {
                src_port: flow.src.1,
                dst_port: flow.dst.1,
                seq: THEIRS + 1 + sent,
                ack: OURS + 1 + sent,
                flags: Flags::ACK | Flags::PSH,
                window: 60_000,
                options: Options {
                    timestamps: Some(Timestamps {
                        val: 1 + self.round,
                        echo: 0,
                    }),
                    ..Options::default()
                },
            };
            frame(out, &flow, &tcp, BYTES);
        }
    }

    fn frames_in(&mut self, timing: &mut Timing) {
        let (nic, frames, out, now) = (&mut self.nic, &self.frames, &mut self.out, self.now);
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
        let queue = &mut self.host.queues[0];
        while let Some(told) = queue.recv.pop() {
            match told {
                RecvDescriptor::Packet(packet) => {
                    let offset = packet.buffer.offset;
                    let whole = Slice {
                        offset: offset - offset % SMALL,
                        len: SMALL as u32,
                        region: packet.buffer.region,
                    };
                    assert!(queue.small.push(whole));
                }
                RecvDescriptor::Toe(ToeEvent::Delivered { len, .. }) => {
                    assert_eq!(len, BYTES);
                    delivered += 1;
                }
                _ => {}
            }
        }
        let _ = queue.publish();
        delivered
    }

    fn answer(&mut self, first: u32) {
        let sent = self.round * BYTES;
        let payload = [Slice {
            offset: RESPONSE_AT,
            len: BYTES,
            region: self.id,
        }];
        for n in 0..BATCH as u32 {
            let toe = ToeId {
                index: (first + n) % self.count,
                generation: 1,
            };
            self.command(ToeCommand::Consumed { toe, bytes: BYTES });
            self.command(ToeCommand::Send {
                toe,
                seq: OURS + 1 + sent,
                context: None,
                flags: SendFlags::NONE,
                payload: &payload,
            });
        }
        let _ = self.host.queues[0].publish();
    }
}

/// A connection that a peer has opened.
fn established(now: Instant, flow: &FlowKey) -> Connection {
    let syn = Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq: THEIRS,
        flags: Flags::SYN,
        window: 60_000,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: 1, echo: 0 }),
            ..Options::default()
        },
        ..Header::default()
    };
    let mut connection = Connection::accept(now, &Config::default(), &syn, OURS);
    assert!(connection.poll_transmit(now).is_some());
    let ack = Header {
        seq: THEIRS + 1,
        ack: OURS + 1,
        flags: Flags::ACK,
        options: Options {
            timestamps: Some(Timestamps { val: 1, echo: 0 }),
            ..Options::default()
        },
        ..syn
    };
    connection.handle_segment(now, &ack, 0, 1);
    connection
}
