//! Connections whose records the NIC makes or opens.
//!
//! From its registration on a connection is *fenced*: of its payload nothing leaves but what the NIC has transformed. The plaintext of
//! what was sent is retained until the peer has acknowledged all of its record; whatever Linux sends again is made from that, so that
//! a source that has changed meanwhile never meets a nonce a second time. What does not follow on what was sent is dropped: TCP
//! sends it again.
//!
//! ```text
//!      una                    end
//!       │   retained           │  next                gap
//!  ─────┼──────┬───────┬───────┼───────────────────┬───────────
//!  gone │  record  │  record  │  Linux sends it:  │  dropped
//!                              │  retain, Send     │
//!        Linux sends it again: │
//!        RecoverContext, Send  │
//! ```

mod acknowledgement;
mod answered;
mod blocks;
mod flow;
mod flows;
mod gone;
mod orders;
mod post;
mod reset;
mod restart;
mod stream;
mod transmit;
mod unreachable;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use attachment::{Direction, Errno, OffloadState, SocketFacts};
use nic::ring::{ContextId, Slice};
use wire::packet::Parsed;
use wire::{FlowKey, SeqNum};

use crate::contexts::{Quota, Rings};
use crate::counters::Counters;
use crate::memory::Staging;
use crate::receive::Receive;
use crate::sockets::Sockets;
use crate::state::{Arena, New, Table};
use crate::tracking::{Located, Tracker};

pub(crate) use answered::Answered;
use blocks::Receiving;
pub(crate) use flow::Flow;
use flow::{Health, Kind};
use flows::FencedFlows;
use gone::Gone;
pub(crate) use stream::Retired;
use stream::Tenants;
pub(crate) use transmit::Verdict;

/// When it is asked first whether a socket has gone, once there is a sign of it; each time later.
const FIRST_CHECK: Duration = Duration::from_millis(100);
/// At the latest.
const LAST_CHECK: Duration = Duration::from_secs(60);
/// How long a library may stay away after a restart.
const ORPHANED: Duration = Duration::from_secs(30);

/// All fenced connections of a function.
#[derive(Debug)]
pub(crate) struct Offload {
    sockets: Box<dyn Sockets>,
    tracker: Tracker,
    arena: Arena,
    tenants: Tenants,
    table: Table,
    flows: FencedFlows,
    gone: Gone,
    contexts: Quota,
    retired: Vec<Retired>,
    receiving: Receiving,
    /// Frames for Linux.
    answers: VecDeque<Answered>,
    slices: Vec<Slice>,
    prefix: Vec<Slice>,
    is_draining: bool,
}

/// What the driver has beside its connections.
pub(crate) struct DriverEnv<'a> {
    pub rings: &'a mut Rings,
    pub staging: &'a Staging,
    pub receive: &'a mut Receive,
    pub counters: &'a mut Counters,
    pub now: Instant,
}

impl Offload {
    /// How Linux is asked about sockets.
    pub(crate) fn sockets(&mut self) -> &mut dyn Sockets {
        &mut *self.sockets
    }

    /// Where a socket is that is to be helped with: by what is known of its connection, or by what was seen of it.
    ///
    /// # Errors
    /// `ENODEV` for one whose packets do not come through here, as far as was seen; `EAGAIN` when it is to be asked again; `ESHUTDOWN` for one that is not
    /// known, if this NIC is about to end.
    pub(crate) fn locate(&mut self, now: Instant, facts: &SocketFacts) -> Result<Located, Errno> {
        let known = self.index_of(&facts.flow).map(|index| self.flow(index));
        if let Some(flow) = known.filter(|flow| flow.cookie == facts.cookie) {
            return Ok(flow.bases.locate(facts));
        }
        match self.is_draining {
            true => Err(Errno::SHUTDOWN),
            false => self.tracker.locate(now, facts),
        }
    }

    /// Before which position Linux may hold bytes that came before what is asked for now.
    pub(crate) fn may_be_queued(&mut self, facts: &Located) -> SeqNum {
        match self.index_of(&facts.flow) {
            Some(index) => self.flow(index).may_be_queued(facts),
            None => facts.given.min(facts.receive_next + facts.longest_queue()),
        }
    }

    /// Has the next NIC know where this connection is, although nothing of it is fenced. Gives the entry, unless there is one already or no room for it.
    pub(crate) fn remember(&mut self, facts: &Located) -> Option<u32> {
        if self.index_of(&facts.flow).is_some() {
            return None;
        }
        let new = New {
            flow: facts.flow,
            cookie: facts.cookie,
            tenant: facts.tenant,
            bases: facts.bases.to_bits(),
            una: facts.unacknowledged,
            is_reset: false,
        };
        self.table.add(&new).map(|(entry, _)| entry)
    }

    /// A connection that was remembered has ended.
    pub(crate) fn forget(&mut self, entry: u32) {
        self.table.remove(entry);
    }

    /// A segment that Linux has sent, of a connection that is not fenced.
    pub(crate) fn track_sent(&mut self, parsed: &Parsed, env: &mut DriverEnv<'_>) {
        let is_tracked = self
            .tracker
            .handle_sent(env.now, parsed, &mut *self.sockets);
        env.counters.tls_untracked += u64::from(!is_tracked);
    }

