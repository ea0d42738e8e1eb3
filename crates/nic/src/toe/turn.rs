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
//! A host whose send ring is never empty must not keep the connections of another one waiting for ever: now and then a piece of work
//! is done for those functions whose own send rings are empty ([`Turns::spare`]).
//!
//! With a limit on the work of a turn, received host packets get the processor in between: whoever runs the device takes what
//! the wire has brought whenever [`poll_transmit`](crate::Nic::poll_transmit) has nothing more.

use std::time::{Duration, Instant};

use wire::SeqNum;

use super::{After, Segment, ToeConfig, ToeEnv};
use crate::device::Offloads;
use crate::function::Function;
use crate::receive::{self, PlacedList};
use crate::ring::toe::ToeEvent;
use crate::ring::{ErrorCode, RecvDescriptor, ToeRequest};
use crate::transmit::{self, Commanded, Step, Stopped};

/// Pieces of one kind of work before it is the next kind's turn.
const QUANTUM: u32 = 16;
/// Frames of hosts whose send rings are never empty, for each of which others wait, before these have a piece of work done.
const HOST_FRAMES: u32 = 32;

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
    /// Frames of the hosts' own since there was time for anything else.
    host_frames: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Packets,
    Commands,
    Segments,
}

/// What came of an attempt.
enum Done {
    /// A piece of work.
    Some,
    /// A command, behind which the segments come at once.
    Resumed,
    /// A frame.
    Frame(Step),
    /// There is none of this kind.
    Nothing,
    /// There is, but no room in a receive ring.
    Blocked,
    /// A host's packets come first.
    HostFirst,
}

impl Turns {
    /// How long work waits that a full receive ring holds up.
    const RETRY: Duration = Duration::from_millis(1);

