//! What a client asks for.

use crate::bytes::{put_u16, put_u32, u16_at, u32_at};
use crate::fields::{Be, Bits, Field, fields};

const MAGIC: u32 = 0x2560_9513;

/// Bytes of a request's header.
pub const REQUEST_LEN: usize = 28;

// Flags, in the second byte of two.
const FUA: u8 = 1;
const NO_HOLE: u8 = 1 << 1;
const DO_NOT_FRAGMENT: u8 = 1 << 2;
const FAST_ZERO: u8 = 1 << 4;

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

impl Field<Be> for Kind {
    fn get(bytes: &[u8], at: usize) -> Kind {
        match u16_at(bytes, at) {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::Disconnect,
            3 => Kind::Flush,
            4 => Kind::Trim,
            6 => Kind::WriteZeroes,
            code => Kind::Unknown(code),
        }
    }

    fn put(&self, bytes: &mut [u8], at: usize) {
        let code = match *self {
            Kind::Read => 0,
            Kind::Write => 1,
            Kind::Disconnect => 2,
            Kind::Flush => 3,
            Kind::Trim => 4,
            Kind::WriteZeroes => 6,
            Kind::Unknown(code) => code,
        };
        put_u16(bytes, at, code);
    }
}

fields! {
    Be:
    /// A request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Request {
        /// What it is about.
        kind: Kind = 6,
        /// It is done when it is on the medium.
        fua: bool = Bits(5, FUA),
        /// Zeroes must take room.
        no_hole: bool = Bits(5, NO_HOLE),
        /// The data of a read must come in one chunk.
        do_not_fragment: bool = Bits(5, DO_NOT_FRAGMENT),
        /// Zeroes are to be quick, or refused.
        fast_zero: bool = Bits(5, FAST_ZERO),
        /// The client's name for it.
        cookie: u64 = 8,
        /// The first byte of the export that it is about.
        offset: u64 = 16,
        /// Bytes.
        len: u32 = 24,
    }
}

impl Request {
    /// Reads a header. `None` for other bytes: the connection is beyond repair then.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_LEN]) -> Option<Request> {
        if u32_at(bytes, 0) != MAGIC {
            return None;
        }
        Some(Request::read(bytes))
    }

    /// Its header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        put_u32(&mut bytes, 0, MAGIC);
        self.write(&mut bytes);
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
