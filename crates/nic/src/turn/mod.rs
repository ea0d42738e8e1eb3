//! Whose turn it is among what the device does for the connections that it runs: packets that came for them, commands, and
//! segments to send. All of it comes after the hosts' own packets (Connection handoff policies §3.1).
//!
//! ```text
//!   received host packets ─▶ at once          send rings ─▶ until they are empty
//!                                                   │
//!                                                   ▼
//!        ┌─▶ 16 NIC packets ─▶ 16 commands ─▶ 16 segments ─▶ the next function ─┐     until the turn's work is used up
//!        └─────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A host whose send ring is never empty must not keep the connections of another one waiting for ever, and neither must frames that the device
//! relays: now and then a piece of work is done for those functions whose own send rings are empty ([`Turns::spare`]).
//!
//! With a limit on the work of a turn, received host packets get the processor in between: the caller takes what
//! the wire has brought whenever [`poll_transmit`](crate::Nic::poll_transmit) has nothing more.

mod shed;
mod work;

use std::time::{Duration, Instant};

use crate::config::ToeConfig;
use crate::function::Function;
use crate::offloads::Offloads;
use crate::transmit::{self, Step};
pub(crate) use shed::shed;
use work::Done;

/// Pieces of one kind of work before it is the next kind's turn.
const QUANTUM: u32 = 16;
/// Frames of hosts whose send rings are never empty, and of those that the device makes, for each of which others wait, before these have a piece of
/// work done.
const FRAMES: u32 = 32;

/// The turns.
#[derive(Debug)]
pub(crate) struct Turns {
    limit: Option<u32>,
    time: Duration,
    /// Work that may still be done in this turn.
    left: u32,
    /// No turn begins before this.
    next: Option<Instant>,
    function: usize,
    work: Work,
    quantum: u32,
    /// When there is work for which there was no room or no time.
    again: Option<Instant>,
    /// Something was done of which the hosts may not know yet.
    worked: bool,
    /// Frames of the hosts' own, and that the device has made, since there was time for anything else.
    frames: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Packets,
    Commands,
    Segments,
}

impl Turns {
    /// How long work waits that a full receive ring holds up.
    const RETRY: Duration = Duration::from_millis(1);

    pub(crate) fn new(config: &ToeConfig) -> Turns {
        // A limit of 0 would let no work be done.
        let limit = config.packets_per_turn.map(|limit| limit.max(1));
        Turns {
            limit,
            time: config.turn,
            left: limit.unwrap_or(u32::MAX),
            next: None,
            function: 0,
            work: Work::Packets,
            quantum: QUANTUM,
            again: None,
            worked: false,
            frames: 0,
        }
    }

    /// Whether anything was done since the last time that this was asked.
    pub(crate) fn take_worked(&mut self) -> bool {
        std::mem::take(&mut self.worked)
    }

    /// When there is something to do without new input.
    ///
    /// `timer` is when a timer of the connections' is due; it waits for the next turn.
    pub(crate) fn poll_timeout(&self, timer: Option<Instant>) -> Option<Instant> {
        let timer = match self.next.filter(|_| self.left == 0) {
            Some(next) => timer.map(|timer| timer.max(next)),
            None => timer,
        };
        [self.again, timer].into_iter().flatten().min()
    }

    /// Ends a batch.
    pub(crate) fn flush(&mut self) {
        if self.time.is_zero() {
            self.begin();
        }
    }

    /// Comes back soon if there is anything to do.
    pub(crate) fn look_again(&mut self, now: Instant, offloads: &Offloads, functions: &[Function]) {
        if self.again.is_none()
            && functions
                .iter()
                .any(|function| has_work(offloads, function))
        {
            self.come_back(now);
        }
    }

    /// A frame of a host's, or one that the device has made, has gone out. Answers whether it is time for a piece of work for others
    /// ([`spare`](Self::spare)).
    pub(crate) fn note_frame(&mut self) -> bool {
        self.frames += 1;
        self.frames >= FRAMES
    }

    /// Does a piece of work for one of the functions whose send rings are empty, while those of others are not.
    pub(crate) fn spare(
        &mut self,
        offloads: &mut Offloads,
        functions: &mut [Function],
        now: Instant,
        out: &mut [u8],
    ) -> Step {
        self.frames = 0;
        self.work(offloads, functions, now, out, true)
    }

