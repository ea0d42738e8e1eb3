//! What the device tells of connections that it has set up, and of the room that it has.

use super::super::layout::{pair, unpair};
use super::super::receive::RECV_WORDS;
use super::ListenRuleId;

/// The [`Packet`](super::super::Packet) that follows directly has brought back a good cookie: its sender holds the address
/// that it names, has sent a SYN to this listener at most 128 s ago, and has had our SYN-ACK.
///
/// The SYN's sequence number is the packet's less one, ours is its acknowledgement less one. The same cookie comes more than
/// once: on a pure ACK and on the first data, and on whatever is sent again. Whoever has the flow's connection
/// already takes the packet as any other, and returns the credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Established {
    /// The listener. The host returns one credit to it once the connection waits no longer, or when there is none.
    pub rule: ListenRuleId,
    /// The peer's MSS, rounded down to a class of the cookie's.
    pub mss: u16,
    /// The shift of the peer's windows; `Some` also says that our offer of one holds.
    pub window_scale: Option<u8>,
    /// Both ends take selective acknowledgements.
    pub sack: bool,
    /// Our TSval now; it goes on by one each millisecond. Such connections always have timestamps.
    pub timestamp: u32,
}

const SCALES: u64 = 1 << 8;
const SACK: u64 = 1 << 9;

impl Established {
    /// Writes the words; the opcode is the caller's.
    pub(in crate::ring) fn encode(&self, words: &mut [u64; RECV_WORDS]) {
        if self.window_scale.is_some() {
            words[0] |= SCALES;
        }
        if self.sack {
            words[0] |= SACK;
        }
        words[0] |= u64::from(self.window_scale.unwrap_or(0)) << 16 | u64::from(self.mss) << 32;
        words[1] = pair(self.rule.0.into(), self.timestamp);
    }

    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> Established {
        let (rule, timestamp) = unpair(words[1]);
        Established {
            rule: ListenRuleId(rule as u16),
            mss: (words[0] >> 32) as u16,
            window_scale: (words[0] & SCALES != 0).then_some((words[0] >> 16) as u8),
            sack: words[0] & SACK != 0,
            timestamp,
        }
    }
}

/// How much room the function has on the device. Told at once when the device begins to have any of it in use, then when it
/// changes by more than an eighth, and at most once per flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccelRoom {
    /// Connections that may still be handed over for their teardown.
    pub closing: u32,
    /// Splices that may still be made.
    pub splices: u32,
    /// Bytes of packet memory that may still be taken.
    pub packet_memory: u64,
}

impl AccelRoom {
    /// Writes the words; the opcode is the caller's.
    pub(in crate::ring) fn encode(&self, words: &mut [u64; RECV_WORDS]) {
        words[1] = pair(self.closing, self.splices);
        words[2] = self.packet_memory;
    }

    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> AccelRoom {
        let (closing, splices) = unpair(words[1]);
        AccelRoom {
            closing,
            splices,
            packet_memory: words[2],
        }
    }
}
