//! `Teardown`: a connection that its application has closed.

use wire::ethernet::MacAddr;
use wire::tcp::MAX_WINDOW_SCALE;
use wire::{FlowKey, SeqNum};
use zerocopy::FromZeros;

use super::super::layout::{self, Head, flags, next_hop, timestamp_fields};
use super::super::region::Slice;
use super::super::send::byte_count;

/// A connection that its application has closed in ESTABLISHED or CLOSE-WAIT, and whose FIN has not been sent (RFC 9293
/// §3.10.4; connection teardown, AccelTCP).
///
/// Times are in microseconds or milliseconds, as their names say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Teardown {
    /// The host's name for it, which a refusal repeats.
    pub ticket: u32,
    /// From us to the peer.
    pub flow: FlowKey,
    /// The next hop's MAC address.
    pub hop: MacAddr,
    /// TTL or hop limit of its packets; not 0.
    pub hop_limit: u8,
    /// The peer has closed too, and `rcv_nxt` is beyond its FIN: LAST-ACK follows, else FIN-WAIT-1.
    pub peer_closed: bool,
    /// First byte not yet acknowledged; the payload begins here.
    pub snd_una: SeqNum,
    /// First byte that was never sent; FIN comes at `snd_una` and all of the payload.
    pub snd_nxt: SeqNum,
    /// The next byte that we expect.
    pub rcv_nxt: SeqNum,
    /// The peer's window from `snd_una` on, in bytes.
    pub peer_window: u32,
    /// Shift of the windows that the peer announces.
    pub peer_shift: u8,
    /// Shift of the windows that we announce.
    pub our_shift: u8,
    /// Our window, as the header's field has it.
    pub window: u16,
    /// Payload bytes per packet, options taken off.
    pub mss: u16,
    /// Timestamps, when the connection has them.
    pub timestamps: Option<TimestampState>,
    /// Retransmission timeout before back-off.
    pub rto_us: u32,
    /// Time-outs since anything was acknowledged.
    pub retransmits: u8,
    /// How long TIME-WAIT lasts (2 MSL), at most [`LONGEST_TIME_WAIT_MS`](Self::LONGEST_TIME_WAIT_MS).
    pub time_wait_ms: u32,
    /// How long FIN-WAIT-2 may last.
    pub fin_wait2_ms: u32,
}

/// The timestamps of a connection (RFC 7323).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampState {
    /// TS.Recent: the peer's latest value, to be echoed.
    pub recent: u32,
    /// Our value now; it goes on by one each millisecond.
    pub value: u32,
}

const V6: u8 = layout::Teardown::V6;
const PEER_CLOSED: u8 = layout::Teardown::PEER_CLOSED;
const TIMESTAMPS: u8 = layout::Teardown::TIMESTAMPS;

impl Teardown {
    /// The longest TIME-WAIT in milliseconds: 2 MSL (RFC 9293 §3.4.2). Functions share the table.
    pub const LONGEST_TIME_WAIT_MS: u32 = 4 * 60 * 1000;

    /// Most payload bytes of a connection with this `mss`: the initial window (RFC 6928 §2).
    pub const fn payload_limit(mss: u16) -> u32 {
        let (two, ten) = (2 * mss as u32, 10 * mss as u32);
        let most = if two > 14_600 { two } else { 14_600 };
        if ten < most { ten } else { most }
    }

    /// Whether so many payload bytes agree with the sequence numbers and the limit.
    pub(super) fn fits(&self, bytes: u32) -> bool {
        bytes <= Self::payload_limit(self.mss) && self.snd_una.distance_to(self.snd_nxt) <= bytes
    }

    pub(in crate::ring) fn encode(&self, payload: &[Slice]) -> layout::Teardown {
        let (recent, value) = timestamp_fields(self.timestamps);
        layout::Teardown {
            head: Head::flagged(flags([
                (self.flow.src.0.is_ipv6(), V6),
                (self.peer_closed, PEER_CLOSED),
                (self.timestamps.is_some(), TIMESTAMPS),
            ])),
            ticket: self.ticket,
            payload_len: byte_count(payload),
            flow: (&self.flow).into(),
            window: self.window,
            peer_shift: self.peer_shift,
            retransmits: self.retransmits,
            hop: self.hop.0,
            hop_limit: self.hop_limit,
            snd_una: self.snd_una.0,
            snd_nxt: self.snd_nxt.0,
            rcv_nxt: self.rcv_nxt.0,
            peer_window: self.peer_window,
            recent,
            value,
            rto_us: self.rto_us,
            time_wait_ms: self.time_wait_ms,
            fin_wait2_ms: self.fin_wait2_ms,
            mss: self.mss,
            own_shift: self.our_shift,
            ..FromZeros::new_zeroed()
        }
    }

    pub(super) fn decode(slot: &layout::Teardown) -> Option<Teardown> {
        let has = |flag: u8| slot.head.flags & flag != 0;
        let timestamps = TimestampState {
            recent: slot.recent,
            value: slot.value,
        };
        let teardown = Teardown {
            ticket: slot.ticket,
            flow: slot.flow.key(has(V6))?,
            hop: next_hop(slot.hop)?,
            hop_limit: slot.hop_limit,
            peer_closed: has(PEER_CLOSED),
            snd_una: SeqNum(slot.snd_una),
            snd_nxt: SeqNum(slot.snd_nxt),
            rcv_nxt: SeqNum(slot.rcv_nxt),
            peer_window: slot.peer_window,
            peer_shift: slot.peer_shift,
            our_shift: slot.own_shift,
            window: slot.window,
            mss: slot.mss,
            timestamps: has(TIMESTAMPS).then_some(timestamps),
            rto_us: slot.rto_us,
            retransmits: slot.retransmits,
            time_wait_ms: slot.time_wait_ms,
            fin_wait2_ms: slot.fin_wait2_ms,
        };
        let right = slot.mss != 0
            && slot.hop_limit != 0
            && slot.peer_shift.max(slot.own_shift) <= MAX_WINDOW_SCALE
            && slot.time_wait_ms <= Self::LONGEST_TIME_WAIT_MS;
        right.then_some(teardown)
    }
}
