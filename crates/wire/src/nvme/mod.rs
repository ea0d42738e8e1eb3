//! NVMe/TCP: its PDUs (NVM Express TCP Transport Specification 1.0), and what some of them carry.
//!
//! A PDU on the wire is its header, the header's digest where the two sides agreed on one, padding up to where the
//! data must be aligned, the data, and the data's digest:
//!
//! ```text
//! | common header, 8 bytes | rest of the header | HDGST | PAD | data        | DDGST |
//! 0                        8                 HLEN    pad   PDO                    PLEN
//! ```
//!
//! [`Framing`] holds what one direction of a connection agreed on, and checks headers against it: types, flags, lengths,
//! alignment, reserved fields. What it refuses comes as a [`FatalError`], from which a [`TermReq`] is made. [`Layout`] tells
//! where the parts of one PDU are. [`Pdu`] is a header that was checked, owned and `Copy`; submission and completion
//! queue entries are bytes in it.

mod capsule;
pub mod command;
mod connection;
mod data;
mod framing;
mod header;
pub mod identify;
pub mod log;
mod nqn;
mod pdu;
mod termination;

#[cfg(test)]
mod tests;

pub use capsule::{CQE_LEN, CapsuleCmd, CapsuleResp, SQE_LEN};
pub use connection::{Digests, ICReq, ICResp, MIN_MAXH2CDATA};
pub use data::{C2HData, H2CData, R2T};
pub use framing::{Framing, Phase, Role};
pub use header::{CommonHeader, Flags, Layout, PduType};
pub use nqn::Nqn;
pub use pdu::Pdu;
pub use termination::{FatalError, FatalErrorStatus, MAX_TERM_REQ_DATA, TermReq};

/// Bytes of the common header.
pub const COMMON_HEADER_LEN: usize = 8;

/// Bytes of the longest header, that of ICReq and ICResp.
pub const MAX_HEADER_LEN: usize = 128;

/// Bytes of a header digest, and of a data digest.
pub const DIGEST_LEN: u32 = 4;

/// The largest value of HPDA and CPDA.
pub const MAX_ALIGNMENT: u8 = 31;
