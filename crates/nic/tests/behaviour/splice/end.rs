//! An end of a connection, and its application.

use std::time::{Duration, Instant};

use nic::ring::accel::{Leg, TimestampState};
use tcp::{CloseReason, Connection, Event, State, Tcb, Transmit, reset_for};
use testkit::fixtures::byte;
use testkit::frames::frame;
use wire::ethernet::MacAddr;
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum, packet};

const SLOW_READ: u32 = 4_000;
const SLOW_EVERY: Duration = Duration::from_millis(20);

/// One end of a connection.
pub struct End {
    pub connection: Connection,
    /// From this end.
    pub flow: FlowKey,
    pub macs: [MacAddr; 2],
    /// Whose bytes it sends, and those of which it receives; and where these streams begin.
    pub streams: [usize; 2],
    pub bases: [SeqNum; 2],
    pub read: u64,
    pub written: u64,
    pub saw_end: bool,
    pub ended: Option<CloseReason>,
    pub closed: bool,
    pub next_read: Instant,
}

impl End {
    pub fn new(now: Instant, connection: Connection, flow: FlowKey, macs: [MacAddr; 2]) -> End {
        End {
            connection,
            flow,
            macs,
            streams: [0; 2],
            bases: [SeqNum(0); 2],
            read: 0,
            written: 0,
            saw_end: false,
            ended: None,
            closed: false,
            next_read: now,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.connection.state(), State::Closed | State::TimeWait)
    }

    pub fn events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::PeerFin => self.saw_end = true,
                Event::Closed(reason) => self.ended = Some(reason),
                _ => {}
            }
        }
    }

    /// An application that sends so much, reads all, and closes at once or after the other.
    pub fn work(&mut self, now: Instant, (total, closes_first): (u64, bool), slow: bool) {
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.events();
        let room = u64::from(self.connection.send_space()).min(total - self.written);
        self.written += u64::from(self.connection.queue(now, room as u32));
        let unread = self.connection.unread();
        let bytes = if slow { unread.min(SLOW_READ) } else { unread };
        if bytes > 0 && (!slow || now >= self.next_read) {
            self.connection.consumed(now, bytes);
            self.read += u64::from(bytes);
            self.next_read = now + SLOW_EVERY;
        }
        if self.written == total && !self.closed && (closes_first || self.saw_end) {
            self.connection.close(now);
            self.closed = true;
        }
    }

    /// All that the connection has to send now.
    pub fn frames(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(now) {
            self.cut(&transmit, &mut frames);
        }
        frames
    }

    fn cut(&self, transmit: &Transmit, frames: &mut Vec<Vec<u8>>) {
        let mut at = 0;
        loop {
            let len = (transmit.payload - at).min(transmit.mss.into());
            let last = at + len == transmit.payload;
            let mut header = transmit.header;
            header.seq += at;
            if !last {
                header.flags.remove(Flags::FIN | Flags::PSH);
            }
            let first = self.bases[0].distance_to(header.seq);
            let payload: Vec<u8> = (first..first.wrapping_add(len))
                .map(|position| byte(self.streams[0], position as usize))
                .collect();
            frames.push(frame(
                self.macs[0],
                self.macs[1],
                &self.flow,
                &header,
                &payload,
            ));
            at += len;
            if last {
                return;
            }
        }
    }

    /// Takes a frame; gives a RST when there is no connection any more.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) -> Option<Vec<u8>> {
        let parsed = packet::parse(bytes).ok()?;
        if !parsed.verify_checksums(bytes) || parsed.flow != self.flow.reversed() {
            return None;
        }
        if self.connection.state() == State::Closed {
            let header = reset_for(&parsed.tcp, parsed.payload_len)?;
            return Some(frame(self.macs[0], self.macs[1], &self.flow, &header, &[]));
        }
        let received = self
            .connection
            .handle_segment(now, &parsed.tcp, parsed.payload_len, 1);
        self.connection.assert_invariants();
        if let Some(accepted) = received.data {
            let payload = &parsed.payload(bytes)[accepted.skip as usize..][..accepted.len as usize];
            let first = self.bases[1].distance_to(accepted.seq);
            for (position, got) in (first..).zip(payload) {
                assert_eq!(
                    *got,
                    byte(self.streams[1], position as usize),
                    "at {position}"
                );
            }
        }
        None
    }
}

/// Establishes a connection, moves `bytes` each way and lets both ends come to rest, with nothing lost.
pub fn settle(now: &mut Instant, peer: &mut End, host: &mut End, bytes: u32) {
    let mut due = true;
    for _ in 0..1000 {
        *now += Duration::from_millis(1);
        for turn in [true, false] {
            let (from, to) = if turn {
                (&mut *peer, &mut *host)
            } else {
                (&mut *host, &mut *peer)
            };
            if from.connection.poll_timeout().is_some_and(|at| at <= *now) {
                from.connection.handle_timeout(*now);
            }
            from.events();
            while let Some(transmit) = from.connection.poll_transmit(*now) {
                let mut at = 0;
                loop {
                    let len = (transmit.payload - at).min(transmit.mss.into());
                    let mut header = transmit.header;
                    header.seq += at;
                    to.connection.handle_segment(*now, &header, len, 1);
                    at += len;
                    if at == transmit.payload {
                        break;
                    }
                }
            }
        }
        for end in [&mut *peer, &mut *host] {
            let unread = end.connection.unread();
            if unread > 0 {
                end.connection.consumed(*now, unread);
            }
            end.connection.acknowledge_now();
        }
        let is_up = |end: &End| end.connection.state() == State::Established;
        if due && is_up(peer) && is_up(host) {
            due = false;
            for end in [&mut *peer, &mut *host] {
                assert_eq!(end.connection.queue(*now, bytes), bytes);
            }
        } else if !due && peer.connection.is_drained() && host.connection.is_drained() {
            return;
        }
    }
    panic!("{:#?}", host.connection.info(*now));
}

pub fn leg(end: &End, tcb: &Tcb) -> Leg {
    let (peer_shift, our_shift) = tcb.shifts.unwrap_or_default();
    Leg {
        flow: end.flow,
        hop: end.macs[1],
        hop_limit: 64,
        snd_nxt: tcb.snd_nxt,
        rcv_nxt: tcb.rcv_nxt,
        peer_window: tcb.snd_wnd,
        our_window: tcb.rcv_window(),
        peer_shift,
        our_shift,
        mss: tcb.mss - tcb.option_bytes(),
        our_mss: tcb.adv_mss - tcb.option_bytes(),
        sack: tcb.sack,
        timestamps: tcb.timestamps.map(|timestamps| TimestampState {
            recent: timestamps.recent,
            value: timestamps.val,
        }),
        ecn: false,
        ecn_echo: false,
    }
}
