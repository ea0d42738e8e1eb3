//! The command ring: connections that the NIC runs (Connection handoff policies §2).
//!
//! What is published on the send ring before a command is done before it. So a command waits until nothing waits for room in
//! the send ring any more.

use std::sync::Arc;

use driver::Recovery;
use nic::ring::toe::{MAX_TOE_SEND_SLICES, TCB_IMAGE_BYTES, TcbImage, ToeCommand, ToeId};
use nic::ring::{ContextId, MAX_SEND_SLICES, SendDescriptor, SendFlags, SendProducer, Slice};
use tcp::SendQueue;
use wire::SeqNum;

use super::offloaded::count_recovery;
use super::recovery::MessageSource;
use super::{Driver, Payload, Stopped};
use crate::counters::Counters;
use crate::memory::{Arena, ArenaLayout, Buffer, Limits, Purpose, SizeClass};

/// Control blocks in the first region for them; each region has twice as many as the one before.
const IMAGES: u32 = 256;

/// Where a context is to go on that a connection on the NIC sends through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToeRecovery {
    pub toe: ToeId,
    pub context: ContextId,
    /// What is sent next.
    pub resume: SeqNum,
    /// Everything before it has been sent once.
    pub sent: SeqNum,
}

const _: () = assert!(MAX_SEND_SLICES <= MAX_TOE_SEND_SLICES);

impl Driver {
    /// Connections that the NIC may run for this function.
    pub fn toe_quota(&self) -> u32 {
        self.toe_connections
    }

    /// Whether a command of one slot has room now.
    #[inline]
    pub fn has_toe_room(&mut self) -> bool {
        !self.is_blocked() && self.function.queues[0].commands.free(1) > 0
    }

    /// Posts a command. False when there is no room for it, or something waits for room in the send ring.
    #[inline]
    pub fn post_toe(&mut self, command: ToeCommand<'_>, counters: &mut Counters) -> bool {
        if self.is_blocked() && !self.flush(counters) {
            return false;
        }
        let commands = &mut self.function.queues[0].commands;
        let posted = commands.post(&SendDescriptor::Toe(command)).is_ok();
        counters.handoff_commands += u64::from(posted);
        counters.driver_tx_ring_full += u64::from(!posted);
        posted
    }

    /// Posts bytes of a stream from `seq` on, `most` of them or less, to a connection that the NIC runs. Answers how many.
    ///
    /// # Errors
    /// When none can be posted.
    #[inline]
    pub fn post_toe_send(
        &mut self,
        toe: ToeId,
        seq: SeqNum,
        most: u32,
        queue: &SendQueue<Payload>,
        counters: &mut Counters,
    ) -> Result<u32, Stopped> {
        let run = self.gather(queue, seq, most, true);
        if run.len == 0 {
            return Ok(0);
        }
        let is_lost = |context| self.usable(context).is_none();
        if run.context.is_some_and(is_lost) {
            return Err(Stopped::NoContext(seq));
        }
        let flags = if run.mutable {
            SendFlags::MUTABLE_SOURCE
        } else {
            SendFlags::NONE
        };
        let payload = std::mem::take(&mut self.gather);
        let send = ToeCommand::Send {
            toe,
            seq,
            context: run.context,
            flags,
            payload: &payload,
        };
        let posted = self.post_toe(send, counters);
        self.gather = payload;
        if posted {
            Ok(run.len)
        } else {
            Err(Stopped::RingFull)
        }
    }

