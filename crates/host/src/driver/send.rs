//! Posting packets: in sequence with a flow's context, or with a recovery before them.

use driver::Recovery;
use nic::ring::{
    ContextId, InnerRecover, MAX_RECOVER_BYTES, MAX_RECOVER_SLICES, MAX_SEND_SLICES, PostError,
    SendDescriptor, SendFlags, Slice, Verify,
};
use tcp::{SendQueue, Transmit};
use wire::ethernet::MacAddr;
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum, packet};

use super::recovery::{MessageSource, MsgState};
use super::shadow::Shadow;
use super::{Driver, HOP_LIMIT, Payload};
use crate::counters::Counters;
use crate::memory::Buffer;

/// Frames of the stack's own that wait for room; beyond that they are dropped, as the wire may drop them.
const MAX_FRAMES: usize = 1024;

/// Where a segment goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub flow: FlowKey,
    pub next_hop: MacAddr,
}

/// Why posting a segment came to a halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The ring is full: go on later.
    RingFull,
    /// The context of the bytes at this position can't encrypt them: software must.
    NoContext(SeqNum),
    /// The bytes at this position belong to no message that is known. They can't be sent.
    NoMessage(SeqNum),
    /// The memory of the bytes at this position is gone.
    SourceGone(SeqNum),
}

/// A segment of which a part was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsent {
    pub transmit: Transmit,
    /// Payload bytes posted.
    pub done: u32,
    /// Position of the send ring after the last descriptor that may name the record that software is to encrypt next.
    pub last_named: Option<u64>,
}

impl Unsent {
    pub fn new(transmit: Transmit) -> Self {
        Self {
            transmit,
            done: 0,
            last_named: None,
        }
    }
}

/// A frame of the stack's own: ARP, ICMP, neighbour discovery, answers to strangers' segments.
#[derive(Debug)]
pub(crate) struct Frame {
    header: [u8; nic::ring::MAX_HEADER_LEN],
    header_len: u8,
    checksum: bool,
    rest: Option<Buffer>,
}

impl Frame {
    /// A frame that fits in a ring slot. With `checksum` the NIC fills in IP and TCP checksums.
    pub fn short(bytes: &[u8], checksum: bool) -> Self {
        let mut header = [0; nic::ring::MAX_HEADER_LEN];
        header[..bytes.len()].copy_from_slice(bytes);
        Self {
            header,
            header_len: bytes.len() as u8,
            checksum,
            rest: None,
        }
    }

    /// A frame whose end lies in the arena. It is complete: the NIC fills in nothing.
    pub fn long(front: &[u8], rest: Buffer) -> Self {
        Self {
            rest: Some(rest),
            ..Self::short(front, false)
        }
    }
}

/// Bytes that one descriptor can take: of one context, and no more slices than fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub len: u32,
    pub context: Option<ContextId>,
    /// Whether the first byte's message is of memory that others may change.
    pub begins_mutable: bool,
    /// Whether any byte's message is.
    mutable: bool,
}

impl Run {
    /// Whether any byte is of a message of memory that others may change.
    pub fn is_mutable(&self) -> bool {
        self.mutable
    }
}

impl Driver {
    /// Posts what is left of a segment, in as many parts as contexts, records and slices ask for.
    ///
    /// # Errors
    /// Says why the rest was not posted; `unsent` knows how far it got.
    pub fn post_segment(
        &mut self,
        link: Link,
        unsent: &mut Unsent,
        queue: &SendQueue<Payload>,
        messages: Option<&dyn MessageSource>,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        if self.is_blocked() && !self.flush(counters) {
            return Err(Stopped::RingFull);
        }
        if unsent.transmit.payload == 0 {
            return self.post_run(link, unsent, None, SendFlags::CHECKSUM, 0, counters);
        }
        // What was acknowledged while the rest waited needs no posting.
        let acknowledged = queue.start().diff(unsent.transmit.header.seq + unsent.done);
        if acknowledged > 0 {
            unsent.done = (unsent.done + acknowledged as u32).min(unsent.transmit.payload);
        }
        while unsent.done < unsent.transmit.payload {
            let seq = unsent.transmit.header.seq + unsent.done;
            let left = unsent.transmit.payload - unsent.done;
            let run = self.gather(queue, seq, left, false);
            if run.len == 0 {
                return Ok(());
            }
            match run.context {
                None => {
                    self.post_run(link, unsent, None, SendFlags::CHECKSUM, run.len, counters)?
                }
                Some(context) => {
                    self.post_offloaded(link, unsent, queue, messages, context, run, counters)?
                }
            }
        }
        Ok(())
    }

