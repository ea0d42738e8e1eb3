//! Connections of which the device does the mechanical part (AccelTCP): it answers SYNs, finishes closes, and relays between
//! two connections that were spliced.
//!
//! ```text
//! frame ─▶ classify, checksum ─▶ flows ─┬─▶ closing: FIN-WAIT … TIME-WAIT ─┐
//!                                       ├─▶ splices: the other leg ────────┼─▶ egress ─▶ poll_transmit
//!                                       └─▶ listeners ─▶ setup: SYN-ACK ───┘
//!                                                 └─▶ Established + packet ─▶ host
//! ```
//!
//! A connection has one owner at any time, host or device. The device never has half-open connections: what it must remember
//! of a SYN comes back in a cookie. With nothing installed a received frame costs one branch.

mod budget;
mod closing;
mod egress;
mod flows;
mod listener;
mod packet;
mod packet_memory;
mod path;
mod room;
mod setup;
mod splice;
mod wheel;

use std::time::Instant;

use wire::{FlowKey, SeqNum};

use crate::config::{AccelConfig, NicConfig};
use crate::counters::Counters;
use crate::frame::{FrameMeta, Segment};
use crate::function::Function;
use crate::ring::accel::Established;
use crate::ring::{AccelCommand, ErrorCode, Gather};
use crate::rss::FlowHasher;
use crate::switch::FunctionId;
use closing::Closing;
use egress::Egress;
use flows::Flows;
pub(crate) use flows::Owned;
pub(crate) use path::too_big;
use room::Rooms;
use setup::Setup;
use splice::Splices;

/// Connections that the device runs that have places in the index of flows.
pub(crate) const MAX_TOE: u32 = Owned::MAX_TOE;

/// All of it, for all functions.
#[derive(Debug)]
pub(crate) struct Accel {
    flows: Flows,
    egress: Egress,
    setup: Setup,
    closing: Closing,
    splices: Splices,
    rooms: Rooms,
    /// A frame that a host has put back.
    scratch: Vec<u8>,
}

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    /// The device has done with it.
    Taken,
    /// It goes the way of all others; with `Some` it opens a connection, which is reported directly before it.
    Pass(Option<Established>),
}

/// What the device has besides a part of the acceleration, for one function's packet or command.
pub(crate) struct AccelEnv<'a> {
    pub(crate) now: Instant,
    pub(crate) nic: &'a NicConfig,
    pub(crate) hasher: &'a FlowHasher,
    pub(crate) flows: &'a mut Flows,
    pub(crate) egress: &'a mut Egress,
    pub(crate) function: &'a mut Function,
}

/// What the device has besides a part of the acceleration, for what is not of one function.
pub(crate) struct AccelDeviceEnv<'a> {
    pub(crate) now: Instant,
    pub(crate) nic: &'a NicConfig,
    pub(crate) hasher: &'a FlowHasher,
    pub(crate) flows: &'a mut Flows,
    pub(crate) functions: &'a mut [Function],
}

/// A frame that the device made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Made {
    /// Whose.
    pub(crate) function: FunctionId,
    pub(crate) len: usize,
    pub(crate) meta: FrameMeta,
}

/// The parts of the device that all of this needs and does not own.
pub(crate) struct Device<'a> {
    pub(crate) now: Instant,
    pub(crate) nic: &'a NicConfig,
    pub(crate) hasher: &'a FlowHasher,
}

impl Accel {
    pub(crate) fn new(config: &AccelConfig) -> Accel {
        Accel {
            flows: Flows::default(),
            egress: Egress::new(config.egress_bytes),
            setup: Setup::new(config),
            closing: Closing::new(config),
            splices: Splices::new(config),
            rooms: Rooms::default(),
            scratch: Vec::new(),
        }
    }

    /// Whether there is nothing for [`receive`](Self::receive) to find.
    pub(crate) fn is_idle(&self) -> bool {
        self.flows.is_empty() && self.setup.listeners.is_empty()
    }

    /// Memory for a frame that a host puts back.
    pub(crate) fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// Says that a segment of the flow with this hash comes soon.
    #[inline]
    pub(crate) fn expect(&self, hash: u64) {
        self.flows.expect(hash);
    }

