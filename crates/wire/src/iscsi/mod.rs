//! iSCSI (RFC 7143): its PDUs, and the text that some of them carry.
//!
//! A PDU on the wire is its basic header segment (BHS), additional header segments (AHS), the header's digest where the two sides
//! agreed on one, the data, padding up to a multiple of four bytes, and the data's digest, which covers the padding too:
//!
//! ```text
//! | BHS, 48 bytes | AHS | header digest | data | padding | data digest |
//! ```
//!
//! [`Framing`] holds what one direction of a connection agreed on, and checks headers against it. [`Pdu`] is a header that was checked, owned
//! and `Copy`. Reserved fields are written as zeros and not looked at (RFC 7143 §11).

mod command;
mod control;
mod data;
mod error;
mod framing;
mod login;
mod lun;
mod opcode;
mod pdu;
mod text;

#[cfg(test)]
mod tests;

pub use command::{
    Residual, ScsiCommand, ScsiResponse, TaskManagementRequest, TaskManagementResponse,
};
pub use control::{
    AsyncMessage, LogoutRequest, LogoutResponse, NopIn, NopOut, Reject, RejectReason, TextRequest,
    TextResponse,
};
pub use data::{DataIn, DataOut, ReadyToTransfer};
pub use error::ProtocolError;
pub use framing::{Framing, Lengths, Phase, Role};
pub use login::{LoginRequest, LoginResponse, LoginStatus, Stage};
pub use lun::Lun;
pub use opcode::Opcode;
pub use pdu::{Pdu, RequestNumbers, ResponseNumbers};
pub use text::{Pair, pairs};

/// Bytes of the basic header segment.
pub const BHS_LEN: usize = 48;

/// Bytes of additional header segments that are accepted at most: an extended CDB of some 200 bytes.
pub const MAX_AHS_LEN: usize = 200;

/// Bytes of a header digest, and of a data digest.
pub const DIGEST_LEN: u32 = 4;

/// The task tag that names no task (RFC 7143 §11.2.1.8).
pub const NO_TAG: u32 = u32::MAX;

/// MaxRecvDataSegmentLength of a side that has not declared another one, and of all during login (RFC 7143 §13.12).
pub const DEFAULT_MAX_DATA: u32 = 8192;

/// The most bytes of data that a header can tell of, and the largest MaxRecvDataSegmentLength.
pub const MOST_DATA: u32 = (1 << 24) - 1;
