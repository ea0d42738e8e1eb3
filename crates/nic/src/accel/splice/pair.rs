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

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use ::tcp::TIMESTAMPS_LEN;
use wire::checksum::Sum;
use wire::ethernet::{self, MacAddr};
use wire::{FlowKey, SeqNum, tcp};

use super::reply::never_challenged;
use super::translate::l4_offset;
use crate::ring::accel::{Leg, LegState, Side, Splice, SpliceEnd, SpliceId, TimestampState};

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

/// One connection of a splice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half {
    ours: [u8; 16],
    peers: [u8; 16],
    pub(super) our_port: u16,
    pub(super) peer_port: u16,
    pub(super) hop: MacAddr,
    /// Most bytes of payload and options in a packet to the peer.
    pub(super) room: u16,
    /// Where the peer's stream was when the splice began. `nxt` passes it again every 4 GiB.
    start: SeqNum,
    /// Behind the highest that was forwarded from the peer.
    pub(super) nxt: SeqNum,
    /// The highest acknowledgement that was forwarded to the peer.
    pub(super) una: SeqNum,
    /// The rightmost edge of a window that was announced to the peer.
    pub(super) edge: SeqNum,
    /// What is added to the peer's sequence numbers on the other leg.
    pub(super) seq_delta: u32,
    /// What is added to the peer's TSval there.
    pub(super) ts_delta: u32,
    /// The peer's latest TSval.
    pub(super) recent: u32,
    /// When the peer was last sent a challenge ACK, in units of the [reply](super::reply)'s.
    pub(super) challenged: u16,
    /// The window field that was last announced to the peer.
    pub(super) window: u16,
    /// The window field that the peer last announced.
    pub(super) heard_window: u16,
    /// Shift of the windows that the peer announces.
    pub(super) peer_shift: u8,
    /// Shift of the windows that are announced to the peer.
    pub(super) our_shift: u8,
    /// Binary logarithm of an upper bound of the windows that were announced to the peer.
    reach: u8,
    /// [`FIN`] and the connection's.
    flags: u8,
    /// TTL or hop limit of packets to the peer, at most.
    pub(super) hop_limit: u8,
    /// How often `nxt` has passed `start`.
    laps: u16,
    /// 48 bits of a count.
    packets: [u16; 3],
}

/// The peer's FIN has been seen: `nxt` is behind it.
const FIN: u8 = 1;
const V6: u8 = 2;
const TIMESTAMPS: u8 = 4;
const SACK: u8 = 8;

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
                half.ts_delta = half.ts_delta.wrapping_add(ahead);
            }
        }
    }

    /// All that was forwarded is acknowledged, both ways.
    pub(super) fn is_drained(&self) -> bool {
        self.halves.iter().all(|half| half.nxt == half.una)
    }

    /// Both FINs are acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.halves.iter().all(Half::is_finished)
    }

    /// A RST from the peer of `side` finds the other peer's connection in CLOSING, LAST-ACK or TIME-WAIT, and ends it in order
    /// (RFC 9293 §3.10.7.4). So a peer answers a FIN that comes again when its TIME-WAIT is over.
    pub(super) fn is_over_by_reset(&self, side: Side) -> bool {
        let (half, other) = self.legs(side);
        half.is_finished() && other.has(FIN)
    }

    /// What was forwarded to the peer of `side` and is not acknowledged, in its connection's numbers.
    pub(super) fn sent_to(&self, side: Side) -> Range<SeqNum> {
        let (_, other) = self.legs(side);
        other.una + other.seq_delta..other.nxt + other.seq_delta
    }

    /// What the host needs to go on with the connection of `side`.
    pub(super) fn state(&self, side: Side) -> LegState {
        let (half, other) = self.legs(side);
        let sent = self.sent_to(side);
        LegState {
            snd_una: sent.start,
            snd_nxt: sent.end,
            rcv_nxt: half.una,
            peer_window: u32::from(half.heard_window) << half.peer_shift,
            our_window: half.una.distance_to(half.edge.max(half.una)),
            fin_sent: other.has(FIN),
            fin_received: half.is_finished(),
            timestamps: half.has(TIMESTAMPS).then(|| TimestampState {
                recent: half.recent,
                value: half.our_value(other),
            }),
        }
    }
}

impl Half {
    fn new(leg: &Leg, other: &Leg, mtu: u16, now: u32) -> Half {
        let v6 = leg.flow.is_ipv6();
        let timestamps = leg.timestamps.zip(other.timestamps);
        let recent = timestamps.map_or(0, |(ours, _)| ours.recent);
        let options = if timestamps.is_some() {
            TIMESTAMPS_LEN
        } else {
            0
        };
        let headers = (l4_offset(v6) - ethernet::HEADER_LEN + tcp::HEADER_LEN) as u16;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let field = |window: u32, shift: u8| (window >> shift).min(u32::from(u16::MAX)) as u16;
        Half {
            ours: octets(leg.flow.src.0),
            peers: octets(leg.flow.dst.0),
            our_port: leg.flow.src.1,
            peer_port: leg.flow.dst.1,
            hop: leg.hop,
            room: leg
                .mss
                .saturating_add(options)
                .min(mtu.saturating_sub(headers)),
            start: leg.rcv_nxt,
            nxt: leg.rcv_nxt,
            una: leg.rcv_nxt,
            edge: leg.rcv_nxt + leg.our_window.min(LARGEST_WINDOW),
            seq_delta: leg.rcv_nxt.distance_to(other.snd_nxt),
            ts_delta: timestamps.map_or(0, |(ours, other)| other.value.wrapping_sub(ours.recent)),
            recent,
            challenged: never_challenged(now),
            window: field(leg.our_window, leg.our_shift),
            heard_window: field(leg.peer_window, leg.peer_shift),
            peer_shift: leg.peer_shift,
            our_shift: leg.our_shift,
            reach: reach_of(leg.our_window.clamp(u32::from(u16::MAX), LARGEST_WINDOW)),
            flags: flag(v6, V6)
                | flag(timestamps.is_some(), TIMESTAMPS)
                | flag(leg.sack && other.sack, SACK),
            hop_limit: leg.hop_limit,
            laps: 0,
            packets: [0; 3],
        }
    }

