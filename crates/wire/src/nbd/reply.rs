//! What a server answers: simple replies, and structured ones in chunks.

use thiserror::Error;

use super::Request;
use crate::bytes::{array_at, u16_at, u32_at};

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a simple reply's header, from which the length of any reply's header can be told.
pub const SIMPLE_REPLY_LEN: usize = 16;
/// Bytes that all chunks begin with.
const CHUNK_LEN: usize = 20;
/// Bytes of an error's number and of its message's length.
const ERROR_LEN: u32 = 6;

/// Flag of the last chunk of a reply.
const DONE: u16 = 1;

/// How a request failed: error numbers of the protocol, which are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Errno {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
    ShuttingDown = 108,
}

/// The header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple one. What data follows depends on the request.
    Simple {
        /// 0, or why the request failed.
        error: u32,
        /// The request's cookie.
        cookie: u64,
    },
    /// A part of a structured one.
    Chunk(Chunk),
}

/// The header of a chunk, with what its payload begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// It is the last one of its reply.
    pub done: bool,
    /// The request's cookie.
    pub cookie: u64,
    /// What it carries.
    pub content: ChunkType,
}

/// What a chunk carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkType {
    /// Nothing.
    None,
    /// Data of the export, behind this header.
    Data {
        /// Where in the export.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// A range of zeroes.
    Hole {
        /// Where in the export.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// Why the request failed, with a text behind this header.
    Error {
        /// Its number.
        error: u32,
        /// Bytes of the text.
        message_len: u16,
        /// Bytes behind this header: the text, and for some errors an offset.
        len: u32,
    },
}

const NONE: u16 = 0;
const OFFSET_DATA: u16 = 1;
const OFFSET_HOLE: u16 = 2;
const ERROR: u16 = 1 << 15;
const ERROR_GENERAL: u16 = ERROR | 1;

/// Why bytes are no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// What begins no reply.
    #[error("no reply begins with {0:#010x}")]
    Magic(u32),
    /// A chunk although structured replies were not agreed on.
    #[error("a structured reply, which was not agreed on")]
    NotStructured,
    /// A chunk of a type that was not asked for.
    #[error("a chunk of type {0:#06x}, which was not asked for")]
    ChunkType(u16),
    /// A chunk whose length is not possible for its type.
    #[error("a chunk of type {kind:#06x} with {len} bytes")]
    ChunkLength {
        /// Its type.
        kind: u16,
        /// Bytes of its payload.
        len: u32,
    },
    /// Flags that are not known.
    #[error("chunk flags {0:#06x}")]
    ChunkFlags(u16),
}

/// Whether a reply may begin with these bytes, as far as they are there.
#[must_use]
#[inline]
pub fn beginning_matches(bytes: &[u8]) -> bool {
    let magic = &bytes[..bytes.len().min(4)];
    [SIMPLE_MAGIC, CHUNK_MAGIC]
        .iter()
        .any(|known| known.to_be_bytes().starts_with(magic))
}

impl Reply {
    /// The longest header.
    pub const MAX_HEADER_LEN: usize = 32;

    /// Bytes of the header that begins with these [`SIMPLE_REPLY_LEN`] bytes.
    ///
    /// # Errors
    /// When none does.
    ///
    /// # Panics
    /// When there are fewer bytes.
    #[inline]
    pub fn header_len(beginning: &[u8]) -> Result<usize, Malformed> {
        match u32_at(beginning, 0) {
            SIMPLE_MAGIC => Ok(SIMPLE_REPLY_LEN),
            CHUNK_MAGIC => {
                let flags = u16_at(beginning, 4);
                if flags & !DONE != 0 {
                    return Err(Malformed::ChunkFlags(flags));
                }
                match u16_at(beginning, 6) {
                    NONE => Ok(CHUNK_LEN),
                    OFFSET_DATA => Ok(CHUNK_LEN + 8),
                    OFFSET_HOLE => Ok(CHUNK_LEN + 12),
                    kind if kind & ERROR != 0 => Ok(CHUNK_LEN + ERROR_LEN as usize),
                    kind => Err(Malformed::ChunkType(kind)),
                }
            }
            other => Err(Malformed::Magic(other)),
        }
    }

