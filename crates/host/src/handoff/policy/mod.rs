//! Which connections are handed off (Connection handoff policies §3.3): pure, asked when a connection is established and at each of its enqueues to
//! the send buffer.
//!
//! # `predict`
//! What is scarce are the places on the NIC, so a connection is worth what it sends *while it has one*: not its length, but
//! its packets per time. At each send [`Selector`] estimates the packets of the next fraction of a second: those that the
//! application wants to send already and the send buffer does not take (they are certain), those of late (who is in
//! the middle of much goes on), and, while the connection is too young to be known, what connections of its port have done
//! after as many sends. While there are places, every connection gets one that can be expected to send enough packets yet
//! to pay for its handoff (the mean residual life, learnt by port). When there are none, a connection takes the place of
//! another one that is expected to send that much less that the exchange pays. So places do not stay with connections
//! that have become idle, and need not be kept free for better ones to come.
//!
//! A send costs a constant time and no allocation; the memory is a [`Record`] per connection, a seat per connection on the NIC, and
//! a table per port with a policy.

mod activity;
mod expectation;
mod seats;
mod selection;

use std::time::{Duration, Instant};

pub use selection::{Selection, UnknownSelection};

use activity::{Activity, TICK_SHIFT, WINDOW};
use expectation::Expectation;
use seats::{Seat, Seats};

/// Packets that a connection must be expected to send for a handoff to pay: handoff and restore cost the host up to 10 µs each,
/// a packet that the NIC takes over saves about 1 µs (Connection handoff policies §5.1: 1,600 to 2,400 cycles at 2 GHz).
const COST: f32 = 16.0;
/// More packets waiting than this say no more.
const MOST_WAITING: f32 = 1024.0;
/// A connection that was refused is not offered again before so many milliseconds.
const PAUSE: u64 = 250;

/// What to do with a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<K> {
    /// Nothing: it stays where it is.
    Stay,
    /// Hand it off. Whatever comes of it is to be told: [`Selector::refused`], or later [`Selector::left`].
    HandOff,
    /// Restore that one, which is on the NIC, and hand this one off behind it.
    Instead(K),
}

/// What is known of one connection; kept with it, some 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record {
    activity: Activity,
    sends: u32,
    /// Its seat and one, while it is on the NIC or on its way there; else 0.
    seat: u32,
    /// Not asked for before this tick; `u64::MAX`: never.
    not_before: u64,
}

impl Record {
    /// The selector counts it among the NIC's.
    pub fn is_held(&self) -> bool {
        self.seat != 0
    }

    /// Enqueues to the send buffer so far.
    pub fn sends(&self) -> u32 {
        self.sends
    }
}

/// Chooses; one for each function, that is, for each Soft_limit. `K` is what the caller calls a connection by.
#[derive(Debug)]
pub struct Selector<K> {
    selection: Selection,
    ports: Vec<(u16, Selection, Expectation)>,
    others: Expectation,
    soft_limit: u32,
    seats: Seats<K>,
    epoch: Option<Instant>,
}

impl<K: Copy> Selector<K> {
    /// One policy for all ports but those named, with a NIC that takes `limit` connections until it tells otherwise.
    pub fn new(selection: Selection, per_port: &[(u16, Selection)], limit: u32) -> Self {
        let mut ports: Vec<_> = per_port
            .iter()
            .map(|&(port, selection)| (port, selection, Expectation::new()))
            .collect();
        ports.sort_by_key(|&(port, ..)| port);
        ports.dedup_by_key(|&mut (port, ..)| port);
        Self {
            selection,
            ports,
            others: Expectation::new(),
            soft_limit: limit,
            seats: Seats::new(),
            epoch: None,
        }
    }

    /// A connection is established at our port `port`: its record begins.
    pub fn established(
        &mut self,
        now: Instant,
        port: u16,
        key: K,
        record: &mut Record,
    ) -> Choice<K> {
        let tick = self.tick(now);
        *record = Record {
            activity: Activity::new(tick),
            ..Record::default()
        };
        match self.selection_of(port) {
            Selection::Fcfs => self.try_once(key, record),
            _ => Choice::Stay,
        }
    }

    /// The application has enqueued `bytes` to a connection's send buffer; so many more it wants to send and the buffer did not
    /// take (0 if that is not known).
    pub fn sent(
        &mut self,
        now: Instant,
        port: u16,
        key: K,
        record: &mut Record,
        bytes: u32,
        waiting: u64,
    ) -> Choice<K> {
        record.sends = record.sends.saturating_add(1);
        let selection = self.selection_of(port);
        match selection {
            Selection::Predict => {
                let tick = self.tick(now);
                self.predict(tick, port, key, record, bytes, waiting)
            }
            Selection::Threshold(sends) if sends == record.sends => self.try_once(key, record),
            _ => Choice::Stay,
        }
    }

