//! A peer of the host's: one connection, and bytes that its position in the stream tells.

use std::rc::Rc;
use std::time::Instant;

use tcp::{CloseReason, Config, Connection, Event, State};
use testkit::frames::frame;
use wire::ethernet::MacAddr;
use wire::packet::{self, Class, Parsed};
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

/// What a peer is to send, and when it closes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Bytes of each of its messages; the next one goes when `answers` of the other side's bytes have come for each before it.
    pub message: u32,
    pub messages: u32,
    pub answers: u32,
    /// It answers: the first message waits for `answers` bytes too.
    pub responds: bool,
    /// Closes its direction after its last message; else when the other side has closed its own.
    pub closes_first: bool,
    /// When it closes first: not before so many bytes have come.
    pub closes_at: u32,
}

/// The bytes of a direction.
#[derive(Clone, Debug)]
pub enum Bytes {
    /// Each tells its position; another number, other bytes.
    Counted(u8),
    /// These, and no more.
    Given(Rc<[u8]>),
}

impl Bytes {
    fn at(&self, position: u32) -> u8 {
        match self {
            Bytes::Counted(seed) => byte(*seed, position),
            Bytes::Given(bytes) => bytes[position as usize],
        }
    }
}

pub struct Peer {
    pub connection: Connection,
    pub mac: MacAddr,
    /// From the peer to the host.
    pub flow: FlowKey,
    /// What it sends, and what it must get.
    streams: [Bytes; 2],
    plan: Plan,
    sent_messages: u32,
    iss: SeqNum,
    /// Where the other side's stream begins, once it is known.
    irs: Option<SeqNum>,
    pub received: u32,
    pub saw_fin: bool,
    closed: bool,
    pub ended: Option<CloseReason>,
    pub resent: u32,
}

pub fn config() -> Config {
    Config {
        mss: 1460,
        delayed_ack: None,
        nagle: false,
        rcv_buf: 64 << 10,
        rcv_buf_max: 64 << 10,
        ..Config::default()
    }
}

fn byte(seed: u8, position: u32) -> u8 {
    (position.wrapping_mul(0x9e37_79b1) >> 24) as u8 ^ seed
}

impl Peer {
    fn new(
        connection: Connection,
        mac: MacAddr,
        flow: FlowKey,
        streams: [Bytes; 2],
        plan: Plan,
        iss: SeqNum,
    ) -> Self {
        Self {
            connection,
            mac,
            flow,
            streams,
            plan,
            sent_messages: 0,
            iss,
            irs: None,
            received: 0,
            saw_fin: false,
            closed: false,
            ended: None,
            resent: 0,
        }
    }

    /// Connects to the host.
    pub fn connecting(
        now: Instant,
        mac: MacAddr,
        flow: FlowKey,
        streams: [Bytes; 2],
        plan: Plan,
    ) -> Self {
        let iss = SeqNum(u32::MAX - 500);
        let connection = Connection::connect(now, &config(), flow.src.1, flow.dst.1, iss);
        Self::new(connection, mac, flow, streams, plan, iss)
    }

    /// Is connected to by the host.
    pub fn accepting(
        now: Instant,
        mac: MacAddr,
        syn: &Parsed,
        streams: [Bytes; 2],
        plan: Plan,
    ) -> Self {
        let iss = SeqNum(7_000);
        let connection = Connection::accept(now, &config(), &syn.tcp, iss);
        let mut peer = Self::new(connection, mac, syn.flow.reversed(), streams, plan, iss);
        peer.irs = Some(syn.tcp.seq);
        peer
    }

    pub fn state(&self) -> State {
        self.connection.state()
    }

    pub fn is_over(&self) -> bool {
        matches!(self.state(), State::Closed | State::TimeWait)
    }

    /// Takes a frame for it.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) {
        let Class::Tcp(parsed) = packet::classify(frame) else {
            panic!("not TCP");
        };
        assert!(parsed.verify_checksums(frame), "checksums are right");
        assert_eq!(parsed.flow, self.flow.reversed());
        if parsed.tcp.flags.contains(Flags::SYN) {
            self.irs.get_or_insert(parsed.tcp.seq);
        }
        let len = parsed.payload_len;
        let received = self.connection.handle_segment(now, &parsed.tcp, len, 1);
        self.connection.assert_invariants();
        if let (Some(data), Some(irs)) = (received.data, self.irs) {
            let payload = &frame[parsed.payload_offset..][..len as usize];
            let first = (irs + 1).distance_to(data.seq);
            for at in 0..data.len {
                let got = payload[(data.skip + at) as usize];
                let expected = self.streams[1].at(first + at);
                assert_eq!(got, expected, "byte {}", first + at);
            }
        }
        let unread = self.connection.unread();
        self.received += unread;
        self.connection.consumed(now, unread);
        self.run(now);
    }

    /// What the application does.
    pub fn run(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::PeerFin => self.saw_fin = true,
                Event::Closed(reason) => self.ended = Some(reason),
                _ => {}
            }
        }
        if !matches!(self.state(), State::Established | State::CloseWait) {
            return;
        }
        while self.sent_messages < self.plan.messages
            && self.received
                >= (self.sent_messages + u32::from(self.plan.responds)) * self.plan.answers
        {
            self.sent_messages += 1;
            assert_eq!(
                self.connection.queue(now, self.plan.message),
                self.plan.message
            );
        }
        let is_done = self.sent_messages == self.plan.messages;
        let may_close = self.plan.closes_first && self.received >= self.plan.closes_at;
        if is_done && !self.closed && (may_close || self.saw_fin) {
            self.closed = true;
            self.connection.close(now);
        }
    }

    /// The next frame that it sends.
    pub fn transmit(&mut self, now: Instant, host: MacAddr) -> Option<Vec<u8>> {
        let transmit = self.connection.poll_transmit(now)?;
        self.resent += u32::from(transmit.retransmit);
        assert!(
            transmit.payload <= u32::from(transmit.mss),
            "messages fit in a packet"
        );
        let first = (self.iss + 1).distance_to(transmit.header.seq);
        let payload = (0..transmit.payload).map(|at| self.streams[0].at(first.wrapping_add(at)));
        let payload: Vec<u8> = payload.collect();
        Some(frame(
            self.mac,
            host,
            &self.flow,
            &transmit.header,
            &payload,
        ))
    }

    pub fn sent(&self) -> u32 {
        self.plan.message * self.plan.messages
    }
}

/// What the host sends as the counterpart of a peer whose `other_seed` is `seed`.
pub fn message(seed: u8, first: u32, len: u32) -> Vec<u8> {
    (first..first + len).map(|at| byte(seed, at)).collect()
}
