//! `Splice`: two connections joined; and the reports of its end.

use wire::ethernet::MacAddr;
use wire::tcp::MAX_WINDOW_SCALE;
use wire::{FlowKey, SeqNum};
use zerocopy::FromZeros;

use super::super::layout::{
    self, Head, LEG_ECN, LEG_ECN_ECHO, LEG_SACK, LEG_TIMESTAMPS, RECV_WORDS, View, flags, next_hop,
    timestamp_fields,
};
use super::TimestampState;

/// A splice of a function. The host chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpliceId(pub u32);

/// One of the two connections of a splice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    /// 0 or 1.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The side of this index; even ones are [`A`](Side::A).
    pub const fn of(index: usize) -> Side {
        if index & 1 == 0 { Side::A } else { Side::B }
    }
}

/// Two connections to be joined (connection splicing, AccelTCP). Both are ESTABLISHED; nothing that was sent is unacknowledged, and nothing that was received
/// is unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splice {
    /// A number that is not in use.
    pub splice: SpliceId,
    /// One connection.
    pub a: Leg,
    /// The other.
    pub b: Leg,
    /// After so many milliseconds without a packet the splice ends; 0 for never.
    pub idle_ms: u32,
}

/// One connection of a splice, as its host leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// From us to the peer.
    pub flow: FlowKey,
    /// The next hop's MAC address.
    pub hop: MacAddr,
    /// TTL or hop limit of our packets; not 0.
    pub hop_limit: u8,
    /// The next byte that we send; all before it is acknowledged.
    pub snd_nxt: SeqNum,
    /// The next byte that we expect; all before it has been read.
    pub rcv_nxt: SeqNum,
    /// The peer's window from `snd_nxt` on, in bytes.
    pub peer_window: u32,
    /// The window that we last announced, from `rcv_nxt` on, in bytes.
    pub our_window: u32,
    /// Shift of the windows that the peer announces.
    pub peer_shift: u8,
    /// Shift of the windows that we announce.
    pub our_shift: u8,
    /// Most payload bytes of a packet to the peer, options taken off.
    pub mss: u16,
    /// Most payload bytes of a packet from the peer: what we announced, options taken off.
    pub our_mss: u16,
    /// Both ends take selective acknowledgements.
    pub sack: bool,
    /// Timestamps, when the connection has them.
    pub timestamps: Option<TimestampState>,
    /// Explicit congestion notification is agreed on (RFC 3168).
    pub ecn: bool,
    /// With that: marked packets came, and the peer has not said yet that it has reduced its window.
    pub ecn_echo: bool,
}

const A_V6: u8 = layout::Splice::A_V6;
const B_V6: u8 = layout::Splice::B_V6;

impl Splice {
    pub(in crate::ring) fn encode(&self) -> layout::Splice {
        let (a, b) = (&self.a, &self.b);
        layout::Splice {
            head: Head::flagged(flags([
                (a.flow.src.0.is_ipv6(), A_V6),
                (b.flow.src.0.is_ipv6(), B_V6),
            ])),
            splice: self.splice.0,
            idle_ms: self.idle_ms,
            legs: [a.encode(), b.encode()],
            own_window: [a.our_window, b.our_window],
            own_mss: [a.our_mss, b.our_mss],
            ..FromZeros::new_zeroed()
        }
    }

    pub(super) fn decode(slot: &layout::Splice) -> Option<Splice> {
        let leg = |side: Side, flag: u8| {
            let at = side.index();
            let v6 = slot.head.flags & flag != 0;
            Leg::decode(&slot.legs[at], v6, slot.own_window[at], slot.own_mss[at])
        };
        Some(Splice {
            splice: SpliceId(slot.splice),
            a: leg(Side::A, A_V6)?,
            b: leg(Side::B, B_V6)?,
            idle_ms: slot.idle_ms,
        })
    }
}

