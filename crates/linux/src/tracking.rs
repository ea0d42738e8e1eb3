//! Connection tracking: what the driver has seen of TCP connections that it does nothing for yet.
//!
//! Keys are taken for a connection only if its handshake went through this interface, and if what was sent and acknowledged since agrees with what the
//! socket says of itself. A socket whose packets are given other addresses on their way here (NAT, a tunnel, a program in the kernel) has no
//! connection here, or another socket's with other numbers.
//!
//! ```text
//!   SYN ──▶ half open ──▶ SYN, ACK ──▶ ACK ──▶ open: sequence numbers, acknowledgements and timestamps of both directions
//! ```
//!
//! A first segment may be forged, by anybody whose packets Linux forwards. So Linux is asked which socket of these addresses is opening a connection, and
//! of two with different numbers from one socket neither is believed.
//!
//! The table has a fixed size. A connection finds room by giving the place of one that is half open, or else of the one that was quiet longest, within a
//! set that a secret chooses. One that has lost its place has its records made in software.

mod located;

use std::hash::Hasher;
use std::time::{Duration, Instant};

use attachment::{Errno, SocketFacts};
use siphasher::sip::SipHasher13;
use wire::packet::Parsed;
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use crate::asking::Asking;
use crate::sockets::{SocketAt, SocketPhase, Sockets};
pub(crate) use located::{Bases, Located};

/// Sets, and connections in each: 32,768 connections in 4 MiB.
const SETS: usize = 1 << 11;
const WAYS: usize = 16;
/// A connection that was quiet for less does not give its place to one that is only half open.
const QUIET: Duration = Duration::from_secs(5);
/// A timestamp may differ from the socket's clock by so much more than the time since it was seen, in milliseconds.
const LATE: i64 = 1000;
/// How far beyond what was acknowledged a segment may lie that counts: any window that there can be (RFC 7323 §2.3).
pub(crate) const MAX_WINDOW: u32 = 1 << 30;

/// How far a connection's handshake is; later ones are worth more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Several began, with different numbers.
    Doubtful,
    HalfOpen,
    Open,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
struct Tracked {
    /// From Linux to the peer.
    key: FlowKey,
    /// Of the socket that opened it.
    cookie: u64,
    /// It is the peer's, whose SYN Linux has answered.
    is_passive: bool,
    bases: Bases,
    phase: Phase,
    touched: Instant,
    /// Behind the last byte that Linux has sent, and what the peer has acknowledged of that.
    sent: SeqNum,
    una: SeqNum,
    /// Behind the last byte that Linux was given, and what it has acknowledged of that.
    received: SeqNum,
    acked: SeqNum,
    /// The timestamp of Linux's last segment, and when that came.
    timestamp: Option<(u32, Instant)>,
}

/// Connections whose keys hash alike. The tags are looked at first: they are in one cache line.
#[derive(Clone, Debug)]
struct Set {
    tags: [u32; WAYS],
    connections: [Option<Tracked>; WAYS],
}

impl Set {
    fn place(&self, tag: u32, key: &FlowKey) -> Option<usize> {
        let is_its = |at: &usize| {
            self.tags[*at] == tag
                && self.connections[*at].is_some_and(|tracked| tracked.key == *key)
        };
        (0..WAYS).find(is_its)
    }
}

/// The connections.
#[derive(Debug)]
pub(crate) struct Tracker {
    secret: (u64, u64),
    sets: Box<[Set]>,
    asking: Asking,
}

impl Tracker {
    /// With a secret that no peer knows.
    pub(crate) fn new(secret: (u64, u64)) -> Tracker {
        let empty = Set {
            tags: [0; WAYS],
            connections: [None; WAYS],
        };
        Tracker {
            secret,
            sets: vec![empty; SETS].into(),
            asking: Asking::new(),
        }
    }

    /// The set that a connection belongs in, and its tag there.
    fn set(&mut self, key: &FlowKey) -> (&mut Set, u32) {
        let mut hasher = SipHasher13::new_with_keys(self.secret.0, self.secret.1);
        std::hash::Hash::hash(key, &mut hasher);
        let hash = hasher.finish();
        (&mut self.sets[hash as usize % SETS], (hash >> 32) as u32)
    }

