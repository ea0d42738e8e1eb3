//! Pieces of work for the connections that the device runs.

use std::time::Instant;

use wire::SeqNum;

use super::QUANTUM;
use crate::context::receive::placing::PlacedList;
use crate::delivery;
use crate::function::Function;
use crate::offloads::Offloads;
use crate::ring::toe::ToeEvent;
use crate::ring::{ErrorCode, RecvDescriptor, ToeRequest};
use crate::send::Stopped;
use crate::toe::{After, Segment, ToeEnv};
use crate::transmit::{self, Commanded, Step};

/// What came of an attempt.
pub(super) enum Done {
    /// A piece of work.
    Some,
    /// A command, behind which the segments come at once.
    Resumed,
    /// A frame.
    Frame(Step),
    /// No work of this kind.
    Nothing,
    /// Work waits, but a receive ring has no room.
    Blocked,
    /// A host's packets come first.
    HostFirst,
}

/// Takes the next NIC packet to TCP.
pub(super) fn packet(offloads: &mut Offloads, function: &mut Function, now: Instant) -> Done {
    delivery::end_own_sessions(function);
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
    delivery::settle(function, queue, &packet, placed.as_slice(), &taken);
    Done::Some
}

/// Carries out the next command.
pub(super) fn command(offloads: &mut Offloads, function: &mut Function, now: Instant) -> Done {
    let mut blocked = false;
    for queue in 0..function.queues.len() {
        if !function.queues[queue].rings.commands.has_work() {
            continue;
        }
        // A host that does not know of a reset yet means connections that are gone: the reset is reported before
        // any others. And it is to have heard of refusals before it asks for more.
        if !function.report_reset()
            || offloads.toe.has_unreported(function.id)
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
        let reported = function.report(queue, RecvDescriptor::Toe(event));
        debug_assert!(reported, "there is room");
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
pub(super) fn segment(
    offloads: &mut Offloads,
    function: &mut Function,
    now: Instant,
    out: &mut [u8],
) -> Done {
    if function.own.busy().is_none() {
        let Some(segment) = poll_segment(offloads, function, now) else {
            return Done::Nothing;
        };
        // No acknowledgment may leave before the host can see what it acknowledges.
        for queue in &mut function.queues {
            queue.rings.recv.publish();
        }
        let begun = transmit::begin(offloads, function, segment.connection, &segment.send);
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
            borrowed: None,
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
