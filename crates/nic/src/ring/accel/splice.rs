//! `Splice`: two connections joined; and how they are told to have ended.

use wire::ethernet::MacAddr;
use wire::tcp::MAX_WINDOW_SCALE;
use wire::{FlowKey, SeqNum};

use super::super::layout::{Head, SLOT_WORDS, decode_flow_at, encode_flow_at, pair, unpair};
use super::super::receive::RECV_WORDS;
use super::TimestampState;
use super::teardown::{hop_of, hop_word};

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

/// Two connections to be joined. Both are ESTABLISHED; nothing that was sent is unacknowledged, and nothing that was received
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
    /// TTL or hop limit of our packets.
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
}

/// Words of a leg.
const LEG_WORDS: usize = 9;
const LEG_A: usize = 2;
const LEG_B: usize = LEG_A + LEG_WORDS;
/// Flags of the descriptor: which legs are IPv6.
const A_V6: u8 = 1;
const B_V6: u8 = 2;
/// Options of a leg.
const SACK: u8 = 1;
const TIMESTAMPS: u8 = 2;

impl Splice {
    /// Writes the words behind the first; gives the flags.
    pub(in crate::ring) fn encode(&self, words: &mut [u64; SLOT_WORDS]) -> u8 {
        words[1] = pair(self.splice.0, self.idle_ms);
        let a = self.a.encode(&mut words[LEG_A..LEG_B]);
        let b = self.b.encode(&mut words[LEG_B..LEG_B + LEG_WORDS]);
        words[20] = pair(self.a.our_window, self.b.our_window);
        words[21] = u64::from(self.a.our_mss) | u64::from(self.b.our_mss) << 16;
        u8::from(a) | u8::from(b) << 1
    }

    pub(super) fn decode(head: Head, words: &[u64; SLOT_WORDS]) -> Option<Splice> {
        let (splice, idle_ms) = unpair(words[1]);
        let (a_window, b_window) = unpair(words[20]);
        let leg = |at: usize, flag: u8, our_window, our_mss| {
            let words = &words[at..at + LEG_WORDS];
            Leg::decode(words, head.flags & flag != 0, our_window, our_mss)
        };
        let splice = Splice {
            splice: SpliceId(splice),
            a: leg(LEG_A, A_V6, a_window, words[21] as u16)?,
            b: leg(LEG_B, B_V6, b_window, (words[21] >> 16) as u16)?,
            idle_ms,
        };
        (head.flags & !(A_V6 | B_V6) == 0).then_some(splice)
    }
}

impl Leg {
    fn encode(&self, words: &mut [u64]) -> bool {
        let v6 = encode_flow_at(&self.flow, &mut words[..5]);
        let mut options = 0;
        if self.sack {
            options |= SACK;
        }
        if let Some(TimestampState { recent, value }) = self.timestamps {
            options |= TIMESTAMPS;
            words[8] = pair(recent, value);
        }
        words[4] |= u64::from(self.peer_shift) << 32
            | u64::from(self.our_shift) << 40
            | u64::from(options) << 48
            | u64::from(self.hop_limit) << 56;
        words[5] = hop_word(self.hop, self.mss);
        words[6] = pair(self.snd_nxt.0, self.rcv_nxt.0);
        words[7] = u64::from(self.peer_window);
        v6
    }

