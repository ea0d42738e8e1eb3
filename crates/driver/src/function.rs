//! The rings of a function, the order of what is posted, and memory that the NIC has in use.

use std::collections::VecDeque;

use l5p::Layers;
use nic::ring::{
    ContextId, CreateContext, Direction, HostQueue, InnerRecover, PostError, ResyncResponse,
    SendProducer, Slice,
};
use wire::{FlowKey, SeqNum};

use crate::command::{Command, Place};
use crate::contexts::Contexts;
use crate::recovery::Recovery;
use crate::settling::{Settling, Ticket};

/// A function's rings, from the host's side. `C` is what the driver keeps of a context, `M` memory that the NIC reads or writes.
#[derive(Debug)]
pub struct Function<C, M> {
    /// The rings. What is posted goes through the first queue's send ring.
    pub queues: Vec<HostQueue>,
    /// The contexts.
    pub contexts: Contexts<C>,
    /// Commands that wait for room in the ring, each with the memory that it names. While there are any, no packet may be posted.
    commands: VecDeque<(Option<Command>, Option<M>)>,
    /// Commands given so far.
    commanded: u64,
    settling: Settling,
    /// Memory that the NIC may still use, with where it does not any more.
    retiring: VecDeque<(Posted, M)>,
    /// What it was last known to have completed.
    completed: Posted,
    wakeup_due: bool,
}

/// Positions of the send ring and of the command ring.
#[derive(Clone, Copy, Debug, Default)]
struct Posted {
    sends: u64,
    commands: u64,
}

/// What became of commands that waited.
#[derive(Clone, Copy, Debug)]
pub struct Flushed {
    /// Descriptors posted.
    pub posted: u64,
    /// No command waits any more.
    pub is_done: bool,
}

impl<C, M> Function<C, M> {
    /// A function with these rings, at least one queue of them, that may have so many contexts.
    pub fn new(queues: Vec<HostQueue>, contexts: u32) -> Function<C, M> {
        Function {
            queues,
            contexts: Contexts::new(contexts),
            commands: VecDeque::new(),
            commanded: 0,
            settling: Settling::default(),
            retiring: VecDeque::new(),
            completed: Posted::default(),
            wakeup_due: false,
        }
    }

    /// The send ring.
    #[inline]
    pub fn send(&mut self) -> &mut SendProducer {
        &mut self.queues[0].send
    }

    /// Asks the NIC for a context whose first message begins at `tcpsn` (`l5o_create`, Autonomous NIC offloads, Listing 1). `None` when the quota is
    /// used up.
    pub fn create(
        &mut self,
        shadow: C,
        direction: Direction,
        flow: FlowKey,
        tcpsn: SeqNum,
        layers: Layers,
    ) -> Option<ContextId> {
        let context = self.contexts.allocate(shadow)?;
        self.command(Command::Create(Box::new(CreateContext {
            context,
            direction,
            flow,
            tcpsn,
            layers,
        })));
        Some(context)
    }

    /// Ends a context (`l5o_destroy`). It is known as long as the command waits, and after that only as one that packets may have come through.
    pub fn destroy(&mut self, context: ContextId) {
        self.command(Command::Destroy(context));
    }

    /// Answers a question of the NIC's (`l5o_resync_rx_resp`): a message of this index begins there, or none does.
    pub fn answer(&mut self, context: ContextId, place: Place, index: Option<u64>) {
        self.command(Command::Resync(ResyncResponse {
            context,
            tcpsn: place.tcpsn,
            inner: place.inner,
            confirmed: index.is_some(),
            index: index.unwrap_or(0),
        }));
    }

    /// Gives a command to the NIC, behind all others.
    pub fn command(&mut self, command: Command) {
        self.push(Some(command), None);
    }

    /// Gives a command that names memory, which is given back once the NIC has read it.
    pub fn command_with(&mut self, command: Command, memory: M) {
        self.push(Some(command), Some(memory));
    }

    /// Gives memory up that the NIC may use until it has come to the command that it was given last.
    pub fn retire_behind_commands(&mut self, memory: M) {
        self.push(None, Some(memory));
    }

    fn push(&mut self, command: Option<Command>, memory: Option<M>) {
        self.commanded += 1;
        self.commands.push_back((command, memory));
    }

    /// Whether a command waits for room in the ring.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Posts commands that wait, as far as there is room.
    pub fn flush(&mut self) -> Flushed {
        let mut posted = 0;
        while let Some((command, _)) = self.commands.front() {
            if let Some(command) = command {
                if self.queues[0].send.post(&command.descriptor()).is_err() {
                    let is_done = false;
                    return Flushed { posted, is_done };
                }
                posted += 1;
                if let Command::Destroy(context) = *command {
                    let posted = self.want_settled();
                    self.contexts.release(context, posted);
                }
            }
            if let Some((_, Some(memory))) = self.commands.pop_front() {
                self.retire(memory);
            }
        }
        let is_done = true;
        Flushed { posted, is_done }
    }

