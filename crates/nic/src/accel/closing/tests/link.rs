//! The device on one side of a bad link, a full TCP on the other: the peer gets every byte and the end, and both are done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tcp::{CloseReason, Config, Connection, Event, State, reset_for};
use wire::packet::{Class, Parsed, classify};
use wire::tcp::Header;
use wire::{FlowKey, SeqNum};

use super::rig::{Rig, bytes, flow, frame_of, teardown_of};
use crate::accel::Handled;
use crate::config::{NicConfig, WireCapabilities};
use crate::ring::accel::Teardown;

#[derive(Clone, Debug)]
struct Setup {
    len: u32,
    /// Of these, sent by the host; of what was sent, so much is lost.
    sent: u32,
    sent_lost: bool,
    v6: bool,
    tso: bool,
    timestamps: bool,
    sack: bool,
    mss: u16,
    peer_buffer: u32,
    /// The peer's application reads so long after data comes.
    reads_after: Duration,
    peer: Peer,
    /// In 1/256.
    loss: u8,
    duplicate: u8,
    reorder: u8,
    seed: u64,
}

/// What the peer's application does beside reading.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Peer {
    /// Closes when it has read the end.
    Follows,
    /// Had closed before.
    WasFirst,
    /// Closes on its own.
    ClosesAfter(Duration),
    /// Sends more, which will not be read.
    SendsAfter(Duration),
}

fn setup() -> impl Strategy<Value = Setup> {
    let millis = |most: u64| (0..most).prop_map(Duration::from_millis);
    let peer = prop_oneof![
        3 => Just(Peer::Follows),
        2 => Just(Peer::WasFirst),
        2 => millis(1000).prop_map(Peer::ClosesAfter),
        1 => millis(300).prop_map(Peer::SendsAfter),
    ];
    let len = prop_oneof![Just(0u32), Just(64), 0u32..15_000];
    let buffer = prop_oneof![3 => Just(256u32 << 10), 1 => 2000u32..8000];
    let reads = prop_oneof![2 => Just(Duration::ZERO), 1 => millis(3000)];
    (
        (len, 0u32..3000, any::<bool>()),
        any::<[bool; 4]>(),
        prop_oneof![Just(1460u16), 300u16..1460],
        (buffer, reads, peer),
        (0u8..50, 0u8..50, 0u8..80, any::<u64>()),
    )
        .prop_map(|((len, sent, sent_lost), flags, mss, peer, link)| Setup {
            len,
            sent,
            sent_lost,
            v6: flags[0],
            tso: flags[1],
            timestamps: flags[2],
            sack: flags[3],
            mss,
            peer_buffer: peer.0,
            reads_after: peer.1,
            peer: peer.2,
            loss: link.0,
            duplicate: link.1,
            reorder: link.2,
            seed: link.3 | 1,
        })
}

/// A frame in flight: when it arrives, its number, whether it is for the peer, and its bytes.
type Flying = (Instant, u64, bool, Vec<u8>);

struct World {
    setup: Setup,
    rig: Rig,
    peer: Connection,
    /// From us to the peer.
    flow: FlowKey,
    frames: BinaryHeap<Reverse<Flying>>,
    count: u64,
    /// First byte that the device answers for, and what of the stream the peer has.
    start: SeqNum,
    stream: Vec<Option<u8>>,
    read_at: Option<Instant>,
    acts_at: Option<Instant>,
    peer_fin: bool,
    ended: Option<CloseReason>,
}