    /// Reads a whole header, of [`header_len`](Self::header_len) bytes.
    ///
    /// # Errors
    /// When the bytes are not a header, or contradict themselves.
    ///
    /// # Panics
    /// When there are fewer bytes.
    #[inline]
    pub fn parse(header: &[u8]) -> Result<Reply, Malformed> {
        let header_len = Reply::header_len(header)?;
        let cookie = u64::from_be_bytes(array_at(header, 8));
        if header_len == SIMPLE_REPLY_LEN {
            return Ok(Reply::Simple {
                error: u32_at(header, 4),
                cookie,
            });
        }
        let (kind, len) = (u16_at(header, 6), u32_at(header, 16));
        let refused = Err(Malformed::ChunkLength { kind, len });
        let content = match kind {
            NONE if len == 0 => ChunkType::None,
            OFFSET_DATA if len > 8 => ChunkType::Data {
                offset: u64::from_be_bytes(array_at(header, 20)),
                len: len - 8,
            },
            OFFSET_HOLE if len == 12 => ChunkType::Hole {
                offset: u64::from_be_bytes(array_at(header, 20)),
                len: u32_at(header, 28),
            },
            kind if kind & ERROR != 0 && len >= ERROR_LEN => {
                let (message_len, behind) = (u16_at(header, 24), len - ERROR_LEN);
                if u32::from(message_len) > behind {
                    return refused;
                }
                ChunkType::Error {
                    error: u32_at(header, 20),
                    message_len,
                    len: behind,
                }
            }
            _ => return refused,
        };
        Ok(Reply::Chunk(Chunk {
            done: u16_at(header, 4) & DONE != 0,
            cookie,
            content,
        }))
    }

    /// Its header.
    #[must_use]
    pub fn head(&self) -> ReplyHead {
        let mut head = ReplyHead {
            bytes: [0; Reply::MAX_HEADER_LEN],
            len: 0,
        };
        match *self {
            Reply::Simple { error, cookie } => {
                head.put(&SIMPLE_MAGIC.to_be_bytes());
                head.put(&error.to_be_bytes());
                head.put(&cookie.to_be_bytes());
            }
            Reply::Chunk(chunk) => {
                let (kind, len) = match chunk.content {
                    ChunkType::None => (NONE, 0),
                    ChunkType::Data { len, .. } => (OFFSET_DATA, 8 + len),
                    ChunkType::Hole { .. } => (OFFSET_HOLE, 12),
                    ChunkType::Error { len, .. } => (ERROR_GENERAL, ERROR_LEN + len),
                };
                head.put(&CHUNK_MAGIC.to_be_bytes());
                head.put(&(if chunk.done { DONE } else { 0 }).to_be_bytes());
                head.put(&kind.to_be_bytes());
                head.put(&chunk.cookie.to_be_bytes());
                head.put(&len.to_be_bytes());
                match chunk.content {
                    ChunkType::None => {}
                    ChunkType::Data { offset, .. } => head.put(&offset.to_be_bytes()),
                    ChunkType::Hole { offset, len } => {
                        head.put(&offset.to_be_bytes());
                        head.put(&len.to_be_bytes());
                    }
                    ChunkType::Error {
                        error, message_len, ..
                    } => {
                        head.put(&error.to_be_bytes());
                        head.put(&message_len.to_be_bytes());
                    }
                }
            }
        }
        head
    }

    /// A simple reply without data, or before them.
    #[must_use]
    pub fn simple(cookie: u64, result: Result<(), Errno>) -> Reply {
        Reply::Simple {
            error: result.err().map_or(0, |error| error as u32),
            cookie,
        }
    }

    /// A structured reply to a read, in one chunk; the data follows if it went well.
    #[must_use]
    pub fn structured(request: &Request, result: Result<(), Errno>) -> Reply {
        Reply::Chunk(Chunk {
            done: true,
            cookie: request.cookie,
            content: match result {
                Ok(()) => ChunkType::Data {
                    offset: request.offset,
                    len: request.len,
                },
                Err(error) => ChunkType::Error {
                    error: error as u32,
                    message_len: 0,
                    len: 0,
                },
            },
        })
    }
}

/// The bytes of a reply's header.
#[derive(Clone, Copy, Debug)]
pub struct ReplyHead {
    bytes: [u8; Reply::MAX_HEADER_LEN],
    len: usize,
}

impl ReplyHead {
    /// Them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}
