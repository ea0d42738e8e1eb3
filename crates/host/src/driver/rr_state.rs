//! Buffers that contexts write to (Autonomous NIC offloads, Listing 1), and when the NIC is done with one.

use nic::ring::{ContextId, SendDescriptor, Slice};

use super::{Command, Driver};
use crate::counters::Counters;
use crate::memory::Buffer;

/// A place in the order of what the NIC is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ticket {
    /// After so many commands, the last of which still waits for room in the ring.
    Waiting(u64),
    /// When the send ring has come so far.
    Posted(u64),
}

/// When all that the NIC had done at some time has been looked at.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Up to here it has.
    settled: u64,
    /// Up to here it matters to somebody who waits.
    wanted: u64,
    /// Up to here it matters to somebody who has time.
    cared: u64,
    /// The send ring's completions at the time that is awaited, and what then was on each receive ring.
    completed: u64,
    awaited: Vec<u64>,
}

impl Settling {
    /// What is posted up to here matters to somebody who has time: nobody is woken for it.
    #[inline]
    pub(super) fn care(&mut self, posted: u64) {
        self.cared = posted;
    }

    #[inline]
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }
}

impl Driver {
    /// Maps a buffer to a tag (`l5o_add_rr_state`). False when there is no room in the ring: nothing waits for that.
    pub fn l5o_add_rr_state(
        &mut self,
        context: ContextId,
        tag: u16,
        slices: &[Slice],
        counters: &mut Counters,
    ) -> bool {
        if self.is_blocked() && !self.flush(counters) {
            return false;
        }
        let descriptor = SendDescriptor::AddRrState {
            context,
            tag,
            slices,
        };
        if self.queues[0].send.post(&descriptor).is_err() {
            return false;
        }
        counters.driver_tx_posted += 1;
        for slice in slices {
            self.regions.hold(*slice);
        }
        true
    }

    /// Unmaps a tag (`l5o_del_rr_state`). The NIC is done with the buffer when the ticket [is settled](Self::is_settled).
    pub fn l5o_del_rr_state(
        &mut self,
        context: ContextId,
        tag: u16,
        counters: &mut Counters,
    ) -> Ticket {
        self.command(Command::DelRr { context, tag });
        self.flush(counters);
        self.ticket()
    }

    /// The place after all that the NIC has been told.
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

    /// Somebody wants to know when all is settled that was posted up to now.
    pub(super) fn want_settled(&mut self) -> u64 {
        self.settling.wanted = self.posted();
        self.settling.wanted
    }

    /// Lets go of memory that the NIC may write to until it has come to what it is told last.
    pub fn unhold_later(&mut self, slices: &[Slice]) {
        self.command(Command::Unhold(slices.into()));
    }

    /// Gives a buffer up that the NIC may write to until it has come to what it is told last.
    pub fn retire_later(&mut self, buffer: Buffer) {
        self.command(Command::Retire(buffer));
    }

    /// To be called after packets were taken in: finds out how far the NIC's work is settled. Answers whether that is further than
    /// before.
    #[inline]
    pub fn settle(&mut self) -> bool {
        let before = self.settling.settled;
        if self.settling.settled < self.settling.wanted.max(self.settling.cared) {
            self.settle_wanted();
        }
        self.settling.settled != before
    }

    /// Whether somebody waits for the NIC's work to be settled.
    #[inline]
    pub fn is_settling(&self) -> bool {
        self.settling.settled < self.settling.wanted
    }

    fn settle_wanted(&mut self) {
        let queues = &mut self.queues;
        let settling = &mut self.settling;
        let mut awaited = settling.awaited.iter().zip(queues.iter());
        if !awaited.all(|(posted, queue)| *posted <= queue.recv.taken()) {
            return;
        }
        if settling.awaited.len() == queues.len() {
            settling.settled = settling.completed;
        }
        // First what is done, then what that has put on the rings.
        settling.completed = queues[0].send.completed();
        settling.awaited.clear();
        let posted = queues.iter_mut().map(|queue| queue.recv.posted());
        settling.awaited.extend(posted);
        self.contexts.wake(self.settling.settled);
    }
}
