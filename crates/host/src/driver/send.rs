//! Posting segments.

use nic::ring::{ContextId, SendDescriptor, SendFlags, Slice};
use tcp::{SendQueue, Transmit};
use wire::ethernet::MacAddr;
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum, packet};

use super::recovery::{MessageSource, MsgState};
use super::{Driver, HOP_LIMIT, Payload};
use crate::counters::Counters;

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

/// A segment that is being posted.
pub(super) struct Posting<'a> {
    pub link: Link,
    pub unsent: &'a mut Unsent,
    pub queue: &'a SendQueue<Payload>,
    pub messages: Option<&'a dyn MessageSource>,
}

impl<'a> Posting<'a> {
    /// Position of the next byte.
    #[inline]
    pub fn seq(&self) -> SeqNum {
        self.unsent.transmit.header.seq + self.unsent.done
    }

    /// Payload bytes that are not posted.
    #[inline]
    pub fn left(&self) -> u32 {
        self.unsent.transmit.payload - self.unsent.done
    }

    /// The messages of the connection.
    ///
    /// # Errors
    /// [`Stopped::NoMessage`] when there are none.
    pub fn messages(&self) -> Result<&'a dyn MessageSource, Stopped> {
        self.messages.ok_or(Stopped::NoMessage(self.seq()))
    }

    /// The message that the next byte is of.
    ///
    /// # Errors
    /// [`Stopped::NoMessage`] when it is not known.
    pub fn message(&self) -> Result<MsgState, Stopped> {
        let message = self.messages()?.l5o_get_tx_msgstate(self.seq());
        message.ok_or(Stopped::NoMessage(self.seq()))
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
        let mut posting = Posting {
            link,
            unsent,
            queue,
            messages,
        };
        let posting = &mut posting;
        if posting.unsent.transmit.payload == 0 {
            return self.post_run(posting, None, SendFlags::CHECKSUM, 0, counters);
        }
        // What was acknowledged while the rest waited needs no posting.
        let acknowledged = queue.start().diff(posting.seq());
        if acknowledged > 0 {
            posting.unsent.done += (acknowledged as u32).min(posting.left());
        }
        while posting.left() > 0 {
            let run = self.gather(queue, posting.seq(), posting.left(), false);
            if run.len == 0 {
                return Ok(());
            }
            match run.context {
                None => self.post_run(posting, None, SendFlags::CHECKSUM, run.len, counters)?,
                Some(context) => self.post_offloaded(posting, context, run, counters)?,
            }
        }
        Ok(())
    }

    /// Posts the gathered slices, `len` bytes in all, as the next part of the segment.
    pub(super) fn post_run(
        &mut self,
        posting: &mut Posting<'_>,
        context: Option<ContextId>,
        flags: SendFlags,
        len: u32,
        counters: &mut Counters,
    ) -> Result<(), Stopped> {
        let Link { flow, next_hop } = posting.link;
        let transmit = &posting.unsent.transmit;
        let mut header = transmit.header;
        header.seq = posting.seq();
        if posting.unsent.done > 0 {
            header.flags.remove(Flags::CWR);
        }
        if len < posting.left() {
            header.flags.remove(Flags::FIN);
            header.flags.remove(Flags::PSH);
        }
        let mut bytes = [0; nic::ring::MAX_HEADER_LEN];
        let own = self.mac;
        let header_len =
            packet::emit_tcp_headers(&mut bytes, own, next_hop, &flow, &header, len, HOP_LIMIT);
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
        posting.unsent.done += len;
        Ok(())
    }
}