    fn find(&mut self, key: &FlowKey) -> Option<&mut Tracked> {
        let (set, tag) = self.set(key);
        let at = set.place(tag, key)?;
        set.connections[at].as_mut()
    }

    /// Others look after this connection from now on.
    pub(crate) fn remove(&mut self, key: &FlowKey) {
        let (set, tag) = self.set(key);
        if let Some(at) = set.place(tag, key) {
            set.connections[at] = None;
        }
    }

    /// A segment that Linux has sent. False when it seems to begin a connection, which is not tracked because Linux does not tell whose it is.
    pub(crate) fn handle_sent(
        &mut self,
        now: Instant,
        parsed: &Parsed,
        sockets: &mut dyn Sockets,
    ) -> bool {
        let tcp = &parsed.tcp;
        let timestamp = tcp.options.timestamps.map(|stamps| (stamps.val, now));
        if tcp.flags.contains(Flags::SYN) {
            // A SYN counts as acknowledged once for the end that sends it first; the NIC has no part in data in it.
            let is_first = !tcp.flags.contains(Flags::ACK);
            if parsed.payload_len > 0 {
                return true;
            }
            let send = if is_first { tcp.seq } else { tcp.seq + 1 };
            let new = Tracked {
                key: parsed.flow,
                cookie: 0,
                is_passive: !is_first,
                bases: Bases {
                    send,
                    receive: tcp.ack,
                },
                phase: Phase::HalfOpen,
                touched: now,
                sent: tcp.seq + 1,
                una: tcp.seq,
                received: tcp.ack,
                acked: tcp.ack,
                timestamp,
            };
            return self.begin(new, sockets);
        }
        let Some(tracked) = self.find(&parsed.flow) else {
            return true;
        };
        tracked.touched = now;
        let end = tcp.seq + tcp.sequence_len(parsed.payload_len);
        if end.after(tracked.sent) {
            tracked.sent = end;
        }
        if tcp.flags.contains(Flags::ACK) && tcp.ack.after(tracked.acked) {
            tracked.acked = tcp.ack;
        }
        tracked.timestamp = timestamp;
        true
    }

    /// Whether a segment of Linux's is a part of a connection that is open, as far as its numbers tell.
    pub(crate) fn has(&mut self, parsed: &Parsed) -> bool {
        let (tcp, found) = (&parsed.tcp, self.find(&parsed.flow));
        found.is_some_and(|tracked| {
            tracked.phase == Phase::Open
                && tcp.seq.at_or_after(tracked.una)
                && tcp.seq.at_or_before(tracked.una + MAX_WINDOW)
                && tcp.ack.at_or_before(tracked.received)
        })
    }

    /// A segment that Linux is given.
    pub(crate) fn handle_received(&mut self, now: Instant, parsed: &Parsed) {
        let tcp = &parsed.tcp;
        let Some(tracked) = self.find(&parsed.flow.reversed()) else {
            return;
        };
        let acks_syn = tcp.flags.contains(Flags::ACK) && tcp.ack == tracked.una + 1;
        if tcp.flags.contains(Flags::SYN) {
            if tracked.phase == Phase::HalfOpen && acks_syn && parsed.payload_len == 0 {
                let first = tcp.seq + 1;
                tracked.bases.receive = first;
                (tracked.received, tracked.acked) = (first, first);
                (tracked.una, tracked.phase) = (tcp.ack, Phase::Open);
            }
            return;
        }
        if tracked.phase != Phase::Open {
            let opens = acks_syn && tcp.seq == tracked.received && !tcp.flags.contains(Flags::RST);
            if tracked.phase == Phase::Doubtful || !tracked.is_passive || !opens {
                return;
            }
            tracked.phase = Phase::Open;
        }
        tracked.touched = now;
        let is_new = |number: SeqNum, known: SeqNum, most: SeqNum| {
            number.after(known) && number.at_or_before(most)
        };
        if tcp.flags.contains(Flags::ACK) && is_new(tcp.ack, tracked.una, tracked.sent) {
            tracked.una = tcp.ack;
        }
        let end = tcp.seq + tcp.sequence_len(parsed.payload_len);
        if is_new(end, tracked.received, tracked.acked + MAX_WINDOW) {
            tracked.received = end;
        }
    }

