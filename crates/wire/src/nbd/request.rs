//! What a client asks for.

use crate::bytes::{array_at, u16_at, u32_at};

const MAGIC: u32 = 0x2560_9513;

/// Bytes of a request's header.
pub const REQUEST_LEN: usize = 28;

const FUA: u16 = 1;
const NO_HOLE: u16 = 1 << 1;
const DO_NOT_FRAGMENT: u16 = 1 << 2;
const FAST_ZERO: u16 = 1 << 4;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes of the export are sent.
    Read,
    /// The bytes that follow the header are stored.
    Write,
    /// The connection ends; there is no reply.
    Disconnect,
    /// What was written is brought to the medium.
    Flush,
    /// A range is not needed any more.
    Trim,
    /// A range becomes zeroes.
    WriteZeroes,
    /// Another number.
    Unknown(u16),
}

impl Kind {
    fn from_code(code: u16) -> Kind {
        match code {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Disconnect,
            3 => Kind::Flush,
            4 => Kind::Trim,
            6 => Kind::WriteZeroes,
            code => Kind::Unknown(code),
        }
    }

    fn code(self) -> u16 {
        match self {
            Kind::Read => 0,
            Kind::Write => 1,
            Kind::Disconnect => 2,
            Kind::Flush => 3,
            Kind::Trim => 4,
            Kind::WriteZeroes => 6,
            Kind::Unknown(code) => code,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// What it is about.
    pub kind: Kind,
    /// It is done when it is on the medium.
    pub fua: bool,
    /// Zeroes must take room.
    pub no_hole: bool,
    /// The data of a read must come in one chunk.
    pub do_not_fragment: bool,
    /// Zeroes are to be quick, or refused.
    pub fast_zero: bool,
    /// The client's name for it.
    pub cookie: u64,
    /// The first byte of the export that it is about.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl Request {
    /// Reads a header. `None`: it is none, and the connection is beyond repair.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_LEN]) -> Option<Request> {
        if u32_at(bytes, 0) != MAGIC {
            return None;
        }
        let flags = u16_at(bytes, 4);
        Some(Request {
            kind: Kind::from_code(u16_at(bytes, 6)),
            fua: flags & FUA != 0,
            no_hole: flags & NO_HOLE != 0,
            do_not_fragment: flags & DO_NOT_FRAGMENT != 0,
            fast_zero: flags & FAST_ZERO != 0,
            cookie: u64::from_be_bytes(array_at(bytes, 8)),
            offset: u64::from_be_bytes(array_at(bytes, 16)),
            len: u32_at(bytes, 24),
        })
    }

    /// Its header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_LEN] {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        let flags = flag(self.fua, FUA)
            | flag(self.no_hole, NO_HOLE)
            | flag(self.do_not_fragment, DO_NOT_FRAGMENT)
            | flag(self.fast_zero, FAST_ZERO);
        let mut bytes = [0; REQUEST_LEN];
        bytes[..4].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.code().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Bytes of data that follow the header.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        match self.kind {
            Kind::Write => self.len,
            _ => 0,
        }
    }
}
