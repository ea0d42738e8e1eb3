//! A protocol inside another one (Autonomous NIC offloads §5.3): positions of the inner stream, which are counted in bytes of content, and the
//! outer messages that they are in.

use std::collections::VecDeque;

use l5p::MsgState;
use nic::ring::InnerRecover;
use wire::SeqNum;

use super::Session;

/// The messages of two protocols, the one inside the other.
pub(crate) struct Nested<'a> {
    pub outer: &'a dyn Session,
    pub inner: &'a dyn Session,
    /// Where the inner one's stream lies.
    pub spans: &'a Spans,
}

impl Nested<'_> {
    /// Where the inner stream is at the beginning of an outer message: its position, and the inner message that holds that byte.
    fn place(&self, outer: &MsgState) -> Option<(SeqNum, MsgState)> {
        let position = self.spans.of_message(outer.start)?.position;
        let inner = self.inner.l5o_get_tx_msgstate(position)?;
        Some((position, inner))
    }

    pub(super) fn inner(&self, outer: &MsgState) -> Option<InnerRecover> {
        let (position, inner) = self.place(outer)?;
        Some(InnerRecover {
            index: inner.index,
            len: inner.len,
            offset: inner.start.distance_to(position),
        })
    }

    pub(super) fn inner_prefix(&self, outer: &MsgState, f: &mut dyn FnMut(SeqNum, u32)) -> bool {
        let Some((position, inner)) = self.place(outer) else {
            return false;
        };
        let before = inner.start.distance_to(position);
        self.spans.runs(inner.start, before, f) == before
    }
}

/// The content of one outer message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Its first byte, by TCP's sequence numbers.
    pub message: SeqNum,
    /// Its content's first byte, likewise.
    pub content: SeqNum,
    /// The content's position in the inner stream.
    pub position: SeqNum,
    /// Bytes of content.
    pub len: u32,
}

/// The outer messages that are still needed, in the order of the stream.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    spans: VecDeque<Span>,
    /// Position behind the last one.
    end: SeqNum,
}

impl Spans {
    /// Position of the next byte that is written.
    #[inline]
    pub fn end(&self) -> SeqNum {
        self.end
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Adds an outer message with the next `len` bytes.
    #[inline]
    pub fn push(&mut self, message: SeqNum, content: SeqNum, len: u32) {
        self.spans.push_back(Span {
            message,
            content,
            position: self.end,
            len,
        });
        self.end += len;
    }

    /// The outer message that begins at `message`.
    pub fn of_message(&self, message: SeqNum) -> Option<&Span> {
        let at = self.first_from(message);
        self.spans.get(at).filter(|span| span.message == message)
    }

    /// Position of the first inner byte whose outer message begins at or behind `tcpsn`.
    #[inline]
    pub fn position_from(&self, tcpsn: SeqNum) -> SeqNum {
        let at = self.first_from(tcpsn);
        self.spans.get(at).map_or(self.end, |span| span.position)
    }

    /// The outer message that holds the byte at `position`.
    #[inline]
    pub fn holding(&self, position: SeqNum) -> Option<&Span> {
        let after = self.after(position);
        let span = self.spans.get(after.checked_sub(1)?)?;
        position.is_within(span.position, span.len).then_some(span)
    }

    /// Calls `f(TCP's position, bytes)` for each run of the `len` bytes at `position`. Answers how many were found.
    pub fn runs(&self, position: SeqNum, len: u32, mut f: impl FnMut(SeqNum, u32)) -> u32 {
        let first = self.after(position).saturating_sub(1);
        let mut done = 0;
        for span in self.spans.range(first.min(self.spans.len())..) {
            let at = position + done;
            if done == len || !at.is_within(span.position, span.len) {
                break;
            }
            let offset = span.position.distance_to(at);
            let bytes = (span.len - offset).min(len - done);
            f(span.content + offset, bytes);
            done += bytes;
        }
        done
    }

    /// Forgets the outer messages before the one that holds `position`.
    #[inline]
    pub fn forget_before(&mut self, position: SeqNum) {
        while let Some(span) = self.spans.front()
            && (span.position + span.len).at_or_before(position)
        {
            self.spans.pop_front();
        }
    }

    /// Index of the first outer message that begins at or behind `tcpsn`.
    fn first_from(&self, tcpsn: SeqNum) -> usize {
        self.spans
            .partition_point(|span| span.message.before(tcpsn))
    }

    /// Index after the last outer message whose content begins at or before `position`.
    fn after(&self, position: SeqNum) -> usize {
        self.spans
            .partition_point(|span| span.position.at_or_before(position))
    }
}
