//! A received packet, and what TCP has taken of it.

use wire::SeqNum;
use wire::tcp::Header;

use crate::ring::toe::ToeId;
use crate::ring::{ContextId, Packet};

/// A received packet on its way to TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NicPacket {
    /// Of packets that were merged, the first one's sequence number and everything else of the last one.
    pub(crate) header: Header,
    /// Where it is in the host's memory, and what became of its payload.
    pub(crate) stored: Stored,
}

/// What TCP has taken of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Whose.
    pub(crate) toe: ToeId,
    /// The part of its payload, if any.
    pub(crate) accepted: Option<tcp::Accepted>,
    /// All before it is in order; a FIN is not counted.
    pub(crate) rcv_nxt: SeqNum,
    /// Everything before it is acknowledged, and so many bytes may be under way at once.
    pub(crate) acked: (SeqNum, u32),
}

/// Where a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In a host's buffer of so many bytes.
    Buffer(Packet, u32),
    /// Nowhere else: it has no payload.
    Header {
        /// TTL or hop limit.
        hop_limit: u8,
    },
}

impl NicPacket {
    /// Bytes of payload.
    pub(crate) fn payload_len(&self) -> u32 {
        match &self.stored {
            Stored::Buffer(packet, _) => packet.payload_len,
            Stored::Header { .. } => 0,
        }
    }

    /// The context that has seen it.
    pub(crate) fn context(&self) -> Option<ContextId> {
        match &self.stored {
            Stored::Buffer(packet, _) => packet.context,
            Stored::Header { .. } => None,
        }
    }

    /// Packets on the wire that it stands for.
    pub(crate) fn segments(&self) -> u16 {
        match &self.stored {
            Stored::Buffer(packet, _) => packet.segments,
            Stored::Header { .. } => 1,
        }
    }

    /// Parts of its payload that were placed.
    pub(crate) fn placed(&self) -> u16 {
        match &self.stored {
            Stored::Buffer(packet, _) => packet.placed,
            Stored::Header { .. } => 0,
        }
    }
}
