//! A look at the sockets that may have to give memory back, some in each turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::{Duration, Instant};

use super::{Candidate, ORPHAN_PART};
use crate::SocketId;
use crate::memory::MemoryLevel;
use crate::socket::{Membership, Socket};
use crate::transport::Transport;

/// Sockets that are looked at in one turn.
const TURN: u32 = 256;
/// Chunks of a send queue that take as long to add up as a socket to look at.
const CHUNKS: usize = 16;
/// Candidates of each kind that a round has at most. If they are not enough, another one follows.
const MOST: usize = 1024;

/// Where a look at the sockets stands, and what it has found.
#[derive(Debug)]
pub(super) struct Round {
    pub began: Instant,
    /// Places in the list of orphans, and in the table of sockets, that are still to be looked at.
    orphans_left: usize,
    slots_left: u32,
    orphans: Found,
    others: Found,
    /// What is too much, once all was looked at.
    excess: Option<Excess>,
    resets: Resets,
}

/// Those of one kind that go first, and how many there are.
#[derive(Debug, Default)]
struct Found {
    first: BinaryHeap<Reverse<Candidate>>,
    /// The same in order, who goes first last, once all was looked at.
    sorted: Vec<Candidate>,
    count: usize,
    held: u64,
}

/// Bytes, or connections, that are too many.
#[derive(Debug, Default)]
struct Excess {
    orphans: usize,
    orphan_bytes: u64,
    bytes: u64,
}

/// What a round has reset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Resets {
    orphans: u32,
    others: u32,
    bytes: u64,
    /// The longest that one of them had not got on.
    stalled: Duration,
}

impl Found {
    fn add(&mut self, candidate: Candidate) {
        self.count += 1;
        self.held += candidate.held;
        self.first.push(Reverse(candidate));
        if self.first.len() > MOST {
            self.first.pop();
        }
    }

    fn sort(&mut self) {
        let first = std::mem::take(&mut self.first);
        let sorted = first.into_sorted_vec().into_iter();
        self.sorted = sorted.rev().map(|Reverse(candidate)| candidate).collect();
    }
}

impl Round {
    /// All sockets were looked at, and no candidate is left.
    pub fn is_over(&self) -> bool {
        self.excess.is_some() && self.orphans.sorted.is_empty() && self.others.sorted.is_empty()
    }

    /// There are more than one round has, and it was not enough.
    pub fn left_some(&self) -> bool {
        let Some(excess) = &self.excess else {
            return false;
        };
        let orphans = excess.orphans > 0 || excess.orphan_bytes > 0 || excess.bytes > 0;
        let more = |found: &Found, wanted: bool| wanted && found.count > MOST;
        let is_any = self.resets.orphans + self.resets.others > 0;
        is_any && (more(&self.orphans, orphans) || more(&self.others, excess.bytes > 0))
    }

    /// What it has reset, if anything.
    pub fn resets(&self) -> Option<Resets> {
        (self.resets.orphans + self.resets.others > 0).then_some(self.resets)
    }

    /// The next one that has to go.
    pub fn pop(&mut self) -> Option<Candidate> {
        let excess = self.excess.as_ref()?;
        let short = excess.bytes > 0;
        while let Some(orphan) = self.orphans.sorted.pop() {
            let gives_back = orphan.is_eligible && (short || excess.orphan_bytes > 0);
            if gives_back || excess.orphans > 0 {
                return Some(orphan);
            }
            if !orphan.is_eligible {
                self.orphans.sorted.clear();
            }
        }
        if !short {
            self.others.sorted.clear();
        }
        self.others.sorted.pop()
    }

    /// This one has gone.
    pub fn gave_up(&mut self, candidate: &Candidate) {
        let count = match candidate.is_orphan {
            true => &mut self.resets.orphans,
            false => &mut self.resets.others,
        };
        *count += 1;
        self.resets.bytes += candidate.held;
        self.resets.stalled = self.resets.stalled.max(candidate.stalled);
        if let Some(excess) = &mut self.excess {
            excess.bytes = excess.bytes.saturating_sub(candidate.held);
            if candidate.is_orphan {
                excess.orphan_bytes = excess.orphan_bytes.saturating_sub(candidate.held);
                excess.orphans = excess.orphans.saturating_sub(1);
            }
        }
    }
}

