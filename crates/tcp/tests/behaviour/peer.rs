//! One connection against a peer whose segments a test writes by hand.

use std::time::{Duration, Instant};

use tcp::{Config, Connection, ConnectionInfo, Event, Received, State, Transmit};
use wire::SeqNum;
use wire::tcp::{Flags, Header, Options, SackBlocks, Timestamps};

use crate::next_segment;

pub const ISS: SeqNum = SeqNum(0xffff_ff00);
pub const PEER_ISS: SeqNum = SeqNum(0x7fff_ff00);

pub struct Peer {
    pub connection: Connection,
    pub now: Instant,
    pub start: Instant,
    /// The peer's next sequence number.
    pub seq: SeqNum,
    /// The peer's acknowledgment number.
    pub ack: SeqNum,
    /// The window field of the peer's segments.
    pub window: u16,
    /// TSval of the peer's segments, and what it echoes, if it has timestamps.
    pub timestamps: Option<(u32, u32)>,
}

/// Everything that a modern peer offers.
pub fn modern() -> Options {
    Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 1000, echo: 0 }),
        sack: SackBlocks::EMPTY,
    }
}

impl Peer {
    /// A connection that has not sent its SYN.
    pub fn new(config: &Config) -> Self {
        let now = Instant::now();
        Self {
            connection: Connection::connect(now, config, 1000, 80, ISS),
            now,
            start: now,
            seq: PEER_ISS,
            ack: ISS,
            window: u16::MAX,
            timestamps: None,
        }
    }

    /// A connection that a peer with these options has accepted, 10 ms away.
    pub fn connected(config: &Config, options: Options) -> Self {
        let mut peer = Self::new(config);
        let syn = peer.sent().remove(0).header;
        assert_eq!(syn.flags, Flags::SYN);
        peer.pass(Duration::from_millis(10));
        peer.ack = syn.seq + 1;
        let mut options = options;
        if let (Some(theirs), Some(ours)) = (&mut options.timestamps, syn.options.timestamps) {
            theirs.echo = ours.val;
            peer.timestamps = Some((theirs.val, ours.val));
        }
        let syn_ack = Header {
            options,
            ..peer.header(Flags::SYN | Flags::ACK)
        };
        peer.deliver(&syn_ack, 0);
        peer.seq += 1;
        assert_eq!(peer.connection.state(), State::Established);
        assert_eq!(peer.connection.poll_event(), Some(Event::Connected));
        let acks = peer.sent();
        assert_eq!(acks.len(), 1);
        assert_eq!(acks[0].header.ack, peer.seq);
        peer
    }

    pub fn modern() -> Self {
        Self::connected(&Config::default(), modern())
    }

    pub fn header(&self, flags: Flags) -> Header {
        Header {
            src_port: 80,
            dst_port: 1000,
            seq: self.seq,
            ack: self.ack,
            flags,
            window: self.window,
            options: Options {
                timestamps: self.timestamps.map(|(val, echo)| Timestamps { val, echo }),
                ..Options::default()
            },
            ecn: wire::Ecn::NotEct,
        }
    }

    pub fn deliver(&mut self, header: &Header, len: u32) -> Received {
        let received = self.connection.handle_segment(self.now, header, len, 1);
        self.connection.assert_invariants();
        received
    }

    /// The peer sends data in order.
    pub fn data(&mut self, len: u32) -> Received {
        let header = self.header(Flags::ACK);
        self.seq += len;
        self.deliver(&header, len)
    }

    /// The peer sends data `ahead` of what is in order.
    pub fn data_ahead(&mut self, ahead: u32, len: u32) -> Received {
        let mut header = self.header(Flags::ACK);
        header.seq += ahead;
        self.deliver(&header, len)
    }

    /// The peer acknowledges everything before `ack`.
    pub fn acknowledge(&mut self, ack: SeqNum) {
        self.ack = ack;
        self.deliver(&self.header(Flags::ACK), 0);
    }

    /// The peer repeats its acknowledgment with SACK blocks.
    pub fn sack(&mut self, blocks: &[(SeqNum, SeqNum)]) {
        let mut header = self.header(Flags::ACK);
        header.options.sack = blocks.iter().copied().collect();
        self.deliver(&header, 0);
    }

    /// All that the connection has to send now.
    pub fn sent(&mut self) -> Vec<Transmit> {
        let mut sent = Vec::new();
        while let Some(transmit) = next_segment(&mut self.connection, self.now) {
            self.connection.assert_invariants();
            if let (Some(theirs), Some(ours)) =
                (&mut self.timestamps, transmit.header.options.timestamps)
            {
                theirs.1 = ours.val;
            }
            sent.push(transmit);
            assert!(sent.len() < 100_000, "it never stops");
        }
        sent
    }

    /// Ranges of payload that the connection sends now.
    pub fn sent_data(&mut self) -> Vec<(SeqNum, u32)> {
        let sent = self.sent().into_iter();
        let ranges = sent.map(|transmit| (transmit.header.seq, transmit.payload));
        ranges.filter(|(_, len)| *len > 0).collect()
    }

    /// Bytes of payload that the connection sends now.
    pub fn sent_bytes(&mut self) -> u32 {
        self.sent().iter().map(|transmit| transmit.payload).sum()
    }

    pub fn info(&self) -> ConnectionInfo {
        self.connection.info(self.now)
    }

    pub fn queue(&mut self, bytes: u32) {
        assert_eq!(self.connection.queue(self.now, bytes), bytes);
    }

    /// Time passes; timers fire when they are due.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(due) = self.connection.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.connection.handle_timeout(self.now);
            self.connection.assert_invariants();
            assert!(
                self.connection
                    .poll_timeout()
                    .is_none_or(|next| next > self.now),
                "a timer that has fired is set anew, later"
            );
        }
        self.now = end;
    }

    /// Goes to the next timer and lets it fire. Returns how long that took.
    pub fn next_timer(&mut self) -> Option<Duration> {
        let due = self.connection.poll_timeout()?;
        let waited = due.saturating_duration_since(self.now);
        self.now = self.now.max(due);
        self.connection.handle_timeout(self.now);
        self.connection.assert_invariants();
        Some(waited)
    }

    pub fn event(&mut self) -> Option<Event> {
        self.connection.poll_event()
    }
}
