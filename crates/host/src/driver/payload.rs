//! Payload of a send queue: where the bytes are, and whether the NIC must transform them.

use std::ops::Range;

use nic::ring::{ContextId, Slice};
use tcp::Chunk;

use super::framed::Framed;
use crate::memory::Buffer;

/// A run of bytes of one connection's stream.
///
/// The context travels with the bytes: bytes that are plaintext of an offloaded flow cannot be posted but with the
/// context that encrypts them, since nothing else is asked whether they need one.
#[derive(Debug)]
pub(crate) struct Payload {
    source: Source,
    /// The transmit context that must transform the bytes; `None` for bytes that are as the wire wants them.
    pub context: Option<ContextId>,
    /// Part of a message with bytes in memory that others may change.
    pub mutable: bool,
}

#[derive(Debug)]
enum Source {
    /// Bytes of the stack's own arena.
    Buffer(Buffer),
    /// Registered memory of the application's.
    Region(Slice),
    /// Registered memory of the application's as the content of messages.
    Framed(Framed),
}

/// Bytes of a payload that lie together.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// Bytes of the stack's own arena.
    Buffer(&'a Buffer, Range<u32>),
    /// Registered memory of the application's.
    Region(Slice),
}

impl<'a> Part<'a> {
    /// Where they are.
    #[inline]
    pub fn slice(&self) -> Slice {
        match self {
            Self::Buffer(buffer, range) => buffer.subslice(range.start, range.end - range.start),
            Self::Region(slice) => *slice,
        }
    }

    /// The bytes, if they are of the arena.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Buffer(buffer, range) => Some(&buffer[range.start as usize..range.end as usize]),
            Self::Region(_) => None,
        }
    }
}

impl Payload {
    /// Bytes of the arena that go to the wire as they are.
    pub fn plain(buffer: Buffer) -> Self {
        Self {
            source: Source::Buffer(buffer),
            context: None,
            mutable: false,
        }
    }

    /// Bytes of the arena.
    pub fn buffer(buffer: Buffer, context: Option<ContextId>, mutable: bool) -> Self {
        Self {
            source: Source::Buffer(buffer),
            context,
            mutable,
        }
    }

    /// Registered memory, sent in place.
    pub fn region(slice: Slice, context: Option<ContextId>) -> Self {
        Self {
            source: Source::Region(slice),
            context,
            mutable: context.is_some(),
        }
    }

    /// Registered memory, sent in place, of which it does not matter if it changes between two transmissions.
    pub fn stable_region(slice: Slice, context: Option<ContextId>) -> Self {
        Self {
            mutable: false,
            ..Self::region(slice, context)
        }
    }

    /// Messages around registered memory, which is sent in place.
    pub fn framed(framed: Framed, context: ContextId) -> Self {
        Self {
            source: Source::Framed(framed),
            context: Some(context),
            mutable: true,
        }
    }

    /// The registered memory that this holds, if it holds any.
    pub fn as_region(&self) -> Option<Slice> {
        match &self.source {
            Source::Region(slice) => Some(*slice),
            Source::Framed(framed) => framed.content(),
            Source::Buffer(_) => None,
        }
    }

    /// Bytes of the arena that this holds, but for the frames around registered memory.
    pub fn arena_bytes(&self) -> u64 {
        match &self.source {
            Source::Buffer(buffer) => buffer.len() as u64,
            Source::Region(_) | Source::Framed(_) => 0,
        }
    }

    /// The bytes, if they are of the arena.
    pub fn as_buffer_mut(&mut self) -> Option<&mut Buffer> {
        match &mut self.source {
            Source::Buffer(buffer) => Some(buffer),
            Source::Region(_) | Source::Framed(_) => None,
        }
    }

    /// Calls `each` with the parts of `len` bytes from `offset` on that lie together, in order.
    pub fn parts<'a>(&'a self, offset: u32, len: u32, mut each: impl FnMut(Part<'a>)) {
        match &self.source {
            Source::Buffer(buffer) => each(Part::Buffer(buffer, offset..offset + len)),
            Source::Region(slice) => each(Part::Region(part_of(*slice, offset, len))),
            Source::Framed(framed) => framed.parts(offset, len, each),
        }
    }

    /// As [`parts`](Self::parts), with where these are.
    #[inline]
    pub fn slices(&self, offset: u32, len: u32, mut each: impl FnMut(Slice)) {
        match &self.source {
            Source::Buffer(buffer) => each(buffer.subslice(offset, len)),
            Source::Region(slice) => each(part_of(*slice, offset, len)),
            Source::Framed(framed) => framed.slices(offset, len, each),
        }
    }
}

fn part_of(slice: Slice, offset: u32, len: u32) -> Slice {
    Slice {
        offset: slice.offset + u64::from(offset),
        len,
        ..slice
    }
}

impl Chunk for Payload {
    #[inline]
    fn len(&self) -> u32 {
        match &self.source {
            Source::Buffer(buffer) => buffer.len() as u32,
            Source::Region(slice) => slice.len,
            Source::Framed(framed) => framed.len(),
        }
    }

    fn pieces(&self, offset: u32, most: usize) -> (usize, u32) {
        match &self.source {
            Source::Framed(framed) => framed.pieces(offset, most),
            Source::Buffer(_) | Source::Region(_) => (1, self.len()),
        }
    }

    fn split_off(&mut self, at: u32) -> Self {
        let source = match &mut self.source {
            Source::Buffer(buffer) => Source::Buffer(buffer.split_off(at)),
            Source::Region(slice) => {
                let rest = Slice {
                    offset: slice.offset + u64::from(at),
                    len: slice.len - at,
                    ..*slice
                };
                slice.len = at;
                Source::Region(rest)
            }
            Source::Framed(framed) => Source::Framed(framed.split_off(at)),
        };
        Self {
            source,
            context: self.context,
            mutable: self.mutable,
        }
    }
}
