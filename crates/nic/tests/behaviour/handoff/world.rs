//! A host, its device, a wire and a peer in virtual time.

use std::time::Instant;

use nic::ring::FunctionConfig;
use nic::{FrameMeta, Nic, NicConfig, ToeConfig};
use tcp::{CloseReason, Config, Connection, Event};
use testkit::bare::BareHost;
use testkit::fixtures::{self, HOST, byte};
use testkit::frames::from_peer;
use testkit::link::{Faults, Link};
use testkit::toe::established;
use wire::{FlowKey, SeqNum, packet};

use super::host::{Host, Owner};

/// The host's stream, and the peer's; and where packets go.
pub const TO_HOST: usize = 0;
pub const TO_PEER: usize = 1;

#[derive(Clone, Debug)]
pub struct Setup {
    pub v6: bool,
    pub config: Config,
    pub link: Faults,
    pub toe: ToeConfig,
    /// Bytes of the host's stream, and of the peer's.
    pub totals: (usize, usize),
    /// Both applications read nothing, again and again.
    pub nudges: bool,
    pub seed: u64,
}

pub struct World {
    pub now: Instant,
    pub nic: Nic,
    pub host: Host,
    pub peer: Connection,
    peer_first: SeqNum,
    peer_written: usize,
    peer_total: usize,
    host_first: SeqNum,
    host_total: usize,
    got: Vec<bool>,
    pub peer_end: Option<CloseReason>,
    peer_timed: bool,
    pub flow: FlowKey,
    wire: Link<(usize, Vec<u8>)>,
}

impl World {
    /// With a connection that is established.
    pub fn new(setup: &Setup) -> World {
        let now = Instant::now();
        let mut nic = Nic::new(NicConfig {
            toe: setup.toe,
            ..NicConfig::new([9; 16])
        });
        let config = FunctionConfig {
            small_entries: 256,
            large_entries: 16,
            toe_connections: 8,
            ..FunctionConfig::new(HOST)
        };
        let mut bare = BareHost::attach(&mut nic, config);
        bare.refill();
        let flow = match setup.v6 {
            false => fixtures::flow(40_000),
            true => fixtures::flow_v6(40_000),
        };
        let config = Config {
            mss: if setup.v6 { 1440 } else { 1460 },
            ..setup.config.clone()
        };
        let (isn, irs) = (SeqNum(u32::MAX - 20_000), SeqNum(u32::MAX - 5_000));
        let [connection, peer] = established(now, &config, &flow, isn, irs);
        let totals = setup.totals;
        World {
            now,
            nic,
            host: Host::new(bare, flow, connection, irs, totals),
            peer,
            peer_first: irs + 1,
            peer_written: 0,
            peer_total: totals.1,
            host_first: isn + 1,
            host_total: totals.0,
            got: vec![false; totals.0],
            peer_end: None,
            peer_timed: false,
            flow,
            wire: Link::new(setup.link, setup.seed),
        }
    }

    /// Everything that can happen now happens.
    pub fn settle(&mut self) {
        let mut out = vec![0; 70_000];
        for _ in 0..8 {
            self.host.input(self.now);
            self.host.handle_timeout(self.now);
            self.host.output(self.now);
            while let Some((len, meta)) = self.nic.poll_transmit(self.now, &mut out) {
                assert_eq!(meta, FrameMeta::default());
                if out[6..12] != HOST.0 {
                    // Another function's.
                    continue;
                }
                self.wire.send(self.now, (TO_PEER, out[..len].to_vec()));
            }
            self.nic.flush(self.now);
            self.peer_turn();
        }
    }

    fn peer_turn(&mut self) {
        let space = self.peer.send_space() as usize;
        let bytes = (self.peer_total - self.peer_written).min(space).min(20_000);
        if self.peer_end.is_none() && bytes > 0 {
            self.peer_written += self.peer.queue(self.now, bytes as u32) as usize;
        }
        if self.peer_written == self.peer_total {
            self.peer.close(self.now);
        }
        self.peer.handle_timeout(self.now);
        while let Some(transmit) = self.peer.poll_transmit(self.now) {
            let mut at = 0;
            loop {
                let len = (transmit.payload - at).min(u32::from(transmit.mss));
                let mut header = transmit.header;
                header.seq += at;
                if at + len < transmit.payload {
                    header.flags = wire::tcp::Flags::ACK;
                }
                let from = self.peer_first.distance_to(header.seq) as usize;
                let payload: Vec<u8> = (0..len as usize).map(|n| byte(TO_PEER, from + n)).collect();
                let frame = from_peer(&self.flow.reversed(), &header, &payload);
                self.wire.send(self.now, (TO_HOST, frame));
                at += len;
                if at >= transmit.payload {
                    break;
                }
            }
        }
        while let Some(event) = self.peer.poll_event() {
            match event {
                Event::Closed(reason) => self.peer_end = Some(reason),
                Event::TimeWait => {
                    self.peer_timed = true;
                    self.peer_end = Some(CloseReason::Graceful);
                }
                _ => {}
            }
        }
    }

    fn peer_receives(&mut self, frame: &[u8]) {
        let parsed = packet::parse(frame).expect("a segment");
        assert!(parsed.verify_checksums(frame));
        assert_eq!(parsed.flow, self.flow);
        let payload = parsed.payload(frame);
        let at = self.host_first.distance_to(parsed.tcp.seq) as usize;
        for (n, got) in payload.iter().enumerate() {
            assert_eq!(*got, byte(TO_HOST, at + n), "byte {} of the host's", at + n);
        }
        let received = self
            .peer
            .handle_segment(self.now, &parsed.tcp, parsed.payload_len, 1);
        if let Some(data) = received.data {
            let at = self.host_first.distance_to(data.seq) as usize;
            self.got[at..at + data.len as usize].fill(true);
        }
        let unread = self.peer.unread();
        self.peer.consumed(self.now, unread);
    }

    /// Goes on to when something happens next, but not beyond `until`.
    pub fn advance(&mut self, until: Instant) {
        let next = [
            self.wire.next(),
            self.nic.poll_timeout(),
            self.host.timeout(),
            self.peer.poll_timeout().filter(|_| !self.peer_timed),
        ];
        let next = next.into_iter().flatten().min().unwrap_or(until);
        self.now = next.min(until).max(self.now);
        while let Some((to, frame)) = self.wire.arrived(self.now) {
            match to {
                TO_HOST => self
                    .nic
                    .handle_frame(self.now, &frame, FrameMeta::default()),
                _ => self.peer_receives(&frame),
            }
        }
        self.nic.flush(self.now);
        self.settle();
    }

    pub fn is_over(&self) -> bool {
        self.host.is_done() && self.peer_end.is_some()
    }

    /// Both ends have all bytes and have closed in order.
    pub fn assert_complete(&self) {
        assert!(self.host.has_everything(), "the host lacks bytes");
        assert!(self.got.iter().all(|got| *got), "the peer lacks bytes");
        assert_eq!(self.got.len(), self.host_total);
        assert_eq!(self.host.owner, Owner::Gone(CloseReason::Graceful));
        assert_eq!(self.peer_end, Some(CloseReason::Graceful));
    }
}
