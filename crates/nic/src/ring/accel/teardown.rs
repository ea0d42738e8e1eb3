//! `Teardown`: a connection that its application has closed.

use wire::ethernet::MacAddr;
use wire::tcp::MAX_WINDOW_SCALE;
use wire::{FlowKey, SeqNum};

use super::super::layout::{Head, SLOT_WORDS, decode_flow, encode_flow, pair, unpair};
use super::super::region::Slice;

/// Slices in a `Teardown` descriptor itself.
pub(in crate::ring) const TEARDOWN_SLICES: usize = 4;
/// Where they begin.
pub(in crate::ring) const TEARDOWN_SLICES_AT: usize = 16;

/// A connection that its application has closed in ESTABLISHED or CLOSE-WAIT, and whose FIN has not been sent.
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
    /// TTL or hop limit of its packets.
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
    /// How long TIME-WAIT lasts (2 MSL).
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

const V6: u8 = 1;
const PEER_CLOSED: u8 = 2;
const TIMESTAMPS: u8 = 4;

impl Teardown {
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

    /// Writes the words behind the first; gives the flags.
    pub(in crate::ring) fn encode(&self, payload: &[Slice], words: &mut [u64; SLOT_WORDS]) -> u8 {
        let bytes: u64 = payload.iter().map(|slice| u64::from(slice.len)).sum();
        words[1] = pair(self.ticket, bytes.min(u64::from(u32::MAX)) as u32);
        let v6 = encode_flow(&self.flow, words);
        words[6] |= u64::from(self.window) << 32
            | u64::from(self.peer_shift) << 48
            | u64::from(self.retransmits) << 56;
        words[7] = hop_word(self.hop, u16::from(self.hop_limit));
        words[8] = pair(self.snd_una.0, self.snd_nxt.0);
        words[9] = pair(self.rcv_nxt.0, self.peer_window);
        if let Some(TimestampState { recent, value }) = self.timestamps {
            words[10] = pair(recent, value);
        }
        words[11] = pair(self.rto_us, self.time_wait_ms);
        words[12] = pair(
            self.fin_wait2_ms,
            u32::from(self.mss) | u32::from(self.our_shift) << 16,
        );
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        flag(v6, V6)
            | flag(self.peer_closed, PEER_CLOSED)
            | flag(self.timestamps.is_some(), TIMESTAMPS)
    }

    pub(super) fn decode(head: Head, words: &[u64; SLOT_WORDS]) -> Option<Teardown> {
        let set = |flag: u8| head.flags & flag != 0;
        let (snd_una, snd_nxt) = unpair(words[8]);
        let (rcv_nxt, peer_window) = unpair(words[9]);
        let (recent, value) = unpair(words[10]);
        let (rto_us, time_wait_ms) = unpair(words[11]);
        let (fin_wait2_ms, mss_shift) = unpair(words[12]);
        let (hop, hop_limit) = hop_of(words[7]);
        let teardown = Teardown {
            ticket: unpair(words[1]).0,
            flow: decode_flow(words, set(V6))?,
            hop,
            hop_limit: u8::try_from(hop_limit).ok()?,
            peer_closed: set(PEER_CLOSED),
            snd_una: SeqNum(snd_una),
            snd_nxt: SeqNum(snd_nxt),
            rcv_nxt: SeqNum(rcv_nxt),
            peer_window,
            peer_shift: (words[6] >> 48) as u8,
            window: (words[6] >> 32) as u16,
            our_shift: u8::try_from(mss_shift >> 16).ok()?,
            mss: mss_shift as u16,
            timestamps: set(TIMESTAMPS).then_some(TimestampState { recent, value }),
            rto_us,
            retransmits: (words[6] >> 56) as u8,
            time_wait_ms,
            fin_wait2_ms,
        };
        let right = teardown.mss != 0
            && teardown.peer_shift.max(teardown.our_shift) <= MAX_WINDOW_SCALE
            && teardown.hop.is_unicast()
            && head.flags & !(V6 | PEER_CLOSED | TIMESTAMPS) == 0;
        right.then_some(teardown)
    }
}

/// A MAC address, and 16 bits more.
pub(super) fn hop_word(hop: MacAddr, more: u16) -> u64 {
    let [a, b, c, d, e, f] = hop.0;
    let [low, high] = more.to_le_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, low, high])
}

/// The MAC address and the 16 bits more.
pub(super) fn hop_of(word: u64) -> (MacAddr, u16) {
    let [a, b, c, d, e, f, low, high] = word.to_le_bytes();
    (MacAddr([a, b, c, d, e, f]), u16::from_le_bytes([low, high]))
}
