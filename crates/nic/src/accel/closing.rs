//! Connections that their applications have closed (AccelTCP): the device sends what is left, retransmits it, and finishes them
//! through FIN-WAIT, CLOSING, LAST-ACK and TIME-WAIT.
//!
//! ```text
//!             Teardown                                    Teardown of a connection
//!                │                                        whose peer has closed
//!                ▼            FIN                                  │
//!           FIN-WAIT-1 ─────────────────▶ CLOSING                  ▼
//!                │ ACK of our FIN            │ ACK of our FIN   LAST-ACK
//!                ▼            FIN            ▼                     │ ACK of our FIN
//!           FIN-WAIT-2 ─────────────────▶ TIME-WAIT                ▼
//!                │ 60 s                      │ 2 MSL, SYN        (gone)
//!                ▼                           ▼
//!             (gone)                      (gone)
//!
//!   new data from the peer, or no answer for too long: RST, gone. Its RST: gone, but not out of TIME-WAIT.
//! ```
//!
//! From the descriptor on, until it is gone, a connection is the device's alone. What it does on the wire is what a
//! [`tcp::Connection`] does that was closed and let go of.
//!
//! What is left to send is copied into [packet memory](super::packet_memory) when the descriptor is worked off, and a block
//! is free as soon as it is acknowledged. Frames are written from there into the port's buffer when their turn comes, so
//! they are not lost on the way. One timer per connection is enough, on the [bitmap wheel](super::wheel).
//!
//! Connections in TIME-WAIT give way to new ones of the same function, the oldest first, as in the host's own table.

mod arrival;
mod entry;
mod frame;
mod output;
mod path;
mod quota;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod timeout;
mod timers;

use std::time::Instant;

use tcp::State;
use wire::{FlowKey, SeqNum};

use super::flows::Owned;
use super::packet_memory::{BLOCK, blocks_for};
use super::{AccelDeviceEnv, AccelEnv, Flows, Handled, Made};
use crate::config::AccelConfig;
use crate::counters::Counters;
use crate::frame::Segment;
use crate::function::Function;
use crate::ring::accel::{AccelRoom, Teardown};
use crate::ring::{ErrorCode, Gather};
use crate::switch::FunctionId;
use arrival::Next;
use entry::Entry;
use quota::Quotas;
use store::Store;
use table::Table;
use timers::Timers;

/// Nanoseconds, since the first connection came.
type Nanos = u64;

/// With the index of flows, 5 MiB, as many connections as the device takes by default fit in 64 MiB.
const _: () = {
    let most = 256 << 10;
    let index = 5 << 20;
    assert!(Table::bytes(most) + Timers::bytes(most) + index <= 64 << 20);
};

/// All closing connections.
#[derive(Debug)]
pub(super) struct Closing {
    /// Most connections, and most blocks of packet memory.
    capacity: u32,
    blocks: u32,
    quotas: Quotas,
    /// Made when the first connection comes.
    store: Option<Box<Store>>,
}

