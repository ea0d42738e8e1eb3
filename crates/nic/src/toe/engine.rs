//! The table of connections, and what drives them.
//!
//! ```text
//! ToeBegin ──▶ Held ── ToeOffer ──▶ Running ── both FINs, RST, silence ──▶ Ending ──▶ Leaving ──▶ Emptying ──▶ gone
//!               │ ToeCancel,           │ ToeRestore, too much load,                     ▲  Closed, Restored,
//!               │ nothing for 1 s      │ what it sends was refused                      │  Refused is sent
//!               └──────────────────────┴────────────────────────────────────────────────┘
//! ```
//!
//! The engine has a [`tcp::Connection`] for each connection, and of its data only where they are: what is to be sent is
//! slices of host memory, and what was received is in the host's buffers before TCP sees its header.
//! It is driven from outside, for one function at a time, and but for the time only while no segment of that function's is still being sent:
//!
//! - [`Toe::command`] carries out what came on a command ring;
//! - [`Toe::handle_packet`] takes a packet to TCP, and says what of it the host gets;
//! - [`Toe::poll_segment`] gives segments until it has none; [`Toe::refused`] takes back what of one could not be sent;
//! - [`Toe::report`] writes to the receive rings what the hosts are to know, and lets connections go;
//! - [`Toe::handle_time`] at [`Toe::poll_timeout`].
//!
//! Memory grows with commands; nothing is allocated per packet but what a [`tcp::Connection`] keeps of what came out of
//! order. What a host does not read in time waits in its connections' entries, one bit for each kind of news.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use wire::FlowKey;

use super::entry::Phase;
use super::pieces::Pool;
use super::room::Room;
use super::table::Table;
use super::timers::Timers;
use crate::accel::Accel;
use crate::config::ToeConfig;
use crate::function::Function;
use crate::ring::toe::ToeEvent;
#[cfg(doc)]
use crate::ring::toe::ToeId;
use crate::switch::FunctionId;

/// All connections that the device runs.
#[derive(Debug)]
pub(crate) struct Toe {
    pub(super) table: Table,
    pub(super) pool: Pool,
    pub(super) timers: Timers,
    pub(crate) room: Room,
    /// Connections above Soft_limit are given back.
    pub(super) active_restore: bool,
    pub(super) hard_limit: u32,
    /// By function.
    pub(super) lines: Vec<Lines>,
}

/// The connections of a function that want something, each once.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// They may have something to send.
    pub(super) segments: VecDeque<u32>,
    /// They have something to tell.
    pub(super) events: VecDeque<u32>,
    /// News of no connection, for a queue, that had no room.
    pub(super) unreported: VecDeque<(u16, ToeEvent)>,
}

/// Refusals of a function that wait at most: more than a turn makes.
const MOST_UNREPORTED: usize = 64;

impl Toe {
    /// How long a timer waits for a segment that is being sent.
    const SENDING: Duration = Duration::from_millis(1);

    pub(crate) fn new(config: &ToeConfig) -> Toe {
        Toe {
            table: Table::default(),
            pool: Pool::new(),
            timers: Timers::default(),
            room: Room::new(config),
            active_restore: config.active_restore && config.load_control,
            hard_limit: config.hard_limit,
            lines: Vec::new(),
        }
    }

    /// Whether the connection at this place of the index of flows is a function's and receives this flow.
    #[inline]
    pub(crate) fn owns(&self, at: u32, function: FunctionId, flow: &FlowKey) -> bool {
        self.table.owns(at, function, flow)
    }

    /// The number of the connection at `at` in its function ([`ToeId::index`]).
    #[inline]
    pub(crate) fn connection(&self, at: u32) -> u32 {
        self.table.get(at).map_or(u32::MAX, |entry| entry.toe.index)
    }

    /// Makes room for the next function.
    pub(crate) fn add_function(&mut self) {
        self.room.add_function();
        self.lines.push(Lines::default());
    }

    /// Whether no connection is begun or run, and nothing is to be reported.
    pub(crate) fn is_idle(&self) -> bool {
        self.table.is_empty() && self.lines.iter().all(|lines| lines.unreported.is_empty())
    }

    /// Whether refusals wait for room in a function's receive rings: it is to read them before it asks for more.
    pub(crate) fn has_unreported(&self, function: FunctionId) -> bool {
        let lines = self.lines.get(usize::from(function.0));
        lines.is_some_and(|lines| lines.unreported.len() >= MOST_UNREPORTED)
    }

    /// When [`handle_time`](Self::handle_time) is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Does what is due. What is due of a connection of which a segment is being sent waits, since nothing is known of how far that has come; all others go
    /// on, however long their hosts let it take.
    pub(crate) fn handle_time(&mut self, now: Instant, functions: &[Function]) {
        while let Some(at) = self.timers.take_due(now) {
            let Some(entry) = self.table.get_mut(at) else {
                continue;
            };
            let function = functions.get(usize::from(entry.function));
            let sending = function.and_then(|function| function.own.busy());
            if sending == Some(entry.toe.index) {
                self.timers.set(at, now + Self::SENDING);
                continue;
            }
            match (entry.phase, &mut entry.connection) {
                (Phase::Held(until), _) if until <= now => self.expire(at),
                (Phase::Running, Some(connection)) => connection.handle_timeout(now),
                _ => {}
            }
            self.settle(at);
        }
    }

    /// Forgets all connections of a function, which knows that.
    pub(crate) fn reset_function(&mut self, accel: &mut Accel, function: &mut Function) {
        let all: Vec<u32> = self.table.of(function.id).map(|(at, _)| at).collect();
        for at in all {
            self.forget(accel, at);
        }
        if let Some(lines) = self.lines.get_mut(usize::from(function.id.0)) {
            *lines = Lines::default();
        }
        self.room.forget(function.id);
        self.room.note(function.id, 0);
        function.counters.toe_connections = 0;
    }

    /// Removes a connection, whatever it still has.
    pub(super) fn forget(&mut self, accel: &mut Accel, at: u32) {
        let Some(mut entry) = self.table.remove(at) else {
            return;
        };
        if entry.counts() {
            self.room.ended();
        }
        accel.release(entry.hash, at);
        self.timers.cancel(at);
        self.pool.clear(&mut entry.sending.queue);
        if let Some(lines) = self.lines.get_mut(usize::from(entry.function)) {
            if entry.in_segments {
                lines.segments.retain(|other| *other != at);
            }
            if entry.in_events {
                lines.events.retain(|other| *other != at);
            }
        }
    }

    /// The lines of a function, which are made when it is heard of first.
    pub(super) fn lines_of(&mut self, function: u16) -> &mut Lines {
        let function = usize::from(function);
        if self.lines.len() <= function {
            self.lines.resize_with(function + 1, Lines::default);
        }
        &mut self.lines[function]
    }

    /// A connection may have something to send.
    pub(super) fn wants_segments(&mut self, at: u32) {
        let Some(entry) = self.table.get_mut(at) else {
            return;
        };
        if !std::mem::replace(&mut entry.in_segments, true) {
            let function = entry.function;
            self.lines_of(function).segments.push_back(at);
        }
    }

    /// A connection may have something to tell.
    pub(super) fn wants_events(&mut self, at: u32) {
        let Some(entry) = self.table.get_mut(at) else {
            return;
        };
        if entry.has_events() && !std::mem::replace(&mut entry.in_events, true) {
            let function = entry.function;
            self.lines_of(function).events.push_back(at);
        }
    }
}