    fn decode(words: &[u64], v6: bool, our_window: u32, our_mss: u16) -> Option<Leg> {
        let options = (words[4] >> 48) as u8;
        let (hop, mss) = hop_of(words[5]);
        let (snd_nxt, rcv_nxt) = unpair(words[6]);
        let (recent, value) = unpair(words[8]);
        let leg = Leg {
            flow: decode_flow_at(&words[..5], v6)?,
            hop,
            hop_limit: (words[4] >> 56) as u8,
            snd_nxt: SeqNum(snd_nxt),
            rcv_nxt: SeqNum(rcv_nxt),
            peer_window: unpair(words[7]).0,
            our_window,
            peer_shift: (words[4] >> 32) as u8,
            our_shift: (words[4] >> 40) as u8,
            mss,
            our_mss,
            sack: options & SACK != 0,
            timestamps: (options & TIMESTAMPS != 0).then_some(TimestampState { recent, value }),
        };
        let right = leg.mss != 0
            && leg.our_mss != 0
            && leg.peer_shift <= MAX_WINDOW_SCALE
            && leg.our_shift <= MAX_WINDOW_SCALE
            && leg.hop.is_unicast()
            && options & !(SACK | TIMESTAMPS) == 0;
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

/// Where one leg of a splice that was taken back, or idle, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpliceState {
    /// The splice.
    pub splice: SpliceId,
    /// Which of its legs.
    pub side: Side,
    /// Its numbers.
    pub state: LegState,
}

/// A connection as the device leaves it.
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
    /// The window that the peer was last told, from `rcv_nxt` on, in bytes.
    pub our_window: u32,
    /// Our FIN was sent.
    pub fin_sent: bool,
    /// The peer's FIN was received.
    pub fin_received: bool,
    /// Timestamps, when the connection has them.
    pub timestamps: Option<TimestampState>,
}

const FIN_SENT: u64 = 1 << 17;
const FIN_RECEIVED: u64 = 1 << 18;
const HAS_TIMESTAMPS: u64 = 1 << 19;
const SIDE_BIT: u32 = 16;

impl SpliceEnded {
    /// Writes the words; the opcode is the caller's.
    pub(in crate::ring) fn encode(&self, words: &mut [u64; RECV_WORDS]) {
        let reason = match self.reason {
            SpliceEnd::Finished => 1,
            SpliceEnd::Reset { by: Side::A } => 2,
            SpliceEnd::Reset { by: Side::B } => 3,
            SpliceEnd::Idle => 4,
            SpliceEnd::TakenBack => 5,
        };
        words[0] |= reason << 8;
        words[1] = u64::from(self.splice.0);
        words[2..4].copy_from_slice(&self.bytes);
        words[4..6].copy_from_slice(&self.packets);
    }

    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> Option<SpliceEnded> {
        Some(SpliceEnded {
            splice: SpliceId(words[1] as u32),
            reason: match (words[0] >> 8) as u8 {
                1 => SpliceEnd::Finished,
                2 => SpliceEnd::Reset { by: Side::A },
                3 => SpliceEnd::Reset { by: Side::B },
                4 => SpliceEnd::Idle,
                5 => SpliceEnd::TakenBack,
                _ => return None,
            },
            bytes: [words[2], words[3]],
            packets: [words[4], words[5]],
        })
    }
}

impl SpliceState {
    /// Writes the words; the opcode is the caller's.
    pub(in crate::ring) fn encode(&self, words: &mut [u64; RECV_WORDS]) {
        let state = &self.state;
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        words[0] |= (self.side.index() as u64) << SIDE_BIT
            | flag(state.fin_sent, FIN_SENT)
            | flag(state.fin_received, FIN_RECEIVED)
            | flag(state.timestamps.is_some(), HAS_TIMESTAMPS);
        words[1] = pair(self.splice.0, state.peer_window);
        words[2] = pair(state.snd_una.0, state.snd_nxt.0);
        words[3] = pair(state.rcv_nxt.0, state.our_window);
        if let Some(TimestampState { recent, value }) = state.timestamps {
            words[4] = pair(recent, value);
        }
    }

    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> SpliceState {
        let set = |flag: u64| words[0] & flag != 0;
        let (splice, peer_window) = unpair(words[1]);
        let (snd_una, snd_nxt) = unpair(words[2]);
        let (rcv_nxt, our_window) = unpair(words[3]);
        let (recent, value) = unpair(words[4]);
        SpliceState {
            splice: SpliceId(splice),
            side: Side::of((words[0] >> SIDE_BIT & 1) as usize),
            state: LegState {
                snd_una: SeqNum(snd_una),
                snd_nxt: SeqNum(snd_nxt),
                rcv_nxt: SeqNum(rcv_nxt),
                our_window,
                peer_window,
                fin_sent: set(FIN_SENT),
                fin_received: set(FIN_RECEIVED),
                timestamps: set(HAS_TIMESTAMPS).then_some(TimestampState { recent, value }),
            },
        }
    }
}