    /// The NIC has room for so many connections (Soft_limit).
    pub fn set_soft_limit(&mut self, soft_limit: u32) {
        self.soft_limit = soft_limit;
    }

    /// A connection that was to be handed off stays on the host: the NIC, or the host itself, has refused it.
    pub fn refused(&mut self, now: Instant, port: u16, record: &mut Record) {
        self.left(record);
        record.not_before = match self.selection_of(port) {
            Selection::Predict => self.tick(now).saturating_add(PAUSE),
            _ => u64::MAX,
        };
    }

    /// A connection is no longer on the NIC: it was restored, or has ended there. The first three policies don't try it again.
    pub fn left(&mut self, record: &mut Record) {
        if record.seat != 0 {
            self.seats.leave(record.seat - 1);
            record.seat = 0;
        }
    }

    /// Connections on the NIC, or on their way there.
    pub fn held(&self) -> u32 {
        self.seats.taken()
    }

    /// The Soft_limit last told.
    pub fn soft_limit(&self) -> u32 {
        self.soft_limit
    }

    fn selection_of(&self, port: u16) -> Selection {
        match self.ports.binary_search_by_key(&port, |&(port, ..)| port) {
            Ok(at) => self.ports[at].1,
            Err(_) => self.selection,
        }
    }

    fn expectation_of(&mut self, port: u16) -> &mut Expectation {
        match self.ports.binary_search_by_key(&port, |&(port, ..)| port) {
            Ok(at) => &mut self.ports[at].2,
            Err(_) => &mut self.others,
        }
    }

    /// The only attempt: also a NIC that is full has refused (Connection handoff policies §3.3).
    fn try_once(&mut self, key: K, record: &mut Record) -> Choice<K> {
        if record.is_held() || record.not_before == u64::MAX {
            return Choice::Stay;
        }
        record.not_before = u64::MAX;
        if self.seats.taken() >= self.soft_limit {
            return Choice::Stay;
        }
        self.take_seat(key, record);
        Choice::HandOff
    }

    fn predict(
        &mut self,
        tick: u64,
        port: u16,
        key: K,
        record: &mut Record,
        bytes: u32,
        waiting: u64,
    ) -> Choice<K> {
        let quiet = record.activity.quiet(tick);
        let packets = record.activity.sent(tick, bytes, waiting);
        let seconds = quiet as f32 * (1u64 << TICK_SHIFT) as f32 / 1e9;
        let sends = record.sends;
        let expectation = self.expectation_of(port);
        expectation.learn(sends, packets, seconds);
        let remaining = expectation.remaining(sends);
        if sends == 1 {
            let typical = expectation.rate().unwrap_or(0.0) * WINDOW;
            record.activity.presume(typical);
        }
        if record.seat != 0 {
            self.seats.update(record.seat - 1, record.activity);
            return Choice::Stay;
        }
        if tick < record.not_before || self.soft_limit == 0 {
            return Choice::Stay;
        }
        let waiting = record.activity.waiting();
        // Nothing known yet: try and see.
        if remaining.is_some_and(|remaining| remaining.max(waiting) < COST) {
            return Choice::Stay;
        }
        if self.seats.taken() < self.soft_limit {
            self.take_seat(key, record);
            return Choice::HandOff;
        }
        if self.seats.taken() > self.soft_limit {
            return Choice::Stay;
        }
        let worth = record.activity.worth(tick);
        match self.seats.worst(tick) {
            Some((seat, other, least)) if worth - least > COST => {
                self.seats.vacate(seat);
                self.take_seat(key, record);
                Choice::Instead(other)
            }
            _ => Choice::Stay,
        }
    }

    fn take_seat(&mut self, key: K, record: &mut Record) {
        let seat = Seat::new(key, record.activity);
        record.seat = self.seats.take(seat) + 1;
    }

    fn tick(&mut self, now: Instant) -> u64 {
        let epoch = *self.epoch.get_or_insert(now);
        let since = now.saturating_duration_since(epoch).max(Duration::ZERO);
        u64::try_from(since.as_nanos() >> TICK_SHIFT).unwrap_or(u64::MAX - 1)
    }
}

#[cfg(test)]
mod tests;
