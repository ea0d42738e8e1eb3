//! The front of a stream as one context has decrypted it.

use std::collections::VecDeque;

use l5p::ContextTag;
use tcp::Chunk;

use super::chunks::ReadChunks;
use super::segment::Segment;

/// A place in the segments of a stream, before which everything was decrypted by one context and lies in the arena.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    segments: &'a VecDeque<Segment>,
    context: ContextTag,
    /// The segment that it is in.
    segment: usize,
    /// Bytes of that segment before it.
    offset: usize,
    walked: Walked,
}

/// How far a run was walked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walked {
    /// Bytes.
    pub len: u32,
    /// Whole segments.
    pub(super) segments: usize,
    /// Some of the bytes behind those are content.
    pub(super) shares_last: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(segments: &'a VecDeque<Segment>, context: ContextTag) -> Self {
        Self {
            segments,
            context,
            segment: 0,
            offset: 0,
            walked: Walked::default(),
        }
    }

    /// Whether the context has decrypted the next `len` bytes, and they are there.
    #[inline]
    pub fn holds(&self, len: usize) -> bool {
        let mut left = self.offset + len;
        for segment in self.segments.range(self.segment..) {
            if segment.status.replaced != Some(self.context) || segment.as_buffer().is_none() {
                return false;
            }
            let held = segment.len() as usize;
            if left <= held {
                return true;
            }
            left -= held;
        }
        false
    }

    /// `N` bytes from `ahead` on, if they are there.
    #[inline]
    pub fn peek<const N: usize>(&self, ahead: usize) -> Option<[u8; N]> {
        let from = self.offset + ahead;
        let front = self.segments.get(self.segment)?.as_buffer()?;
        match front.get(from..from + N) {
            Some(bytes) => bytes.try_into().ok(),
            None => self.peek_across(from),
        }
    }

    fn peek_across<const N: usize>(&self, from: usize) -> Option<[u8; N]> {
        let segments = self.segments.range(self.segment..);
        let buffers = segments.map_while(Segment::as_buffer);
        let mut bytes = [0; N];
        let (mut skipped, mut done) = (from, 0);
        for buffer in buffers {
            let rest = buffer.get(skipped..).unwrap_or_default();
            skipped = skipped.saturating_sub(buffer.len());
            let taken = rest.len().min(N - done);
            bytes[done..done + taken].copy_from_slice(&rest[..taken]);
            done += taken;
            if done == N {
                return Some(bytes);
            }
        }
        None
    }

    /// Passes bytes that it [holds](Self::holds).
    #[inline]
    pub fn skip(&mut self, len: usize) {
        self.walk(len, |_, _, _| false);
    }

    /// Passes bytes that it [holds](Self::holds), which are content.
    #[inline]
    pub fn give(&mut self, len: usize, chunks: &mut ReadChunks) {
        self.walk(len, |segment, start, len| {
            chunks.push_piece(segment, start as u32, len as u32);
            true
        });
    }

    #[inline]
    fn walk(&mut self, mut len: usize, mut each: impl FnMut(usize, usize, usize) -> bool) {
        self.walked.len += len as u32;
        while len > 0 {
            let held = self.segments[self.segment].len() as usize - self.offset;
            let bytes = len.min(held);
            self.walked.shares_last |= each(self.segment, self.offset, bytes);
            self.offset += bytes;
            len -= bytes;
            if bytes == held {
                (self.segment, self.offset) = (self.segment + 1, 0);
                self.walked.shares_last = false;
                self.walked.segments += 1;
            }
        }
    }

    /// How far it was walked.
    #[inline]
    pub fn walked(&self) -> Walked {
        self.walked
    }
}
