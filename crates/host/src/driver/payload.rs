//! Payload of a send queue: where the bytes are, and whether the NIC must transform them.

use nic::ring::{ContextId, Slice};
use tcp::Chunk;

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

    /// The registered memory that this holds, if it is not of the arena.
    pub fn as_region(&self) -> Option<Slice> {
        match self.source {
            Source::Region(slice) => Some(slice),
            Source::Buffer(_) => None,
        }
    }

    /// The bytes, if they are of the arena.
    pub fn as_buffer(&self) -> Option<&Buffer> {
        match &self.source {
            Source::Buffer(buffer) => Some(buffer),
            Source::Region(_) => None,
        }
    }

    /// The bytes, if they are of the arena.
    pub fn as_buffer_mut(&mut self) -> Option<&mut Buffer> {
        match &mut self.source {
            Source::Buffer(buffer) => Some(buffer),
            Source::Region(_) => None,
        }
    }

    /// Where a part of the bytes is.
    #[inline]
    pub fn slice(&self, offset: u32, len: u32) -> Slice {
        match &self.source {
            Source::Buffer(buffer) => buffer.subslice(offset, len),
            Source::Region(slice) => Slice {
                offset: slice.offset + u64::from(offset),
                len,
                ..*slice
            },
        }
    }
}

impl Chunk for Payload {
    #[inline]
    fn len(&self) -> u32 {
        match &self.source {
            Source::Buffer(buffer) => buffer.len() as u32,
            Source::Region(slice) => slice.len,
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
        };
        Self {
            source,
            context: self.context,
            mutable: self.mutable,
        }
    }
}
