//! What the device keeps of a splice.
//!
//! ```text
//!      A's peer ── seq, val ──▶ [ half A ] ── + deltas of A ──▶ B's peer
//!               ◀── ack, echo ──          ◀── − deltas of A ──
//!
//!      A's peer ◀── + deltas of B ── [ half B ] ◀── seq, val ── B's peer
//! ```
//!
//! A half is one connection: its addresses, and the stream that comes from its peer, in that peer's own sequence numbers.

use std::ops::Range;

use wire::checksum::Sum;
use wire::{FlowKey, SeqNum};

use super::half::{Half, octets};
use crate::ring::accel::{LegState, Side, Splice, SpliceEnd, SpliceId, TimestampState};

/// No pair.
pub(super) const NIL: u32 = u32::MAX;

/// A splice. 64 Ki of them, with what leads to them, stay below 16 MiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) halves: [Half; 2],
    pub(super) id: SpliceId,
    pub(super) function: u16,
    /// What the addresses of a packet from A's peer add to a checksum's sum when it goes to B's.
    address_delta: u16,
    pub(super) phase: Phase,
}

const _: () = assert!(size_of::<Pair>() <= 212);

/// ```text
///  Free ─install─▶ Open ─both FINs acknowledged─▶ Lingering ─┐
///   ▲               │ unsplice                      │ RST    │ in time, or another needs the room
///   │               ▼                               ▼        ▼
///   │            Draining ─all is acknowledged──▶ Ended ◀────┘
///   └───────────────────────reported to the host────┘
/// ```
/// Open and Draining also end by RST, and Open by idleness. Times are milliseconds of the table's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// In the list of free ones.
    Free { next: u32 },
    /// Forwards everything. `idle` 0: for ever.
    Open { idle: u32, heard: u32 },
    /// Forwards what was forwarded before, and acknowledgements. `latest` are the TSvals of each side's peer that were
    /// forwarded, also with acknowledgements whose data are the host's.
    Draining { until: u32, latest: [u32; 2] },
    /// Both FINs are acknowledged. In a list, the one that began first at the front.
    Lingering { until: u32, before: u32, after: u32 },
    /// Over, and waits for room in the host's receive ring, in a list.
    Ended { reason: SpliceEnd, next: u32 },
}

impl Pair {
    /// A pair for a splice that [can be made](super::refusal::check).
    pub(super) fn new(splice: &Splice, function: u16, mtu: u16, now: u32) -> Pair {
        let (a, b) = (&splice.a, &splice.b);
        Pair {
            halves: [Half::new(a, b, mtu, now), Half::new(b, a, mtu, now)],
            id: splice.splice,
            function,
            address_delta: difference(&a.flow, &b.flow),
            phase: Phase::Open {
                idle: splice.idle_ms,
                heard: now,
            },
        }
    }

    /// The half that a packet from the peer of `side` comes in by, and the one that it leaves by.
    pub(super) fn legs(&self, side: Side) -> (&Half, &Half) {
        let at = side.index();
        (&self.halves[at], &self.halves[1 - at])
    }

    /// As [`legs`](Self::legs).
    pub(super) fn legs_mut(&mut self, side: Side) -> (&mut Half, &mut Half) {
        let [a, b] = &mut self.halves;
        match side {
            Side::A => (a, b),
            Side::B => (b, a),
        }
    }

    /// What the addresses of a packet from the peer of `side` add to a sum when it goes to the other one.
    pub(super) fn address_delta(&self, side: Side) -> u16 {
        match side {
            Side::A => self.address_delta,
            Side::B => !self.address_delta,
        }
    }

    /// What is reported of the pair from here on is final: our values go on behind all that was sent.
    pub(super) fn settle(&mut self) {
        if let Phase::Draining { latest, .. } = self.phase {
            for (half, latest) in self.halves.iter_mut().zip(latest) {
                let ahead = latest.wrapping_sub(half.recent);
                half.deltas.ts = half.deltas.ts.wrapping_add(ahead);
            }
        }
    }

    /// All that was forwarded is acknowledged, both ways.
    pub(super) fn is_drained(&self) -> bool {
        self.halves
            .iter()
            .all(|half| half.stream.nxt == half.stream.una)
    }

    /// Both FINs are acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.halves.iter().all(Half::is_finished)
    }

    /// A RST from the peer of `side` finds the other peer's connection in CLOSING, LAST-ACK or TIME-WAIT, and ends it in order
    /// (RFC 9293 §3.10.7.4). So a peer answers a FIN that comes again when its TIME-WAIT is over.
    pub(super) fn is_over_by_reset(&self, side: Side) -> bool {
        let (half, other) = self.legs(side);
        half.is_finished() && other.has_fin()
    }

    /// What was forwarded to the peer of `side` and is not acknowledged, in its connection's numbers.
    pub(super) fn sent_to(&self, side: Side) -> Range<SeqNum> {
        let (_, other) = self.legs(side);
        other.stream.una + other.deltas.seq..other.stream.nxt + other.deltas.seq
    }

    /// What the host needs to go on with the connection of `side`.
    pub(super) fn state(&self, side: Side) -> LegState {
        let (half, other) = self.legs(side);
        let sent = self.sent_to(side);
        LegState {
            snd_una: sent.start,
            snd_nxt: sent.end,
            rcv_nxt: half.stream.una,
            peer_window: u32::from(half.windows.heard) << half.windows.peer_shift,
            our_window: half
                .stream
                .una
                .distance_to(half.stream.edge.max(half.stream.una)),
            forwarded: other.bytes(),
            probed: other.is_probing(),
            fin_sent: other.has_fin(),
            fin_received: half.is_finished(),
            timestamps: half.timestamps().then(|| TimestampState {
                recent: half.recent,
                value: half.our_value(other),
            }),
            ecn_echo: half.owes_echo(),
        }
    }
}

/// What the addresses of a packet from the peer of `leg` add to a sum when it goes to the peer of `other`.
fn difference(leg: &FlowKey, other: &FlowKey) -> u16 {
    let sum = |flow: &FlowKey| Sum::of(&octets(flow.src.0)) + Sum::of(&octets(flow.dst.0));
    (sum(other) + Sum::of_u16(sum(leg).finish())).fold()
}