    pub(crate) fn new(config: &ToeConfig) -> Turns {
        // With none at all nothing would ever be done.
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
            host_frames: 0,
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

    /// A host's frame has gone out. Answers whether it is time for a piece of work for others ([`spare`](Self::spare)).
    pub(crate) fn note_host_frame(&mut self) -> bool {
        self.host_frames += 1;
        self.host_frames >= HOST_FRAMES
    }

    /// Does a piece of work for one of the functions whose send rings are empty, while those of others are not.
    pub(crate) fn spare(
        &mut self,
        offloads: &mut Offloads,
        functions: &mut [Function],
        now: Instant,
        out: &mut [u8],
    ) -> Step {
        self.host_frames = 0;
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
        self.host_frames = 0;
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
        if self.left > 0
            && functions
                .iter()
                .all(|function| function.own.busy().is_none())
        {
            offloads.toe.handle_time(now);
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
            // What is on its way is finished first: until then its connection's memory is being read, and the scratch memory.
            let work = match function.own.busy() {
                Some(_) => Work::Segments,
                None => self.work,
            };
            let done = match work {
                _ if sparing && transmit::has_sends(function) => Done::Nothing,
                Work::Packets => packet(offloads, function, now),
                Work::Commands => command(offloads, function, now),
                Work::Segments => segment(offloads, function, now, out),
            };
            match done {
                Done::Some | Done::Frame(_) => {
                    idle = 0;
                    self.take(now);
                }
                Done::Resumed => {
                    idle = 0;
                    self.take(now);
                    (self.work, self.quantum) = (Work::Segments, QUANTUM);
                }
                Done::Blocked => {
                    blocked = true;
                    idle += 1;
                    self.next_kind();
                }
                Done::Nothing => {
                    idle += 1;
                    self.next_kind();
                }
                Done::HostFirst => return Step::Busy,
            }
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

/// Takes the next NIC packet to TCP.
fn packet(offloads: &mut Offloads, function: &mut Function, now: Instant) -> Done {
    receive::end_own_sessions(function);
    let mut tries = 0;
    let (connection, queue) = loop {
        let Some((connection, packet)) = function.nic_packets.peek() else {
            return Done::Nothing;
        };
        let descriptors = 2 + u32::from(packet.placed());
        let queue = function.nic_packets.queue_of(connection);
        if function.has_space(queue, descriptors) {
            break (connection, queue);
        }
        // Its host does not read that ring, but perhaps another one.
        function.nic_packets.pass();
        tries += 1;
        if tries == QUANTUM {
            return Done::Blocked;
        }
    };
    let mut placed = PlacedList::default();
    let taken = function.nic_packets.take(connection, |part| {
        placed.push(part);
    });
    let Some(packet) = taken else {
        return Done::Nothing;
    };
    let queued = function.nic_packets.len();
    offloads.toe.room.note(function.id, queued);
    let (toe, mut env) = offloads.toe(now, function);
    let taken = toe.handle_packet(&mut env, connection, &packet);
    receive::settle(function, queue, &packet, placed.as_slice(), &taken);
    Done::Some
}

/// Carries out the next command.
fn command(offloads: &mut Offloads, function: &mut Function, now: Instant) -> Done {
    let mut blocked = false;
    for queue in 0..function.queues.len() {
        if !function.queues[queue].rings.commands.has_work() {
            continue;
        }
        // A host that does not know of a reset yet means connections that are gone: it is to hear of it before it is told of
        // any others. And it is to have heard of refusals before it asks for more.
        if !function.tell_of_reset()
            || offloads.toe.has_untold(function.id)
            || !function.has_space(queue, 1)
        {
            blocked = true;
            continue;
        }
        let (index, context, tcpsn, error) = match transmit::next_command(offloads, function, queue)
        {
            Commanded::Nothing => continue,
            Commanded::SendRingFirst => return Done::HostFirst,
            Commanded::Done => return Done::Some,
            Commanded::Toe { index, request } => {
                match carry_out(offloads, function, &request, now) {
                    Ok(After::Next) => return Done::Some,
                    Ok(After::Segments) => return Done::Resumed,
                    Err(error) => (index, None, SeqNum(0), error),
                }
            }
            Commanded::Failed {
                index,
                context,
                tcpsn,
                error,
            } => (index, context, tcpsn, error),
        };
        function.counters.toe_bad_commands += 1;
        let event = ToeEvent::CommandFailed {
            index,
            context,
            tcpsn,
            error,
        };
        let told = function.tell(queue, RecvDescriptor::Toe(event));
        debug_assert!(told, "there is room");
        return Done::Some;
    }
    match blocked {
        true => Done::Blocked,
        false => Done::Nothing,
    }
}

fn carry_out(
    offloads: &mut Offloads,
    function: &mut Function,
    request: &ToeRequest,
    now: Instant,
) -> Result<After, ErrorCode> {
    // The command needs the whole function, and its slices.
    std::mem::swap(&mut function.own.commands.0, &mut offloads.gather);
    let Offloads {
        config,
        hasher,
        accel,
        toe,
        gather,
        ..
    } = offloads;
    if let ToeRequest::Begin { .. } = request {
        toe.room.asked(function.id);
    }
    let mut env = ToeEnv {
        now,
        nic: config,
        hasher,
        accel,
        function,
    };
    let after = toe.command(&mut env, request, gather);
    toe.room.note(function.id, function.nic_packets.len());
    after
}

/// Writes the next frame of a connection that the device runs.
fn segment(offloads: &mut Offloads, function: &mut Function, now: Instant, out: &mut [u8]) -> Done {
    if function.own.busy().is_none() {
        let Some(segment) = poll_segment(offloads, function, now) else {
            return Done::Nothing;
        };
        // No acknowledgment may leave before the host can see what it acknowledges.
        for queue in &mut function.queues {
            queue.rings.recv.publish();
        }
        let begun = transmit::begin(offloads, function, segment.connection, segment.send);
        if let Err(stopped) = begun {
            refused(offloads, function, now, &stopped);
            return Done::Some;
        }
    }
    match transmit::frame(offloads, function, out) {
        Ok(Some((len, meta))) => Done::Frame(Step::Frame {
            function: function.id,
            len,
            meta,
            lent: None,
        }),
        Ok(None) => Done::Nothing,
        Err(stopped) => {
            refused(offloads, function, now, &stopped);
            Done::Some
        }
    }
}

/// The next segment of the function's connections; its slices are in `offloads.gather`.
fn poll_segment(offloads: &mut Offloads, function: &mut Function, now: Instant) -> Option<Segment> {
    let Offloads {
        config,
        hasher,
        accel,
        toe,
        gather,
        ..
    } = offloads;
    if !toe.has_segments(function.id) {
        return None;
    }
    let mut env = ToeEnv {
        now,
        nic: config,
        hasher,
        accel,
        function,
    };
    gather.clear();
    toe.poll_segment(&mut env, gather)
}

fn refused(offloads: &mut Offloads, function: &mut Function, now: Instant, stopped: &Stopped) {
    let (toe, mut env) = offloads.toe(now, function);
    toe.refused(&mut env, stopped);
}
