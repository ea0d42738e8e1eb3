//! The lists of packets by connection, and the round of connections.

use super::epochs::Entered;
use super::packet::NicPacket;
use crate::context::receive::placing::Placed;

/// No slot, no connection.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Next of the same list, or next free one.
    pub(super) next: u32,
    pub(super) item: Item,
}

#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant)] // they are there to hold packets
pub(super) enum Item {
    Free,
    /// A packet, and its epoch if it names a context.
    Packet(NicPacket, Option<Entered>),
    /// A part of the packet before it, and its epoch.
    Placed(Placed, Entered),
}

/// The packets of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) packets: u32,
    /// Next in the round.
    pub(super) next: u32,
    /// Whose receive ring reports its packets.
    pub(super) queue: u16,
    pub(super) turn: Turn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The connection is not the NIC's.
    Closed,
    /// Its packets wait.
    Held,
    /// It has no packets.
    Empty,
    /// It is in the round.
    Queued,
}

pub(super) const NO_PACKETS: List = List {
    first: NONE,
    last: NONE,
    packets: 0,
    next: NONE,
    queue: 0,
    turn: Turn::Closed,
};

/// Connections with packets that may be worked off, in the order of their turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) first: u32,
    pub(super) last: u32,
}
