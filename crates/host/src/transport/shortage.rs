//! Who gives memory back when it is short, and in which order.
//!
//! Under pressure windows follow what applications read, and send queues what peers acknowledge
//! ([`QueueLimits`](crate::memory::QueueLimits)). When memory is exhausted, connections give it back in this order, until an eighth is free:
//!
//! 1. what came out of order, which peers send again;
//! 2. orphans that have not got on for a quarter of a second, nor for two retransmission timeouts, by a reset;
//! 3. other connections that have not got on for five seconds.
//!
//! Of these, first are those that hold most for the rate at which their peers take it ([`Candidate`]). Orphans are held within limits at any time: of
//! their number, and of their part of the memory.
//!
//! A [`Round`] over the sockets takes as many turns as it needs, so that the host is kept from nothing else for long.

mod candidate;
mod round;

use std::time::{Duration, Instant};

use super::Transport;
use crate::memory::MemoryLevel;
use crate::socket::{Membership, Socket};
use crate::{CloseReason, SocketId};
use candidate::Candidate;
use round::Round;

/// How often to look at orphans, and how often while memory is short.
const ORPHAN_TICK: Duration = Duration::from_secs(1);
const SHORT_TICK: Duration = Duration::from_millis(250);
/// Orphans have this part of the memory for data, but for those that get on.
const ORPHAN_PART: u64 = 4;
/// Connections that are reset in one turn at most.
const RESETS: usize = 64;
/// A state is told of in the log no more often than that.
const WARNING: Duration = Duration::from_secs(60);

/// What is known of how short memory was.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    level: MemoryLevel,
    /// When pressure began.
    since: Option<Instant>,
    /// When to look at sockets.
    due: Option<Instant>,
    /// The sockets that are looked at now.
    round: Option<Round>,
    /// Orphans, and some that are none any more.
    orphans: Vec<SocketId>,
    /// When pressure and exhaustion were told of last, and that connections were reset.
    warned: [Option<Instant>; 3],
}

/// What the log is told of.
#[derive(Clone, Copy)]
enum Warning {
    Pressure,
    Exhausted,
    Resets,
}

impl Shortage {
    /// When to look at sockets: at once when the level is another one than before.
    pub fn poll_timeout(&self, level: MemoryLevel, now: Instant) -> Option<Instant> {
        match level == self.level {
            true => self.due,
            false => Some(now),
        }
    }

    /// Whether a warning of this is due.
    fn may_warn(&mut self, now: Instant, of: Warning) -> bool {
        let warned = &mut self.warned[of as usize];
        let is_due = warned.is_none_or(|at| now.duration_since(at) >= WARNING);
        if is_due {
            *warned = Some(now);
        }
        is_due
    }
}

impl Transport {
    /// A socket that its application has let go of may be an orphan.
    pub fn note_orphan(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if socket.is_orphan() && socket.membership.enter(Membership::ORPHANS) {
            self.shortage.orphans.push(id);
            self.shortage.due.get_or_insert(now + ORPHAN_TICK);
        }
    }

    /// Has memory given back if it is short, or orphans have too much of it. Answers whether any connection was reset.
    pub fn relieve(&mut self, now: Instant) -> bool {
        let level = self.device.level;
        if level != self.shortage.level {
            self.level_changed(now, level);
        }
        if self.shortage.due.is_none_or(|due| now < due) {
            return false;
        }
        let round = self.shortage.round.take();
        let mut round = round.unwrap_or_else(|| self.begin_round(now, level));
        self.look_at_sockets(&mut round, now, level);
        let is_any = self.give_up(&mut round, now);
        if round.is_over() {
            self.end_round(&round, now, level);
        } else {
            self.shortage.due = Some(now);
            self.shortage.round = Some(round);
        }
        is_any
    }

    fn end_round(&mut self, round: &Round, now: Instant, level: MemoryLevel) {
        let tick = match level {
            MemoryLevel::Free => ORPHAN_TICK,
            _ => SHORT_TICK,
        };
        let is_needed = level != MemoryLevel::Free || !self.shortage.orphans.is_empty();
        let next = match round.left_some() {
            true => now,
            false => now.max(round.began + tick),
        };
        self.shortage.due = is_needed.then_some(next);
        if let Some(resets) = round.resets()
            && self.shortage.may_warn(now, Warning::Resets)
        {
            tracing::warn!(
                "connections that made no progress were reset for their memory: {resets}"
            );
        }
    }

    fn level_changed(&mut self, now: Instant, level: MemoryLevel) {
        let before = std::mem::replace(&mut self.shortage.level, level);
        let counters = &mut self.device.counters;
        if before == MemoryLevel::Free {
            counters.tcp_memory_pressures += 1;
            self.shortage.since = Some(now);
        }
        if level == MemoryLevel::Free
            && let Some(since) = self.shortage.since.take()
        {
            counters.tcp_memory_pressures_chrono += now.duration_since(since).as_millis() as u64;
        }
        if level > before {
            self.shortage.due = Some(now);
        }
        let warning = match level {
            MemoryLevel::Exhausted => Warning::Exhausted,
            MemoryLevel::Free | MemoryLevel::Pressure => Warning::Pressure,
        };
        if level > before && self.shortage.may_warn(now, warning) {
            let memory = self.device.memory();
            let [used, limit] = [memory.used, memory.limit].map(|bytes| bytes >> 20);
            match level {
                MemoryLevel::Exhausted => tracing::warn!(
                    "memory is exhausted: {used} of {limit} MiB in use; connections that make no progress are reset"
                ),
                _ => tracing::warn!(
                    "memory is short: {used} of {limit} MiB in use; send queues and windows shrink"
                ),
            }
        }
    }

    /// Bytes that may be in use when memory has been given back.
    fn target(&self) -> u64 {
        self.device.driver.arena().limits().data / 8 * 7
    }

    /// Resets connections that the round has chosen, some in each turn. Answers whether it was any.
    fn give_up(&mut self, round: &mut Round, now: Instant) -> bool {
        let mut is_any = false;
        for _ in 0..RESETS {
            let Some(candidate) = round.pop() else {
                break;
            };
            let socket = self.sockets.get_mut(candidate.id);
            // It may have got on since, or have been given to the NIC.
            let is_so =
                |socket: &mut Socket| socket.is_hosts() && socket.stalled(now) >= candidate.stalled;
            if socket.is_some_and(is_so) {
                self.give_one_up(&candidate);
                round.gave_up(&candidate);
                is_any = true;
            }
        }
        is_any
    }

    /// Resets a connection and lets go of what it holds.
    fn give_one_up(&mut self, candidate: &Candidate) {
        let counters = &mut self.device.counters;
        counters.tcp_abort_on_memory += 1;
        counters.memory_orphans_reset += u64::from(candidate.is_orphan);
        counters.memory_given_up += candidate.held;
        tracing::debug!("reset for its memory: {candidate}");
        self.reset(candidate.id, CloseReason::NoMemory);
        if let Some(socket) = self.sockets.get_mut(candidate.id) {
            let end = socket.send.end();
            socket.release(end, &mut self.device.driver);
        }
    }
}
