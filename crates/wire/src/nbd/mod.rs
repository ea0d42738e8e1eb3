//! NBD, the Network Block Device protocol (NetworkBlockDevice/nbd, `doc/proto.md`): numbers of the handshake, requests and replies.
//! All integers are big-endian.

mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use reply::{
    Chunk, ChunkType, Errno, Malformed, Reply, ReplyHead, SIMPLE_REPLY_LEN, beginning_matches,
};
pub use request::{Kind, REQUEST_LEN, Request};

/// The TCP port by IANA.
pub const PORT: u16 = 10_809;

/// What begins a connection.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// What follows it in the newstyle handshake, and begins each option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// What begins each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// The most bytes of an export's name.
pub const MAX_NAME: usize = 4096;
/// The most bytes of one request that a server takes if it doesn't say otherwise.
pub const MAX_REQUEST: u32 = 32 << 20;

/// Handshake flags, of server and client alike.
#[allow(missing_docs)]
pub mod handshake {
    pub const FIXED_NEWSTYLE: u16 = 1;
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Options.
#[allow(missing_docs)]
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
}

/// Replies to options. Those from [`ERROR`](reply_type::ERROR) on say why an option is refused.
#[allow(missing_docs)]
pub mod reply_type {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const ERROR: u32 = 1 << 31;
    pub const ERROR_UNSUPPORTED: u32 = ERROR | 1;
    pub const ERROR_POLICY: u32 = ERROR | 2;
    pub const ERROR_INVALID: u32 = ERROR | 3;
    pub const ERROR_PLATFORM: u32 = ERROR | 4;
    pub const ERROR_TLS_REQUIRED: u32 = ERROR | 5;
    pub const ERROR_UNKNOWN: u32 = ERROR | 6;
    pub const ERROR_SHUTDOWN: u32 = ERROR | 7;
    pub const ERROR_BLOCK_SIZE_REQUIRED: u32 = ERROR | 8;
    pub const ERROR_TOO_BIG: u32 = ERROR | 9;
}

/// What the options INFO and GO tell.
#[allow(missing_docs)]
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
#[allow(missing_docs)]
pub mod flag {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}