    /// The socket that sends a SYN.
    ///
    /// # Errors
    /// As for [`Asking::ask`].
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        flow: &FlowKey,
        sockets: &mut dyn Sockets,
    ) -> Result<Option<SocketAt>, Errno> {
        self.asking.ask(now, flow, sockets)
    }

    /// A connection begins, as it seems. False when Linux does not tell whether it does.
    fn begin(&mut self, new: Tracked, sockets: &mut dyn Sockets) -> bool {
        let known = self.find(&new.key).copied();
        let is_copy = |known: Tracked| known.phase == Phase::HalfOpen && known.sent == new.sent;
        if known.is_some_and(is_copy) {
            return true;
        }
        let cookie = match self.asking.ask(new.touched, &new.key, sockets) {
            Ok(Some(socket)) if socket.phase == SocketPhase::Opening => socket.cookie,
            Ok(_) => return true,
            // It is unknown to which connection what is known there belongs.
            Err(_) => {
                self.remove(&new.key);
                return false;
            }
        };
        let new = Tracked { cookie, ..new };
        let (set, tag) = self.set(&new.key);
        if let Some(at) = set.place(tag, &new.key) {
            if let Some(known) = &mut set.connections[at] {
                known.begin_again(new);
            }
            return true;
        }
        let worth = |at: &usize| set.connections[*at].map(|there| (there.phase, there.touched));
        let Some(at) = (0..WAYS).min_by_key(worth) else {
            return true;
        };
        let is_busy = |there: Tracked| {
            let quiet = new.touched.saturating_duration_since(there.touched);
            there.phase == Phase::Open && quiet < QUIET
        };
        if !set.connections[at].is_some_and(is_busy) {
            set.tags[at] = tag;
            set.connections[at] = Some(new);
        }
        true
    }

    /// Where a socket is whose connection began here.
    ///
    /// # Errors
    /// `ENODEV` for one that has not begun here, or has other numbers than the socket; `EAGAIN` when they may agree if the socket is asked again.
    pub(crate) fn locate(&mut self, now: Instant, facts: &SocketFacts) -> Result<Located, Errno> {
        let tracked = self.find(&facts.flow).ok_or(Errno::NODEV)?;
        // A connection that the peer has opened gets a socket later.
        if !tracked.is_passive && tracked.cookie != facts.cookie {
            return Err(Errno::NODEV);
        }
        if tracked.phase != Phase::Open || !tracked.agrees_in_time(now, facts.timestamp) {
            return Err(Errno::NODEV);
        }
        let its = Located {
            given: tracked.received,
            ..tracked.bases.locate(facts)
        };
        // The socket was asked before what has come since.
        let sends = its.unacknowledged.at_or_before(tracked.una)
            && tracked.una.at_or_before(its.write)
            && tracked.sent.at_or_before(its.write);
        let receives = its.receive_next.at_or_before(tracked.received)
            && its.read.at_or_before(its.receive_next);
        if !sends || !receives {
            return Err(Errno::NODEV);
        }
        match tracked.acked.at_or_before(its.receive_next) {
            true => Ok(its),
            false => Err(Errno::AGAIN),
        }
    }
}

impl Tracked {
    /// Another first segment between these addresses, where a socket is opening a connection.
    fn begin_again(&mut self, new: Tracked) {
        match self.phase {
            // Of two from one socket, one is forged.
            Phase::HalfOpen | Phase::Doubtful if self.cookie == new.cookie => {
                self.phase = Phase::Doubtful;
            }
            _ => *self = new,
        }
    }

    /// Whether a segment's timestamp is from the socket's clock, which begins at a secret number for each pair of addresses.
    fn agrees_in_time(&self, now: Instant, clock: Option<u32>) -> bool {
        match (self.timestamp, clock) {
            (None, None) => true,
            (Some((seen, at)), Some(clock)) => {
                let since = now.saturating_duration_since(at).as_millis() as i64;
                let later = i64::from(clock.wrapping_sub(seen) as i32);
                // It may have been sent just after the socket was asked. Some routes have timestamps in microseconds.
                let is_near = |later: i64| (-LATE..=since + LATE).contains(&later);
                is_near(later) || is_near(later / 1000)
            }
            _ => false,
        }
    }
}
