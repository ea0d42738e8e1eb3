//! Messages of one length around registered memory.

use nic::ring::Slice;

/// Messages of one length: each is a head, which is copied, and the next bytes of registered memory, which are not.
///
/// ```text
///  heads     h0 h1 h2 …               slice     c0 c1 c2 …
///                                     stream    h0 c0 h1 c1 h2 c2 …
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages<'a> {
    heads: &'a [u8],
    slice: Slice,
    count: u32,
}

impl<'a> Messages<'a> {
    /// So many messages, among which the heads and the memory are divided. `None` if there are no messages, they have no content or
    /// more than 65,535 bytes of it each, or the bytes can't be divided.
    pub fn new(heads: &'a [u8], slice: Slice, count: u32) -> Option<Self> {
        let is_even = count > 0
            && heads.len().is_multiple_of(count as usize)
            && slice.len.is_multiple_of(count)
            && (1..=u32::from(u16::MAX)).contains(&(slice.len / count));
        is_even.then_some(Self {
            heads,
            slice,
            count,
        })
    }

    /// How many they are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of a message.
    pub fn message_len(&self) -> usize {
        self.head_len() + self.content_len() as usize
    }

    /// Bytes of a message's head.
    pub(crate) fn head_len(&self) -> usize {
        self.heads.len() / self.count as usize
    }

    fn content_len(&self) -> u32 {
        self.slice.len / self.count
    }

    /// The heads, one behind the other.
    pub(crate) fn heads(&self) -> &'a [u8] {
        self.heads
    }

    /// The contents, one behind the other.
    pub(crate) fn slice(&self) -> Slice {
        self.slice
    }

    /// The first of them, all that there are or fewer.
    pub(crate) fn first(&self, count: u32) -> Self {
        let count = count.clamp(1, self.count);
        Self {
            heads: &self.heads[..count as usize * self.head_len()],
            slice: Slice {
                len: count * self.content_len(),
                ..self.slice
            },
            count,
        }
    }

    /// Each one's head and content.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [u8], Slice)> + use<'a> {
        let messages = *self;
        let (head, len) = (messages.head_len(), messages.content_len());
        (0..messages.count).map(move |nth| {
            let slice = Slice {
                offset: messages.slice.offset + u64::from(nth * len),
                len,
                ..messages.slice
            };
            (&messages.heads[nth as usize * head..][..head], slice)
        })
    }
}
