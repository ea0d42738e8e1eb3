//! One fenced connection.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::time::Instant;

use attachment::SlotRef;
use l5p::tls::{Algorithm, CryptoInfo, Version};
use nic::ring::ContextId;
use siphasher::sip::SipHasher24;
use wire::{FlowKey, SeqNum};

use super::stream::{Retired, Stream};
use crate::state::{EpochEntry, RecordBoundary, Table};
use crate::tracking::{Bases, Located, MAX_WINDOW};

/// So many bytes after its beginning an epoch is given another one: positions are compared within 2^31, and a window may have 2^30.
const LONG_AGO: u32 = 1 << 28;

/// Acknowledgements of segments of Linux's that have overtaken others may differ by so many bytes.
const MAX_REORDERED: u32 = 1 << 16;

/// A connection of which some bytes are the NIC's to transform.
#[derive(Debug)]
pub(crate) struct Flow {
    /// From Linux to the peer.
    pub key: FlowKey,
    pub cookie: u64,
    /// The user id that its keys came from.
    pub tenant: u32,
    /// With what its socket counts from.
    pub bases: Bases,
    /// Index of its entry in the table, and its generation.
    pub entry: (u32, u32),
    /// What it shares with the library; `None` as long as that has not come back after a restart.
    pub slot: Option<SlotRef>,
    pub health: Health,
    /// The library has reported that the program has closed the socket.
    pub released: bool,
    pub receives: Receives,
    /// The peer has everything before this.
    pub una: SeqNum,
    /// Nothing beyond this was sent.
    pub sent: SeqNum,
    /// Bytes before this are none of the NIC's. `None` once the peer has them all.
    pub plain_until: Option<SeqNum>,
    /// What Linux has acknowledged, once it has.
    pub acked: Option<SeqNum>,
    /// Behind the last byte that Linux was given, once it was.
    pub given: Option<SeqNum>,
    /// It began before this NIC was there: another one has given Linux bytes, too.
    pub is_inherited: bool,
    /// When Linux may be asked about a SYN of these addresses again.
    pub ask_at: Instant,
    /// What holds for the bytes from the first one on that are the NIC's: in order, never empty once the NIC has had keys for them.
    pub epochs: VecDeque<Epoch>,
    /// When to ask whether the socket has gone.
    pub check_at: Instant,
    /// How often in a row it had not.
    pub checks: u32,
}

/// Whether the receiving direction has keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receives {
    No,
    Yes,
    /// It had before a restart, and the library has not come back with them.
    Lost,
}

/// Whether a connection's bytes may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Good,
    /// There was a restart, and the library has not come back.
    Orphan {
        /// Until when it may.
        until: Instant,
    },
    /// A sender is notified that it has ended.
    Reset,
}

/// From `start` on one kind of bytes.
#[derive(Debug)]
pub(crate) struct Epoch {
    pub start: SeqNum,
    /// Where the next one begins.
    pub end: Option<SeqNum>,
    pub kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// They go as they are.
    Plain,
    /// Records that the NIC makes.
    Records(Box<Records>),
}

/// Records that the NIC makes.
#[derive(Debug)]
pub(crate) struct Records {
    pub cipher: (Version, Algorithm),
    pub first_index: u64,
    /// Tells the keys from others.
    pub fingerprint: u64,
    /// The context that makes them; `None` as long as the library has not come back with its keys after a restart.
    pub context: Option<ContextId>,
    /// Where the NIC will be once it has done all that was posted; `None` when an error left that unknown.
    pub expected: Option<SeqNum>,
    pub stream: Stream,
}

/// Tells keys from others, without their numbers. It stays in the state, beside the plaintext.
pub(crate) fn fingerprint(info: &CryptoInfo) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(info.key());
    hasher.write(&info.iv);
    hasher.finish()
}

impl Epoch {
    fn entry(&self) -> EpochEntry {
        let records = self.records();
        EpochEntry {
            start: self.start,
            records: records.map(|records| records.cipher),
            first_index: records.map_or(0, |records| records.first_index),
            fingerprint: records.map_or(0, |records| records.fingerprint),
        }
    }

    /// Its records, if the NIC makes them.
    pub fn records_mut(&mut self) -> Option<&mut Records> {
        match &mut self.kind {
            Kind::Plain => None,
            Kind::Records(records) => Some(records),
        }
    }

    /// Its records, if the NIC makes them.
    pub fn records(&self) -> Option<&Records> {
        match &self.kind {
            Kind::Plain => None,
            Kind::Records(records) => Some(records),
        }
    }
}

/// How the bytes from some position on are to be sent, and up to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The peer has them.
    Acknowledged,
    /// As they are.
    Plain(SeqNum),
    /// As records of the epoch of this index.
    Records(usize, SeqNum),
}

impl Flow {
    /// How bytes of `from..to` are to be sent, from the first one on.
    pub fn part(&self, from: SeqNum, to: SeqNum) -> Part {
        if from.before(self.una) {
            return Part::Acknowledged;
        }
        if let Some(fence) = self.plain_until
            && from.before(fence)
        {
            return Part::Plain(to.min(fence));
        }
        let behind = self
            .epochs
            .partition_point(|epoch| epoch.start.at_or_before(from));
        let Some(at) = behind.checked_sub(1) else {
            return match self.epochs.is_empty() {
                true => Part::Plain(to),
                // Those of a former epoch, of which the peer has everything.
                false => Part::Acknowledged,
            };
        };
        let epoch = &self.epochs[at];
        let to = epoch.end.map_or(to, |end| to.min(end));
        match epoch.kind {
            Kind::Plain => Part::Plain(to),
            Kind::Records(_) => Part::Records(at, to),
        }
    }

