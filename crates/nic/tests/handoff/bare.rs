//! Hosts that do no more than post: functions of one device, with connections whose peers a test speaks for.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use nic::ring::toe::{TCB_IMAGE_BYTES, TcbImage, ToeCommand, ToeEvent, ToeId, ToeOffer};
use nic::ring::{
    ContextId, FunctionConfig, HostFunction, RecvDescriptor, Region, RegionId, SendDescriptor,
    SendFlags, Slice, function,
};
use nic::{FrameMeta, FunctionId, Nic};
use tcp::{Config, Connection};
use wire::ethernet::MacAddr;
use wire::packet::emit_tcp_headers;
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

use crate::world::{PEER_MAC, frame_to};

const MEMORY: u64 = 1 << 20;
const IMAGES_AT: u64 = MEMORY / 2;
const SMALL: u32 = 2048;
/// First positions of the hosts' streams, and of their peers'.
pub const OURS: SeqNum = SeqNum(1001);
pub const THEIRS: SeqNum = SeqNum(5001);

/// A host. Its connections are named by their index on the device, which is their peer's port too.
pub struct Bare {
    pub function: HostFunction,
    pub id: FunctionId,
    region: Arc<Region>,
    memory: RegionId,
    mac: MacAddr,
    number: u8,
}

pub fn toe(index: u32) -> ToeId {
    ToeId {
        index,
        generation: 1,
    }
}

impl Bare {
    /// The device's host of this number.
    pub fn attach(nic: &mut Nic, number: u8, change: impl FnOnce(&mut FunctionConfig)) -> Bare {
        let mac = MacAddr([2, 0, 0, 0, 1, number]);
        let mut config = FunctionConfig {
            small_entries: 64,
            large_entries: 4,
            toe_connections: 64,
            ..FunctionConfig::new(mac)
        };
        change(&mut config);
        let (mut function, device) = function(config);
        let id = nic.attach(device).expect("a free address");
        let region = Arc::new(Region::anonymous(MEMORY as usize));
        let memory = function.register(Arc::clone(&region)).expect("a free id");
        let queues = function.queues.len() as u64;
        for (at, queue) in function.queues.iter_mut().enumerate() {
            for n in 0..config.small_entries.into() {
                let offset = u64::from(SMALL) * (n * queues + at as u64);
                assert!(
                    offset < IMAGES_AT
                        && queue.small.push(Slice {
                            offset,
                            len: SMALL,
                            region: memory,
                        })
                );
            }
            let _ = queue.publish();
        }
        Bare {
            function,
            id,
            region,
            memory,
            mac,
            number,
        }
    }

    /// From us to the peer.
    pub fn flow(&self, index: u32) -> FlowKey {
        FlowKey {
            src: (Ipv4Addr::new(10, 0, 0, self.number).into(), 80),
            dst: (Ipv4Addr::new(10, 0, 1, 1).into(), 1000 + index as u16),
        }
    }

    /// So many bytes of its memory.
    pub fn slice(&self, len: u32) -> Slice {
        Slice {
            offset: 0,
            len,
            region: self.memory,
        }
    }

    pub fn post(&mut self, queue: usize, descriptor: &SendDescriptor<'_>) {
        let queue = &mut self.function.queues[queue];
        queue.commands.post(descriptor).expect("room for a command");
        let _ = queue.publish();
    }

    pub fn command(&mut self, queue: usize, command: ToeCommand<'_>) {
        self.post(queue, &SendDescriptor::Toe(command));
    }

    pub fn begin(&mut self, queue: usize, index: u32) {
        let (toe, flow) = (toe(index), self.flow(index));
        self.command(queue, ToeCommand::Begin { toe, flow });
    }

    pub fn offer(&mut self, queue: usize, index: u32) {
        let offset = IMAGES_AT + u64::from(index) * TCB_IMAGE_BYTES as u64;
        let flow = self.flow(index);
        assert!(self.region.write(offset, &image(&flow)));
        let tcb = Slice {
            offset,
            len: TCB_IMAGE_BYTES as u32,
            region: self.memory,
        };
        let offer = ToeOffer {
            toe: toe(index),
            flow,
            hop: PEER_MAC,
            hop_limit: 64,
            tcb,
        };
        self.command(queue, ToeCommand::Offer(&offer));
    }

    /// Has the device run a connection.
    pub fn hand_off(&mut self, nic: &mut Nic, now: Instant, index: u32) {
        self.begin(0, index);
        run(nic, now);
        self.offer(0, index);
        run(nic, now);
        let accepted = ToeEvent::Accepted { toe: toe(index) };
        assert!(self.events().contains(&accepted));
    }

