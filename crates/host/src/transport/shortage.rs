//! Who gives memory back when it is short, and in which order.
//!
//! Under pressure windows follow what applications read, and send queues what peers acknowledge
//! ([`QueueLimits`](crate::memory::QueueLimits)). When memory is exhausted, connections give it back in this order, until an eighth is free:
//!
//! 1. what came out of order, which peers send again;
//! 2. orphans that have not got on for a quarter of a second, nor for two retransmission timeouts, those first that have not for longest, by a
//!    reset;
//! 3. other connections that have not got on for five seconds, in the same order.
//!
//! Orphans are held within limits at any time: of their number, and of their part of the memory.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::Transport;
use crate::memory::MemoryLevel;
use crate::{CloseReason, SocketId};

/// How often to look at orphans, and how often while memory is short.
const ORPHAN_TICK: Duration = Duration::from_secs(1);
const SHORT_TICK: Duration = Duration::from_millis(250);
/// Orphans have this part of the memory for data, but for those that get on.
const ORPHAN_PART: u64 = 4;
/// How long an orphan has not got on that is above that part, or gives its memory to others.
const ORPHAN_STALLED: Duration = Duration::from_secs(3);
const ORPHAN_STALLED_SHORT: Duration = Duration::from_millis(250);
/// The same for a connection that an application has.
const STALLED: Duration = Duration::from_secs(5);
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
    /// When pressure and exhaustion were told of last.
    warned: [Option<Instant>; 2],
}

/// A connection that may be given up.
struct Candidate {
    stalled: Duration,
    /// Within this time a peer that is there answers, even if a packet is lost.
    answers_within: Duration,
    /// Bytes of the arena that it holds.
    held: u64,
    id: SocketId,
}

/// Bytes, or connections, that are too many.
struct Excess {
    orphans: usize,
    orphan_bytes: u64,
    bytes: u64,
}

impl Shortage {
    /// When to look at sockets: at once when the level is another one than before.
    pub fn poll_timeout(&self, level: MemoryLevel, now: Instant) -> Option<Instant> {
        match level == self.level {
            true => self.due,
            false => Some(now),
        }
    }

    /// A connection has become an orphan.
    pub fn note_orphan(&mut self, now: Instant) {
        self.due.get_or_insert(now + ORPHAN_TICK);
    }

    /// Whether a warning of this state is due.
    fn may_warn(&mut self, now: Instant, level: MemoryLevel) -> bool {
        let warned = &mut self.warned[usize::from(level == MemoryLevel::Exhausted)];
        let is_due = warned.is_none_or(|at| now.duration_since(at) >= WARNING);
        if is_due {
            *warned = Some(now);
        }
        is_due
    }
}

