//! One queue's work: the descriptor at hand, and the next one off its send ring.

use std::time::Instant;

use wire::SeqNum;

use super::commands::{self, COMMAND_COST};
use crate::frame::FrameMeta;
use crate::function::{Function, Queue};
use crate::offloads::Offloads;
use crate::ring::{Command, ContextId, ErrorCode, Send};
use crate::send::borrowed::BorrowedPayload;
use crate::send::job::{Job, SendEnv};

/// What a step of a queue gave.
pub(super) enum Progress {
    Frame {
        len: usize,
        meta: FrameMeta,
        borrowed: Option<BorrowedPayload>,
    },
    /// A descriptor was worked off without a frame; it counts as `cost` bytes.
    Command {
        cost: u64,
    },
    Nothing,
}

/// A refused descriptor: which one, and what to tell of it.
struct Refused {
    index: u64,
    context: Option<ContextId>,
    tcpsn: SeqNum,
    error: ErrorCode,
}

/// Whether the queue has anything to work on. While its completions wait for room in the receive ring it
/// has not.
pub(super) fn has_work(function: &mut Function, queue: usize) -> bool {
    let queue = &mut function.queues[queue];
    !queue.completions.is_full() && (queue.transmit.job.is_some() || queue.rings.send.has_work())
}

/// Whether any of a function's queues has anything to work on.
pub(crate) fn has_sends(function: &mut Function) -> bool {
    (0..function.queues.len()).any(|queue| has_work(function, queue))
}

/// Does the next piece of work: one frame, or one command.
pub(super) fn step(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    now: Instant,
    out: &mut [u8],
) -> Progress {
    if !has_work(function, queue) {
        return Progress::Nothing;
    }
    let result = match &function.queues[queue].transmit.job {
        Some(_) => frame(offloads, function, queue, out).map(Some),
        None => descriptor(offloads, function, queue, now, out),
    };
    match result {
        Ok(Some(progress)) => progress,
        Ok(None) => Progress::Nothing,
        Err(refused) => {
            function.counters.tx_errors += 1;
            let completions = &mut function.queues[queue].completions;
            completions.push(refused.index, refused.context, refused.tcpsn, refused.error);
            Progress::Command { cost: COMMAND_COST }
        }
    }
}

/// Takes the next descriptor off the ring and carries it out.
fn descriptor(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    now: Instant,
    out: &mut [u8],
) -> Result<Option<Progress>, Refused> {
    let Queue {
        rings, transmit, ..
    } = &mut function.queues[queue];
    // What came before is done with, and its slots are the host's again at the next publish.
    let Some(taken) = rings.send.take(&mut transmit.gather) else {
        return Ok(None);
    };
    function.regions.refresh();
    function.counters.pcie_descriptors += u64::from(taken.bytes);
    let index = taken.index;
    let refuse = |(context, tcpsn), error| Refused {
        index,
        context,
        tcpsn,
        error,
    };
    let command = match &taken.command {
        Err(bad) => {
            if bad.is_send {
                transmit.seek = None;
            }
            return Err(refuse((bad.context, SeqNum(bad.subject)), bad.error));
        }
        Ok(Command::Send(send)) => {
            return self::send(offloads, function, queue, index, send, out).map(Some);
        }
        Ok(command) => command,
    };
    let cost = commands::carry_out(offloads, function, queue, command, now)
        .map_err(|error| refuse(commands::subject(command), error))?;
    if matches!(command, Command::Destroy(_) | Command::DelRr(_)) {
        let unshown = &mut function.queues[queue].unshown;
        unshown.hold(index, &mut function.nic_packets);
    }
    Ok(Some(Progress::Command { cost }))
}

fn send(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    index: u64,
    send: &Send,
    out: &mut [u8],
) -> Result<Progress, Refused> {
    let context = send.context;
    let large = send.mss != 0 && send.payload_len > u32::from(send.mss);
    let bytes = u64::from(send.payload_len);
    let mut job = Job::new(send, index);
    if let Some(seek) = function.queues[queue].transmit.seek.take() {
        job.set_seek(seek);
    }
    let mut checked = job.check(&mut send_env(offloads, function, queue).env);
    // Nothing gives way to what is refused.
    if checked.is_ok()
        && !offloads.accel.is_idle()
        && let Some(flow) = job.opens()
    {
        let owner = offloads.owner_of_ours(function.id, &flow);
        checked = offloads.accel.open(function, owner);
    }
    checked.map_err(|error| Refused {
        index,
        context,
        tcpsn: job.tcpsn(),
        error,
    })?;
    if large {
        function.counters.tx_tso_packets += 1;
        function.counters.tx_tso_bytes += bytes;
    }
    function.queues[queue].transmit.job = Some(job);
    frame(offloads, function, queue, out)
}

/// Writes the next frame of the job at hand, which stays where it is: it is large.
fn frame(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    out: &mut [u8],
) -> Result<Progress, Refused> {
    let borrows_from = offloads.borrows.then_some(queue);
    let Sending {
        mut env,
        job,
        borrowed,
    } = send_env(offloads, function, queue);
    let Some(at_hand) = job else {
        return Ok(Progress::Nothing);
    };
    env.borrows_from = borrows_from;
    match at_hand.frame(&mut env, out) {
        Ok(made) => {
            env.counters.tx_packets += 1;
            env.counters.tx_bytes += made.len as u64;
            *borrowed = made.borrowed.map(|_| at_hand.index);
            if at_hand.finished() {
                *job = None;
            }
            Ok(Progress::Frame {
                len: made.len,
                meta: made.meta,
                borrowed: made.borrowed,
            })
        }
        Err(error) => {
            let refused = Refused {
                index: at_hand.index,
                context: at_hand.send.context,
                tcpsn: at_hand.tcpsn(),
                error,
            };
            *job = None;
            Err(refused)
        }
    }
}

/// What is needed to send for a queue.
struct Sending<'a> {
    env: SendEnv<'a>,
    job: &'a mut Option<Job>,
    /// Index of the descriptor whose payload is borrowed.
    borrowed: &'a mut Option<u64>,
}

fn send_env<'a>(
    offloads: &'a mut Offloads,
    function: &'a mut Function,
    queue: usize,
) -> Sending<'a> {
    let transmit = &mut function.queues[queue].transmit;
    Sending {
        env: SendEnv {
            nic: &offloads.config,
            contexts: &mut offloads.contexts,
            hasher: &offloads.hasher,
            function: function.id,
            config: &function.config,
            regions: &function.regions,
            gather: &transmit.gather,
            scratch: &transmit.scratch,
            ahead: &mut transmit.ahead,
            counters: &mut function.counters,
            borrows_from: None,
        },
        job: &mut transmit.job,
        borrowed: &mut transmit.borrowed,
    }
}