    /// Has it send bytes from `seq` on.
    pub fn send(&mut self, index: u32, seq: SeqNum, len: u32) {
        let slice = self.slice(len);
        self.command(
            0,
            ToeCommand::Send {
                toe: toe(index),
                seq,
                context: None,
                flags: SendFlags::NONE,
                payload: &[slice],
            },
        );
    }

    /// Frames a TLS record of so many bytes at the beginning of its memory.
    pub fn write_record(&self, len: u32) {
        let [_, _, high, low] = (len - 5).to_be_bytes();
        assert!(self.region.write(0, &[23, 3, 3, high, low]));
    }

    /// Sends so many bytes of its memory by itself, as a segment of its first connection.
    pub fn post_segment(&mut self, context: ContextId, seq: SeqNum, len: u32) {
        let flow = self.flow(0);
        let tcp = Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq,
            ack: THEIRS,
            flags: Flags::ACK,
            window: 1000,
            ..Header::default()
        };
        let mut header = [0; 128];
        let header_len = emit_tcp_headers(&mut header, self.mac, PEER_MAC, &flow, &tcp, len, 64);
        let payload = [self.slice(len)];
        let descriptor = SendDescriptor::Send {
            header: &header[..header_len],
            mss: 0,
            context: Some(context),
            flags: SendFlags::CHECKSUM,
            payload: &payload,
        };
        let queue = &mut self.function.queues[0];
        queue.send.post(&descriptor).expect("room");
        let _ = queue.publish();
    }

    /// A segment of the peer's.
    pub fn segment(&self, index: u32, seq: SeqNum, payload: &[u8]) -> Vec<u8> {
        let flow = self.flow(index).reversed();
        let header = Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq,
            ack: OURS,
            flags: Flags::ACK,
            window: 60_000,
            ..Header::default()
        };
        frame_to(self.mac, &flow, &header, payload)
    }

    /// What a receive ring has.
    pub fn received(&mut self, queue: usize) -> Vec<RecvDescriptor> {
        let queue = &mut self.function.queues[queue];
        let received = std::iter::from_fn(|| queue.recv.pop()).collect();
        let _ = queue.publish();
        received
    }

    /// What the device says of connections on the first receive ring, but for the room it has.
    pub fn events(&mut self) -> Vec<ToeEvent> {
        let events = self.received(0).into_iter();
        let events = events.filter_map(|descriptor| match descriptor {
            RecvDescriptor::Toe(ToeEvent::Room { .. }) => None,
            RecvDescriptor::Toe(event) => Some(event),
            _ => None,
        });
        events.collect()
    }

    /// Fills a receive ring with answers to nonsense.
    pub fn fill(&mut self, nic: &mut Nic, now: Instant, queue: usize) {
        let nothing = Slice {
            len: 0,
            ..self.slice(0)
        };
        loop {
            let before = nic.counters().toe_bad_commands;
            self.command(
                queue,
                ToeCommand::Send {
                    toe: toe(0),
                    seq: OURS,
                    context: None,
                    flags: SendFlags::NONE,
                    payload: &[nothing],
                },
            );
            run(nic, now);
            if nic.counters().toe_bad_commands == before {
                return;
            }
        }
    }
}

/// The device does all that it can; what it sends is given back.
pub fn run(nic: &mut Nic, now: Instant) -> Vec<Vec<u8>> {
    let mut out = vec![0; 2000];
    let mut frames = Vec::new();
    while let Some((len, _)) = nic.poll_transmit(now, &mut out) {
        frames.push(out[..len].to_vec());
    }
    nic.flush(now);
    frames
}

pub fn receive(nic: &mut Nic, now: Instant, frame: &[u8]) {
    nic.handle_frame(now, frame, FrameMeta::default());
}

/// A control block of a connection that has just been established.
fn image(flow: &FlowKey) -> [u8; TCB_IMAGE_BYTES] {
    let now = Instant::now();
    let config = Config {
        timestamps: false,
        ..Config::default()
    };
    let (ours, theirs) = (OURS - 1, THEIRS - 1);
    let mut peer = Connection::connect(now, &config, flow.dst.1, flow.src.1, theirs);
    let syn = peer.poll_transmit(now).expect("a SYN").header;
    let mut connection = Connection::accept(now, &config, &syn, ours);
    let syn_ack = connection.poll_transmit(now).expect("a SYN-ACK").header;
    peer.handle_segment(now, &syn_ack, 0, 1);
    let ack = peer.poll_transmit(now).expect("an ACK").header;
    connection.handle_segment(now, &ack, 0, 1);
    let image = TcbImage {
        tcb: connection.tcb(now).expect("it is established"),
        config: connection.config(),
        cork: false,
    };
    let mut bytes = [0; TCB_IMAGE_BYTES];
    image.encode(&mut bytes).expect("nothing out of order");
    bytes
}