    /// Posts a run that the NIC must transform, and before it what brings the context to where the run begins.
    #[allow(clippy::too_many_arguments)]
    fn post_offloaded(
        &mut self,
        link: Link,
        unsent: &mut Unsent,
        queue: &SendQueue<Payload>,
        messages: Option<&dyn MessageSource>,
        context: ContextId,
        mut run: Run,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let seq = unsent.transmit.header.seq + unsent.done;
        let Some(mut shadow) = self
            .function
            .contexts
            .get(context)
            .filter(|shadow| !shadow.failed)
            .copied()
        else {
            return Err(Stopped::NoContext(seq));
        };
        if seq.after(shadow.frontier) {
            if !self.is_reached(context, shadow.frontier, seq, queue) {
                // A segment before this one was lost on its way to here. This one is lost too, so that what lies before
                // the frontier has all been posted: only then can the NIC prove that a message is what was sent first.
                unsent.done += run.len;
                return Ok(());
            }
            shadow.frontier = seq;
        }
        let again = seq.before(shadow.frontier);
        if !shadow.layers.replaces {
            let messages = messages.ok_or(Stopped::NoMessage(seq))?;
            return self.post_as_is(
                link,
                unsent,
                (queue, messages),
                (context, shadow),
                run,
                counters,
            );
        }
        if again {
            // A part that was sent before and one that was not need different proofs; so do messages of memory that
            // others may change and messages of the arena.
            let left = unsent.transmit.payload - unsent.done;
            run = self.gather(queue, seq, left, true);
        }
        let in_sequence = shadow.expected == Some(seq) && !(again && run.mutable);
        if !in_sequence {
            counters.driver_tx_out_of_sequence += 1;
            let messages = messages.ok_or(Stopped::NoMessage(seq))?;
            let Some(message) = messages.l5o_get_tx_msgstate(seq) else {
                return Err(Stopped::NoMessage(seq));
            };
            let end = seq + run.len;
            let was_sent = again && end.at_or_before(shadow.frontier) && !run.mutable;
            if was_sent
                && shadow.layers.is_seekable
                && is_inside(&message, seq, run.len, shadow.layers.check_len)
            {
                self.post_seek(context, message, seq, counters)?;
                return self.post_run(
                    link,
                    unsent,
                    Some(context),
                    SendFlags::CHECKSUM,
                    run.len,
                    counters,
                );
            }
            let recovery = Recovery::plan(message, seq, shadow.frontier, run.begins_mutable);
            if again && run.mutable {
                let sent_end = (message.start + message.len).min(shadow.frontier);
                run.len = run.len.min(seq.distance_to(sent_end));
                trim(&mut self.gather, run.len);
            }
            let from = (context, seq);
            self.post_recovery(from, recovery, (queue, messages), counters)?;
        }
        let mut flags = SendFlags::CHECKSUM;
        if run.mutable {
            flags = flags.union(SendFlags::MUTABLE_SOURCE);
            if self
                .gather
                .iter()
                .any(|slice| self.regions.is_faulted(slice.region))
            {
                return Err(Stopped::SourceGone(seq));
            }
        }
        self.post_run(link, unsent, Some(context), flags, run.len, counters)?;
        if let Some(shadow) = self.function.contexts.get_mut(context) {
            // After a verified retransmission every send needs a recovery of its own.
            shadow.expected = (!(again && run.mutable)).then_some(seq + run.len);
            shadow.frontier = shadow.frontier.max(seq + run.len);
        }
        Ok(())
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
        link: Link,
        unsent: &mut Unsent,
        (queue, messages): (&SendQueue<Payload>, &dyn MessageSource),
        (context, shadow): (ContextId, Shadow),
        run: Run,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let seq = unsent.transmit.header.seq + unsent.done;
        let mut expected = Some(seq + run.len);
        let mut with = Some(context);
        if shadow.expected != Some(seq) {
            counters.driver_tx_out_of_sequence += 1;
            let message = messages
                .l5o_get_tx_msgstate(seq)
                .ok_or(Stopped::NoMessage(seq))?;
            let again = seq.before(shadow.frontier);
            if again && is_inside(&message, seq, run.len, shadow.layers.check_len) {
                (with, expected) = (None, shadow.expected);
            } else {
                let recovery = Recovery::plan(message, seq, shadow.frontier, false);
                let from = (context, seq);
                self.post_recovery(from, recovery, (queue, messages), counters)?;
            }
        }
        self.post_run(link, unsent, with, SendFlags::CHECKSUM, run.len, counters)?;
        if let Some(shadow) = self.function.contexts.get_mut(context) {
            shadow.expected = expected;
            shadow.frontier = shadow.frontier.max(seq + run.len);
        }
        Ok(())
    }

