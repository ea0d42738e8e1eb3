//! ICMP for IPv4 and for IPv6, neighbour and multicast listener discovery, and the packets that ICMP errors quote.

pub mod mld;
pub mod ndp;
pub mod quoted;
pub mod v4;
pub mod v6;

pub use quoted::Quoted;

/// Bytes of the header that all messages have: type, code, checksum, and four bytes that depend on the type.
pub const HEADER_LEN: usize = 8;
