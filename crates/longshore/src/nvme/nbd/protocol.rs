//! Numbers and headers. All integers are big-endian.

/// What begins a connection.
pub(super) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// What follows it in the newstyle handshake, and begins each option.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Handshake flags, of server and client alike.
pub(super) mod handshake {
    pub(in super::super) const FIXED_NEWSTYLE: u16 = 1;
    pub(in super::super) const NO_ZEROES: u16 = 1 << 1;
}

/// Options.
pub(super) mod option {
    pub(in super::super) const EXPORT_NAME: u32 = 1;
    pub(in super::super) const ABORT: u32 = 2;
    pub(in super::super) const LIST: u32 = 3;
    pub(in super::super) const INFO: u32 = 6;
    pub(in super::super) const GO: u32 = 7;
    pub(in super::super) const STRUCTURED_REPLY: u32 = 8;
}

/// Replies to options.
pub(super) mod reply {
    pub(in super::super) const ACK: u32 = 1;
    pub(in super::super) const SERVER: u32 = 2;
    pub(in super::super) const INFO: u32 = 3;
    pub(in super::super) const ERROR_UNSUPPORTED: u32 = 0x8000_0001;
    pub(in super::super) const ERROR_INVALID: u32 = 0x8000_0003;
    pub(in super::super) const ERROR_UNKNOWN: u32 = 0x8000_0006;
    pub(in super::super) const ERROR_TOO_BIG: u32 = 0x8000_0009;
}

/// What INFO and GO tell.
pub(super) mod info {
    pub(in super::super) const EXPORT: u16 = 0;
    pub(in super::super) const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub(super) mod flag {
    pub(in super::super) const HAS_FLAGS: u16 = 1;
    pub(in super::super) const READ_ONLY: u16 = 1 << 1;
    pub(in super::super) const SEND_FLUSH: u16 = 1 << 2;
    pub(in super::super) const SEND_FUA: u16 = 1 << 3;
    pub(in super::super) const SEND_TRIM: u16 = 1 << 5;
    pub(in super::super) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(in super::super) const SEND_DF: u16 = 1 << 7;
    pub(in super::super) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(in super::super) const SEND_FAST_ZERO: u16 = 1 << 11;
}

const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Bytes of a request's header.
pub(super) const REQUEST_LEN: usize = 28;
/// The most bytes of one request.
pub(super) const MAX_REQUEST: u32 = 32 << 20;
/// The longest header of a reply.
pub(super) const MAX_REPLY_HEAD: usize = 28;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    Unknown,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) kind: Kind,
    /// Done when it is on the medium.
    pub(super) fua: bool,
    /// Zeroes must take room.
    pub(super) no_hole: bool,
    /// Zeroes are to be quick, or refused.
    pub(super) fast_zero: bool,
    /// The client's name for it.
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// How a request failed: error numbers of the protocol, which are Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Errno {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
    ShuttingDown = 108,
}

impl Request {
    /// Reads a header. `None`: it is none, and the connection is beyond repair.
    pub(super) fn parse(bytes: &[u8; REQUEST_LEN]) -> Option<Request> {
        if u32_at(bytes, 0) != REQUEST_MAGIC {
            return None;
        }
        let flags = u16_at(bytes, 4);
        Some(Request {
            kind: match u16_at(bytes, 6) {
                0 => Kind::Read,
                1 => Kind::Write,
                2 => Kind::Disconnect,
                3 => Kind::Flush,
                4 => Kind::Trim,
                6 => Kind::WriteZeroes,
                _ => Kind::Unknown,
            },
            fua: flags & 1 != 0,
            no_hole: flags & 1 << 1 != 0,
            fast_zero: flags & 1 << 4 != 0,
            cookie: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            len: u32_at(bytes, 24),
        })
    }

    /// Bytes of data that follow the header.
    pub(super) fn payload_len(&self) -> u32 {
        match self.kind {
            Kind::Write => self.len,
            _ => 0,
        }
    }
}

/// The header of a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyHead {
    bytes: [u8; MAX_REPLY_HEAD],
    len: usize,
}

impl ReplyHead {
    /// A simple reply; the data of a read that went well follows.
    pub(super) fn simple(cookie: u64, result: Result<(), Errno>) -> ReplyHead {
        let mut head = ReplyHead::empty();
        head.put(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        head.put(&result.err().map_or(0, |error| error as u32).to_be_bytes());
        head.put(&cookie.to_be_bytes());
        head
    }

    /// A structured reply to a read, in one chunk; the data follows if it went well.
    pub(super) fn structured(request: &Request, result: Result<(), Errno>) -> ReplyHead {
        const DONE: u16 = 1;
        const OFFSET_DATA: u16 = 1;
        const ERROR: u16 = 1 << 15 | 1;
        let mut head = ReplyHead::empty();
        head.put(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
        head.put(&DONE.to_be_bytes());
        match result {
            Ok(()) => {
                head.put(&OFFSET_DATA.to_be_bytes());
                head.put(&request.cookie.to_be_bytes());
                head.put(&(8 + request.len).to_be_bytes());
                head.put(&request.offset.to_be_bytes());
            }
            Err(error) => {
                head.put(&ERROR.to_be_bytes());
                head.put(&request.cookie.to_be_bytes());
                head.put(&6u32.to_be_bytes());
                head.put(&(error as u32).to_be_bytes());
                // No message.
                head.put(&0u16.to_be_bytes());
            }
        }
        head
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn empty() -> ReplyHead {
        ReplyHead {
            bytes: [0; MAX_REPLY_HEAD],
            len: 0,
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
