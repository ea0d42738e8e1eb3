//! Buffers that contexts write to (Autonomous NIC offloads, Listing 1), and when the NIC is done with one.

use nic::ring::{ContextId, SendDescriptor, Slice};

use driver::{Command, Ticket};

use super::{Driver, Payload, Retired};
use crate::counters::Counters;
use crate::memory::Buffer;

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
        if self.function.send().post(&descriptor).is_err() {
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
        self.function.command(Command::DelRr(context, tag));
        self.flush(counters);
        self.function.ticket()
    }

    /// The place behind all that the NIC has been told.
    pub fn ticket(&mut self) -> Ticket {
        self.function.ticket()
    }

    /// Whether the NIC has come so far, and all that it had put on the receive rings until then has been looked at.
    pub fn is_settled(&mut self, ticket: &mut Ticket) -> bool {
        self.function.is_settled(ticket)
    }

    /// Lets go of memory that the NIC may write to until it has come to what it is told last.
    pub fn unhold_later(&mut self, slices: &[Slice]) {
        let written = Retired::Written(slices.into());
        self.function.retire_behind_commands(written);
    }

    /// Gives a buffer up that the NIC may write to until it has come to what it is told last.
    pub fn retire_later(&mut self, buffer: Buffer) {
        let buffer = Retired::Payload(Payload::plain(buffer));
        self.function.retire_behind_commands(buffer);
    }

    /// To be called after packets were taken in: finds out how far the NIC's work is settled. Gives whether that is further than before.
    #[inline]
    pub fn settle(&mut self) -> bool {
        self.function.settle()
    }

    /// Whether anything waits for the NIC's work to be settled.
    #[inline]
    pub fn is_settling(&self) -> bool {
        self.function.is_settling()
    }
}