impl Closing {
    pub(super) fn new(config: &AccelConfig) -> Closing {
        let blocks = config.packet_memory / u64::from(BLOCK);
        Closing {
            capacity: config.closing.min(Owned::MAX_CLOSING),
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX - 1),
            quotas: Quotas::default(),
            store: None,
        }
    }

    /// Whether the connection at `at` is this function's, and has this flow; the flow is from the peer to us.
    pub(super) fn owns(&self, at: u32, function: FunctionId, flow: &FlowKey) -> bool {
        let entry = self.store.as_ref().and_then(|store| store.table.get(at));
        entry.is_some_and(|entry| entry.is_of(function.0, flow))
    }

    /// The flows of all that there are, from us to the peer.
    pub(super) fn flows(&self) -> Vec<FlowKey> {
        let table = self.store.as_ref().map(|store| &store.table);
        table.map_or_else(Vec::new, |table| table.flows().collect())
    }

    /// Takes a segment of the connection at `at`. [`Handled::Pass`] when it is nothing of the connection's, which is
    /// over then, as with a SYN that ends TIME-WAIT.
    pub(super) fn handle_segment(
        &mut self,
        env: &mut AccelEnv<'_>,
        at: u32,
        segment: &Segment<'_>,
    ) -> Handled {
        let Some(store) = self.store.as_deref_mut() else {
            return Handled::Pass(None);
        };
        let now = store.timers.at(env.now);
        let Some(entry) = store.table.get_mut(at) else {
            return Handled::Pass(None);
        };
        let counters = &mut env.function.counters;
        counters.accel_closing_rx_packets += u64::from(segment.segments);
        let (was_resting, una) = (entry.state == State::TimeWait, entry.snd.una);
        let next = entry.handle_segment(now, &segment.parsed.tcp, segment.parsed.payload_len);
        if entry.snd.una != una {
            let freed = store
                .memory
                .trim(&mut entry.data, una.distance_to(entry.snd.una));
            self.quotas.give_back(entry.function, freed);
        }
        if entry.state == State::TimeWait && next == Next::Stay && !was_resting {
            store.table.rest(at);
            self.quotas.rest(env.function.id);
            counters.accel_time_wait += 1;
        }
        match next {
            Next::Stay => store.settle(at),
            Next::End => {
                counters.accel_closing_ended += 1;
                self.remove(at, env.flows);
            }
            Next::Abort => {
                counters.accel_closing_aborted += 1;
                self.abort(at, env.flows);
            }
            Next::Reopen => {
                counters.accel_time_wait_reused += 1;
                self.remove(at, env.flows);
                return Handled::Pass(None);
            }
        }
        Handled::Taken
    }

    /// Takes a connection over from its host. Its flow, of which `hash` is that from the peer to us, has no owner on the device.
    ///
    /// # Errors
    /// When it does not: the host owns it still.
    pub(super) fn take_over(
        &mut self,
        env: &mut AccelEnv<'_>,
        teardown: &Teardown,
        gather: &Gather,
    ) -> Result<(), ErrorCode> {
        let hash = env.hasher.hash(&teardown.flow.reversed());
        let bytes = gather.len() as u32;
        let function = env.function.id;
        let gives_way = self.find_room(env.function, blocks_for(bytes))?;
        let (capacity, blocks) = (self.capacity, self.blocks);
        env.flows.expect_change(hash);
        let store = self
            .store
            .get_or_insert_with(|| Box::new(Store::new(env.now, capacity, blocks)));
        let now = store.timers.at(env.now);
        let data = store.copy(env.function, gather, bytes)?;
        // Nothing gives way to what is refused.
        if let Some(oldest) = gives_way {
            env.function.counters.accel_time_wait_overflow += 1;
            store.remove(&mut self.quotas, oldest, env.flows);
            store.expect_to_give_way(function, env.flows);
        }
        if !store.table.has_room() {
            // Of those that are gone, some have still to send their RST.
            store.memory.release(data);
            return Err(ErrorCode::TableFull);
        }
        let mut entry = Entry::new(now, function.0, hash, teardown, bytes, data);
        entry.fit(env.nic.mtu);
        let at = store.table.insert(entry).ok_or(ErrorCode::TableFull)?;
        self.quotas.take(function, blocks_for(bytes));
        env.flows.insert(hash, Owned::Closing(at));
        env.function.counters.accel_closing += 1;
        store.settle(at);
        Ok(())
    }

    /// Frees the flow, from us to the peer, of a connection that rests here, for a new one that its host opens
    /// (RFC 6191).
    ///
    /// # Errors
    /// When it does not rest: then the device owns it still.
    pub(super) fn reopen(
        &mut self,
        flows: &mut Flows,
        function: &mut Function,
        at: u32,
    ) -> Result<(), ErrorCode> {
        let store = self.store.as_ref().ok_or(ErrorCode::FlowExists)?;
        match store.table.get(at) {
            Some(entry) if entry.state == State::TimeWait => {}
            _ => return Err(ErrorCode::FlowExists),
        }
        function.counters.accel_time_wait_reused += 1;
        self.remove(at, flows);
        Ok(())
    }

    /// Forgets all connections of a function, without a word.
    pub(super) fn reset_function(&mut self, flows: &mut Flows, function: FunctionId) {
        let Some(store) = self.store.as_deref_mut() else {
            return;
        };
        for at in store.table.places_of(function.0) {
            // One that is gone waits for its RST only.
            let is_over = |entry: &Entry| entry.state == State::Closed;
            match store.table.get(at).is_none_or(is_over) {
                true => store.silence(at),
                false => store.remove(&mut self.quotas, at, flows),
            }
        }
    }

    /// The path of a segment of the connection at `at` takes only IP packets of `mtu` bytes.
    pub(super) fn path_shrank(&mut self, at: u32, seq: SeqNum, mtu: u32) {
        let Some(store) = self.store.as_deref_mut() else {
            return;
        };
        if store
            .table
            .get_mut(at)
            .is_some_and(|entry| entry.handle_path_mtu(seq, mtu))
        {
            store.settle(at);
        }
    }

    /// Does what is due.
    pub(super) fn handle_time(&mut self, env: &mut AccelDeviceEnv<'_>) {
        let Some(store) = self.store.as_deref_mut() else {
            return;
        };
        if store.timers.is_quiet(env.now) {
            return;
        }
        let now = store.timers.at(env.now);
        let mut due = store.timers.take_due(now);
        while let Some(at) = due.next(&mut store.timers) {
            let Some(entry) = store.timers.expired(now, at, &mut store.table) else {
                continue;
            };
            let function = entry.function;
            let next = entry.handle_timeout(now);
            let counters = env
                .functions
                .get_mut(usize::from(function))
                .map(|function| &mut function.counters);
            count_timeout(counters, next);
            match next {
                Next::Stay => store.settle(at),
                Next::Abort => store.abort(&mut self.quotas, at, env.flows),
                Next::End | Next::Reopen => store.remove(&mut self.quotas, at, env.flows),
            }
        }
    }

    /// When something is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let store = self.store.as_ref()?;
        store.timers.next(store.table.len() > 0)
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) has something.
    pub(super) fn has_frames(&self) -> bool {
        let ready = |store: &Store| store.table.is_anything_ready();
        self.store.as_deref().is_some_and(ready)
    }

    /// Writes the next frame into `out`.
    pub(super) fn poll_transmit(
        &mut self,
        env: &mut AccelDeviceEnv<'_>,
        out: &mut [u8],
    ) -> Option<Made> {
        let store = self.store.as_deref_mut()?;
        let now = store.timers.at(env.now);
        while let Some(at) = store.table.pop_ready() {
            let made = frame::next(store, now, at, env, out);
            if store.table.get(at).is_none_or(Entry::is_gone) {
                store.drop_gone(at);
            } else {
                store.arm(at);
            }
            if made.is_some() {
                store.push_ready(at);
                return made;
            }
        }
        None
    }

    /// Connections of all functions that have still to send, or to have acknowledged, data, a FIN or a RST.
    pub(super) fn unfinished(&self, of: Option<FunctionId>) -> usize {
        let entries = self.store.iter().flat_map(|store| store.table.iter());
        let meant = |entry: &&Entry| of.is_none_or(|function| entry.function == function.0);
        let unfinished = entries.filter(meant).filter(|entry| entry.is_unfinished());
        unfinished.count()
    }

    /// Connections that a function has here, those in TIME-WAIT counted, and bytes of packet memory.
    pub(super) fn used(&self, function: FunctionId) -> (u32, u64) {
        let (connections, blocks) = self.quotas.in_use(function);
        (connections, u64::from(blocks) * u64::from(BLOCK))
    }

    /// The room that a function has, which has so much for splices.
    pub(super) fn room(&self, function: &Function, splices: u32) -> AccelRoom {
        let (used, free_blocks) = self.in_use();
        // Of what rests, only its own gives way to it.
        let used = used - self.quotas.resting(function.id);
        let (closing, blocks) = self.quotas.left(function);
        let blocks = blocks.min(free_blocks);
        AccelRoom {
            closing: closing.min(self.capacity - used),
            splices,
            packet_memory: u64::from(blocks) * u64::from(BLOCK),
        }
    }

    /// Connections of all functions.
    #[cfg(test)]
    pub(super) fn len(&self) -> u32 {
        self.store.as_ref().map_or(0, |store| store.table.len())
    }

    /// Connections of all functions, and free blocks.
    fn in_use(&self) -> (u32, u32) {
        self.store.as_ref().map_or((0, self.blocks), |store| {
            (store.table.len(), store.memory.free_blocks())
        })
    }

    /// Whether one connection more of a function fits, with so many blocks; `Some` when one of its own that rests must give way to it.
    fn find_room(&self, function: &Function, blocks: u32) -> Result<Option<u32>, ErrorCode> {
        let (used, free_blocks) = self.in_use();
        let (left, blocks_left) = self.quotas.left(function);
        if left == 0 {
            return Err(ErrorCode::TableFull);
        }
        if blocks > blocks_left.min(free_blocks) {
            return Err(ErrorCode::NoPacketMemory);
        }
        if used < self.capacity && !self.quotas.is_full(function) {
            return Ok(None);
        }
        let store = self.store.as_deref().ok_or(ErrorCode::TableFull)?;
        let oldest = store.table.oldest_resting(function.id);
        oldest.map(Some).ok_or(ErrorCode::TableFull)
    }

    fn remove(&mut self, at: u32, flows: &mut Flows) {
        if let Some(store) = &mut self.store {
            store.remove(&mut self.quotas, at, flows);
        }
    }

    fn abort(&mut self, at: u32, flows: &mut Flows) {
        if let Some(store) = &mut self.store {
            store.abort(&mut self.quotas, at, flows);
        }
    }
}

fn count_timeout(counters: Option<&mut Counters>, next: Next) {
    let Some(counters) = counters else { return };
    match next {
        Next::Stay => counters.accel_closing_timeouts += 1,
        Next::Abort => {
            counters.accel_closing_timeouts += 1;
            counters.accel_closing_aborted += 1;
        }
        Next::End | Next::Reopen => {
            counters.accel_closing_ended += 1;
        }
    }
}
