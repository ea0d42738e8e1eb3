//! Connection splicing (AccelTCP): two connections of a host joined, so that the device carries segments from one peer to
//! the other and the host does not see them.
//!
//! ```text
//! segment ─▶ judge ─┬─ forward ──▶ translate ──▶ egress ──▶ the other peer
//!                   ├─ challenge, acknowledge ─▶ egress ──▶ its sender (RFC 5961)
//!                   └─ drop
//! note what it says: sequence, acknowledgement, window, FIN ──▶ the end of the splice ──▶ host
//! ```
//!
//! The device is no end of either connection. It keeps no data and sends nothing again: retransmission, flow control and
//! congestion control are between the two peers. What is forwarded and lost is lost as on a wire.
//!
//! Cost target: ≤ 800 cycles for a segment of 64 bytes, with parsing and its checksum. Nothing is allocated per segment.

mod ended;
mod forward;
mod half;
mod ids;
mod judge;
mod linger;
mod options;
mod pair;
mod refusal;
mod reply;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod timers;
mod translate;

use std::time::Instant;

use wire::{FlowKey, SeqNum};

use super::flows::Owned;
use super::{AccelEnv, Handled};
use crate::config::AccelConfig;
use crate::frame::Segment;
use crate::ring::ErrorCode;
use crate::ring::accel::{Side, Splice, SpliceEnd, SpliceId};
use crate::switch::FunctionId;
use ended::Ended;
use judge::Verdict;
use linger::Lingering;
use pair::{Pair, Phase};
use table::{Slot, Table};
use time::Hosts;
use timers::Timers;

/// How long retransmitted FINs of a finished splice are still forwarded: a few retransmissions. The peer that closed first
/// rests in TIME-WAIT by itself.
const LINGER_MS: u32 = 2_000;
/// How long a splice that is taken back may wait for what was forwarded to be acknowledged.
const DRAIN_MS: u32 = 10_000;
/// Milliseconds of a tick of the wheel.
const TICK_MS: u32 = 128;
/// Splices that share a timer: it says which to look at, the times are with them.
const GROUP: u32 = 4;

/// All splices.
#[derive(Debug)]
pub(super) struct Splices {
    table: Table,
    timers: Timers,
    lingering: Lingering,
    ended: Ended,
    /// What times count from.
    epoch: Option<Instant>,
    /// Milliseconds since then, at the last look.
    clock: u64,
    /// Nothing is due before this.
    due: Option<Instant>,
}

impl Splices {
    pub(super) fn new(config: &AccelConfig) -> Splices {
        let table = Table::new(config.splices);
        Splices {
            timers: Timers::new(table.capacity()),
            table,
            lingering: Lingering::default(),
            ended: Ended::default(),
            epoch: None,
            clock: 0,
            due: None,
        }
    }

    /// Bytes that so many splices take, the flows' index not counted.
    #[cfg(test)]
    pub(super) const fn bytes(splices: u32) -> usize {
        Table::bytes(splices) + Timers::bytes(splices)
    }

    /// Whether the splice at `slot` is this function's, and the peer of this side sends this flow.
    #[inline]
    pub(super) fn owns(
        &self,
        slot: Slot,
        side: Side,
        function: FunctionId,
        flow: &FlowKey,
    ) -> bool {
        self.table.get(slot).is_some_and(|pair| {
            let (half, _) = pair.legs(side);
            pair.function == function.0 && half.comes_by(flow)
        })
    }

    /// Whether the splice at `slot` has forwarded a segment at `seq` to the peer of `side` that this has not acknowledged, in
    /// the numbers that it knows.
    pub(super) fn is_on_its_way(&self, slot: Slot, side: Side, seq: SeqNum) -> bool {
        self.table.get(slot).is_some_and(|pair| {
            let sent = pair.sent_to(side);
            sent.start.at_or_before(seq) && seq.before(sent.end)
        })
    }