impl Leg {
    fn encode(&self) -> layout::Leg {
        let (recent, value) = timestamp_fields(self.timestamps);
        layout::Leg {
            flow: (&self.flow).into(),
            peer_shift: self.peer_shift,
            own_shift: self.our_shift,
            options: flags([
                (self.sack, LEG_SACK),
                (self.timestamps.is_some(), LEG_TIMESTAMPS),
                (self.ecn, LEG_ECN),
                (self.ecn_echo, LEG_ECN_ECHO),
            ]),
            hop_limit: self.hop_limit,
            hop: self.hop.0,
            mss: self.mss,
            snd_nxt: self.snd_nxt.0,
            rcv_nxt: self.rcv_nxt.0,
            peer_window: self.peer_window,
            recent,
            value,
            ..FromZeros::new_zeroed()
        }
    }

    fn decode(slot: &layout::Leg, v6: bool, our_window: u32, our_mss: u16) -> Option<Leg> {
        let has = |option: u8| slot.options & option != 0;
        let timestamps = TimestampState {
            recent: slot.recent,
            value: slot.value,
        };
        let leg = Leg {
            flow: slot.flow.key(v6)?,
            hop: next_hop(slot.hop)?,
            hop_limit: slot.hop_limit,
            snd_nxt: SeqNum(slot.snd_nxt),
            rcv_nxt: SeqNum(slot.rcv_nxt),
            peer_window: slot.peer_window,
            our_window,
            peer_shift: slot.peer_shift,
            our_shift: slot.own_shift,
            mss: slot.mss,
            our_mss,
            sack: has(LEG_SACK),
            timestamps: has(LEG_TIMESTAMPS).then_some(timestamps),
            ecn: has(LEG_ECN),
            ecn_echo: has(LEG_ECN_ECHO),
        };
        let right = slot.mss != 0
            && slot.hop_limit != 0
            && our_mss != 0
            && slot.peer_shift.max(slot.own_shift) <= MAX_WINDOW_SCALE
            && (leg.ecn || !leg.ecn_echo)
            && slot.options & !(LEG_SACK | LEG_TIMESTAMPS | LEG_ECN | LEG_ECN_ECHO) == 0;
        right.then_some(leg)
    }
}

/// Why a splice has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpliceEnd {
    /// Both directions' FINs are acknowledged.
    Finished,
    /// This side's peer has reset its connection; so was the other.
    Reset {
        /// Whose peer.
        by: Side,
    },
    /// Nothing has come for as long as the splice may be idle. Both legs' [state](SpliceState) follows.
    Idle,
    /// The host has taken it back. Both legs' [state](SpliceState) follows.
    TakenBack,
}

impl SpliceEnd {
    pub(in crate::ring) fn from_byte(byte: u8) -> Option<SpliceEnd> {
        Some(match byte {
            1 => SpliceEnd::Finished,
            2 => SpliceEnd::Reset { by: Side::A },
            3 => SpliceEnd::Reset { by: Side::B },
            4 => SpliceEnd::Idle,
            5 => SpliceEnd::TakenBack,
            _ => return None,
        })
    }
}

/// A splice has ended, with what it has forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpliceEnded {
    /// The splice, whose number is free again.
    pub splice: SpliceId,
    /// Why.
    pub reason: SpliceEnd,
    /// Payload bytes that came from A's peer, and from B's.
    pub bytes: [u64; 2],
    /// Packets that came from A's peer, and from B's.
    pub packets: [u64; 2],
}

/// Where one leg of a splice stands: as the device leaves it, behind [`SpliceEnded`] by [`SpliceEnd::Idle`] or
/// [`SpliceEnd::TakenBack`]; else as it is now, because the host has [asked](super::super::SendDescriptor::QuerySplice).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpliceState {
    /// The splice.
    pub splice: SpliceId,
    /// Which of its legs.
    pub side: Side,
    /// Its numbers.
    pub state: LegState,
}

