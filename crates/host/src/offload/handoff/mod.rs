//! Connections that the host hands off to the NIC (Connection handoff policies).
//!
//! ```text
//!   application    write · read · close · options        the same calls as ever
//!                     │         ▲
//!   socket         send queue   stream    TLS, PDUs      stay here, as does every byte
//!                     │         │
//!   tcp            parked: what is queued, read, closed; what the NIC has told   (`tcp::Connection::park`)
//!                     │         │
//!   bypass         ToeSend   Delivered + Packet          this module: no timer, no segment, no header
//!                  ToeConsumed  Acked, PeerFin, Closed
//!   ────────────── command ring ─ receive ring ──────────────────────────────────────────────────
//!   NIC            tcp::Connection, timers, retransmission, acknowledgments
//! ```
//!
//! # Who owns a connection
//! The host, until it has posted the offer; the NIC, from then on until it refuses, closes or restores the connection. A
//! handoff has two steps. `ToeBegin` makes the NIC hold the flow's packets: it answers `Ready`, and every packet before that on
//! the receive ring is the host's, which meanwhile goes on as ever. Then the host takes the control block out and offers it, and behind it
//! names everything that is not acknowledged. So no packet is ever with the wrong one.
//!
//! # The bypass protocol
//! While the NIC runs the connection the socket's own `tcp::Connection` is parked. Calls of the application change it as ever; what
//! has changed is passed on when the socket is served (the `bypass` module), and what the NIC tells is entered there (`events`). A
//! write costs a descriptor, an acknowledgment of much data one event, and nothing on the host runs per packet but what takes its payload in.
//!
//! # The way back
//! Either side may restore a connection. What the application has queued, read and closed here counts, whether the NIC has heard
//! of it or not ([`tcp::Connection::bring_back`]). If the NIC is reset, the host goes on from what it was told last.

mod begin;
mod bypass;
mod choose;
mod events;
mod recover;
mod reset;
mod restore;
mod table;
mod watch;

use std::collections::VecDeque;
use std::time::Instant;

use nic::ring::toe::ToeId;

use super::ConnectionOffload;
use crate::SocketId;
use crate::deadlines::earliest;
use crate::handoff::Handoff;
use crate::handoff::policy::Selector;
use choose::Due;
use table::Table;

/// What the stack keeps of connections that it hands off.
#[derive(Debug)]
pub(crate) struct HandoffState {
    table: Table,
    selector: Selector<SocketId>,
    /// Any policy may choose a connection.
    is_on: bool,
    /// Chosen since the last poll.
    due: VecDeque<Due>,
    /// Chosen, and waiting for a place that another connection has until the NIC has given that back.
    waiting: VecDeque<SocketId>,
    /// No longer wanted, and held by the NIC still.
    cancels: VecDeque<ToeId>,
    /// When paths are looked at next, and from which place on.
    watch_at: Option<Instant>,
    watched: u32,
}

impl HandoffState {
    pub fn new(settings: &Handoff, quota: u32) -> Self {
        Self {
            table: Table::new(quota),
            selector: Selector::new(settings.selection, &settings.per_port, quota),
            is_on: settings.is_on() && quota > 0,
            due: VecDeque::new(),
            waiting: VecDeque::new(),
            cancels: VecDeque::new(),
            watch_at: None,
            watched: 0,
        }
    }

    /// The NIC has forgotten all that it had, and may be another one.
    fn forget_nic(&mut self) {
        self.cancels.clear();
        // Those too whose end the NIC was still to tell.
        self.table.release_all();
        // One that had room for none would never be asked again, and tells of its room only when it is asked.
        self.selector.set_soft_limit(self.table.quota());
    }

    /// Whether there is a place for one that waits for it, here and by what the NIC has told of itself.
    fn may_go_on(&self) -> bool {
        let is_free = self.table.has_room() && self.table.taken() < self.selector.soft_limit();
        is_free && !self.waiting.is_empty()
    }

    /// When there is something to do, if nothing comes before.
    pub fn poll_timeout(&self, last_poll: Instant) -> Option<Instant> {
        let is_due = !self.due.is_empty() || !self.cancels.is_empty() || self.may_go_on();
        let watch_at = self.watch_at.filter(|_| self.table.taken() > 0);
        earliest([is_due.then_some(last_poll), watch_at])
    }
}

impl ConnectionOffload {
    /// Does what is due for connections that are handed off. Answers whether that was anything.
    #[inline]
    pub fn poll_handoff(&mut self, now: Instant) -> bool {
        let handoff = &self.handoff;
        let is_idle = handoff.due.is_empty() && handoff.cancels.is_empty();
        if handoff.table.taken() == 0 && is_idle && handoff.waiting.is_empty() {
            return false;
        }
        let cancelled = self.handoff.post_cancels(&mut self.transport.device);
        let begun = self.begin_chosen(now);
        self.watch_offloaded_paths(now) | cancelled | begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handoff::policy::Selection;

    /// The former one has said that it takes none.
    #[test]
    fn a_nic_that_takes_the_place_of_another_one_is_offered_connections() {
        let mut handoff = HandoffState::new(&Handoff::new(Selection::Fcfs), 4);
        handoff.selector.set_soft_limit(0);
        handoff.forget_nic();
        assert_eq!(handoff.selector.soft_limit(), 4);
    }
}
