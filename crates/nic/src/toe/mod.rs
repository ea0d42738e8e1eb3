//! The TCP engine that runs whole connections for hosts (Connection handoff policies).
//!
//! ```text
//! frame ─▶ checksum, context, LRO, placing ─▶ host's buffer ─▶ rx_queue ─▶ engine (tcp) ─▶ Delivered + Packet
//! command ring ────────────────────────────────────────────────────────▶ engine ─▶ segments ─▶ transmit jobs ─▶ wire
//!                                                              ▲
//!                                       turn: after all of the hosts' own packets
//! ```
//!
//! A connection has one owner at any time. Its flow's packets are steered here from [`ToeCommand::Begin`] on, held until the
//! host offers the connection, and passed to the host in order when it does not come to that, or no longer.
//!
//! [`ToeCommand::Begin`]: crate::ring::toe::ToeCommand::Begin

mod arrival;
mod commands;
mod config;
mod engine;
mod entry;
mod events;
pub mod load;
mod output;
mod pieces;
mod restore;
mod room;
pub(crate) mod rx_queue;
pub(crate) mod shed;
mod table;
mod timers;
pub(crate) mod turn;

use std::time::Instant;

use wire::SeqNum;

pub use config::ToeConfig;

pub(crate) use engine::Toe;

use crate::accel::Accel;
use crate::device::NicConfig;
use crate::function::Function;
use crate::ring::Send;
use crate::ring::toe::ToeId;
use crate::rss::FlowHasher;

/// What the device has besides the engine, for one function's packet or command.
pub(crate) struct ToeEnv<'a> {
    pub(crate) now: Instant,
    pub(crate) nic: &'a NicConfig,
    pub(crate) hasher: &'a FlowHasher,
    /// Has the index of all flows that the device owns.
    pub(crate) accel: &'a mut Accel,
    pub(crate) function: &'a mut Function,
}

/// What comes after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The next one.
    Next,
    /// The segments of a connection whose context has just been brought to where they begin: another recovery would take its place.
    Segments,
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

/// A segment to send.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Whose: its [`ToeId::index`].
    pub(crate) connection: u32,
    /// As a host would post it.
    pub(crate) send: Send,
}