    /// The flow of packets to the peer.
    pub(super) fn flow(&self) -> FlowKey {
        let address = |octets: &[u8; 16]| match self.is_ipv6() {
            true => IpAddr::V6(Ipv6Addr::from(*octets)),
            false => {
                let [a, b, c, d, ..] = *octets;
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
        };
        FlowKey {
            src: (address(&self.ours), self.our_port),
            dst: (address(&self.peers), self.peer_port),
        }
    }

    /// Whether packets from the peer are those of `flow`.
    #[inline]
    pub(super) fn comes_by(&self, flow: &FlowKey) -> bool {
        let ports = self.peer_port == flow.src.1 && self.our_port == flow.dst.1;
        ports
            && match (flow.src.0, flow.dst.0) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => {
                    !self.is_ipv6()
                        && self.peers.first_chunk() == Some(&src.octets())
                        && self.ours.first_chunk() == Some(&dst.octets())
                }
                (IpAddr::V6(src), IpAddr::V6(dst)) => {
                    self.is_ipv6() && self.peers == src.octets() && self.ours == dst.octets()
                }
                _ => false,
            }
    }

    /// Our address and the peer's, one behind the other as in a packet to it.
    pub(super) fn put_addresses(&self, bytes: &mut [u8]) {
        let len = bytes.len() / 2;
        bytes[..len].copy_from_slice(&self.ours[..len]);
        bytes[len..].copy_from_slice(&self.peers[..len]);
    }

    pub(super) fn is_ipv6(&self) -> bool {
        self.has(V6)
    }

    pub(super) fn timestamps(&self) -> bool {
        self.has(TIMESTAMPS)
    }

    /// Both connections take selective acknowledgements.
    pub(super) fn sack(&self) -> bool {
        self.has(SACK)
    }

    /// Our latest TSval to the peer.
    pub(super) fn our_value(&self, other: &Half) -> u32 {
        other.recent.wrapping_add(other.ts_delta)
    }

    /// The peer's FIN is acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.has(FIN) && self.una == self.nxt
    }

    /// A segment from the peer up to `end`, with its FIN there or without, is forwarded.
    pub(super) fn note_sent(&mut self, end: SeqNum, fin: bool) {
        if end.after(self.nxt) {
            let before = self.start.distance_to(self.nxt);
            let after = self.start.distance_to(end);
            self.laps = self.laps.wrapping_add(u16::from(after < before));
            self.nxt = end;
            // The FIN that was forwarded before was not the stream's end.
            self.flags &= !FIN;
        }
        if fin && end == self.nxt {
            self.flags |= FIN;
        }
    }

    /// `ack` is forwarded to the peer, with the window field `window`.
    pub(super) fn note_acknowledged(&mut self, ack: SeqNum, window: u16) {
        let bytes = u32::from(window) << self.our_shift;
        self.edge = self.edge.max(ack + bytes);
        self.reach = self.reach.max(reach_of(bytes));
        if ack.at_or_after(self.una) {
            self.una = ack;
            self.window = window;
        }
    }

    pub(super) fn count_packets(&mut self, packets: u32) {
        let bytes = (self.packets() + u64::from(packets)).to_le_bytes();
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        self.packets = [word(0), word(2), word(4)];
    }

    /// Packets forwarded from the peer.
    pub(super) fn packets(&self) -> u64 {
        let [low, middle, high] = self.packets.map(u64::from);
        low | middle << 16 | high << 32
    }

    /// Bytes of the peer's stream that were forwarded.
    pub(super) fn bytes(&self) -> u64 {
        let sequence = u64::from(self.laps) << 32 | u64::from(self.start.distance_to(self.nxt));
        sequence.saturating_sub(u64::from(self.has(FIN)))
    }

    /// What the peer sends again from before the splice is not the other leg's.
    pub(super) fn is_before_splice(&self, end: SeqNum) -> bool {
        self.laps == 0 && end.at_or_before(self.start)
    }

    /// The furthest back that a segment from the peer, or an acknowledgement of its stream, may lie (RFC 5961 §5.2).
    pub(super) fn oldest(&self) -> SeqNum {
        self.una - (1 << self.reach)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The largest window that there is (RFC 7323 §2.3).
const LARGEST_WINDOW: u32 = 1 << 30;

fn reach_of(window: u32) -> u8 {
    (u32::BITS - window.leading_zeros()) as u8
}

/// IPv4 in the first four.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// What the addresses of a packet from the peer of `leg` add to a sum when it goes to the peer of `other`.
fn difference(leg: &FlowKey, other: &FlowKey) -> u16 {
    let sum = |flow: &FlowKey| Sum::of(&octets(flow.src.0)) + Sum::of(&octets(flow.dst.0));
    (sum(other) + Sum::of_u16(sum(leg).finish())).fold()
}
