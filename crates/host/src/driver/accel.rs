//! Posting what concerns whole connections (AccelTCP), and frames of theirs that came too late.

use nic::ring::accel::{Splice, SpliceId, Teardown};
use nic::ring::{SendDescriptor, Slice};
use tcp::SendQueue;
use wire::SeqNum;

use driver::Command;

use super::{Driver, Payload, Retired};
use crate::counters::Counters;
use crate::memory::Buffer;

/// Hop limit of everything that the stack sends, or has sent by the NIC.
pub(crate) const HOP_LIMIT: u8 = 64;

/// Where a descriptor is in the send ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    /// The index of its first slot.
    pub first: u64,
    /// The ring's position behind it.
    pub end: u64,
}

impl Driver {
    /// Posts a descriptor that waits for no room: gives where it is, or `None` when there is no room.
    pub fn post_now(
        &mut self,
        descriptor: &SendDescriptor<'_>,
        counters: &mut Counters,
    ) -> Option<Posted> {
        if self.is_blocked() && !self.flush(counters) {
            return None;
        }
        let send = self.function.send();
        match send.post(descriptor) {
            Ok(first) => {
                counters.driver_tx_posted += 1;
                let end = send.posted();
                Some(Posted { first, end })
            }
            Err(_) => {
                counters.driver_tx_ring_full += 1;
                None
            }
        }
    }

    /// Hands a connection over. Gives where the descriptor is, as [`post_now`](Self::post_now).
    pub fn post_teardown(
        &mut self,
        teardown: &Teardown,
        payload: &[Slice],
        counters: &mut Counters,
    ) -> Option<Posted> {
        let posted = self.post_now(&SendDescriptor::Teardown { teardown, payload }, counters);
        if posted.is_some() {
            self.function.care_settled();
        }
        posted
    }

    /// Gathers `len` bytes of a stream from `seq` on for [`post_gathered`](Self::post_gathered). False when they are not all there, are
    /// in too many places, or are not as the wire wants them.
    pub fn gather_plain(&mut self, queue: &SendQueue<Payload>, seq: SeqNum, len: u32) -> bool {
        let run = self.gather(queue, seq, len, false);
        run.len == len && run.context.is_none()
    }

    /// Hands a connection over whose payload was [gathered](Self::gather_plain) just now.
    pub fn post_gathered(
        &mut self,
        teardown: &Teardown,
        counters: &mut Counters,
    ) -> Option<Posted> {
        let payload = std::mem::take(&mut self.gather);
        let posted = self.post_teardown(teardown, &payload, counters);
        self.gather = payload;
        posted
    }

    /// Joins two connections. From here on they are the NIC's, unless it refuses; packets of theirs that were posted before go out
    /// before.
    pub fn splice(&mut self, splice: Splice) {
        self.function.command(Command::Splice(Box::new(splice)));
    }

    /// Asks where a splice stands.
    pub fn query_splice(&mut self, splice: SpliceId) {
        self.function.command(Command::QuerySplice(splice));
    }

    /// Takes a splice back.
    pub fn unsplice(&mut self, splice: SpliceId) {
        self.function.command(Command::Unsplice(splice));
    }

    /// Gives the NIC a frame that came up after its flow had been given away. `gso_size`: payload bytes of each packet on the
    /// wire, if it stands for several.
    pub fn reinject(&mut self, frame: Buffer, gso_size: u16) {
        let command = Command::Reinject {
            frame: frame.slice(),
            gso_size,
        };
        let frame = Retired::Payload(Payload::plain(frame));
        self.function.command_with(command, frame);
    }

    /// Up to here the NIC has worked off what was posted, and all that it had put on the receive rings by then has been looked at.
    #[inline]
    pub fn settled(&self) -> u64 {
        self.function.settled()
    }
}
