//! Bytes of one packet, and what the NIC did to them.

use l5p::ContextTag;
use l5p::tls::{Piece, PieceData};
use nic::ring::{RegionId, Slice};
use shared::Input;
use tcp::Chunk;

use crate::driver::InUse;
use crate::memory::Buffer;

/// Consecutive bytes of a received stream.
#[derive(Debug)]
pub(crate) struct Segment {
    bytes: Bytes,
    pub status: RxStatus,
}

/// What the NIC did to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RxStatus {
    /// The context that has put them in the place of what was on the wire.
    pub replaced: Option<ContextTag>,
    /// The NIC has checked the messages of the innermost protocol that they are of.
    pub checked: bool,
}

#[derive(Debug)]
enum Bytes {
    /// In the arena.
    Buffer(Buffer),
    /// Where the NIC has put them.
    Placed(Placed),
}

/// Bytes in memory that the application has mapped to a tag. They hold none of the arena's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    offset: u64,
    len: u32,
    region: RegionId,
    pub tag: u16,
}

impl Placed {
    pub fn new(slice: Slice, tag: u16) -> Self {
        Self {
            offset: slice.offset,
            len: slice.len,
            region: slice.region,
            tag,
        }
    }

    #[inline]
    pub fn slice(&self) -> Slice {
        Slice {
            offset: self.offset,
            len: self.len,
            region: self.region,
        }
    }
}

impl Segment {
    pub fn new(buffer: Buffer, status: RxStatus) -> Self {
        Self {
            bytes: Bytes::Buffer(buffer),
            status,
        }
    }

    pub fn placed(placed: Placed, status: RxStatus) -> Self {
        Self {
            bytes: Bytes::Placed(placed),
            status,
        }
    }

    /// The bytes, if they are in the arena.
    #[inline]
    pub fn as_buffer(&self) -> Option<&Buffer> {
        match &self.bytes {
            Bytes::Buffer(buffer) => Some(buffer),
            Bytes::Placed(_) => None,
        }
    }

    /// The bytes, if they are in the arena.
    #[inline]
    pub fn as_buffer_mut(&mut self) -> Option<&mut Buffer> {
        match &mut self.bytes {
            Bytes::Buffer(buffer) => Some(buffer),
            Bytes::Placed(_) => None,
        }
    }

    /// The bytes, if they are in the arena.
    pub fn into_buffer(self) -> Option<Buffer> {
        match self.bytes {
            Bytes::Buffer(buffer) => Some(buffer),
            Bytes::Placed(_) => None,
        }
    }

    /// Where the bytes are, if the NIC has put them there.
    #[inline]
    pub fn as_placed(&self) -> Option<&Placed> {
        match &self.bytes {
            Bytes::Buffer(_) => None,
            Bytes::Placed(placed) => Some(placed),
        }
    }

    /// The bytes, wherever they are. `None` when their memory is not registered any more.
    #[inline]
    pub fn input<'a>(&'a self, regions: &'a InUse) -> Option<Input<'a>> {
        match &self.bytes {
            Bytes::Buffer(buffer) => Some(Input::Own(buffer)),
            Bytes::Placed(placed) => regions.view(placed.slice()).map(Input::Shared),
        }
    }

    /// `len` bytes from `offset` on. `None` when their memory is not registered any more.
    pub fn piece<'a>(&'a mut self, offset: u32, len: u32, regions: &'a InUse) -> Option<Piece<'a>> {
        let decrypted = self.status.replaced;
        let data = match &mut self.bytes {
            Bytes::Placed(placed) => {
                let all = placed.slice();
                PieceData::Placed(regions.view(Slice {
                    offset: all.offset + u64::from(offset),
                    len,
                    ..all
                })?)
            }
            Bytes::Buffer(buffer) => {
                let range = offset as usize..(offset + len) as usize;
                PieceData::Own(&mut buffer[range])
            }
        };
        Some(Piece { data, decrypted })
    }

    /// Drops the first `len` bytes, of which there must be more.
    #[inline]
    pub fn advance(&mut self, len: u32) {
        match &mut self.bytes {
            Bytes::Buffer(buffer) => buffer.advance(len),
            Bytes::Placed(placed) => {
                placed.offset += u64::from(len);
                placed.len -= len;
            }
        }
    }
}

impl Chunk for Segment {
    #[inline]
    fn len(&self) -> u32 {
        match &self.bytes {
            Bytes::Buffer(buffer) => buffer.len() as u32,
            Bytes::Placed(placed) => placed.len,
        }
    }

    /// The block; what the NIC has put elsewhere is in none.
    #[inline]
    fn memory(&self) -> u32 {
        self.as_buffer().map_or(0, |buffer| buffer.class().bytes())
    }

    fn split_off(&mut self, at: u32) -> Self {
        let bytes = match &mut self.bytes {
            Bytes::Buffer(buffer) => Bytes::Buffer(buffer.split_off(at)),
            Bytes::Placed(placed) => {
                let rest = Placed {
                    offset: placed.offset + u64::from(at),
                    len: placed.len - at,
                    ..*placed
                };
                placed.len = at;
                Bytes::Placed(rest)
            }
        };
        Self {
            bytes,
            status: self.status,
        }
    }
}

/// A queue of segments should be small.
const _: () = assert!(size_of::<Segment>() <= 32);
