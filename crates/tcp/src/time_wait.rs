//! TIME-WAIT without a connection: a table of small entries.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher13;
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{Ecn, FlowKey, SeqNum};

use crate::time::{Nanos, SECOND, Time, nanos};

/// What a connection in TIME-WAIT must remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWaitEntry {
    /// Our next sequence number.
    pub snd_nxt: SeqNum,
    /// The peer's next sequence number.
    pub rcv_nxt: SeqNum,
    /// The window that we offered, in bytes.
    pub rcv_wnd: u32,
    /// The window field of the ACKs that we send.
    pub window: u16,
    /// The peer's latest timestamp, and our TSval when the entry was made, if timestamps are in use.
    pub timestamps: Option<(u32, u32)>,
}

/// What to do about a segment of a flow in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The flow is not in the table, or another answers for it.
    Unknown,
    /// Send this ACK.
    Reply(Header),
    /// Do nothing.
    Drop,
    /// A new incarnation (RFC 9293 §3.6.1, RFC 6191): the entry is gone; hand the SYN to the listener
    /// ([`handle_reopening`](crate::Listener::handle_reopening)), with our next sequence number.
    Reopen(SeqNum),
}

/// Flows in TIME-WAIT, here or on the NIC. All of them stay for the same time, and of too many the oldest goes first.
#[derive(Clone, Debug)]
pub struct TimeWait {
    flows: HashMap<FlowKey, Resting, Keyed>,
    /// In order of time; an item whose flow has since been renewed or removed is void.
    order: VecDeque<(Time, FlowKey)>,
    capacity: usize,
    duration: Nanos,
    /// What times count from.
    epoch: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Resting {
    keeper: Keeper,
    since: Time,
    until: Time,
}

/// Who answers for a flow.
#[derive(Clone, Copy, Debug)]
enum Keeper {
    /// The table.
    Us(TimeWaitEntry),
    /// The NIC: only the port is kept here.
    Other { has_timestamps: bool },
}

impl Keeper {
    fn has_timestamps(&self) -> bool {
        match self {
            Self::Us(entry) => entry.timestamps.is_some(),
            Self::Other { has_timestamps } => *has_timestamps,
        }
    }
}

/// SipHash with a secret key: peers choose the flows.
#[derive(Clone, Debug)]
pub(crate) struct Keyed(pub(crate) [u8; 16]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

impl TimeWait {
    /// A table of at most `capacity` flows that rest for `duration`, hashed with a secret key.
    pub fn new(now: Instant, capacity: usize, duration: Duration, key: [u8; 16]) -> Self {
        Self {
            flows: HashMap::with_hasher(Keyed(key)),
            order: VecDeque::new(),
            capacity: capacity.max(1),
            duration: nanos(duration),
            epoch: now,
        }
    }

    /// Adds a flow, from us to the peer ([`Connection::time_wait`](crate::Connection::time_wait)).
    pub fn insert(&mut self, now: Instant, flow: FlowKey, entry: TimeWaitEntry) {
        self.rest(now, flow, Keeper::Us(entry));
    }

    /// Adds a flow, from us to the peer, that the NIC finishes and answers for: its port is withheld as in TIME-WAIT, and its
    /// segments are [`Verdict::Unknown`].
    pub fn withhold(&mut self, now: Instant, flow: FlowKey, has_timestamps: bool) {
        self.rest(now, flow, Keeper::Other { has_timestamps });
    }

    fn rest(&mut self, now: Instant, flow: FlowKey, keeper: Keeper) {
        let now = Time::at(self.epoch, now);
        let until = now.after(self.duration);
        self.flows.insert(
            flow,
            Resting {
                keeper,
                since: now,
                until,
            },
        );
        self.order.push_back((until, flow));
        while self.flows.len() > self.capacity {
            self.drop_oldest();
        }
        self.forget_void();
    }

    /// Takes a segment. `flow` is the segment's: from the peer to us. What may [open](Verdict::Reopen) the flow anew leaves it here, until it is
    /// [removed](Self::remove) because that was done.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        flow: &FlowKey,
        segment: &Header,
        payload_len: u32,
    ) -> Verdict {
        let now = Time::at(self.epoch, now);
        let flow = flow.reversed();
        let Some(resting) = self.flows.get_mut(&flow) else {
            return Verdict::Unknown;
        };
        if resting.until <= now {
            self.flows.remove(&flow);
            return Verdict::Unknown;
        }
        let Keeper::Us(entry) = resting.keeper else {
            return Verdict::Unknown;
        };
        let rested = Duration::from_nanos(now.since(resting.since));
        let verdict = entry.judge(rested, segment, payload_len);
        if matches!(verdict, Verdict::Reply(_)) && segment.flags.contains(Flags::FIN) {
            // RFC 9293 §3.10.7.4: the peer's FIN again restarts the rest.
            let until = now.after(self.duration);
            if until > resting.until {
                resting.until = until;
                self.order.push_back((until, flow));
                self.forget_void();
            }
        }
        verdict
    }

    /// The answer to a SYN that might open a flow anew ([`Verdict::Reopen`]) if somebody took it: `flow` is the SYN's.
    pub fn acknowledge(&self, now: Instant, flow: &FlowKey, syn: &Header) -> Option<Header> {
        let resting = self.flows.get(&flow.reversed())?;
        let Keeper::Us(entry) = resting.keeper else {
            return None;
        };
        let rested = Time::at(self.epoch, now).since(resting.since);
        Some(entry.reply(Duration::from_nanos(rested), syn))
    }

    /// Whether a flow, from us to the peer, rests here; a port for a new connection to the same peer should be another.
    pub fn contains(&self, flow: &FlowKey) -> bool {
        self.flows.contains_key(flow)
    }

    /// All flows that rest, from us to the peer: those that this table answers for, and those that others do.
    pub fn flows(&self) -> impl Iterator<Item = FlowKey> + '_ {
        self.flows.keys().copied()
    }

