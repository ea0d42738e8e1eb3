//! Posting what the NIC transforms: in sequence with its context, or with a recovery before it (Autonomous NIC offloads §4.2).

use driver::Recovery;
use nic::ring::{ContextId, InnerRecover, PostError, SendFlags, Verify};
use tcp::SendQueue;
use wire::SeqNum;

use super::gather::{Run, trim};
use super::recovery::MsgState;
use super::send::Posting;
use super::shadow::Shadow;
use super::{Driver, Payload, Stopped};
use crate::counters::Counters;
use crate::probing;

impl Driver {
    /// Posts a run that the NIC must transform, and before it what brings the context to where the run begins.
    pub(super) fn post_offloaded(
        &mut self,
        posting: &mut Posting<'_>,
        context: ContextId,
        mut run: Run,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let seq = posting.seq();
        let mut shadow = *self.usable(context).ok_or(Stopped::NoContext(seq))?;
        if seq.after(shadow.frontier) {
            if !self.is_reached(context, shadow.frontier, seq, posting.queue) {
                // A segment before this one was lost on its way to here. This one is lost too, so that what lies before
                // the frontier has all been posted: only then can the NIC prove that a message is what was sent first.
                posting.unsent.done += run.len;
                return Ok(());
            }
            shadow.frontier = seq;
        }
        if !shadow.layers.replaces {
            return self.post_as_is(posting, context, &shadow, run, counters);
        }
        let again = seq.before(shadow.frontier);
        if again {
            // A part that was sent before and one that was not need different proofs; so do messages of memory that
            // others may change and messages of the arena.
            run = self.gather(posting.queue, seq, posting.left(), true);
        }
        let needs_proof = again && run.mutable;
        if shadow.expected != Some(seq) || needs_proof {
            counters.driver_tx_out_of_sequence += 1;
            let message = posting.message()?;
            if again && may_seek(&shadow, &message, seq, &run) {
                self.post_seek(context, message, seq, counters)?;
                let flags = SendFlags::CHECKSUM;
                return self.post_run(posting, Some(context), flags, run.len, counters);
            }
            let recovery = Recovery::plan(message, seq, shadow.frontier, run.begins_mutable);
            if needs_proof {
                let sent_end = (message.start + message.len).min(shadow.frontier);
                run.len = run.len.min(seq.distance_to(sent_end));
                trim(&mut self.gather, run.len);
            }
            self.post_recovery(posting, context, &recovery, counters)?;
        }
        let mut flags = SendFlags::CHECKSUM;
        if run.mutable {
            flags = flags.union(SendFlags::MUTABLE_SOURCE);
            if self.is_source_gone() {
                return Err(Stopped::SourceGone(seq));
            }
        }
        self.post_run(posting, Some(context), flags, run.len, counters)?;
        // After a verified retransmission every send needs a recovery of its own.
        let expected = (!needs_proof).then_some(seq + run.len);
        self.context_sent(context, expected, seq + run.len);
        Ok(())
    }

    /// What is known of a context, if the NIC can send with it.
    #[inline]
    pub(super) fn usable(&self, context: ContextId) -> Option<&Shadow> {
        let shadow = self.function.contexts.get(context);
        shadow.filter(|shadow| !shadow.failed)
    }

    /// Whether what was gathered is in a file that was cut short.
    fn is_source_gone(&self) -> bool {
        let own = self.arena.region_id();
        let mut sources = self.gather.iter().filter(|slice| slice.region != own);
        sources.any(|slice| self.regions.is_faulted(slice.region))
    }

    /// What was posted with a context reaches to `end`, and the NIC will be at `expected`.
    fn context_sent(&mut self, context: ContextId, expected: Option<SeqNum>, end: SeqNum) {
        if let Some(shadow) = self.function.contexts.get_mut(context) {
            shadow.expected = expected;
            shadow.frontier = shadow.frontier.max(end);
        }
    }

    /// Whether a context needs nothing of what lies between its frontier and `seq`, since that goes to the wire as it is.
    /// The frontier is then there.
    fn is_reached(
        &mut self,
        context: ContextId,
        frontier: SeqNum,
        seq: SeqNum,
        queue: &SendQueue<Payload>,
    ) -> bool {
        // What is not held any more was acknowledged.
        let from = frontier.max(queue.start());
        let mut is_plain = true;
        if from.before(seq) {
            queue.slices(from, from.distance_to(seq), |payload, _, _| {
                is_plain &= payload.context != Some(context);
            });
        }
        if is_plain && let Some(shadow) = self.function.contexts.get_mut(context) {
            shadow.frontier = seq;
        }
        is_plain
    }