    /// Whether no connection is to be looked after, or was lately.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.gone.is_empty()
    }

    /// Lets go of what was acknowledged, once the NIC has read what was posted up to now.
    fn retire(&mut self, rings: &mut Rings) {
        self.retired.drain(..).for_each(|piece| rings.retire(piece));
    }

    /// Frees what the NIC has read.
    pub(crate) fn reap(&mut self, rings: &mut Rings) {
        while let Some(piece) = rings.poll_retired() {
            self.arena.release(piece.unit, piece.order);
        }
    }

    /// The connection from Linux to a peer.
    #[inline]
    pub(crate) fn index_of(&self, key: &FlowKey) -> Option<u32> {
        self.flows.index_of(key)
    }

    fn flow(&mut self, index: u32) -> &mut Flow {
        self.flows.get(index)
    }

    /// Whether there is a connection between these addresses.
    pub(crate) fn fences(&self, src: IpAddr, dst: IpAddr) -> bool {
        self.flows.connects(src, dst)
    }

    /// A context has refused something: where it is now is unknown.
    pub(crate) fn lost_context(&mut self, index: u32, context: ContextId) {
        let Some(flow) = self.flows.find(index) else {
            return;
        };
        for epoch in &mut flow.epochs {
            if let Some(records) = epoch.records_mut()
                && records.context == Some(context)
            {
                records.expected = None;
            }
        }
    }

    /// Adds a connection that is in the table.
    fn insert(&mut self, flow: Flow) -> u32 {
        self.gone.forget(&flow.key);
        self.flows.insert(flow)
    }

    /// Ends a connection: its socket has gone.
    fn remove(&mut self, index: u32, env: &mut DriverEnv<'_>) {
        let flow = self.flow(index);
        let (key, cookie) = (flow.key, flow.cookie);
        self.gone.insert(env.now, key, Some(cookie));
        self.take_out(index, env);
    }

    /// Knows a connection no more: its socket has gone, or has nothing to do with the NIC.
    fn take_out(&mut self, index: u32, env: &mut DriverEnv<'_>) {
        let Some(mut flow) = self.flows.remove(index) else {
            return;
        };
        for epoch in &mut flow.epochs {
            if let Some(records) = epoch.records_mut() {
                records.stream.retire(&mut self.retired);
                if let Some(context) = records.context {
                    env.rings.destroy(context);
                    self.contexts.give();
                }
            }
        }
        self.retire(env.rings);
        env.receive.remove(flow.key.reversed(), env.rings);
        self.table.remove(flow.entry.0);
        env.counters.tls_flows_ended += 1;
        if let Some(slot) = &flow.slot
            && flow.released
        {
            slot.slot().free(slot.generation());
        }
    }

    /// Has it looked at soon whether a connection's socket has gone.
    fn check_soon(&mut self, index: u32, now: Instant) {
        self.flow(index).checks = 0;
        self.check_at(index, now + FIRST_CHECK);
    }

    fn check_at(&mut self, index: u32, at: Instant) {
        self.flows.check_at(index, at);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.flows.first_check().map(|(at, _)| at)
    }

    /// Looks at the connections that are due.
    pub(crate) fn handle_timeout(&mut self, env: &mut DriverEnv<'_>) {
        let now = env.now;
        while let Some((at, index)) = self.flows.first_check()
            && at <= now
        {
            let flow = self.flow(index);
            let (key, cookie) = (flow.key, flow.cookie);
            if self.sockets.is_gone(&key, cookie) {
                self.remove(index, env);
                continue;
            }
            let flow = self.flow(index);
            if let Health::Orphan { until } = flow.health
                && until <= now
            {
                self.reset(index, env);
            }
            let flow = self.flow(index);
            flow.checks = (flow.checks + 1).min(16);
            let mut next = now + (FIRST_CHECK * (1 << flow.checks)).min(LAST_CHECK);
            if let Health::Orphan { until } = flow.health {
                next = next.min(until);
            }
            self.check_at(index, next);
        }
    }

    /// Asks the libraries to make their records themselves from now on, and takes no more connections. Received records go on to be opened:
    /// nothing is owed to the peer for them, and the next NIC gets them again.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
        for flow in self.flows.iter() {
            flow.report(Direction::Transmit, OffloadState::Software);
        }
    }

    /// Whether the peers have everything that the NIC has made.
    pub(crate) fn is_drained(&self) -> bool {
        let mut flows = self.flows.iter();
        !flows.any(|flow| flow.has_unacknowledged())
    }

    /// Connections that are fenced.
    pub(crate) fn count(&self) -> usize {
        self.flows.len()
    }
}

impl Flow {
    /// Tells the library what the NIC does for a direction, if it has come back.
    fn report(&self, direction: Direction, state: OffloadState) {
        if let Some(slot) = &self.slot {
            let (memory, generation) = (slot.slot(), slot.generation());
            if memory.status(direction, generation) != OffloadState::None
                || state == OffloadState::Offloaded
                || state == OffloadState::Reset
            {
                memory.set_status(direction, generation, state);
            }
        }
    }

    fn is_transmitting(&self) -> bool {
        let last = self.epochs.back();
        last.is_some_and(|epoch| matches!(epoch.kind, Kind::Records(_)))
    }
}