    /// Does the next piece of work that gives a frame, with all before it; the hosts' send rings are empty.
    pub(crate) fn step(
        &mut self,
        offloads: &mut Offloads,
        functions: &mut [Function],
        now: Instant,
        out: &mut [u8],
    ) -> Step {
        self.frames = 0;
        self.work(offloads, functions, now, out, false)
    }

    fn work(
        &mut self,
        offloads: &mut Offloads,
        functions: &mut [Function],
        now: Instant,
        out: &mut [u8],
        sparing: bool,
    ) -> Step {
        if self.next.is_none_or(|next| next <= now) && !self.time.is_zero() {
            self.begin();
        }
        self.again = None;
        if self.left > 0 {
            offloads.toe.handle_time(now, functions);
        }
        let mut blocked = false;
        // Kinds of work of all functions, each looked at in vain.
        let mut idle = 0;
        while idle <= functions.len() * 3 {
            if self.left == 0 {
                return self.pause(now);
            }
            let Some(function) = functions.get_mut(self.function) else {
                self.function = 0;
                if functions.is_empty() {
                    break;
                }
                continue;
            };
            let done = match self.next_work(function) {
                _ if sparing && transmit::has_sends(function) => Done::Nothing,
                Work::Packets => work::packet(offloads, function, now),
                Work::Commands => work::command(offloads, function, now),
                Work::Segments => work::segment(offloads, function, now, out),
            };
            match done {
                Done::Some | Done::Resumed | Done::Frame(_) => idle = 0,
                Done::Blocked | Done::Nothing => idle += 1,
                Done::HostFirst => return Step::Busy,
            }
            blocked |= matches!(done, Done::Blocked);
            self.note(&done, now);
            if let Done::Frame(step) = done {
                return step;
            }
            if sparing && idle == 0 {
                return Step::Busy;
            }
        }
        if blocked {
            self.come_back(now + Self::RETRY);
        }
        Step::Idle
    }

    /// What is on its way is finished first: until then its connection's memory is being read, and the scratch memory.
    fn next_work(&self, function: &Function) -> Work {
        match function.own.busy() {
            Some(_) => Work::Segments,
            None => self.work,
        }
    }

    /// Goes on to what comes after an attempt.
    fn note(&mut self, done: &Done, now: Instant) {
        match done {
            Done::Some | Done::Frame(_) => self.take(now),
            Done::Resumed => {
                self.take(now);
                (self.work, self.quantum) = (Work::Segments, QUANTUM);
            }
            Done::Blocked | Done::Nothing => self.next_kind(),
            Done::HostFirst => {}
        }
    }

    /// There is nothing to do at all.
    pub(crate) fn rest(&mut self) {
        self.again = None;
    }

    fn begin(&mut self) {
        self.left = self.limit.unwrap_or(u32::MAX);
        self.next = None;
    }

    /// Counts a piece of work.
    fn take(&mut self, now: Instant) {
        self.worked = true;
        if self.limit.is_some() {
            self.left -= 1;
            if self.next.is_none() {
                self.next = Some(now + self.time);
            }
        }
        self.quantum -= 1;
        if self.quantum == 0 {
            self.next_kind();
        }
    }

    fn next_kind(&mut self) {
        self.quantum = QUANTUM;
        self.work = match self.work {
            Work::Packets => Work::Commands,
            Work::Commands => Work::Segments,
            Work::Segments => {
                self.function += 1;
                Work::Packets
            }
        };
    }

    /// The turn is over, and there may be more to do.
    fn pause(&mut self, now: Instant) -> Step {
        self.come_back(self.next.unwrap_or(now));
        Step::Idle
    }

    fn come_back(&mut self, when: Instant) {
        self.again = Some(self.again.map_or(when, |again| again.min(when)));
    }
}

/// Whether there is something to do for a function's connections, beside commands.
pub(crate) fn has_work(offloads: &Offloads, function: &Function) -> bool {
    function.nic_packets.has_work()
        || function.own.busy().is_some()
        || offloads.toe.has_segments(function.id)
}
