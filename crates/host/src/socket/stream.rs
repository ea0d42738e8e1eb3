//! What a socket has received.

use std::collections::VecDeque;

use l5p::tls::{ContextTag, Piece};
use tcp::{Accepted, Chunk, Reassembly};
use wire::SeqNum;

use crate::memory::Buffer;

/// Bytes of one packet, and what the NIC did to them.
#[derive(Debug)]
pub(crate) struct Segment {
    pub buffer: Buffer,
    /// The context of the NIC's that has decrypted them.
    pub decrypted: Option<ContextTag>,
}

impl Chunk for Segment {
    #[inline]
    fn len(&self) -> u32 {
        self.buffer.len() as u32
    }

    fn split_off(&mut self, at: u32) -> Self {
        Self {
            buffer: self.buffer.split_off(at),
            decrypted: self.decrypted,
        }
    }
}

/// Received bytes: in order and not yet consumed, and out of order.
#[derive(Debug)]
pub(crate) struct Stream {
    segments: VecDeque<Segment>,
    /// Position of the first byte in `segments`.
    start: SeqNum,
    /// Bytes in `segments`.
    len: u32,
    gaps: Reassembly<Segment>,
}

/// Pieces of a record that are handed over without an allocation.
const PIECES: usize = 24;

impl Stream {
    pub fn new(start: SeqNum) -> Self {
        Self {
            segments: VecDeque::new(),
            start,
            len: 0,
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

    /// The first bytes as they lie.
    #[inline]
    pub fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Takes what TCP accepted of a packet. `next` is TCP's next expected position after it.
    #[inline]
    pub fn insert(&mut self, accepted: Accepted, next: SeqNum, segment: Segment) {
        if self.gaps.is_empty() && accepted.seq == self.end() {
            self.len += accepted.len;
            self.segments.push_back(segment);
            return;
        }
        self.gaps.insert(accepted.seq, segment);
        // `next` may count a FIN too: nothing is stored there.
        while let Some((_, segment)) = self.gaps.pop_in_order(next) {
            self.len += segment.len();
            self.segments.push_back(segment);
        }
    }

    /// Copies a short segment behind the last one, if it comes next, was treated alike and fits in that one's block.
    pub fn append(
        &mut self,
        accepted: Accepted,
        data: &[u8],
        decrypted: Option<ContextTag>,
    ) -> bool {
        let follows = self.gaps.is_empty() && accepted.seq == self.end();
        let last = self.segments.back_mut();
        let appended = last
            .filter(|last| follows && last.decrypted == decrypted)
            .is_some_and(|last| last.buffer.append(data));
        if appended {
            self.len += accepted.len;
        }
        appended
    }

    /// Segments held, in order or not: each holds a block of memory, or a part of one.
    #[inline]
    pub fn segments(&self) -> u32 {
        (self.segments.len() + self.gaps.len()) as u32
    }

    /// Whether the first `len` bytes are there and this context has decrypted them all.
    #[inline]
    pub fn is_decrypted(&self, mut len: u32, context: ContextTag) -> bool {
        for segment in &self.segments {
            if segment.decrypted != Some(context) {
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
        match self.segments.front() {
            Some(front) if from + out.len() <= front.buffer.len() => {
                wire::bulk::copy(&front.buffer[from..from + out.len()], out);
                out.len()
            }
            _ => self.peek_across(offset, out),
        }
    }

    fn peek_across(&self, mut offset: u32, out: &mut [u8]) -> usize {
        let mut done = 0;
        for segment in &self.segments {
            let len = segment.len();
            if offset >= len {
                offset -= len;
                continue;
            }
            let from = &segment.buffer[offset as usize..];
            let bytes = from.len().min(out.len() - done);
            wire::bulk::copy(&from[..bytes], &mut out[done..done + bytes]);
            done += bytes;
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
            && let Some(front) = self.segments.front_mut()
        {
            let bytes = front.buffer.len().min(out.len() - done);
            wire::bulk::copy(&front.buffer[..bytes], &mut out[done..done + bytes]);
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
            self.segments.pop_front()?.buffer
        } else {
            let rest = front.buffer.split_off(len);
            std::mem::replace(&mut front.buffer, rest)
        };
        self.start += len;
        self.len -= len;
        Some(taken)
    }

    /// Gives `len` bytes from `offset` on as the pieces that they came in. They must be there.
    pub fn with_pieces<R>(
        &mut self,
        mut offset: u32,
        mut len: u32,
        f: impl FnOnce(&mut [Piece<'_>]) -> R,
    ) -> R {
        // The common case: all of it came in one packet.
        if let Some(front) = self.segments.front_mut()
            && let Some(data) = front
                .buffer
                .get_mut(offset as usize..(offset + len) as usize)
        {
            return f(&mut [Piece {
                data,
                decrypted: front.decrypted,
            }]);
        }
        let mut inline: [Piece<'_>; PIECES] = std::array::from_fn(|_| Piece {
            data: &mut [],
            decrypted: None,
        });
        let mut more: Vec<Piece<'_>> = Vec::new();
        let mut count = 0;
        for segment in &mut self.segments {
            let size = segment.buffer.len() as u32;
            if offset >= size {
                offset -= size;
                continue;
            }
            let bytes = (size - offset).min(len);
            let data = &mut segment.buffer[offset as usize..(offset + bytes) as usize];
            let piece = Piece {
                data,
                decrypted: segment.decrypted,
            };
            if count < PIECES {
                inline[count] = piece;
                count += 1;
            } else {
                // Only a peer that sends records in crumbs gets here.
                if more.is_empty() {
                    more.extend(inline.iter_mut().map(|piece| Piece {
                        data: std::mem::take(&mut piece.data),
                        decrypted: piece.decrypted,
                    }));
                }
                more.push(piece);
            }
            offset = 0;
            len -= bytes;
            if len == 0 {
                break;
            }
        }
        if more.is_empty() {
            f(&mut inline[..count])
        } else {
            f(&mut more)
        }
    }

    /// Throws everything away; answers how many bytes were in order.
    pub fn clear(&mut self) -> u32 {
        let len = self.len;
        self.segments.clear();
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
                self.segments.pop_front();
            } else {
                front.buffer.advance(bytes);
            }
        }
    }
}
