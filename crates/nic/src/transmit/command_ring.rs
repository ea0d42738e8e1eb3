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

#[cfg(test)]
mod tests {
    use wire::ethernet::MacAddr;

    use super::*;
    use crate::ring::{FunctionConfig, MAX_HEADER_LEN, Send, SendDescriptor, SendFlags, function};
    use crate::send::job::Job;
    use crate::switch::FunctionId;

    /// What was on the send ring when a command was published goes first, and what of it is still on its way.
    #[test]
    fn a_command_is_behind_what_was_on_the_send_ring_before_it() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let (mut host, device) = function(FunctionConfig::new(mac));
        let mut function = Function::new(FunctionId(0), device, 0);
        let (host, queue) = (&mut host.queues[0], &mut function.queues[0]);
        let descriptor = SendDescriptor::DestroyContext {
            context: ContextId(1),
        };
        assert!(!may_go_on(queue), "there is no command");
        host.commands.post(&descriptor).unwrap();
        let _ = host.publish();
        assert!(may_go_on(queue));
        assert!(
            queue
                .rings
                .commands
                .take(&mut function.own.commands.0)
                .is_some()
        );
        assert!(!may_go_on(queue), "there is no other one");
        host.send.post(&descriptor).unwrap();
        host.commands.post(&descriptor).unwrap();
        let _ = host.publish();
        assert!(!may_go_on(queue), "the send ring is not empty");
        assert!(
            queue
                .rings
                .send
                .take(&mut function.own.commands.0)
                .is_some()
        );
        let send = Send {
            header: [0; MAX_HEADER_LEN],
            header_len: 0,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload_len: 0,
        };
        queue.transmit.job = Some(Job::new(&send, 0));
        assert!(!may_go_on(queue), "its last packet is on its way");
        queue.transmit.job = None;
        assert!(may_go_on(queue));
        // What is published later comes behind it.
        host.send.post(&descriptor).unwrap();
        let _ = host.publish();
        assert!(may_go_on(queue));
    }
}