/// A connection as the device leaves it, or has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegState {
    /// First byte that we sent and the peer has not acknowledged.
    pub snd_una: SeqNum,
    /// The next byte that we send; our FIN counts.
    pub snd_nxt: SeqNum,
    /// The next byte that we expect; the peer's FIN counts.
    pub rcv_nxt: SeqNum,
    /// The peer's window from `snd_una` on, in bytes.
    pub peer_window: u32,
    /// The window that was last announced to the peer, from `rcv_nxt` on, in bytes.
    pub our_window: u32,
    /// Payload bytes that were forwarded to the peer, since the splice was made.
    pub forwarded: u64,
    /// The last that came from the other leg's peer, without data, was from before what it had sent: a probe of this peer's window, if that is closed.
    pub probed: bool,
    /// Our FIN was sent.
    pub fin_sent: bool,
    /// The peer's FIN was received.
    pub fin_received: bool,
    /// Timestamps, when the connection has them.
    pub timestamps: Option<TimestampState>,
    /// Marked packets of the peer came, and it has not said yet that it has reduced its window (RFC 3168 §6.1.3).
    pub ecn_echo: bool,
}

const LEG_B: u8 = layout::SpliceState::LEG_B;
const FIN_SENT: u8 = layout::SpliceState::FIN_SENT;
const FIN_RECEIVED: u8 = layout::SpliceState::FIN_RECEIVED;
const TIMESTAMPS: u8 = layout::SpliceState::TIMESTAMPS;
const PROBED: u8 = layout::SpliceState::PROBED;
const ECN_ECHO: u8 = layout::SpliceState::ECN_ECHO;

impl SpliceEnded {
    pub(in crate::ring) fn encode(&self) -> [u64; RECV_WORDS] {
        let slot = layout::SpliceEnded {
            opcode: layout::SpliceEnded::OPCODE,
            reason: match self.reason {
                SpliceEnd::Finished => 1,
                SpliceEnd::Reset { by: Side::A } => 2,
                SpliceEnd::Reset { by: Side::B } => 3,
                SpliceEnd::Idle => 4,
                SpliceEnd::TakenBack => 5,
            },
            splice: self.splice.0,
            bytes: self.bytes,
            packets: self.packets,
            ..FromZeros::new_zeroed()
        };
        slot.words()
    }

    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> Option<SpliceEnded> {
        let slot = layout::SpliceEnded::of(words);
        Some(SpliceEnded {
            splice: SpliceId(slot.splice),
            reason: SpliceEnd::from_byte(slot.reason)?,
            bytes: slot.bytes,
            packets: slot.packets,
        })
    }
}

impl SpliceState {
    pub(in crate::ring) fn encode(&self) -> [u64; RECV_WORDS] {
        let state = &self.state;
        let (recent, value) = timestamp_fields(state.timestamps);
        let slot = layout::SpliceState {
            opcode: layout::SpliceState::OPCODE,
            flags: flags([
                (self.side == Side::B, LEG_B),
                (state.fin_sent, FIN_SENT),
                (state.fin_received, FIN_RECEIVED),
                (state.timestamps.is_some(), TIMESTAMPS),
                (state.probed, PROBED),
                (state.ecn_echo, ECN_ECHO),
            ]),
            splice: self.splice.0,
            forwarded: state.forwarded,
            peer_window: state.peer_window,
            snd_una: state.snd_una.0,
            snd_nxt: state.snd_nxt.0,
            rcv_nxt: state.rcv_nxt.0,
            own_window: state.our_window,
            recent,
            value,
            ..FromZeros::new_zeroed()
        };
        slot.words()
    }

    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> SpliceState {
        let slot = layout::SpliceState::of(words);
        let has = |flag: u8| slot.flags & flag != 0;
        let timestamps = TimestampState {
            recent: slot.recent,
            value: slot.value,
        };
        SpliceState {
            splice: SpliceId(slot.splice),
            side: Side::of(has(LEG_B).into()),
            state: LegState {
                snd_una: SeqNum(slot.snd_una),
                snd_nxt: SeqNum(slot.snd_nxt),
                rcv_nxt: SeqNum(slot.rcv_nxt),
                our_window: slot.own_window,
                peer_window: slot.peer_window,
                forwarded: slot.forwarded,
                probed: has(PROBED),
                fin_sent: has(FIN_SENT),
                fin_received: has(FIN_RECEIVED),
                timestamps: has(TIMESTAMPS).then_some(timestamps),
                ecn_echo: has(ECN_ECHO),
            },
        }
    }
}
