//! What a socket has received.

mod chunks;
mod pieces;
mod run;
mod segment;

use std::collections::VecDeque;

use l5p::tls::ContextTag;
use shared::Input;
use tcp::{Accepted, Chunk, Reassembly};
use wire::SeqNum;

use crate::driver::InUse;
use crate::memory::Buffer;

pub use chunks::{ReadChunk, ReadChunks};
pub(crate) use run::Run;
use run::Walked;
pub(crate) use segment::{Placed, RxStatus, Segment};

/// Received bytes: in order and not yet consumed, and out of order.
///
/// Bytes that the NIC has put elsewhere are in it only if the socket carries PDUs; what gives bytes out stops before them,
/// unless it says otherwise.
#[derive(Debug)]
pub(crate) struct Stream {
    segments: VecDeque<Segment>,
    /// Position of the first byte in `segments`.
    start: SeqNum,
    /// Bytes in `segments`.
    len: u32,
    /// Bytes of the blocks of `segments`.
    blocks: u64,
    gaps: Reassembly<Segment>,
}

impl Stream {
    pub fn new(start: SeqNum) -> Self {
        Self {
            segments: VecDeque::new(),
            start,
            len: 0,
            blocks: 0,
            gaps: Reassembly::new(),
        }
    }

    /// Before the first byte: the peer's sequence numbers have become known.
    pub fn restart(&mut self, start: SeqNum) {
        if self.len == 0 && self.gaps.is_empty() {
            self.start = start;
        }
    }

    /// Bytes that can be read in order.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Position of the first of them.
    #[inline]
    pub fn start(&self) -> SeqNum {
        self.start
    }

    /// Position after the last of them.
    #[inline]
    pub fn end(&self) -> SeqNum {
        self.start + self.len
    }

    /// Position after the last byte that has come, in order or not.
    pub fn highest_end(&self) -> SeqNum {
        let held = self.held().last();
        held.map_or(self.end(), |(_, end)| end.max(self.end()))
    }

    /// The first bytes as they lie.
    #[inline]
    pub fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Takes what TCP accepted of a packet. `next` is TCP's next expected position after it.
    #[inline]
    pub fn insert(&mut self, accepted: Accepted, next: SeqNum, segment: Segment) {
        if !self.hold(accepted, segment) {
            self.join(next);
        }
    }

    /// Takes a part of what TCP accepted of a packet; after the last one they are to be [joined](Self::join). Answers whether it
    /// is in order already.
    #[inline]
    pub fn hold(&mut self, accepted: Accepted, segment: Segment) -> bool {
        if self.gaps.is_empty() && accepted.seq == self.end() {
            self.push(segment);
            return true;
        }
        self.gaps.insert(accepted.seq, segment);
        false
    }

    /// Puts in order what is in order now. `next` is TCP's next expected position.
    pub fn join(&mut self, next: SeqNum) {
        // `next` may count a FIN too: nothing is stored there.
        while let Some((_, segment)) = self.gaps.pop_in_order(next) {
            self.push(segment);
        }
    }

    #[inline]
    fn push(&mut self, segment: Segment) {
        self.len += segment.len();
        self.blocks += u64::from(segment.memory());
        self.segments.push_back(segment);
    }

    #[inline]
    fn pop_front(&mut self) -> Option<Segment> {
        let segment = self.segments.pop_front()?;
        self.blocks -= u64::from(segment.memory());
        Some(segment)
    }