impl World {
    /// A connection whose host has sent part of what it has, and then closed.
    fn new(setup: Setup) -> World {
        let tso = setup.tso;
        let mut rig = Rig::with(
            NicConfig {
                wire: WireCapabilities { tso, checksum: tso },
                ..Rig::new().config
            },
            |_| {},
        );
        let config = |rcv_buf| Config {
            timestamps: setup.timestamps,
            sack: setup.sack,
            mss: setup.mss,
            rcv_buf,
            rcv_buf_max: rcv_buf,
            ..Config::default()
        };
        let flow = flow(1, setup.v6);
        let isn = SeqNum(setup.seed as u32);
        let mut host = Connection::connect(rig.now, &config(256 << 10), 80, 1, isn);
        let syn = host.poll_transmit(rig.now).expect("a SYN").header;
        let peer_isn = SeqNum((setup.seed >> 32) as u32);
        let mut peer = Connection::accept(rig.now, &config(setup.peer_buffer), &syn, peer_isn);
        rig.now += Duration::from_millis(20);
        let syn_ack = peer.poll_transmit(rig.now).expect("a SYN-ACK").header;
        host.handle_segment(rig.now, &syn_ack, 0, 1);
        let ack = host.poll_transmit(rig.now).expect("an ACK").header;
        peer.handle_segment(rig.now, &ack, 0, 1);
        if setup.peer == Peer::WasFirst {
            peer.close(rig.now);
            let fin = peer.poll_transmit(rig.now).expect("a FIN").header;
            host.handle_segment(rig.now, &fin, 0, 1);
            while host.poll_transmit(rig.now).is_some() {}
        }
        let start = host.snd_una();
        let mut world = World {
            flow,
            peer,
            frames: BinaryHeap::new(),
            count: 0,
            start,
            stream: vec![None; setup.len as usize],
            read_at: None,
            acts_at: None,
            peer_fin: false,
            ended: None,
            setup,
            rig,
        };
        world.hand_over(host);
        world
    }

    fn hand_over(&mut self, mut host: Connection) {
        let now = self.rig.now;
        let mss = u32::from(host.mss());
        let len = self.setup.len.min(Teardown::payload_limit(host.mss()));
        self.stream.truncate(len as usize);
        self.setup.sent = self.setup.sent.min(len);
        host.queue(now, self.setup.sent);
        while let Some(transmit) = host.poll_transmit(now) {
            if self.setup.sent_lost {
                continue;
            }
            for at in (0..transmit.payload).step_by(mss as usize) {
                let header = Header {
                    seq: transmit.header.seq + at,
                    ..transmit.header
                };
                let from = self.start.distance_to(header.seq) as usize;
                let to = from + (transmit.payload - at).min(mss) as usize;
                let data = bytes(len as usize)[from..to].to_vec();
                let frame = frame_of(&self.flow, &header, &data);
                self.launch(true, frame);
            }
        }
        host.queue(now, len - self.setup.sent);
        let closing = host.closing(now).expect("it may be handed over");
        let handed_over = Teardown {
            flow: self.flow,
            ..teardown_of(&closing)
        };
        self.rig
            .close(&handed_over, &bytes(len as usize))
            .expect("room");
        self.acts_at = match self.setup.peer {
            Peer::ClosesAfter(span) | Peer::SendsAfter(span) => Some(now + span),
            _ => None,
        };
    }

