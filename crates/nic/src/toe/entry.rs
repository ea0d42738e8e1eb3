//! A connection of the table.

use std::time::{Duration, Instant};

use tcp::{CloseReason, Connection, TimeWaitEntry, Transmit};
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use super::pieces::Queue;
use crate::ring::toe::{RefuseReason, RestoreReason, ToeId};
use crate::ring::{ContextId, Slice};

/// A connection that the device runs, is about to run, or has run until just now. At most 1.5 KiB.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) toe: ToeId,
    /// Of packets that it receives: from the peer to us.
    pub(super) flow: FlowKey,
    /// Of this flow.
    pub(super) hash: u64,
    pub(super) function: u16,
    /// The function's queue that has its events.
    pub(super) queue: u16,
    pub(super) hop: MacAddr,
    pub(super) hop_limit: u8,
    /// Where its control block goes when it is given back.
    pub(super) tcb: Slice,
    pub(super) phase: Phase,
    /// From the offer on.
    pub(super) connection: Option<Connection>,
    /// The peer's FIN is counted in RCV.NXT.
    pub(super) fin_taken: bool,
    pub(super) sending: Sending,
    pub(super) unreported: Unreported,
    pub(super) load: Load,
    /// It is in the line of those with something to send.
    pub(super) in_segments: bool,
    /// It is in the line of those with something to tell.
    pub(super) in_events: bool,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// Its packets wait for an offer, until then at the latest.
    Held(Instant),
    /// The device runs it.
    Running,
    /// It has ended, and has only a last segment to send.
    Ending(CloseReason),
    /// This is to be reported to the host.
    Leaving(Farewell),
    /// The host is to get the packets that wait.
    Emptying,
}

/// The last report of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Farewell {
    /// The host knows.
    Cancelled,
    /// Nothing: the host has forgotten it.
    Expired,
    Refused(RefuseReason),
    Restored(RestoreReason),
    Closed(CloseReason, Option<TimeWaitEntry>),
}

/// What is to be sent.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// What was posted from SND.UNA on.
    pub(super) queue: Queue,
    /// The segment given out last.
    pub(super) last: Option<Transmit>,
    /// What of a segment was not given out yet, because its bytes pass another context or it has too many slices.
    pub(super) rest: Option<Transmit>,
    /// The host is to bring this context to this place first.
    pub(super) waiting: Option<(ContextId, SeqNum)>,
    /// Where a recovery is good no longer.
    pub(super) good_until: Option<SeqNum>,
}

/// What is to be reported to the host.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    pub(super) ready: bool,
    pub(super) accepted: bool,
    pub(super) recover: bool,
    pub(super) peer_fin: Option<SeqNum>,
    /// Acknowledged, as far as it was reported.
    pub(super) reported_una: SeqNum,
}

/// Packets that a connection has had of late.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    packets: u32,
    at: Option<Instant>,
}

impl Load {
    /// After so long a packet counts half.
    const HALF_LIFE: Duration = Duration::from_millis(100);
    /// What a packet counts.
    const UNIT: u32 = 256;

    pub(super) fn add(&mut self, now: Instant, packets: u32) {
        self.packets = self
            .now(now)
            .saturating_add(packets.saturating_mul(Self::UNIT));
        let gone = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if self.at.is_none() || gone >= Self::HALF_LIFE {
            self.at = Some(now);
        }
    }

    /// The count, decayed.
    pub(super) fn now(&self, now: Instant) -> u32 {
        let Some(at) = self.at else {
            return 0;
        };
        let gone = now.saturating_duration_since(at).as_nanos() / Self::HALF_LIFE.as_nanos();
        self.packets.checked_shr(gone.min(32) as u32).unwrap_or(0)
    }
}

impl Entry {
    /// Whether the load it makes counts (Cnum).
    pub(super) fn counts(&self) -> bool {
        matches!(
            self.phase,
            Phase::Held(_) | Phase::Running | Phase::Ending(_)
        )
    }

    /// All before it is in order, without the FIN.
    pub(super) fn rcv_nxt(&self) -> SeqNum {
        let nxt = self.connection.as_ref().map_or(SeqNum(0), |c| c.rcv_nxt());
        nxt - u32::from(self.fin_taken)
    }

    /// When something is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match (self.phase, &self.connection) {
            (Phase::Held(until), _) => Some(until),
            (Phase::Running, Some(connection)) => connection.poll_timeout(),
            _ => None,
        }
    }

    /// Whether acknowledgments are worth a message: a quarter of what is queued, 64 KiB, or all.
    pub(super) fn acked_is_due(&self) -> bool {
        const MUCH: u32 = 64 << 10;
        let Some(connection) = &self.connection else {
            return false;
        };
        let (reported, una, end) = (
            self.unreported.reported_una,
            connection.snd_una(),
            connection.write_seq(),
        );
        let unreported = reported.distance_to(una);
        let all = una.at_or_after(end);
        unreported > 0 && (all || unreported >= MUCH || unreported >= reported.distance_to(end) / 4)
    }

    /// Whether anything is to be reported.
    pub(super) fn has_events(&self) -> bool {
        let unreported = &self.unreported;
        unreported.ready
            || unreported.accepted
            || unreported.recover
            || unreported.peer_fin.is_some()
            || matches!(self.phase, Phase::Leaving(_) | Phase::Emptying)
            || self.acked_is_due()
    }
}

#[cfg(test)]
mod tests;