    /// Takes a segment for `function`, of a flow whose `owner` is not a connection that the device runs. `has_context`: it has a receive
    /// context, and so is a connection that its host has.
    pub(crate) fn receive(
        &mut self,
        device: &Device<'_>,
        function: &mut Function,
        owner: Option<Owned>,
        has_context: bool,
        segment: &Segment<'_>,
    ) -> Handled {
        let mut env = AccelEnv {
            now: device.now,
            nic: device.nic,
            hasher: device.hasher,
            flows: &mut self.flows,
            egress: &mut self.egress,
            function,
        };
        let handled = match owner {
            Some(Owned::Closing(at)) => self.closing.handle_segment(&mut env, at, segment),
            Some(Owned::Spliced(at, side)) => {
                self.splices.handle_segment(&mut env, at, side, segment)
            }
            Some(Owned::Toe(_)) | None => Handled::Pass(None),
        };
        match owner {
            // A SYN that ends TIME-WAIT is one as any other.
            None | Some(Owned::Closing(_)) if handled != Handled::Taken && !has_context => {
                self.setup.handle_segment(&mut env, segment)
            }
            _ => handled,
        }
    }

    /// Takes notice of a report that a segment of ours, at `seq` of a flow with this `owner`, was too big for its path. False when nothing
    /// like that segment is on its way, as only the device can tell: the host is not to believe it (RFC 5927 §4.1).
    pub(crate) fn path_shrank(
        &mut self,
        function: &mut Function,
        owner: Owned,
        seq: SeqNum,
        mtu: u32,
    ) -> bool {
        match owner {
            Owned::Closing(at) => {
                self.closing.path_shrank(at, seq, mtu);
                true
            }
            Owned::Spliced(at, side) => {
                let is_true = self.splices.is_on_its_way(at, side, seq);
                function.counters.accel_splice_stale_errors += u64::from(!is_true);
                is_true
            }
            Owned::Toe(_) => true,
        }
    }

    /// A connection that was [set up](Handled::Pass) was not reported, because the host had no room: the peer sends again.
    pub(crate) fn not_reported(&mut self, function: FunctionId, established: &Established) {
        // The rule is still there.
        let _ = self.setup.listeners.credit(function, established.rule, 1);
    }

    /// Who owns a flow, from the peer to us; `runs` says whether the connection at a place among those that the device runs
    /// has it.
    #[inline]
    pub(crate) fn owner_of(
        &self,
        hash: u64,
        function: FunctionId,
        flow: &FlowKey,
        runs: impl Fn(u32) -> bool,
    ) -> Option<Owned> {
        self.flows.find(hash, |owned| match owned {
            Owned::Toe(at) => runs(at),
            _ => self.confirms(owned, function, flow),
        })
    }

    /// Out of the way of those lookups that find nothing.
    #[inline(never)]
    fn confirms(&self, owned: Owned, function: FunctionId, flow: &FlowKey) -> bool {
        match owned {
            Owned::Closing(at) => self.closing.owns(at, function, flow),
            Owned::Spliced(at, side) => self.splices.owns(at, side, function, flow),
            Owned::Toe(_) => false,
        }
    }

    /// The device runs the flow with this hash, which has no owner, at this place.
    pub(crate) fn adopt(&mut self, hash: u64, at: u32) {
        self.flows.insert(hash, Owned::Toe(at));
    }

    /// It is no longer.
    pub(crate) fn release(&mut self, hash: u64, at: u32) {
        self.flows.remove(hash, Owned::Toe(at));
    }

    /// A host opens a connection of its own with a flow that has this `owner`: one that rests in TIME-WAIT gives way to it.
    ///
    /// # Errors
    /// When the device owns the flow, and it does not rest.
    pub(crate) fn open(
        &mut self,
        function: &mut Function,
        owner: Option<Owned>,
    ) -> Result<(), ErrorCode> {
        match owner {
            None => Ok(()),
            Some(Owned::Spliced(..) | Owned::Toe(_)) => Err(ErrorCode::FlowExists),
            Some(Owned::Closing(at)) => self.closing.reopen(&mut self.flows, function, at),
        }
    }