    /// Answers [`ToeEvent::Recover`](nic::ring::toe::ToeEvent::Recover).
    ///
    /// # Errors
    /// [`Stopped::RingFull`] to be asked again; with all others the NIC can't go on.
    pub fn post_toe_recovery(
        &mut self,
        recovery: &ToeRecovery,
        queue: &SendQueue<Payload>,
        messages: &dyn MessageSource,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let &ToeRecovery {
            toe,
            context,
            resume,
            sent,
        } = recovery;
        if self.is_blocked() && !self.flush(counters) {
            return Err(Stopped::RingFull);
        }
        if self.usable(context).is_none() {
            return Err(Stopped::NoContext(resume));
        }
        let message = messages
            .l5o_get_tx_msgstate(resume)
            .ok_or(Stopped::NoMessage(resume))?;
        let again = resume.before(sent);
        let left = if again { resume.distance_to(sent) } else { 1 };
        let run = self.gather(queue, resume, left, again);
        if run.len == 0 || run.context != Some(context) {
            return Err(Stopped::NoMessage(resume));
        }
        let recovery = Recovery::plan(message, resume, sent, run.begins_mutable);
        // A part that was sent before and one that was not need different proofs, and so do different messages of memory that
        // others may change.
        let end = (message.start + message.len).min(sent);
        let len = match (again, run.mutable) {
            (true, true) => run.len.min(resume.distance_to(end)),
            (true, false) => run.len,
            (false, _) => 0,
        };
        let (inner, bytes) = self.gather_prefix(resume, &recovery, queue, messages)?;
        let commands = &mut self.function.queues[0].commands;
        let descriptor = recovery.descriptor((context, resume), Some(toe), &self.prefix, inner);
        let go_on = SendDescriptor::Toe(ToeCommand::Resume {
            toe,
            context,
            tcpsn: resume,
            len,
        });
        let needed = SendProducer::slots_for_recover(self.prefix.len()) + 1;
        if commands.free(needed) < needed {
            counters.driver_tx_ring_full += 1;
            return Err(Stopped::RingFull);
        }
        if commands.post(&descriptor).is_err() || commands.post(&go_on).is_err() {
            return Err(Stopped::NoContext(resume));
        }
        counters.handoff_commands += 2;
        count_recovery(context, resume, bytes, counters);
        Ok(())
    }

    /// What the NIC has sent through a context is known no more but for its end: all before `sent`.
    pub fn context_came_back(&mut self, context: ContextId, sent: SeqNum) {
        if let Some(shadow) = self.function.contexts.get_mut(context) {
            shadow.expected = None;
            shadow.frontier = shadow.frontier.max(sent);
        }
    }

    /// Writes a control block where the NIC can read it. `None` when there is no memory, or it does not fit.
    pub fn lend_image(&mut self, image: &TcbImage) -> Option<Slice> {
        let free = |images: &Arena| images.allocate_class(Purpose::Posted, SizeClass::Packet);
        let mut buffer = match self.images.iter().rev().find_map(free) {
            Some(buffer) => buffer,
            None => {
                let images = self.make_images()?;
                self.images.push(images);
                free(self.images.last()?)?
            }
        };
        buffer.truncate(TCB_IMAGE_BYTES as u32);
        image.encode(bytes_of(&mut buffer)?).ok()?;
        buffer.lend().ok()
    }

    /// Takes the memory of a control block back, which the NIC reads and writes no more.
    pub fn reclaim_image(&mut self, slice: Slice) -> Option<Buffer> {
        let of = |images: &&Arena| images.region_id() == slice.region;
        let mut buffer = self.images.iter().find(of)?.reclaim(slice)?;
        buffer.truncate(TCB_IMAGE_BYTES as u32);
        Some(buffer)
    }

    /// More memory for control blocks, which a host has only once it hands connections off.
    fn make_images(&mut self) -> Option<Arena> {
        let layout = ArenaLayout {
            header: 0,
            packet: IMAGES << self.images.len().min(6),
            record: 0,
            large: 0,
        };
        let region = Arc::new(self.regions.allocate(layout.bytes() as usize).ok()?);
        let id = self.regions.register_own(Arc::clone(&region))?;
        Some(Arena::new(region, id, layout, Limits::NONE))
    }
}

/// The bytes of a control block's buffer.
pub(crate) fn bytes_of(buffer: &mut Buffer) -> Option<&mut [u8; TCB_IMAGE_BYTES]> {
    let bytes: &mut [u8] = buffer;
    bytes.try_into().ok()
}
