//! The front of a stream as one context has decrypted it.

use std::collections::VecDeque;
use std::ops::Range;

use l5p::ContextTag;

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
    /// Bytes of that segment behind it; none if the context has not decrypted them, or they are not in the arena.
    front: &'a [u8],
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
        let mut run = Self {
            segments,
            context,
            segment: 0,
            offset: 0,
            front: &[],
            walked: Walked::default(),
        };
        run.enter();
        run
    }

    /// At the first byte of a segment.
    fn enter(&mut self) {
        self.offset = 0;
        let segment = self.segments.get(self.segment);
        self.front = segment
            .and_then(|segment| self.decrypted(segment))
            .unwrap_or_default();
    }

    /// The bytes, if the context has decrypted them and they are in the arena.
    fn decrypted(&self, segment: &'a Segment) -> Option<&'a [u8]> {
        let is_ours = segment.status.replaced == Some(self.context);
        segment
            .as_buffer()
            .filter(|_| is_ours)
            .map(|buffer| &**buffer)
    }

    /// Whether the context has decrypted the next `len` bytes, and they are there.
    #[inline]
    pub fn holds(&self, len: usize) -> bool {
        len <= self.front.len() || self.holds_across(len)
    }

    fn holds_across(&self, len: usize) -> bool {
        let mut left = self.offset + len;
        for segment in self.segments.range(self.segment..) {
            let Some(bytes) = self.decrypted(segment) else {
                return false;
            };
            if left <= bytes.len() {
                return true;
            }
            left -= bytes.len();
        }
        false
    }

    /// `N` bytes from `ahead` on, if they are there.
    #[inline]
    pub fn peek<const N: usize>(&self, ahead: usize) -> Option<[u8; N]> {
        match self.front.get(ahead..ahead + N) {
            Some(bytes) => bytes.try_into().ok(),
            None => self.peek_across(self.offset + ahead),
        }
    }

    fn peek_across<const N: usize>(&self, mut from: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let mut done = 0;
        for segment in self.segments.range(self.segment..) {
            let buffer = segment.as_buffer()?;
            if let Some(rest) = buffer.get(from..) {
                let taken = rest.len().min(N - done);
                bytes[done..done + taken].copy_from_slice(&rest[..taken]);
                done += taken;
                if done == N {
                    return Some(bytes);
                }
            }
            from = from.saturating_sub(buffer.len());
        }
        None
    }

    /// Passes a message of `len` bytes, which it [holds](Self::holds), and gives its content.
    #[inline]
    pub fn give(&mut self, len: usize, content: Range<usize>, chunks: &mut ReadChunks) {
        if len < self.front.len() && !content.is_empty() {
            let start = self.offset + content.start;
            chunks.push_piece(self.segment, start as u32, content.len() as u32);
            self.walked.shares_last = true;
            self.pass(len);
        } else {
            self.walk(content.start, |_, _, _| false);
            self.walk(content.len(), |segment, start, len| {
                chunks.push_piece(segment, start as u32, len as u32);
                true
            });
            self.walk(len - content.end, |_, _, _| false);
        }
    }

    fn walk(&mut self, mut len: usize, mut each: impl FnMut(usize, usize, usize) -> bool) {
        while len > 0 {
            assert!(self.segment < self.segments.len(), "it holds them");
            let bytes = len.min(self.front.len());
            self.walked.shares_last |= each(self.segment, self.offset, bytes);
            len -= bytes;
            self.pass(bytes);
            if self.front.is_empty() {
                self.segment += 1;
                self.walked.shares_last = false;
                self.walked.segments += 1;
                self.enter();
            }
        }
    }

    /// Passes bytes of the segment that it is in.
    #[inline]
    fn pass(&mut self, len: usize) {
        self.front = &self.front[len..];
        self.offset += len;
        self.walked.len += len as u32;
    }

    /// How far it was walked.
    #[inline]
    pub fn walked(&self) -> Walked {
        self.walked
    }
}