impl fmt::Display for Resets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            orphans,
            others,
            bytes,
            stalled,
        } = self;
        let kib = bytes >> 10;
        write!(
            f,
            "{orphans} orphans and {others} others that held {kib} KiB, for up to {stalled:.1?}"
        )
    }
}

impl Transport {
    pub(super) fn begin_round(&self, now: Instant, level: MemoryLevel) -> Round {
        Round {
            began: now,
            orphans_left: self.shortage.orphans.len(),
            slots_left: match level {
                MemoryLevel::Free => 0,
                _ => self.sockets.slots(),
            },
            orphans: Found::default(),
            others: Found::default(),
            excess: None,
            resets: Resets::default(),
        }
    }

    /// Looks at as many sockets as a turn has. After the last one it is known what is too much.
    pub(super) fn look_at_sockets(&mut self, round: &mut Round, now: Instant, level: MemoryLevel) {
        if round.excess.is_some() {
            return;
        }
        let mut left = TURN;
        while left > 0 && round.orphans_left > 0 {
            round.orphans_left -= 1;
            let cost = self.look_at_orphan(round, now, level);
            left = left.saturating_sub(cost);
        }
        while left > 0 && round.slots_left > 0 {
            round.slots_left -= 1;
            let cost = self.look_at_other(round, now, level);
            left = left.saturating_sub(cost);
        }
        if round.orphans_left == 0 && round.slots_left == 0 {
            round.excess = Some(self.excess(level, &round.orphans));
            round.orphans.sort();
            round.others.sort();
        }
    }

    /// The orphans before this place of the list are still to be looked at. Answers what it cost, in sockets.
    fn look_at_orphan(&mut self, round: &mut Round, now: Instant, level: MemoryLevel) -> u32 {
        let orphans = &mut self.shortage.orphans;
        let id = orphans[round.orphans_left];
        let Some(socket) = self.sockets.get_mut(id) else {
            orphans.swap_remove(round.orphans_left);
            return 1;
        };
        if !socket.is_orphan() {
            socket.membership.leave(Membership::ORPHANS);
            orphans.swap_remove(round.orphans_left);
        } else if socket.is_hosts()
            && let Some(candidate) = Candidate::of(id, socket, now, level)
        {
            round.orphans.add(candidate);
        }
        cost(socket)
    }

    /// Has a connection shrink its window, and give up what came out of order if memory is exhausted. Answers what it cost, in sockets.
    fn look_at_other(&mut self, round: &mut Round, now: Instant, level: MemoryLevel) -> u32 {
        let Some((id, socket)) = self.sockets.at_mut(round.slots_left) else {
            return 1;
        };
        if !socket.is_hosts() || level == MemoryLevel::Free {
            return 1;
        }
        socket.shrink_window(level, self.device.queue_limits);
        if !socket.is_orphan()
            && let Some(candidate) = Candidate::of(id, socket, now, level)
        {
            round.others.add(candidate);
        }
        let cost = cost(socket);
        if level == MemoryLevel::Exhausted {
            self.renege(id);
        }
        cost
    }

    /// Has given up what came out of order, as long as that is what takes too much: queues become no shorter by it.
    fn renege(&mut self, id: SocketId) {
        if self.device.driver.arena().usage().bytes() <= self.target() {
            return;
        }
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let segments = socket.stream.segments();
        if socket.renege() > 0 {
            let pruned = segments - socket.stream.segments();
            self.device.counters.ofo_pruned += u64::from(pruned);
        }
    }

    /// What is too much.
    fn excess(&self, level: MemoryLevel, orphans: &Found) -> Excess {
        let data = self.device.driver.arena().limits().data;
        let bytes = match level {
            MemoryLevel::Exhausted => self.device.occupied().saturating_sub(self.target()),
            _ => 0,
        };
        Excess {
            orphans: orphans
                .count
                .saturating_sub(self.config.max_orphans as usize),
            orphan_bytes: orphans.held.saturating_sub(data / ORPHAN_PART),
            bytes,
        }
    }
}

/// What it costs to look at a socket.
fn cost(socket: &Socket) -> u32 {
    1 + (socket.send.chunks() / CHUNKS) as u32
}
