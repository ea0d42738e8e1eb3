//! Messages of one length around memory of the application's.

use nic::ring::Slice;

use super::payload::Part;
use crate::memory::Buffer;

/// How the messages are laid out, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameLayout {
    /// Before the content.
    pub header: u8,
    /// Behind the content.
    pub trailer: u8,
    /// Of the content, at least one.
    pub content: u16,
}

impl FrameLayout {
    /// Bytes of a message.
    pub fn message(self) -> u32 {
        self.around() + u32::from(self.content)
    }

    /// Bytes of a message around its content.
    pub fn around(self) -> u32 {
        u32::from(self.header) + u32::from(self.trailer)
    }

    /// How many of the first `len` bytes of messages are not content.
    #[inline]
    fn around_before(self, len: u32) -> u32 {
        let (messages, rest) = (len / self.message(), len % self.message());
        let header = u32::from(self.header);
        let behind = rest.saturating_sub(header + u32::from(self.content));
        messages * self.around() + rest.min(header) + behind
    }
}

/// Messages one behind the other, of which the first may have lost bytes at its front and the last one at its end.
///
/// A place in them is found by arithmetic: it does not matter how many they are.
#[derive(Debug)]
pub(crate) struct Framed {
    /// Their contents.
    content: Slice,
    /// What is around these: trailers and the headers behind them are next to each other.
    around: Buffer,
    layout: FrameLayout,
    /// Bytes that the first message has lost.
    lost: u32,
}

impl Framed {
    /// Whole messages, with what is around each behind what is around the one before it.
    pub fn new(content: Slice, around: Buffer, layout: FrameLayout) -> Self {
        debug_assert_eq!(content.len % u32::from(layout.content), 0);
        let lost = 0;
        Self {
            content,
            around,
            layout,
            lost,
        }
    }

    /// Bytes of the messages.
    #[inline]
    pub fn len(&self) -> u32 {
        self.content.len + self.around.len() as u32
    }

    /// The contents, unless there are none left.
    pub fn content(&self) -> Option<Slice> {
        Some(self.content).filter(|content| content.len > 0)
    }

    /// Where byte `offset` lies, as bytes of `around` and of `content` before it.
    #[inline]
    fn locate(&self, offset: u32) -> (u32, u32) {
        let lost = self.layout.around_before(self.lost);
        let around = self.layout.around_before(self.lost + offset) - lost;
        (around, offset - around)
    }

    /// Calls `each` with the parts of `len` bytes from `offset` on that lie together, in order.
    pub fn parts<'a>(&'a self, offset: u32, len: u32, mut each: impl FnMut(Part<'a>)) {
        self.walk(offset, len, |is_content, at, len| {
            each(match is_content {
                true => Part::Region(self.content_at(at, len)),
                false => Part::Buffer(&self.around, at..at + len),
            });
        });
    }

    /// As [`parts`](Self::parts), with where these are.
    #[inline]
    pub fn slices(&self, offset: u32, len: u32, mut each: impl FnMut(Slice)) {
        let around = self.around.slice();
        self.walk(offset, len, |is_content, at, len| {
            each(match is_content {
                true => self.content_at(at, len),
                false => Slice {
                    offset: around.offset + u64::from(at),
                    len,
                    ..around
                },
            });
        });
    }

    /// How many parts there are from `offset` on, `most` of them or fewer, and where these end.
    pub fn pieces(&self, offset: u32, most: usize) -> (usize, u32) {
        // A message has two.
        let messages = most as u32 / 2 + 1;
        let enough = messages.saturating_mul(self.layout.message());
        let (mut pieces, mut end) = (0, offset);
        self.walk(offset, enough.min(self.len() - offset), |_, _, len| {
            if pieces < most {
                pieces += 1;
                end += len;
            }
        });
        (pieces, end)
    }

    #[inline]
    fn content_at(&self, at: u32, len: u32) -> Slice {
        Slice {
            offset: self.content.offset + u64::from(at),
            len,
            ..self.content
        }
    }

    /// Calls `each(whether it is content, bytes of its kind before it, its length)` for every part.
    #[inline]
    fn walk(&self, offset: u32, len: u32, mut each: impl FnMut(bool, u32, u32)) {
        debug_assert!(offset + len <= self.len());
        let (mut around, mut content) = self.locate(offset);
        let message = self.layout.message();
        let header = u32::from(self.layout.header);
        let trailer = header + u32::from(self.layout.content);
        let (mut at, mut left) = ((self.lost + offset) % message, len);
        while left > 0 {
            let is_content = (header..trailer).contains(&at);
            let end = match at {
                at if at < header => header,
                at if at < trailer => trailer,
                // A trailer and the next header.
                _ => message + header,
            };
            let bytes = left.min(end - at);
            let before = if is_content {
                &mut content
            } else {
                &mut around
            };
            each(is_content, *before, bytes);
            *before += bytes;
            at = match at + bytes {
                at if at < message => at,
                at => at - message,
            };
            left -= bytes;
        }
    }

    /// Keeps the first `at` bytes and gives the others.
    pub fn split_off(&mut self, at: u32) -> Self {
        let (around, content) = self.locate(at);
        let rest = Self {
            content: Slice {
                offset: self.content.offset + u64::from(content),
                len: self.content.len - content,
                ..self.content
            },
            around: self.around.split_off(around),
            layout: self.layout,
            lost: (self.lost + at) % self.layout.message(),
        };
        self.content.len = content;
        rest
    }
}

#[cfg(test)]
mod tests;
