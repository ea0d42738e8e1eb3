//! Where a socket is in its connection, from what it says of itself and the sequence numbers that the connection began with.

use attachment::SocketFacts;
use wire::{FlowKey, SeqNum};

use super::MAX_WINDOW;

/// A window as Linux has it by default at the most, and more (`tcp_rmem`).
const MOST_QUEUED: u32 = 16 << 20;
const LONGEST_SEGMENT: u32 = 1 << 16;

/// The sequence numbers with which both directions begin, as a socket counts from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bases {
    /// `SocketFacts::acknowledged` counts from here.
    pub send: SeqNum,
    /// `SocketFacts::received` counts from here.
    pub receive: SeqNum,
}

/// A socket, and where it is in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub tenant: u32,
    /// From the socket to its peer.
    pub flow: FlowKey,
    pub cookie: u64,
    pub bases: Bases,
    /// Where the next byte is written that the program sends.
    pub write: SeqNum,
    /// The oldest byte that the peer has not acknowledged, as far as Linux knows.
    pub unacknowledged: SeqNum,
    /// Where the next byte is read that the program receives.
    pub read: SeqNum,
    /// What Linux expects next from the peer.
    pub receive_next: SeqNum,
    /// Behind the last byte that Linux was given, as far as was seen.
    pub given: SeqNum,
    /// Bytes beyond that for which Linux has told the peer that there is room; 0 where it is unknown.
    pub window: u32,
    /// Linux may hold bytes beyond what it expects next.
    pub reordered: bool,
    /// The peer has ended its direction: nothing more comes, and `read` may be one too few.
    pub peer_has_ended: bool,
}

impl Bases {
    pub(crate) fn locate(self, facts: &SocketFacts) -> Located {
        // Sequence numbers are counted modulo 2^32.
        let unacknowledged = self.send + facts.acknowledged as u32;
        let receive_next = self.receive + facts.received as u32;
        Located {
            tenant: facts.tenant,
            flow: facts.flow,
            cookie: facts.cookie,
            bases: self,
            write: unacknowledged + facts.unacknowledged,
            unacknowledged,
            read: receive_next - facts.unread,
            receive_next,
            given: receive_next,
            window: facts.window,
            reordered: facts.reordered,
            peer_has_ended: facts.peer_has_ended,
        }
    }

    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.send.0) << 32 | u64::from(self.receive.0)
    }

    pub(crate) fn from_bits(bits: u64) -> Bases {
        Bases {
            send: SeqNum((bits >> 32) as u32),
            receive: SeqNum(bits as u32),
        }
    }
}

impl Located {
    /// Bytes behind what Linux expects next, at the most, of which it may have some out of order: it takes a segment that begins in the window that it has told
    /// of, and never tells of less than before (RFC 9293 §3.8.6.2.1).
    pub(crate) fn longest_queue(&self) -> u32 {
        match self.window {
            0 => MOST_QUEUED,
            window => window.saturating_add(LONGEST_SEGMENT).min(MAX_WINDOW),
        }
    }
}