    /// Posts a `RecoverContext`, if there is room for it and for the packet after it.
    fn post_recovery(
        &mut self,
        (context, resume): (ContextId, SeqNum),
        recovery: Recovery,
        (queue, messages): (&SendQueue<Payload>, &dyn MessageSource),
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let (inner, bytes) = self.gather_prefix(resume, &recovery, queue, messages)?;
        self.recover((context, resume), &recovery, inner, counters)?;
        counters.driver_tx_recoveries += 1;
        counters.driver_tx_recovery_bytes += u64::from(bytes);
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
        self.recover((context, resume), &Recovery::seek(message), None, counters)?;
        counters.driver_tx_asides += 1;
        Ok(())
    }

    /// Posts a recovery whose prefix was gathered, if there is room for it and for the gathered slices behind it.
    fn recover(
        &mut self,
        (context, resume): (ContextId, SeqNum),
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

    /// Collects what the NIC must read before it can go on at `resume`. Gives where the inner protocol is, and how many bytes that
    /// are.
    pub(super) fn gather_prefix(
        &mut self,
        resume: SeqNum,
        recovery: &Recovery,
        queue: &SendQueue<Payload>,
        messages: &dyn MessageSource,
    ) -> Result<(Option<InnerRecover>, u32), Stopped> {
        let message = recovery.message;
        let inner = messages.inner(&message);
        let prefix = &mut self.prefix;
        prefix.clear();
        let mut inner_len = inner.map_or(0, |inner| inner.offset);
        if inner_len > 0 {
            let known = messages.inner_prefix(&message, &mut |tcpsn, len| {
                inner_len -= queue.slices(tcpsn, len, |payload, offset, len| {
                    append(prefix, payload.slice(offset, len));
                });
            });
            if !known || inner_len > 0 {
                return Err(Stopped::NoMessage(resume));
            }
        }
        let covered = queue.slices(message.start, recovery.prefix, |payload, offset, len| {
            append(prefix, payload.slice(offset, len));
        });
        if covered != recovery.prefix {
            return Err(Stopped::NoMessage(resume));
        }
        let bytes = inner.map_or(0, |inner| inner.offset) + recovery.prefix;
        if prefix.len() > MAX_RECOVER_SLICES || bytes > MAX_RECOVER_BYTES {
            return Err(Stopped::NoContext(resume));
        }
        Ok((inner, bytes))
    }

    /// Posts the gathered slices, `len` bytes in all, as the next part of the segment.
    fn post_run(
        &mut self,
        link: Link,
        unsent: &mut Unsent,
        context: Option<ContextId>,
        flags: SendFlags,
        len: u32,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let transmit = &unsent.transmit;
        let mut header = transmit.header;
        header.seq = transmit.header.seq + unsent.done;
        if unsent.done + len < transmit.payload {
            header.flags.remove(Flags::FIN);
            header.flags.remove(Flags::PSH);
        }
        let mut bytes = [0; nic::ring::MAX_HEADER_LEN];
        let header_len = packet::emit_tcp_headers(
            &mut bytes,
            self.mac,
            link.next_hop,
            &link.flow,
            &header,
            len,
            HOP_LIMIT,
        );
        let mss = if len > u32::from(transmit.mss) {
            transmit.mss
        } else {
            0
        };
        let payload: &[Slice] = if len == 0 { &[] } else { &self.gather };
        let descriptor = SendDescriptor::Send {
            header: &bytes[..header_len],
            mss,
            context,
            flags,
            payload,
        };
        if self.function.send().post(&descriptor).is_err() {
            counters.driver_tx_ring_full += 1;
            return Err(Stopped::RingFull);
        }
        counters.driver_tx_posted += 1;
        unsent.done += len;
        Ok(())
    }

    /// Posts a frame of the stack's own, or keeps it until there is room.
    pub fn post_frame(&mut self, frame: Frame, counters: &mut Counters) {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push_back(frame);
        }
        self.flush(counters);
    }

