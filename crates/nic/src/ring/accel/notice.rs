//! What the device tells of connections that it has set up, and of the room that it has.

use zerocopy::FromZeros;

use super::super::layout::{self, RECV_WORDS, View, flags};
use super::ListenRuleId;

/// The [`Packet`](super::super::Packet) that follows directly has brought back a good cookie: its sender holds the address
/// that it names, has sent a SYN to this listener at most 128 s ago, and has had our SYN-ACK (SYN cookies, RFC 4987 §3.6;
/// AccelTCP).
///
/// The SYN's sequence number is the packet's less one, ours is its acknowledgement less one. The same cookie comes more than
/// once: on a pure ACK and on the first data, and on retransmissions. A host that has the flow's connection
/// already takes the packet as any other, and returns the credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Established {
    /// The listener. The host returns one credit to it once the connection waits no longer, or was not made.
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

const WINDOW_SCALE: u8 = layout::Established::WINDOW_SCALE;
const SACK: u8 = layout::Established::SACK;

impl Established {
    pub(in crate::ring) fn encode(&self) -> [u64; RECV_WORDS] {
        let flags = flags([
            (self.window_scale.is_some(), WINDOW_SCALE),
            (self.sack, SACK),
        ]);
        let slot = layout::Established {
            opcode: layout::Established::OPCODE,
            flags,
            window_shift: self.window_scale.unwrap_or(0),
            mss: self.mss,
            rule: self.rule.0,
            timestamp: self.timestamp,
            ..FromZeros::new_zeroed()
        };
        slot.words()
    }

    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> Established {
        let slot = layout::Established::of(words);
        Established {
            rule: ListenRuleId(slot.rule),
            mss: slot.mss,
            window_scale: (slot.flags & WINDOW_SCALE != 0).then_some(slot.window_shift),
            sack: slot.flags & SACK != 0,
            timestamp: slot.timestamp,
        }
    }
}

/// How much room the function has on the device. Reported at once when the device begins to have any of it in use, then when it
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
    pub(in crate::ring) fn encode(&self) -> [u64; RECV_WORDS] {
        let slot = layout::AccelRoom {
            opcode: layout::AccelRoom::OPCODE,
            closing: self.closing,
            splices: self.splices,
            packet_memory: self.packet_memory,
            ..FromZeros::new_zeroed()
        };
        slot.words()
    }

    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> AccelRoom {
        let slot = layout::AccelRoom::of(words);
        AccelRoom {
            closing: slot.closing,
            splices: slot.splices,
            packet_memory: slot.packet_memory,
        }
    }
}
