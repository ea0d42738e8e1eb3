//! The command ring of a queue, which comes after its send ring: what was on that before a command was published is done before
//! the command.

use wire::SeqNum;

use super::{own, queue};
use crate::function::{Function, Queue};
use crate::offloads::Offloads;
use crate::ring::{BadDescriptor, Command, ContextId, ErrorCode, ToeRequest};

/// What the next slot of a command ring has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Commanded {
    /// Nothing yet.
    Nothing,
    /// Something that comes after what is on the send ring.
    SendRingFirst,
    /// A command to the connections that the device runs, with its slices in `function.own.commands`.
    Toe {
        /// Index of its first slot.
        index: u64,
        request: ToeRequest,
    },
    /// A command that was carried out.
    Done,
    /// A descriptor that was refused.
    Failed {
        /// Index of its first slot.
        index: u64,
        context: Option<ContextId>,
        tcpsn: SeqNum,
        error: ErrorCode,
    },
}

/// Takes the next command off a queue's command ring, and carries it out unless it is for the connections that the device
/// runs. No segment of theirs may be on its way: a recovery takes its scratch memory.
pub(crate) fn next_command(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
) -> Commanded {
    if !may_go_on(&mut function.queues[queue]) {
        return match queue::has_work(function, queue) {
            true => Commanded::SendRingFirst,
            false => Commanded::Nothing,
        };
    }
    let commands = &mut function.queues[queue].rings.commands;
    let Some(taken) = commands.take(&mut function.own.commands.0) else {
        return Commanded::Nothing;
    };
    function.regions.refresh();
    function.counters.pcie_descriptors += u64::from(taken.bytes);
    let failed = |context, tcpsn, error| Commanded::Failed {
        index: taken.index,
        context,
        tcpsn,
        error,
    };
    match taken.command {
        Ok(Command::Toe(request)) => Commanded::Toe {
            index: taken.index,
            request,
        },
        Ok(Command::Recover(command)) => {
            let context = command.context;
            match command.toe {
                None => failed(Some(context), command.start, ErrorCode::Unsupported),
                Some(toe) if !offloads.toe.waits_for(function.id, toe, context) => {
                    // It was given back since, and the context is where its host has brought it.
                    function.counters.toe_stale_commands += 1;
                    Commanded::Done
                }
                Some(_) => match own::recover(offloads, function, &command) {
                    Ok(()) => Commanded::Done,
                    Err(error) => failed(Some(context), command.start, error),
                },
            }
        }
        // The rest belongs on the send ring.
        Ok(_) => failed(None, SeqNum(0), ErrorCode::Unsupported),
        Err(BadDescriptor { context, error, .. }) => failed(context, SeqNum(0), error),
    }
}

/// Whether the send ring was worked off after the next command had been published. The command ring is looked at before
/// the send ring: what the host has published there before the command is to be seen then.
fn may_go_on(queue: &mut Queue) -> bool {
    let next = queue.rings.commands.next();
    if next < queue.commands_until {
        return true;
    }
    let until = queue.rings.commands.published();
    if until == next || queue.transmit.is_busy() || queue.rings.send.has_work_now() {
        return false;
    }
    queue.commands_until = until;
    true
}
