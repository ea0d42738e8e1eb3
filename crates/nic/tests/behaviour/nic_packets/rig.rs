//! A NIC with connections that it runs or is about to run, their host, and segments of peers written by hand.

use nic::ring::toe::{ToeCommand, ToeEvent, ToeId};
use nic::ring::{Packet, RecvDescriptor, SendDescriptor, SendFlags};
use nic::{Counters, NicConfig, ToeConfig};
use tcp::Config;
use testkit::bare::{self, function_config, nic_config};
use testkit::fixtures;
use testkit::frames::{ack, from_peer, headers};
use testkit::toe::{self, established, image};
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

/// First positions: data begin one behind.
const OURS: SeqNum = SeqNum(1000);
const THEIRS: SeqNum = SeqNum(5000);

pub struct Rig(pub bare::Rig);

/// What the host finds on its receive ring.
#[derive(Clone, Debug, PartialEq)]
pub enum Reported {
    Event(ToeEvent),
    /// A segment: its port at the peer, its position in the peer's stream, and its payload.
    Segment(u16, u32, Vec<u8>),
    Reset(u32),
}

/// From the peer to us.
fn flow(port: u16) -> FlowKey {
    fixtures::flow(port).reversed()
}

impl Rig {
    pub fn new(toe: ToeConfig, buffers: u32) -> Rig {
        let nic = NicConfig {
            toe,
            ..nic_config()
        };
        let mut rig = bare::Rig::new(nic, function_config());
        rig.host.fill(buffers as usize, 0);
        Rig(rig)
    }

    pub fn counters(&self) -> Counters {
        self.0.nic.counters()
    }

    /// What the peer at this port sends at a position of its stream.
    pub fn segment(&mut self, port: u16, at: u32, payload: &[u8]) {
        self.segment_with(port, at, payload, Flags::ACK | Flags::PSH);
    }

    pub fn segment_with(&mut self, port: u16, at: u32, payload: &[u8], flags: Flags) {
        let header = Header {
            ack: OURS + 1,
            flags,
            window: 60_000,
            ..ack(&flow(port), THEIRS + 1 + at)
        };
        let frame = from_peer(&flow(port), &header, payload);
        self.0.receive_unchecked(&frame);
    }

    /// A frame of the host's own.
    pub fn post_frame(&mut self, port: u16) {
        let flow = fixtures::flow(port);
        let header = headers(
            fixtures::HOST,
            fixtures::PEER,
            &flow,
            &ack(&flow, SeqNum(0)),
        );
        self.0.post(&SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::CHECKSUM,
            payload: &[],
        });
    }

    pub fn command(&mut self, command: ToeCommand<'_>) {
        self.0.host.command(0, command);
    }

    pub fn publish(&mut self) {
        self.0.host.publish();
    }

    pub fn begin(&mut self, port: u16) {
        let flow = fixtures::flow(port);
        self.0.host.begin(0, toe(port), flow);
    }

    pub fn offer(&mut self, port: u16) {
        let (flow, now) = (fixtures::flow(port), self.0.now);
        let config = Config {
            timestamps: false,
            ..Config::default()
        };
        let [host, _] = established(now, &config, &flow, OURS, THEIRS);
        self.0.host.offer(0, toe(port), flow, &image(now, &host));
    }

    /// Hands a connection off.
    pub fn hand_off(&mut self, port: u16) {
        self.begin(port);
        self.run();
        assert!(self.reported().contains(&ready(port)));
        self.offer(port);
        self.run();
        let accepted = ToeEvent::Accepted { toe: toe(port) };
        assert!(self.reported().contains(&Reported::Event(accepted)));
    }

    /// One turn; gives the frames that were sent.
    pub fn turn(&mut self) -> usize {
        let mut out = [0; 2048];
        self.0.nic.flush(self.0.now);
        let mut sent = 0;
        while self.0.nic.poll_transmit(self.0.now, &mut out).is_some() {
            sent += 1;
        }
        sent
    }

    /// Turns until the NIC has nothing more to do now.
    pub fn run(&mut self) -> usize {
        let mut sent = self.turn();
        self.0.nic.flush(self.0.now);
        while self
            .0
            .nic
            .poll_timeout()
            .is_some_and(|when| when <= self.0.now)
        {
            sent += self.turn();
            self.0.nic.flush(self.0.now);
        }
        sent
    }

    /// What was reported to the host, in order. Buffers go back.
    pub fn reported(&mut self) -> Vec<Reported> {
        let mut reported = Vec::new();
        while let Some(descriptor) = self.0.host.pop(0) {
            reported.push(match descriptor {
                RecvDescriptor::Packet(packet) => self.take(&packet),
                RecvDescriptor::Toe(event) => Reported::Event(event),
                RecvDescriptor::Reset { epoch } => Reported::Reset(epoch),
                other => panic!("{other:?}"),
            });
        }
        self.publish();
        reported
    }

    fn take(&mut self, packet: &Packet) -> Reported {
        let taken = self.0.host.read(RecvDescriptor::Packet(*packet));
        let delivered = taken.expect("a packet");
        self.0.host.fill(1, 0);
        let parsed = delivered.parsed();
        assert!(packet.segments > 1 || parsed.verify_checksums(&delivered.bytes));
        let at = (THEIRS + 1).distance_to(parsed.tcp.seq);
        let port = parsed.flow.src.1;
        Reported::Segment(port, at, parsed.payload(&delivered.bytes).to_vec())
    }
}

pub fn ready(port: u16) -> Reported {
    Reported::Event(ToeEvent::Ready { toe: toe(port) })
}

/// The connection with the peer at this port.
pub fn toe(port: u16) -> ToeId {
    toe::toe(port.into())
}