    /// Carries a host's command out; `gather` has its slices. `owned`: the device owns a flow that it names.
    ///
    /// # Errors
    /// When it was not. The host owns then what it owned before.
    pub(crate) fn command(
        &mut self,
        device: &Device<'_>,
        function: &mut Function,
        command: &AccelCommand,
        owned: bool,
        gather: &Gather,
    ) -> Result<(), ErrorCode> {
        let id = function.id;
        let mut env = AccelEnv {
            now: device.now,
            nic: device.nic,
            hasher: device.hasher,
            flows: &mut self.flows,
            egress: &mut self.egress,
            function,
        };
        match command {
            AccelCommand::Install(install) => self.setup.install(&mut env, install),
            AccelCommand::Remove(rule) => self.setup.listeners.remove(id, *rule),
            AccelCommand::Credit { rule, credits } => {
                self.setup.listeners.credit(id, *rule, *credits)
            }
            AccelCommand::Teardown(teardown) => {
                let done = match owned {
                    true => Err(ErrorCode::FlowExists),
                    false => self.closing.take_over(&mut env, teardown, gather),
                };
                env.function.counters.accel_closing_refused += u64::from(done.is_err());
                done
            }
            AccelCommand::Splice(splice) => {
                let done = match owned {
                    true => Err(ErrorCode::FlowExists),
                    false => self.splices.install(&mut env, splice),
                };
                env.function.counters.accel_splices_refused += u64::from(done.is_err());
                done
            }
            AccelCommand::Unsplice(splice) => self.splices.take_back(&mut env, *splice),
            AccelCommand::Query(splice) => self.splices.query(&mut env, *splice),
            // That is the receive side's.
            AccelCommand::Reinject { .. } => Err(ErrorCode::Unsupported),
        }
    }

    /// Forgets all that it has for a function.
    pub(crate) fn reset_function(&mut self, hasher: &FlowHasher, function: FunctionId) {
        self.setup.listeners.remove_all(function);
        self.closing.reset_function(&mut self.flows, function);
        self.splices
            .reset_function(&mut self.flows, hasher, function);
        self.egress.forget(function);
    }

    /// A function that was reset has gone; another one may come in its place.
    pub(crate) fn remove_function(&mut self, function: FunctionId) {
        self.rooms.forget(function);
    }

    /// Does what is due.
    pub(crate) fn handle_time(&mut self, device: &Device<'_>, functions: &mut [Function]) {
        let mut env = AccelDeviceEnv {
            now: device.now,
            nic: device.nic,
            hasher: device.hasher,
            flows: &mut self.flows,
            functions,
        };
        self.closing.handle_time(&mut env);
        self.splices.handle_time(&mut env);
    }

    /// When [`handle_time`](Self::handle_time) and [`poll_transmit`](Self::poll_transmit) are to be called without new input.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [self.closing.poll_timeout(), self.splices.poll_timeout()];
        timeouts.into_iter().flatten().min()
    }

    /// See [`Nic::unfinished_teardowns`](crate::Nic::unfinished_teardowns).
    pub(crate) fn unfinished_teardowns(&self, of: Option<FunctionId>) -> usize {
        self.closing.unfinished(of)
    }

    /// See [`Nic::closing_flows`](crate::Nic::closing_flows).
    pub(crate) fn closing_flows(&self) -> Vec<FlowKey> {
        self.closing.flows()
    }

    /// Says what a function has in use of the NIC's memory.
    pub(crate) fn measure(&self, function: FunctionId, counters: &mut Counters) {
        let (closing, packet_memory) = self.closing.used(function);
        counters.accel_curr_closing = closing.into();
        counters.accel_curr_packet_memory = packet_memory;
        counters.accel_curr_splices = self.splices.used(function).into();
    }

    /// Whether a frame waits for [`poll_transmit`](Self::poll_transmit).
    pub(crate) fn has_frames(&self) -> bool {
        !self.egress.is_empty() || self.closing.has_frames()
    }

    /// Writes the next frame that the device has made into `out`.
    pub(crate) fn poll_transmit(
        &mut self,
        device: &Device<'_>,
        functions: &mut [Function],
        out: &mut [u8],
    ) -> Option<Made> {
        if let Some(made) = self.egress.pop(out) {
            return Some(made);
        }
        let mut env = AccelDeviceEnv {
            now: device.now,
            nic: device.nic,
            hasher: device.hasher,
            flows: &mut self.flows,
            functions,
        };
        self.closing.poll_transmit(&mut env, out)
    }

    /// Ends a batch: tells the hosts what they are to know. False when some of that waits for room in a receive ring.
    pub(crate) fn flush(&mut self, device: &Device<'_>, functions: &mut [Function]) -> bool {
        let mut all = true;
        for function in functions {
            all &= self
                .splices
                .report(&mut self.flows, device.hasher, function);
            let room = self.closing.room(function, self.splices.room(function));
            all &= self.rooms.report(function, room);
        }
        all
    }
}