    /// Posts a run of messages whose bytes go out as they are, but for a check value at their end. If it is sent again and has no byte of
    /// that, the NIC has nothing to make and its context stays where it is (NVMeTCP offload, "The Offload Tx Design").
    fn post_as_is(
        &mut self,
        posting: &mut Posting<'_>,
        context: ContextId,
        shadow: &Shadow,
        run: Run,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        posting.messages()?;
        let seq = posting.seq();
        let mut expected = Some(seq + run.len);
        let mut with = Some(context);
        if shadow.expected != Some(seq) {
            counters.driver_tx_out_of_sequence += 1;
            let message = posting.message()?;
            let again = seq.before(shadow.frontier);
            if again && is_inside(&message, seq, run.len, shadow.layers.check_len) {
                (with, expected) = (None, shadow.expected);
            } else {
                let recovery = Recovery::plan(message, seq, shadow.frontier, false);
                self.post_recovery(posting, context, &recovery, counters)?;
            }
        }
        self.post_run(posting, with, SendFlags::CHECKSUM, run.len, counters)?;
        self.context_sent(context, expected, seq + run.len);
        Ok(())
    }

    /// Posts a `RecoverContext`, if there is room for it and for the packet after it.
    fn post_recovery(
        &mut self,
        posting: &Posting<'_>,
        context: ContextId,
        recovery: &Recovery,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let (resume, messages) = (posting.seq(), posting.messages()?);
        let (inner, bytes) = self.gather_prefix(resume, recovery, posting.queue, messages)?;
        self.recover(context, resume, recovery, inner, counters)?;
        count_recovery(context, resume, bytes, counters);
        if let Some(shadow) = self.function.contexts.get_mut(context) {
            // Also right if the packet after it is not posted: a verified recovery must come again.
            shadow.expected = (recovery.verify == Verify::None).then_some(resume);
        }
        Ok(())
    }

    /// Posts the place that the gathered slices are of, which is not where the context is, nor needs it to be there.
    fn post_seek(
        &mut self,
        context: ContextId,
        message: MsgState,
        resume: SeqNum,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        self.prefix.clear();
        self.recover(context, resume, &Recovery::seek(message), None, counters)?;
        counters.driver_tx_asides += 1;
        Ok(())
    }

    /// Posts a recovery whose prefix was gathered, if there is room for it and for the gathered slices behind it.
    fn recover(
        &mut self,
        context: ContextId,
        resume: SeqNum,
        recovery: &Recovery,
        inner: Option<InnerRecover>,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let (from, slices) = ((context, resume), self.gather.len());
        let prefix = (self.prefix.as_slice(), inner);
        match self.function.recover(from, recovery, prefix, slices) {
            Ok(()) => {
                counters.driver_tx_posted += 1;
                Ok(())
            }
            Err(PostError::Full { .. }) => {
                counters.driver_tx_ring_full += 1;
                Err(Stopped::RingFull)
            }
            Err(_) => Err(Stopped::NoContext(resume)),
        }
    }
}

/// Counts a `RecoverContext` with a prefix of so many bytes.
pub(super) fn count_recovery(
    context: ContextId,
    resume: SeqNum,
    bytes: u32,
    counters: &mut Counters,
) {
    counters.driver_tx_recoveries += 1;
    probing::tx_recovery(context, resume, bytes);
    counters.driver_tx_recovery_bytes += u64::from(bytes);
}

/// Whether a run that is sent again needs no more of its context than its place: all of it was sent, and is as it was.
#[inline]
fn may_seek(shadow: &Shadow, message: &MsgState, seq: SeqNum, run: &Run) -> bool {
    let was_sent = (seq + run.len).at_or_before(shadow.frontier) && !run.mutable;
    was_sent
        && shadow.layers.is_seekable
        && is_inside(message, seq, run.len, shadow.layers.check_len)
}

/// Whether bytes from `seq` on are inside of a message, before the check value at its end.
fn is_inside(message: &MsgState, seq: SeqNum, len: u32, check_len: u32) -> bool {
    let end = message.start.distance_to(seq).saturating_add(len);
    end.saturating_add(check_len) <= message.len
}