    /// The ranges that are kept out of order.
    pub fn held(&self) -> impl Iterator<Item = (SeqNum, SeqNum)> + '_ {
        self.gaps.ranges()
    }

    /// Whether bytes of this range are kept out of order: of what comes for them again, nothing is kept.
    #[inline]
    pub fn holds_any(&self, from: SeqNum, len: u32) -> bool {
        !self.gaps.is_empty() && self.gaps.holds_any(from, len)
    }

    /// Copies a segment behind the one that it follows, in order or not, if that was treated alike and has room in its block. `next` is TCP's next
    /// expected position after it.
    pub fn append(
        &mut self,
        accepted: Accepted,
        next: SeqNum,
        data: &[u8],
        status: RxStatus,
    ) -> bool {
        if self.holds_any(accepted.seq, accepted.len) {
            return false;
        }
        let is_in_order = accepted.seq == self.end();
        let before = match is_in_order {
            true => self.segments.back_mut(),
            false => self.gaps.chunk_before(accepted.seq),
        };
        let appended = before
            .filter(|before| before.status == status)
            .and_then(Segment::as_buffer_mut)
            .is_some_and(|before| before.append(data));
        if appended && is_in_order {
            self.len += accepted.len;
        }
        if appended {
            self.join(next);
        }
        appended
    }

    /// Segments held, in order or not: each holds a block of memory, or a part of one.
    #[inline]
    pub fn segments(&self) -> u32 {
        (self.segments.len() + self.gaps.len()) as u32
    }

    /// Bytes of the blocks that hold what is kept; what the NIC has put elsewhere is in none.
    #[inline]
    pub fn block_bytes(&self) -> u64 {
        let memory = |segment: &Segment| u64::from(segment.memory());
        debug_assert_eq!(self.blocks, self.segments.iter().map(memory).sum::<u64>());
        self.blocks + self.gaps.memory()
    }

    /// Whether the first `len` bytes are there and this context has decrypted them all.
    #[inline]
    pub fn is_decrypted(&self, mut len: u32, context: ContextTag) -> bool {
        for segment in &self.segments {
            if segment.status.replaced != Some(context) {
                return false;
            }
            if segment.len() >= len {
                return true;
            }
            len -= segment.len();
        }
        false
    }

    /// Copies bytes from `offset` on without consuming them; answers how many there were.
    #[inline]
    pub fn peek(&self, offset: u32, out: &mut [u8]) -> usize {
        let from = offset as usize;
        match self.segments.front().and_then(Segment::as_buffer) {
            Some(front) if from + out.len() <= front.len() => {
                wire::bulk::copy(&front[from..from + out.len()], out);
                out.len()
            }
            _ => self.peek_across(offset, out, |segment| {
                segment.as_buffer().map(|buffer| Input::Own(buffer))
            }),
        }
    }

    /// As [`peek`](Self::peek), wherever the NIC has put the bytes. They must be there. False when their memory is not registered any more.
    pub fn peek_placed<'a>(&'a self, offset: u32, out: &mut [u8], regions: &'a InUse) -> bool {
        self.peek_across(offset, out, |segment| segment.input(regions)) == out.len()
    }

    fn peek_across<'a>(
        &'a self,
        mut offset: u32,
        out: &mut [u8],
        input: impl Fn(&'a Segment) -> Option<Input<'a>>,
    ) -> usize {
        let mut done = 0;
        for segment in &self.segments {
            let len = segment.len();
            if offset >= len {
                offset -= len;
                continue;
            }
            let Some(bytes) = input(segment) else {
                break;
            };
            let (_, from) = bytes.split_at(offset as usize);
            let (from, _) = from.split_at(from.len().min(out.len() - done));
            from.copy_to(&mut out[done..done + from.len()]);
            done += from.len();
            offset = 0;
            if done == out.len() {
                break;
            }
        }
        done
    }

    /// Copies up to `out.len()` bytes out and consumes them.
    #[inline]
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let mut done = 0;
        while done < out.len()
            && let Some(front) = self.segments.front().and_then(Segment::as_buffer)
        {
            let bytes = front.len().min(out.len() - done);
            wire::bulk::copy(&front[..bytes], &mut out[done..done + bytes]);
            done += bytes;
            self.drop_front(bytes as u32);
        }
        done
    }

    /// Consumes `len` bytes; there must be so many.
    #[inline]
    pub fn skip(&mut self, mut len: u32) {
        while len > 0
            && let Some(front) = self.segments.front()
        {
            let bytes = front.len().min(len);
            self.drop_front(bytes);
            len -= bytes;
        }
    }

    /// Consumes the first bytes as they lie, at most `most` of them.
    pub fn take_front(&mut self, most: u32) -> Option<Buffer> {
        let front = self.segments.front_mut()?;
        let len = front.len().min(most);
        let taken = if len == front.len() {
            self.pop_front()?.into_buffer()?
        } else {
            let front = front.as_buffer_mut()?;
            let rest = front.split_off(len);
            std::mem::replace(front, rest)
        };
        self.start += len;
        self.len -= len;
        Some(taken)
    }

    /// The front of the stream as far as this context has decrypted it, to be walked.
    #[inline]
    pub fn run(&self, context: ContextTag) -> Run<'_> {
        Run::new(&self.segments, context)
    }

    /// Consumes what was walked of a [run](Self::run): the buffers go to where their content was given.
    #[inline]
    pub fn take_walked(&mut self, walked: Walked, chunks: &mut ReadChunks) {
        let mut left = walked.len;
        for _ in 0..walked.segments {
            left -= self.take_into(u32::MAX, chunks);
        }
        if walked.shares_last {
            self.take_into(left, chunks);
        } else if left > 0 {
            self.drop_front(left);
        }
    }

    #[inline]
    fn take_into(&mut self, most: u32, chunks: &mut ReadChunks) -> u32 {
        let Some(buffer) = self.take_front(most) else {
            return 0;
        };
        let len = buffer.len() as u32;
        chunks.put(buffer);
        len
    }

    /// Throws away what is out of order.
    pub fn clear_out_of_order(&mut self) {
        self.gaps = Reassembly::new();
    }

    /// Throws everything away; answers how many bytes were in order.
    pub fn clear(&mut self) -> u32 {
        let len = self.len;
        self.segments.clear();
        self.blocks = 0;
        self.start += len;
        self.len = 0;
        self.gaps = Reassembly::new();
        len
    }

    #[inline]
    fn drop_front(&mut self, bytes: u32) {
        self.start += bytes;
        self.len -= bytes;
        if let Some(front) = self.segments.front_mut() {
            if front.len() == bytes {
                self.pop_front();
            } else {
                front.advance(bytes);
            }
        }
    }
}