impl Transport {
    /// Has memory given back if it is short, or orphans have too much of it. Answers whether any connection was reset.
    pub fn relieve(&mut self, now: Instant) -> bool {
        let level = self.device.level;
        if level != self.shortage.level {
            self.level_changed(now, level);
        }
        if self.shortage.due.is_none_or(|due| now < due) {
            return false;
        }
        let (orphans, stalled) = self.look_at_sockets(now, level);
        let tick = match level {
            MemoryLevel::Free => (!orphans.is_empty()).then_some(ORPHAN_TICK),
            _ => Some(SHORT_TICK),
        };
        self.shortage.due = tick.map(|tick| now + tick);
        if level == MemoryLevel::Exhausted {
            self.renege();
        }
        let mut excess = self.excess(level, &orphans);
        let aborted = self.give_up_orphans(orphans, &mut excess);
        self.give_up(stalled, &mut excess) || aborted
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
        if level > before && self.shortage.may_warn(now, level) {
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

    /// Orphans, and other connections that may be given up. When memory is short, windows shrink.
    fn look_at_sockets(
        &mut self,
        now: Instant,
        level: MemoryLevel,
    ) -> (Vec<Candidate>, Vec<Candidate>) {
        let (mut orphans, mut others) = (Vec::new(), Vec::new());
        let limits = self.device.queue_limits;
        for (id, socket) in self.sockets.iter_mut() {
            if !socket.is_hosts() {
                continue;
            }
            if level != MemoryLevel::Free {
                socket.shrink_window(level, limits);
            }
            let stalled = socket.stalled(now);
            let is_orphan = socket.is_orphan();
            if !is_orphan && (stalled < STALLED || !socket.may_be_given_up()) {
                continue;
            }
            let candidate = Candidate {
                stalled,
                answers_within: socket.tcp.base_rto() * 2,
                held: socket.held(),
                id,
            };
            if is_orphan {
                orphans.push(candidate);
            } else if candidate.held > 0 {
                others.push(candidate);
            }
        }
        (orphans, others)
    }

    /// What is too much.
    fn excess(&self, level: MemoryLevel, orphans: &[Candidate]) -> Excess {
        let data = self.device.driver.arena().limits().data;
        let held = orphans.iter().map(|orphan| orphan.held);
        let bytes = match level {
            MemoryLevel::Exhausted => self.above_target(),
            _ => 0,
        };
        Excess {
            orphans: orphans
                .len()
                .saturating_sub(self.config.max_orphans as usize),
            orphan_bytes: held.sum::<u64>().saturating_sub(data / ORPHAN_PART),
            bytes,
        }
    }

    /// Bytes in use that are to be free when memory is exhausted.
    fn above_target(&self) -> u64 {
        self.device.occupied().saturating_sub(self.target())
    }

    /// Bytes that may be in use when memory has been given back.
    fn target(&self) -> u64 {
        self.device.driver.arena().limits().data / 8 * 7
    }

    /// Has given up what came out of order, as long as that is what takes too much: queues become no shorter by it.
    fn renege(&mut self) {
        let target = self.target();
        for (_, socket) in self.sockets.iter_mut() {
            if self.device.driver.arena().usage().bytes() <= target {
                return;
            }
            let segments = socket.stream.segments();
            if socket.is_hosts() && socket.renege() > 0 {
                let pruned = segments - socket.stream.segments();
                self.device.counters.ofo_pruned += u64::from(pruned);
            }
        }
    }

    fn give_up_orphans(&mut self, mut orphans: Vec<Candidate>, excess: &mut Excess) -> bool {
        orphans.sort_by_key(|it| Reverse(it.stalled));
        let mut is_any = false;
        for orphan in orphans {
            let short = ORPHAN_STALLED_SHORT.max(orphan.answers_within);
            let gives_back = (excess.orphan_bytes > 0 && orphan.stalled >= ORPHAN_STALLED)
                || (excess.bytes > 0 && orphan.stalled >= short);
            if excess.orphans > 0 || (orphan.held > 0 && gives_back) {
                excess.orphans = excess.orphans.saturating_sub(1);
                self.give_one_up(&orphan, excess);
                is_any = true;
            }
        }
        is_any
    }

    fn give_up(&mut self, mut stalled: Vec<Candidate>, excess: &mut Excess) -> bool {
        if excess.bytes == 0 {
            return false;
        }
        stalled.sort_by_key(|it| Reverse(it.stalled));
        let mut is_any = false;
        for candidate in stalled {
            if excess.bytes > 0 {
                self.give_one_up(&candidate, excess);
                is_any = true;
            }
        }
        is_any
    }

    /// Resets a connection and lets go of what it holds.
    fn give_one_up(&mut self, candidate: &Candidate, excess: &mut Excess) {
        excess.orphan_bytes = excess.orphan_bytes.saturating_sub(candidate.held);
        excess.bytes = excess.bytes.saturating_sub(candidate.held);
        self.device.counters.tcp_abort_on_memory += 1;
        self.reset(candidate.id, CloseReason::NoMemory);
        if let Some(socket) = self.sockets.get_mut(candidate.id) {
            let end = socket.send.end();
            socket.release(end, &mut self.device.driver);
        }
    }
}
