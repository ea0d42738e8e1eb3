//! Records that were opened in place and not yet consumed.

use std::collections::VecDeque;
use std::ops::Range;

use crate::stream::Stream;

/// Records from the stream's start on.
#[derive(Debug, Default)]
pub(super) struct Opened {
    records: VecDeque<Open>,
    /// Bytes of the stream that they are.
    len: u32,
}

/// A record: where its content lies.
#[derive(Debug)]
pub(super) struct Open {
    /// Bytes before the content.
    pub skip: u32,
    /// Bytes of content.
    pub content: u32,
    /// Bytes after the content.
    tail: u32,
    /// As [`Front::is_agreed`](super::Front::is_agreed).
    pub is_agreed: bool,
}

impl Opened {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of the stream that they are.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether any has content that was not read.
    pub fn has_content(&self) -> bool {
        self.records.iter().any(|open| open.content > 0)
    }

    /// The one that was opened first.
    #[inline]
    pub fn front(&self) -> Option<&Open> {
        self.records.front()
    }

    /// Adds the next record, of `len` bytes, and where its content is.
    #[inline]
    pub fn push(&mut self, len: usize, content: Range<usize>, is_agreed: bool) {
        self.records.push_back(Open {
            skip: content.start as u32,
            content: content.len() as u32,
            tail: (len - content.end) as u32,
            is_agreed,
        });
        self.len += len as u32;
    }

    /// Accounts for `taken` bytes of the first one's content, which were consumed with what was before them; the record goes when nothing is left
    /// of it. Gives how many bytes of the stream are consumed.
    #[inline]
    pub fn settle(&mut self, taken: u32, stream: &mut Stream) -> u32 {
        let Some(open) = self.records.front_mut() else {
            return 0;
        };
        let mut bytes = open.skip + taken;
        open.skip = 0;
        open.content -= taken;
        if open.content == 0 {
            stream.skip(open.tail);
            bytes += open.tail;
            self.records.pop_front();
        }
        self.len -= bytes;
        bytes
    }
}
