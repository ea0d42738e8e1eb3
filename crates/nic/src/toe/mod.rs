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
mod engine;
mod entry;
mod events;
pub mod load;
mod output;
mod pieces;
mod restore;
mod room;
mod shed;
mod table;
mod timers;

use std::time::Instant;

pub(crate) use engine::Toe;

use crate::accel::Accel;
use crate::config::NicConfig;
use crate::function::Function;
use crate::ring::Send;
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

/// A segment to send.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Whose: its [`ToeId::index`](crate::ring::toe::ToeId::index).
    pub(crate) connection: u32,
    /// As a host would post it.
    pub(crate) send: Send,
}
