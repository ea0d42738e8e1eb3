//! TIME-WAIT without a connection: a table of small entries.

use std::time::Instant;

use wire::tcp::Header;
use wire::{FlowKey, SeqNum};

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
    /// The peer's latest timestamp and what to add to the clock for ours, if timestamps are in use.
    pub timestamps: Option<(u32, u32)>,
}

/// What to do about a segment of a flow in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The flow is not in the table.
    Unknown,
    /// Send this ACK.
    Reply(Header),
    /// Do nothing.
    Drop,
    /// A new incarnation (RFC 9293 §3.6.1, RFC 6191): the entry is gone; hand the SYN to the listener.
    Reopen,
}

/// Flows in TIME-WAIT. All of them stay for the same time, and of too many the oldest goes first.
#[derive(Clone, Debug)]
pub struct TimeWait {}

impl TimeWait {
    /// A table of at most `capacity` flows that rest for `duration`, hashed with a secret key.
    pub fn new(
        now: Instant,
        capacity: usize,
        duration: std::time::Duration,
        key: [u8; 16],
    ) -> Self {
        let _ = (now, capacity, duration, key);
        Self {}
    }

    /// Adds a flow, from us to the peer ([`Connection::time_wait`](crate::Connection::time_wait)).
    pub fn insert(&mut self, now: Instant, flow: FlowKey, entry: TimeWaitEntry) {
        let _ = (now, flow, entry);
    }

    /// Takes a segment. `flow` is the segment's: from the peer to us.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        flow: &FlowKey,
        segment: &Header,
        payload_len: u32,
    ) -> Verdict {
        let _ = (now, flow, segment, payload_len);
        Verdict::Unknown
    }

    /// Whether a flow, from us to the peer, rests here; a port for a new connection to the same peer should be another.
    pub fn contains(&self, flow: &FlowKey) -> bool {
        let _ = flow;
        false
    }

    /// Frees a flow for a new connection of ours, if timestamps make that safe (RFC 6191).
    pub fn reuse(&mut self, now: Instant, flow: &FlowKey) -> bool {
        let _ = (now, flow);
        false
    }

    /// When the next entry ends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Removes the entries that have rested long enough.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// Flows in the table.
    pub fn len(&self) -> usize {
        0
    }

    /// The table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
