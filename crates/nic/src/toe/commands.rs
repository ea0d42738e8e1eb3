//! What hosts ask for.

use std::time::Duration;

use wire::{FlowKey, SeqNum};

use super::entry::{Entry, Farewell, Load, Phase, Sending, Unreported};
use super::pieces::Passes;
use super::{After, Toe, ToeEnv};
use crate::delivery;
use crate::ring::toe::{
    RefuseReason, RestoreReason, TcbField, ToeEvent, ToeId, ToeOffer, ToeOption,
};
use crate::ring::{ContextId, ErrorCode, Gather, SendFlags, Slice, ToeRequest};

/// How long a connection is held for an offer.
const HOLD: Duration = Duration::from_secs(1);

impl Toe {
    /// Carries out a command of a function; `gather` has its slices.
    ///
    /// # Errors
    /// When it makes no sense. A command for a connection that is not there (any more) is no error.
    pub(crate) fn command(
        &mut self,
        env: &mut ToeEnv<'_>,
        request: &ToeRequest,
        gather: &Gather,
    ) -> Result<After, ErrorCode> {
        env.function.counters.toe_commands += 1;
        match request {
            ToeRequest::Begin { toe, flow } => {
                if let Err(reason) = self.begin(env, *toe, flow) {
                    self.refuse(env, *toe, flow, reason);
                }
                return Ok(After::Next);
            }
            ToeRequest::Offer(offer) => {
                self.offer(env, offer);
                return Ok(After::Next);
            }
            _ => {}
        }
        let Some(at) = self.table.find(env.function.id.0, request.toe()) else {
            env.function.counters.toe_stale_commands += 1;
            return Ok(After::Next);
        };
        let result = self.command_to(env, at, request, gather);
        if let Err(error) = result {
            // Nothing that follows would fit.
            let context = None;
            self.give_back(env, at, RestoreReason::Transmit { error, context });
        }
        self.settle(at);
        result
    }

    /// Begins to hold a flow's packets.
    fn begin(
        &mut self,
        env: &mut ToeEnv<'_>,
        toe: ToeId,
        flow: &FlowKey,
    ) -> Result<(), RefuseReason> {
        let received = flow.reversed();
        let hash = env.hasher.hash(&received);
        self.check_room(env, toe, &received, hash)?;
        let function = &mut *env.function;
        let until = env.now + HOLD;
        // The connection keeps this queue, whatever the host sets. What of the flow has come on it so far is the host's.
        let queue = function.rss.steer_tcp(hash, &received).queue;
        delivery::end_session(function, queue.into(), hash, &received);
        let at = self.table.insert(Entry {
            toe,
            flow: received,
            hash,
            function: function.id.0,
            queue,
            hop: wire::ethernet::MacAddr::ZERO,
            hop_limit: 0,
            tcb: Slice::NOTHING,
            phase: Phase::Held(until),
            connection: None,
            fin_taken: false,
            sending: Sending::default(),
            unreported: Unreported {
                ready: true,
                ..Unreported::default()
            },
            load: Load::default(),
            in_segments: false,
            in_events: false,
        });
        function.nic_packets.open(toe.index, queue);
        env.accel.adopt(hash, at);
        function.counters.toe_connections += 1;
        self.room.begun();
        let places = self.table.len();
        self.timers.reserve(places);
        self.timers.set(at, until);
        let lines = self.lines_of(env.function.id.0);
        for line in [&mut lines.segments, &mut lines.events] {
            line.reserve(places.saturating_sub(line.len()));
        }
        self.wants_events(at);
        Ok(())
    }

    /// Whether another connection, of this flow, may be held.
    fn check_room(
        &self,
        env: &ToeEnv<'_>,
        toe: ToeId,
        received: &FlowKey,
        hash: u64,
    ) -> Result<(), RefuseReason> {
        let id = env.function.id;
        let runs = |at| self.table.owns(at, id, received);
        if self.hard_limit == 0 {
            return Err(RefuseReason::Unsupported);
        }
        if toe.index >= env.function.config.toe_connections {
            return Err(RefuseReason::Quota);
        }
        if self.table.by_index(id.0, toe.index).is_some() {
            return Err(RefuseReason::InUse);
        }
        if env.accel.owner_of(hash, id, received, runs).is_some() {
            return Err(RefuseReason::FlowOwned);
        }
        if self.room.connections() >= self.hard_limit {
            return Err(RefuseReason::HardLimit);
        }
        match self.room.admits() {
            true => Ok(()),
            false => Err(RefuseReason::SoftLimit),
        }
    }

    fn offer(&mut self, env: &mut ToeEnv<'_>, offer: &ToeOffer) {
        let held = self.table.find(env.function.id.0, offer.toe).filter(|at| {
            let entry = self.table.get(*at);
            entry.is_some_and(|entry| matches!(entry.phase, Phase::Held(_)))
        });
        let Some(at) = held else {
            self.refuse(env, offer.toe, &offer.flow, RefuseReason::NotHeld);
            return;
        };
        match self.accept(env, at, offer) {
            Ok(()) => env.function.counters.toe_handoffs += 1,
            Err(reason) => self.leave(env.function, at, Farewell::Refused(reason)),
        }
        self.settle(at);
    }