    pub(super) fn flush_frames(&mut self, counters: &mut Counters) -> bool {
        while let Some(frame) = self.frames.front() {
            let rest = frame.rest.as_ref().map(Buffer::slice);
            let descriptor = SendDescriptor::Send {
                header: &frame.header[..usize::from(frame.header_len)],
                mss: 0,
                context: None,
                flags: if frame.checksum {
                    SendFlags::CHECKSUM
                } else {
                    SendFlags::NONE
                },
                payload: rest.as_slice(),
            };
            if self.function.send().post(&descriptor).is_err() {
                counters.driver_tx_ring_full += 1;
                return false;
            }
            counters.driver_tx_posted += 1;
            if let Some(rest) = self.frames.pop_front().and_then(|frame| frame.rest) {
                self.retire(Payload::plain(rest));
            }
        }
        true
    }

    /// Collects the slices of bytes from `seq` on, up to `len`: those of the first byte's context, and if `alike` also
    /// of its mutability.
    #[inline]
    pub(super) fn gather(
        &mut self,
        queue: &SendQueue<Payload>,
        seq: SeqNum,
        len: u32,
        alike: bool,
    ) -> Run {
        let slices = &mut self.gather;
        slices.clear();
        let mut run: Option<Run> = None;
        let mut full = false;
        queue.slices(seq, len, |payload, offset, bytes| {
            let run = run.get_or_insert(Run {
                len: 0,
                context: payload.context,
                begins_mutable: payload.mutable,
                mutable: payload.mutable,
            });
            full |= payload.context != run.context || (alike && payload.mutable != run.mutable);
            if full {
                return;
            }
            if !append_bounded(slices, payload.slice(offset, bytes), MAX_SEND_SLICES) {
                full = true;
                return;
            }
            run.len += bytes;
            run.mutable |= payload.mutable;
        });
        run.unwrap_or(Run {
            len: 0,
            context: None,
            begins_mutable: false,
            mutable: false,
        })
    }
}

/// Appends a slice, or makes the last one longer if it follows on it in memory.
#[inline]
fn append(slices: &mut Vec<Slice>, slice: Slice) {
    append_bounded(slices, slice, usize::MAX);
}

#[inline]
fn append_bounded(slices: &mut Vec<Slice>, slice: Slice, most: usize) -> bool {
    if let Some(last) = slices.last_mut()
        && last.region == slice.region
        && last.offset + u64::from(last.len) == slice.offset
        && let Some(len) = last.len.checked_add(slice.len)
    {
        last.len = len;
        return true;
    }
    if slices.len() >= most {
        return false;
    }
    slices.push(slice);
    true
}

/// Cuts the list to its first `len` bytes.
fn trim(slices: &mut Vec<Slice>, mut len: u32) {
    slices.retain_mut(|slice| {
        slice.len = slice.len.min(len);
        len -= slice.len;
        slice.len > 0
    });
}

/// Whether bytes from `seq` on are inside of a message, before the check value at its end.
fn is_inside(message: &MsgState, seq: SeqNum, len: u32, check_len: u32) -> bool {
    let end = message.start.distance_to(seq).saturating_add(len);
    end.saturating_add(check_len) <= message.len
}