    /// Takes a segment of the peer of one side of the splice at `slot`. [`Handled::Pass`] when it is the host's.
    pub(super) fn handle_segment(
        &mut self,
        env: &mut AccelEnv<'_>,
        slot: Slot,
        side: Side,
        segment: &Segment<'_>,
    ) -> Handled {
        let now = self.milliseconds(env.now);
        let Some(pair) = self.table.get_mut(slot) else {
            return Handled::Pass(None);
        };
        if matches!(pair.phase, Phase::Ended { .. }) {
            // The host does not know yet.
            forward::drop_segment(env);
            return Handled::Taken;
        }
        let parsed = segment.parsed;
        let whole = parsed.tcp.seq + parsed.tcp.sequence_len(parsed.payload_len);
        let verdict = pair.judge(side, parsed);
        let mut handled = Handled::Taken;
        match verdict {
            Verdict::Forward | Verdict::Reset => {
                pair.note(side, parsed, whole, segment.segments, now);
                forward::segment(pair, side, env, segment);
            }
            Verdict::ForwardUpTo(end) => {
                pair.note(side, parsed, end, segment.segments, now);
                forward::up_to(pair, side, end, env, segment);
                // What is new is for the host, once it has the connections back.
                handled = Handled::Pass(None);
            }
            Verdict::Challenge => forward::challenge(pair, side, env, now),
            Verdict::Acknowledge => forward::acknowledge(pair, side, env),
            Verdict::Drop => forward::drop_segment(env),
            Verdict::Reopens => {
                return match self.end(slot, SpliceEnd::Finished, &mut Hosts::of(env)) {
                    true => Handled::Pass(None),
                    false => Handled::Taken,
                };
            }
        }
        let ends = match (verdict, pair.phase) {
            (Verdict::Reset, _) if pair.is_over_by_reset(side) => Some(SpliceEnd::Finished),
            (Verdict::Reset, _) => Some(SpliceEnd::Reset { by: side }),
            (_, Phase::Draining { .. }) if pair.is_drained() => Some(SpliceEnd::TakenBack),
            (_, Phase::Open { .. }) if pair.is_finished() => {
                self.linger(slot, now);
                None
            }
            _ => None,
        };
        if let Some(reason) = ends {
            self.end(slot, reason, &mut Hosts::of(env));
        }
        handled
    }

    /// Joins two connections of a host's, whose flows have no owner yet.
    ///
    /// # Errors
    /// When it does not: the host owns them still.
    pub(super) fn install(
        &mut self,
        env: &mut AccelEnv<'_>,
        splice: &Splice,
    ) -> Result<(), ErrorCode> {
        refusal::check(splice, env)?;
        let function = env.function.id.0;
        if self
            .table
            .find(env.hasher, function, splice.splice)
            .is_some()
        {
            return Err(ErrorCode::SpliceExists);
        }
        let id = env.function.id;
        let is_full = self.table.used_by(id) >= env.function.config.splices;
        if is_full || self.table.room() == 0 {
            // One of its own that lingers may go.
            let may_go = self.room(env.function) > 0;
            let oldest = self.lingering.first(id).filter(|_| may_go);
            let oldest = oldest.ok_or(ErrorCode::TableFull)?;
            if !self.end(oldest, SpliceEnd::Finished, &mut Hosts::of(env)) {
                return Err(ErrorCode::TableFull);
            }
        }
        let now = self.milliseconds(env.now);
        let pair = Pair::new(splice, function, env.nic.mtu, now);
        let slot = self
            .table
            .insert(env.hasher, pair)
            .ok_or(ErrorCode::TableFull)?;
        for side in [Side::A, Side::B] {
            let (half, _) = pair.legs(side);
            let hash = env.hasher.hash(&half.flow().reversed());
            env.flows.insert(hash, Owned::Spliced(slot, side));
        }
        env.function.counters.accel_splices += 1;
        if splice.idle_ms != 0 {
            self.arm(slot, splice.idle_ms);
        }
        if let Some(pair) = self.table.get_mut(slot) {
            forward::open_windows(pair, env);
        }
        Ok(())
    }

    /// Tells where a splice stands.
    ///
    /// # Errors
    /// When there is no such splice, or no room to tell it.
    pub(super) fn query(
        &mut self,
        env: &mut AccelEnv<'_>,
        splice: SpliceId,
    ) -> Result<(), ErrorCode> {
        let slot = self.table.find(env.hasher, env.function.id.0, splice);
        let pair = slot.and_then(|slot| self.table.get(slot));
        let going_on = pair.filter(|pair| !matches!(pair.phase, Phase::Ended { .. }));
        let pair = going_on.ok_or(ErrorCode::NoSplice)?;
        match ended::tell(pair, env.function) {
            true => Ok(()),
            false => Err(ErrorCode::TableFull),
        }
    }

    /// Begins to give them back.
    ///
    /// # Errors
    /// When there is no such splice.
    pub(super) fn take_back(
        &mut self,
        env: &mut AccelEnv<'_>,
        splice: SpliceId,
    ) -> Result<(), ErrorCode> {
        let slot = self.table.find(env.hasher, env.function.id.0, splice);
        let slot = slot.ok_or(ErrorCode::NoSplice)?;
        let now = self.milliseconds(env.now);
        let Some(pair) = self.table.get_mut(slot) else {
            return Err(ErrorCode::NoSplice);
        };
        match pair.phase {
            Phase::Open { .. } if pair.is_drained() => {
                self.end(slot, SpliceEnd::TakenBack, &mut Hosts::of(env));
            }
            Phase::Open { .. } => {
                let until = now.wrapping_add(DRAIN_MS);
                let latest = pair.halves.map(|half| half.recent);
                pair.phase = Phase::Draining { until, latest };
                self.arm(slot, DRAIN_MS);
            }
            // One that lingers is finished, and is reported in time: the last acknowledgement may still have been lost.
            Phase::Lingering { .. }
            | Phase::Draining { .. }
            | Phase::Ended { .. }
            | Phase::Free { .. } => {}
        }
        Ok(())
    }
}