    /// Tells that a connection of which there is no entry was not taken.
    fn refuse(&mut self, env: &mut ToeEnv<'_>, toe: ToeId, flow: &FlowKey, reason: RefuseReason) {
        env.function.counters.count_refusal(reason);
        let received = flow.reversed();
        let hash = env.hasher.hash(&received);
        let queue = env.function.rss.steer_tcp(hash, &received).queue;
        let lines = self.lines_of(env.function.id.0);
        lines
            .unreported
            .push_back((queue, ToeEvent::Refused { toe, reason }));
    }

    /// A command for the connection at this place.
    ///
    /// # Errors
    /// What it is to send makes no sense.
    fn command_to(
        &mut self,
        env: &mut ToeEnv<'_>,
        at: u32,
        request: &ToeRequest,
        gather: &Gather,
    ) -> Result<After, ErrorCode> {
        let Some(entry) = self.table.get_mut(at) else {
            return Ok(After::Next);
        };
        let phase = entry.phase;
        // One that is to be given back is the host's: its control block is written.
        let is_ours = !matches!(phase, Phase::Leaving(_) | Phase::Emptying);
        let connection = entry.connection.as_mut().filter(|_| is_ours);
        match (*request, connection) {
            (ToeRequest::Cancel(_), _) if matches!(phase, Phase::Held(_)) => {
                env.function.counters.toe_cancelled += 1;
                self.leave(env.function, at, Farewell::Cancelled);
            }
            (ToeRequest::Restore(_), Some(_)) if phase == Phase::Running => {
                self.give_back(env, at, RestoreReason::Asked);
            }
            (
                ToeRequest::Send {
                    seq,
                    bytes,
                    context,
                    flags,
                    ..
                },
                Some(_),
            ) if phase == Phase::Running => {
                let passes = Passes { context, flags };
                self.send(env, at, seq, bytes, passes, gather.slices())?;
            }
            (ToeRequest::Consumed { bytes, .. }, Some(connection)) => {
                connection.consumed(env.now, bytes);
            }
            (ToeRequest::Close(_), Some(connection)) => connection.close(env.now),
            (ToeRequest::Abort(_), Some(connection)) => connection.abort(),
            (ToeRequest::Detach(_), Some(connection)) => connection.detach(env.now),
            (ToeRequest::Option(_, option), Some(connection)) => match option {
                ToeOption::NoDelay(on) => connection.set_nagle(!on),
                ToeOption::Cork(on) => connection.set_cork(env.now, on),
            },
            (
                ToeRequest::Resume {
                    context,
                    tcpsn,
                    len,
                    ..
                },
                Some(_),
            ) => return Ok(self.resume(at, context, tcpsn, len)),
            _ => env.function.counters.toe_stale_commands += 1,
        }
        Ok(After::Next)
    }

    /// Appends to what a connection has to send.
    fn send(
        &mut self,
        env: &mut ToeEnv<'_>,
        at: u32,
        seq: SeqNum,
        bytes: u32,
        passes: Passes,
        slices: &[Slice],
    ) -> Result<(), ErrorCode> {
        let Some(entry) = self.table.get_mut(at) else {
            return Ok(());
        };
        let (queue, Some(connection)) = (&mut entry.sending.queue, &mut entry.connection) else {
            return Ok(());
        };
        if seq != queue.end() {
            env.function.counters.toe_stale_commands += 1;
            return Ok(());
        }
        if slices.len() > queue.room() {
            return Err(ErrorCode::TableFull);
        }
        let end = seq + bytes;
        let written = connection.write_seq();
        if end.after(written) {
            let new = written.distance_to(end);
            // What was in flight at the offer may have been acknowledged meanwhile, and nothing beyond it.
            if written.before(seq) || connection.queue(env.now, new) != new {
                return Err(ErrorCode::BadLength);
            }
        }
        self.pool.append(queue, slices, passes);
        Ok(())
    }

    /// Goes on with what waited for a context.
    fn resume(&mut self, at: u32, context: ContextId, tcpsn: SeqNum, len: u32) -> After {
        let Some(entry) = self.table.get_mut(at) else {
            return After::Next;
        };
        let sending = &mut entry.sending;
        if sending
            .waiting
            .is_none_or(|(waiting, _)| waiting != context)
        {
            return After::Next;
        }
        sending.waiting = None;
        sending.good_until = (len > 0).then(|| tcpsn + len);
        // It is this one's turn now.
        let function = entry.function;
        let listed = std::mem::replace(&mut entry.in_segments, true);
        let line = &mut self.lines_of(function).segments;
        if listed {
            line.retain(|other| *other != at);
        }
        line.push_front(at);
        After::Segments
    }

    /// The ports that an offer's control block must have.
    pub(super) fn check_ports(flow: &FlowKey, tcb: &tcp::Tcb) -> Result<(), TcbField> {
        if tcb.src_port != flow.src.1 {
            return Err(TcbField::SrcPort);
        }
        if tcb.dst_port != flow.dst.1 {
            return Err(TcbField::DstPort);
        }
        Ok(())
    }

    /// Only what memory that may change asks for is left of a host's flags.
    pub(super) fn flags_of(passes: Option<Passes>) -> SendFlags {
        let own = passes.map_or(SendFlags::NONE, |passes| passes.flags);
        own.union(SendFlags::CHECKSUM)
    }
}
