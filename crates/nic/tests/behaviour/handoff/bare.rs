//! Hosts that do no more than post: functions of one device, with connections whose peers a test speaks for.

use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

use nic::ring::toe::{ToeCommand, ToeEvent};
use nic::ring::{ContextId, FunctionConfig, RecvDescriptor, SendDescriptor, SendFlags, Slice};
use nic::{FrameMeta, Nic};
use tcp::Config;
use testkit::bare::{BareHost, drain};
use testkit::fixtures::PEER;
pub use testkit::toe::toe;
use testkit::{frames, toe as connections};
use wire::ethernet::MacAddr;
use wire::tcp::Header;
use wire::{FlowKey, SeqNum};

/// First positions of the hosts' streams, and of their peers'.
pub const OURS: SeqNum = SeqNum(1001);
pub const THEIRS: SeqNum = SeqNum(5001);

/// A host. Its connections are named by their index on the device, which is their peer's port too.
pub struct Bare(pub BareHost);

impl Deref for Bare {
    type Target = BareHost;

    fn deref(&self) -> &BareHost {
        &self.0
    }
}

impl DerefMut for Bare {
    fn deref_mut(&mut self) -> &mut BareHost {
        &mut self.0
    }
}

impl Bare {
    /// The device's host of this number.
    pub fn attach(nic: &mut Nic, number: u8, change: impl FnOnce(&mut FunctionConfig)) -> Bare {
        let mut config = FunctionConfig {
            small_entries: 64,
            large_entries: 4,
            toe_connections: 64,
            ..FunctionConfig::new(MacAddr([2, 0, 0, 0, 1, number]))
        };
        change(&mut config);
        let mut host = BareHost::attach(nic, config);
        host.fill(usize::MAX, 0);
        Bare(host)
    }

    /// From us to the peer.
    pub fn flow(&self, index: u32) -> FlowKey {
        let number = self.config.mac.0[5];
        FlowKey {
            src: (Ipv4Addr::new(10, 0, 0, number).into(), 80),
            dst: (Ipv4Addr::new(10, 0, 1, 1).into(), 1000 + index as u16),
        }
    }

    /// So many bytes of its memory.
    pub fn slice(&self, len: u32) -> Slice {
        self.memory.slice(0, len)
    }

    pub fn post(&mut self, queue: usize, descriptor: &SendDescriptor<'_>) {
        let queue = &mut self.queues[queue];
        queue.commands.post(descriptor).expect("room for a command");
        let _ = queue.publish();
    }

    pub fn begin(&mut self, queue: usize, index: u32) {
        let flow = self.flow(index);
        self.0.begin(queue, toe(index), flow);
    }

    pub fn offer(&mut self, queue: usize, index: u32) {
        let (flow, now) = (self.flow(index), Instant::now());
        let config = Config {
            timestamps: false,
            ..Config::default()
        };
        let [host, _] = connections::established(now, &config, &flow, OURS - 1, THEIRS - 1);
        let image = connections::image(now, &host);
        self.0.offer(queue, toe(index), flow, &image);
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
        self.memory.write(0, &[23, 3, 3, high, low]);
    }

    /// Sends so many bytes of its memory by itself, as a segment of its first connection.
    pub fn post_segment(&mut self, context: ContextId, seq: SeqNum, len: u32) {
        let flow = self.flow(0);
        let tcp = Header {
            ack: THEIRS,
            ..frames::ack(&flow, seq)
        };
        let header = frames::headers(self.config.mac, PEER, &flow, &tcp);
        let payload = [self.slice(len)];
        let descriptor = SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: Some(context),
            flags: SendFlags::CHECKSUM,
            payload: &payload,
        };
        self.0.post(&descriptor);
        self.publish();
    }

    /// A segment of the peer's.
    pub fn segment(&self, index: u32, seq: SeqNum, payload: &[u8]) -> Vec<u8> {
        let flow = self.flow(index).reversed();
        let header = Header {
            ack: OURS,
            window: 60_000,
            ..frames::ack(&flow, seq)
        };
        frames::frame(PEER, self.config.mac, &flow, &header, payload)
    }

    /// What a receive ring has.
    pub fn received(&mut self, queue: usize) -> Vec<RecvDescriptor> {
        let received = std::iter::from_fn(|| self.pop(queue)).collect();
        self.publish();
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
    let frames = drain(nic, now);
    nic.flush(now);
    frames.into_iter().map(|(frame, _)| frame).collect()
}

pub fn receive(nic: &mut Nic, now: Instant, frame: &[u8]) {
    nic.handle_frame(now, frame, FrameMeta::default());
}