    /// The flows that the table answers for, with entries as of now: for the table of a process that takes this one's place.
    pub fn entries(&self, now: Instant) -> impl Iterator<Item = (FlowKey, TimeWaitEntry)> + '_ {
        let now = Time::at(self.epoch, now);
        self.flows.iter().filter_map(move |(flow, resting)| {
            let Keeper::Us(entry) = resting.keeper else {
                return None;
            };
            let rested = Duration::from_nanos(now.since(resting.since)).as_millis() as u32;
            let timestamps = entry.timestamps;
            let timestamps = timestamps.map(|(recent, val)| (recent, val.wrapping_add(rested)));
            let entry = TimeWaitEntry {
                timestamps,
                ..entry
            };
            (resting.until > now).then_some((*flow, entry))
        })
    }

    /// Frees a flow, from us to the peer, since the peer opens another connection on it.
    pub fn remove(&mut self, flow: &FlowKey) {
        self.flows.remove(flow);
    }

    /// Frees a flow, from us to the peer, for a new connection of ours, if timestamps make that safe (RFC 6191).
    pub fn reuse(&mut self, now: Instant, flow: &FlowKey) -> bool {
        let now = Time::at(self.epoch, now);
        let safe = self.flows.get(flow).is_some_and(|resting| {
            let rested = now.since(resting.since);
            resting.keeper.has_timestamps() && rested >= SECOND
        });
        if safe {
            self.flows.remove(flow);
        }
        safe
    }

    /// When the next entry may end.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.order
            .front()
            .map(|(until, _)| until.instant(self.epoch))
    }

    /// Removes the entries that have rested long enough.
    pub fn handle_timeout(&mut self, now: Instant) {
        while self.poll_timeout().is_some_and(|until| until <= now) {
            self.drop_oldest();
        }
    }

    /// Flows in the table.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// The table is empty.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Bounds the void items, however often flows are renewed.
    fn forget_void(&mut self) {
        if self.order.len() > 2 * self.capacity.max(self.flows.len()) {
            let flows = &self.flows;
            self.order.retain(|(until, flow)| {
                flows
                    .get(flow)
                    .is_some_and(|resting| resting.until == *until)
            });
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((until, flow)) = self.order.pop_front()
            && self
                .flows
                .get(&flow)
                .is_some_and(|resting| resting.until == until)
        {
            self.flows.remove(&flow);
        }
    }
}

impl TimeWaitEntry {
    /// What is to be done about a segment, so long after the entry was made. The owner of the entry removes it for
    /// [`Verdict::Reopen`], and lets it rest for the whole time again when it replies to a FIN (RFC 9293 §3.10.7.4).
    pub fn judge(&self, rested: Duration, segment: &Header, payload_len: u32) -> Verdict {
        // RFC 1337: a RST does not cut TIME-WAIT short.
        if segment.flags.contains(Flags::RST) {
            return Verdict::Drop;
        }
        let recent = self.timestamps.map(|(recent, _)| recent);
        if is_new_incarnation(segment, recent, self.rcv_nxt) {
            return Verdict::Reopen(self.snd_nxt);
        }
        let occupies = segment.sequence_len(payload_len) > 0;
        if !occupies && segment.seq == self.rcv_nxt {
            return Verdict::Drop;
        }
        Verdict::Reply(self.reply(rested, segment))
    }

    fn reply(&self, rested: Duration, segment: &Header) -> Header {
        let elapsed = rested.as_millis() as u32;
        Header {
            src_port: segment.dst_port,
            dst_port: segment.src_port,
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            flags: Flags::ACK,
            window: self.window,
            options: Options {
                timestamps: self.timestamps.map(|(recent, val)| Timestamps {
                    val: val.wrapping_add(elapsed),
                    echo: recent,
                }),
                ..Options::default()
            },
            ecn: Ecn::NotEct,
        }
    }
}

/// Whether a segment is a SYN that can't be an old duplicate of a connection in TIME-WAIT (RFC 6191 §2), which had `recent` of
/// the peer's timestamps last, if it had any, and its stream up to `rcv_nxt`.
pub fn is_new_incarnation(segment: &Header, recent: Option<u32>, rcv_nxt: SeqNum) -> bool {
    if !segment.flags.contains(Flags::SYN) || segment.flags.contains(Flags::ACK) {
        return false;
    }
    match (recent, segment.options.timestamps) {
        (Some(recent), Some(new)) if new.val != recent => SeqNum(new.val).after(SeqNum(recent)),
        _ => segment.seq.after(rcv_nxt),
    }
}

#[cfg(test)]
mod tests;