    /// The peer has acknowledged `una`. Gives back what is retained for nothing, and the contexts of epochs that are over.
    pub fn acknowledge(
        &mut self,
        una: SeqNum,
        table: &Table,
        retired: &mut Vec<Retired>,
        mut destroy: impl FnMut(ContextId),
    ) {
        if !una.after(self.una) || una.after(self.sent) {
            return;
        }
        self.una = una;
        if self
            .plain_until
            .is_some_and(|fence| fence.at_or_before(una))
        {
            self.plain_until = None;
            table.set_plain_before(self.entry.0, false);
        }
        for epoch in &mut self.epochs {
            if let Some(records) = epoch.records_mut() {
                records.stream.acknowledge(una, retired);
            }
        }
        let mut changed = false;
        while let Some(epoch) = self.epochs.front_mut()
            && epoch.end.is_some_and(|end| end.at_or_before(una))
        {
            if let Some(records) = epoch.records_mut() {
                records.stream.retire(retired);
                if let Some(context) = records.context {
                    destroy(context);
                }
            }
            self.epochs.pop_front();
            changed = true;
        }
        // The boundary first: it then is the next epoch's, whatever of the former one is still in the table.
        let boundary = match self.epochs.front().and_then(Epoch::records) {
            Some(records) => records.stream.boundary(),
            None => RecordBoundary {
                tcpsn: una,
                index: 0,
            },
        };
        table.set_boundary(self.entry.0, boundary);
        if changed | self.begin_later(boundary) {
            self.store_epochs(table);
        }
    }

    /// Has the oldest epoch begin at the boundary before which all is acknowledged, when it began so long ago that positions would soon be
    /// no longer comparable with its beginning.
    fn begin_later(&mut self, boundary: RecordBoundary) -> bool {
        let Some(oldest) = self.epochs.front_mut() else {
            return false;
        };
        if !boundary.tcpsn.after(oldest.start + LONG_AGO) {
            return false;
        }
        oldest.start = boundary.tcpsn;
        if let Some(records) = oldest.records_mut() {
            records.first_index = boundary.index;
        }
        true
    }

    /// Keeps the epochs for after a restart.
    pub fn store_epochs(&self, table: &Table) {
        table.set_epochs(self.entry.0, self.epochs.iter().map(Epoch::entry));
    }

    /// Whether Linux may acknowledge this: about what it has, and no more than it was given. Who forges a segment must guess that too.
    pub fn may_acknowledge(&self, ack: SeqNum) -> bool {
        let is_recent = |acked: SeqNum| ack.at_or_after(acked - MAX_REORDERED);
        self.acked.is_none_or(is_recent) && self.given.is_none_or(|given| ack.at_or_before(given))
    }

    /// Before it has keys: the peer has everything before `una`.
    pub fn is_acknowledged(&mut self, una: SeqNum) {
        if self.epochs.is_empty() {
            self.una = self.una.max(una);
        }
    }

    /// Whether some of its records are the NIC's.
    pub fn has_records(&self) -> bool {
        self.epochs.iter().any(|epoch| epoch.records().is_some())
    }

    /// Linux has acknowledged this. What was not given to it can't be.
    pub fn has_acked(&mut self, ack: SeqNum) {
        if self.given.is_some() && self.may_acknowledge(ack) {
            self.acked = Some(self.acked.map_or(ack, |acked| acked.max(ack)));
        }
    }

    /// Linux has sent what is before `end`.
    pub fn has_sent(&mut self, end: SeqNum) {
        if end.at_or_before(self.una + MAX_WINDOW) {
            self.sent = self.sent.max(end);
        }
    }

    /// Linux is given what is before `end`.
    pub fn is_given(&mut self, end: SeqNum) {
        self.given = Some(self.given.map_or(end, |given| given.max(end)));
    }

    /// What the socket has said of what it receives.
    pub fn expects(&mut self, socket: &Located) {
        self.acked = Some(socket.receive_next);
        self.is_given(socket.given);
    }

    /// Before which position Linux may hold bytes of which it is not known in which form they went up, or be about to get them.
    pub fn may_be_queued(&self, socket: &Located) -> SeqNum {
        let behind_window = socket.receive_next + socket.longest_queue();
        match self.given {
            _ if self.is_inherited && socket.reordered => behind_window,
            Some(given) => given.max(socket.receive_next).min(behind_window),
            None => socket.receive_next,
        }
    }

    /// The library may have come back with all keys: then the connection goes on.
    pub fn adopt(&mut self) {
        let mut records = self.epochs.iter().filter_map(Epoch::records);
        let is_orphan = matches!(self.health, Health::Orphan { .. });
        if is_orphan
            && self.receives != Receives::Lost
            && records.all(|records| records.context.is_some())
        {
            self.health = Health::Good;
        }
    }

    /// What of its data the peer has not acknowledged is in the driver's memory.
    pub fn has_unacknowledged(&self) -> bool {
        let mut records = self.epochs.iter().filter_map(Epoch::records);
        records.any(|records| records.stream.start() != records.stream.end())
    }
}