    /// Posts what brings a context to `resume`, if behind it there is room for a packet of so many slices.
    ///
    /// # Errors
    /// When there is no room, or the NIC takes no such recovery.
    pub fn recover(
        &mut self,
        (context, resume): (ContextId, SeqNum),
        recovery: &Recovery,
        (prefix, inner): (&[Slice], Option<InnerRecover>),
        slices: usize,
    ) -> Result<(), PostError> {
        let descriptor = recovery.descriptor((context, resume), None, prefix, inner);
        let needed =
            SendProducer::slots_for_recover(prefix.len()) + SendProducer::slots_for_send(slices);
        let send = &mut self.queues[0].send;
        let free = send.free(needed);
        if free < needed {
            return Err(PostError::Full { needed, free });
        }
        send.post(&descriptor).map(drop)
    }

    /// Lets go of memory that is needed no longer, once the NIC is done with what was posted up to now.
    #[inline]
    pub fn retire(&mut self, memory: M) {
        let queue = &self.queues[0];
        let posted = Posted {
            sends: queue.send.posted(),
            // Commands for connections on the NIC name it too.
            commands: queue.commands.posted(),
        };
        self.retiring.push_back((posted, memory));
    }

    /// Whether the NIC has done all that was posted until then.
    #[inline]
    fn has_completed(&mut self, posted: Posted) -> bool {
        let (done, queue) = (&mut self.completed, &mut self.queues[0]);
        if posted.sends > done.sends {
            done.sends = queue.send.completed();
        }
        if posted.commands > done.commands {
            done.commands = queue.commands.completed();
        }
        posted.sends <= done.sends && posted.commands <= done.commands
    }

    /// Memory that the NIC is done with, in the order in which it was [retired](Self::retire).
    #[inline]
    pub fn poll_retired(&mut self) -> Option<M> {
        let (posted, _) = self.retiring.front()?;
        let posted = *posted;
        if !self.has_completed(posted) {
            return None;
        }
        self.retiring.pop_front().map(|(_, memory)| memory)
    }

    /// Whether the NIC has memory in use that is given up.
    pub fn has_retiring(&self) -> bool {
        !self.retiring.is_empty()
    }

    /// Slots of the send ring that the NIC has finished with.
    pub fn completed(&mut self) -> u64 {
        self.queues[0].send.completed()
    }

    /// Slots of the send ring that were posted.
    pub fn posted(&self) -> u64 {
        self.queues[0].send.posted()
    }

    /// The place behind all that was posted.
    pub fn ticket(&mut self) -> Ticket {
        if self.commands.is_empty() {
            Ticket::Posted(self.want_settled())
        } else {
            Ticket::Waiting(self.commanded)
        }
    }

    /// Whether the NIC has come so far, and all that it had put on the receive rings until then has been looked at.
    pub fn is_settled(&mut self, ticket: &mut Ticket) -> bool {
        if let Ticket::Waiting(commands) = *ticket
            && commands + self.commands.len() as u64 <= self.commanded
        {
            // It may have been posted some time ago: this is later.
            *ticket = Ticket::Posted(self.want_settled());
        }
        matches!(*ticket, Ticket::Posted(position) if position <= self.settling.settled)
    }

    /// A caller waits until all is settled that was posted up to now. Gives the send ring's position.
    pub fn want_settled(&mut self) -> u64 {
        self.settling.wanted = self.posted();
        self.settling.wanted
    }

    /// A caller wants to know when all is settled that was posted up to now, and need not be woken for it.
    #[inline]
    pub fn care_settled(&mut self) {
        self.settling.cared = self.posted();
    }

    /// The position of the send ring up to which the NIC's work is settled.
    #[inline]
    pub fn settled(&self) -> u64 {
        self.settling.settled
    }

    /// Whether a caller waits for the NIC's work to be settled.
    #[inline]
    pub fn is_settling(&self) -> bool {
        self.settling.settled < self.settling.wanted
    }

    /// To be called after packets were taken in: finds out how far the NIC's work is settled. Gives whether that is further than before.
    #[inline]
    pub fn settle(&mut self) -> bool {
        if !self.settling.is_due() {
            return false;
        }
        let before = self.settling.settled;
        if self.settling.settle(&mut self.queues) {
            self.contexts.wake(self.settling.settled);
        }
        self.settling.settled != before
    }

    /// The NIC is gone, and all that it had reported was taken: what was posted counts as done. Another one finds the rings empty.
    pub fn clear(&mut self) {
        self.queues.iter_mut().for_each(HostQueue::clear);
    }

    /// Shows everything posted and taken to the NIC.
    pub fn publish(&mut self) {
        for queue in &mut self.queues {
            self.wakeup_due |= queue.publish();
        }
    }

    /// Whether the NIC slept when something was published, since this was asked last.
    pub fn take_wakeup(&mut self) -> bool {
        std::mem::take(&mut self.wakeup_due)
    }

    /// Announces that the host is about to sleep. False when something has come meanwhile: then it must not.
    pub fn prepare_sleep(&mut self) -> bool {
        for at in 0..self.queues.len() {
            if !self.queues[at].prepare_sleep() {
                self.queues[..at]
                    .iter_mut()
                    .for_each(HostQueue::cancel_sleep);
                return false;
            }
        }
        true
    }

    /// Takes the announcement back, after the sleep or instead of it.
    pub fn cancel_sleep(&mut self) {
        self.queues.iter_mut().for_each(HostQueue::cancel_sleep);
    }
}