    fn random(&mut self) -> u8 {
        let seed = &mut self.setup.seed;
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed >> 32) as u8
    }

    fn launch(&mut self, to_peer: bool, frame: Vec<u8>) {
        if self.random() < self.setup.loss {
            return;
        }
        let copies = 1 + u64::from(self.random() < self.setup.duplicate);
        for _ in 0..copies {
            let mut delay = Duration::from_millis(10);
            if self.random() < self.setup.reorder {
                delay += Duration::from_micros(u64::from(self.random()) * 200);
            }
            self.count += 1;
            let arrival = (self.rig.now + delay, self.count, to_peer, frame.clone());
            self.frames.push(Reverse(arrival));
        }
    }

    /// Goes to the next event. False when no event is due.
    fn step(&mut self) -> bool {
        self.drain();
        let next = [
            self.frames.peek().map(|Reverse(frame)| frame.0),
            self.peer.poll_timeout(),
            self.rig.accel.poll_timeout(),
            self.read_at,
            self.acts_at,
        ];
        let Some(next) = next.into_iter().flatten().min() else {
            return false;
        };
        self.rig.now = self.rig.now.max(next);
        let now = self.rig.now;
        while self
            .frames
            .peek()
            .is_some_and(|Reverse(frame)| frame.0 <= now)
        {
            if let Some(Reverse((_, _, to_peer, frame))) = self.frames.pop() {
                match to_peer {
                    true => self.peer_gets(&frame),
                    false => self.device_gets(&frame),
                }
            }
        }
        self.peer.handle_timeout(now);
        self.rig.handle_time();
        if self.read_at.is_some_and(|at| at <= now) {
            self.read_at = None;
            self.peer.consumed(now, self.peer.unread());
        }
        if self.acts_at.is_some_and(|at| at <= now) {
            self.acts_at = None;
            match self.setup.peer {
                Peer::SendsAfter(_) => {
                    self.peer.queue(now, 100);
                }
                _ => self.peer.close(now),
            }
        }
        true
    }

    fn drain(&mut self) {
        let now = self.rig.now;
        while let Some(event) = self.peer.poll_event() {
            match event {
                Event::PeerFin => {
                    self.peer_fin = true;
                    self.peer.close(now);
                }
                Event::Closed(reason) => self.ended = Some(reason),
                _ => {}
            }
        }
        while let Some(transmit) = self.peer.poll_transmit(now) {
            let data = bytes(transmit.payload as usize);
            let frame = frame_of(&self.flow.reversed(), &transmit.header, &data);
            self.launch(false, frame);
        }
        while let Some((frame, _, _)) = self.rig.poll() {
            self.launch(true, frame);
        }
    }

    fn peer_gets(&mut self, frame: &[u8]) {
        let now = self.rig.now;
        let parsed = parsed(frame);
        if self.peer.state() == State::Closed {
            self.refuse(&parsed);
            return;
        }
        let packets = parsed
            .payload_len
            .div_ceil(u32::from(self.peer.mss()))
            .max(1);
        let received =
            self.peer
                .handle_segment(now, &parsed.tcp, parsed.payload_len, packets as u16);
        if let Some(data) = received.data {
            let from = self.start.distance_to(data.seq) as usize;
            let skip = data.skip as usize;
            let payload = &parsed.payload(frame)[skip..skip + data.len as usize];
            for (place, byte) in self.stream[from..].iter_mut().zip(payload) {
                *place = Some(*byte);
            }
        }
        if received.advanced && self.read_at.is_none() {
            self.read_at = Some(now + self.setup.reads_after);
        }
    }

    fn device_gets(&mut self, frame: &[u8]) {
        if self.rig.deliver(frame) == Handled::Pass(None) {
            // The host knows no such connection.
            self.refuse(&parsed(frame));
        }
    }

    fn refuse(&mut self, segment: &Parsed) {
        if let Some(reset) = reset_for(&segment.tcp, segment.payload_len) {
            let flow = segment.flow.reversed();
            self.launch(flow == self.flow, frame_of(&flow, &reset, &[]));
        }
    }
}

fn parsed(frame: &[u8]) -> Parsed {
    match classify(frame) {
        Class::Tcp(parsed) => parsed,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_peer_gets_every_byte_and_the_end(setup in setup()) {
        let mut world = World::new(setup.clone());
        let start = world.rig.now;
        let mut steps = 0;
        while world.step() {
            steps += 1;
            prop_assert!(steps < 20_000, "it never ends");
        }
        // Nothing is left, and it took its time only where it had to.
        prop_assert_eq!(world.rig.closing(), 0);
        prop_assert_eq!(world.rig.room(), Rig::new().room());
        prop_assert_eq!(world.peer.state(), State::Closed);
        prop_assert!(world.rig.now - start < Duration::from_secs(2000));
        let there = world.stream.iter().enumerate();
        for (at, byte) in there.filter_map(|(at, byte)| Some((at, (*byte)?))) {
            prop_assert_eq!(byte, (at % 251) as u8);
        }
        let given_up = world.rig.counters().accel_closing_aborted > 0;
        if !given_up {
            prop_assert!(world.stream.iter().all(Option::is_some));
            prop_assert!(world.peer_fin);
            prop_assert_eq!(world.ended, Some(CloseReason::Graceful));
        } else if setup.loss == 0 {
            prop_assert!(matches!(setup.peer, Peer::SendsAfter(_)));
        }
    }
}
