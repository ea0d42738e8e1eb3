//! What takes memory: the entries, what they have to send, and their timers; and how these go together.

use std::time::Instant;

use tcp::State;

use super::super::flows::{Flows, Owned};
use super::super::packet_memory::{Chain, PacketMemory};
use super::entry::{Entry, NEVER, Owes};
use super::quota::Quotas;
use super::table::Table;
use super::timers::Timers;
use crate::context::transmit::source::{Cursor, copy};
use crate::function::Function;
use crate::ring::{ErrorCode, Gather};
use crate::switch::FunctionId;

/// All that a NIC without closing connections has not.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) table: Table,
    pub(super) memory: PacketMemory,
    pub(super) timers: Timers,
}

impl Store {
    pub(super) fn new(now: Instant, capacity: u32, blocks: u32) -> Store {
        Store {
            table: Table::new(capacity),
            memory: PacketMemory::new(blocks),
            timers: Timers::new(now, capacity),
        }
    }

    /// Copies what a descriptor names.
    pub(super) fn copy(
        &mut self,
        function: &mut Function,
        gather: &Gather,
        bytes: u32,
    ) -> Result<Chain, ErrorCode> {
        let mut cursor = Cursor::default();
        let regions = &function.regions;
        let stored = self
            .memory
            .store(bytes, |part| copy(&mut cursor, gather, regions, part))?;
        function.counters.pcie_payload_tx += u64::from(bytes);
        stored.ok_or(ErrorCode::NoPacketMemory)
    }

    /// Has its timer and its turn to send agree with its state.
    pub(super) fn settle(&mut self, at: u32) {
        self.arm(at);
        self.push_ready(at);
    }

    pub(super) fn arm(&mut self, at: u32) {
        if let Some(entry) = self.table.get_mut(at)
            && entry.deadline != NEVER
        {
            self.timers.arm(at, entry);
        }
    }

    pub(super) fn push_ready(&mut self, at: u32) {
        if self.table.get(at).is_some_and(Entry::may_send) {
            self.table.push_ready(at);
        }
    }

    /// Ends a connection without a word.
    pub(super) fn remove(&mut self, quotas: &mut Quotas, at: u32, flows: &mut Flows) {
        self.let_go(quotas, at, flows);
        if let Some(entry) = self.table.get_mut(at) {
            entry.state = State::Closed;
            entry.owes = Owes::default();
        }
        self.drop_gone(at);
    }

    /// Lets a connection that has been reset send no RST.
    pub(super) fn silence(&mut self, at: u32) {
        if let Some(entry) = self.table.get_mut(at) {
            entry.owes = Owes::default();
        }
    }

    /// While the table is full, each new connection ends the one of its function that has rested longest, which is in no cache any
    /// more. Prefetches the next one, which the call before has found, and finds the one behind it.
    pub(super) fn expect_to_give_way(&self, function: FunctionId, flows: &Flows) {
        let next = self.table.oldest_resting(function);
        if let Some(entry) = next.and_then(|next| self.table.get(next)) {
            flows.expect_change(entry.hash);
            self.table.expect(entry.links.younger);
        }
    }

    /// Ends a connection with a RST, for which its slot waits.
    pub(super) fn abort(&mut self, quotas: &mut Quotas, at: u32, flows: &mut Flows) {
        self.let_go(quotas, at, flows);
        if let Some(entry) = self.table.get_mut(at) {
            entry.reset();
            self.table.push_ready(at);
        }
    }

    /// Lets go of all that a connection has but its slot. Its flow is no longer the device's.
    fn let_go(&mut self, quotas: &mut Quotas, at: u32, flows: &mut Flows) {
        let Some(entry) = self.table.get_mut(at) else {
            return;
        };
        let data = std::mem::replace(&mut entry.data, Chain::EMPTY);
        let (function, hash, rested) = (entry.function, entry.hash, entry.state == State::TimeWait);
        self.timers.disarm(at, entry);
        let freed = self.memory.release(data);
        quotas.leave(function, freed, rested);
        if rested {
            self.table.wake(at);
        }
        flows.remove(hash, Owned::Closing(at));
    }

    /// Gives the slot of a connection that is gone back, unless it is still in the list of those that send.
    pub(super) fn drop_gone(&mut self, at: u32) {
        let is_listed = |entry: &Entry| entry.links.is_ready;
        if !self.table.get(at).is_some_and(is_listed) {
            self.table.remove(at);
        }
    }
}
