//! TLS 1.2 and 1.3 records over a NIC that may do their cryptography.
//!
//! - [`CryptoInfo`] is what a handshake agreed on for one direction. The crate `longshore-handshake` runs handshakes.
//! - [`Engine`] is the NIC's part: it encrypts or decrypts a stream of records in pieces of any
//!   size.
//! - [`Writer`] frames records with a dummy integrity check value and remembers them until TCP has
//!   acknowledged all of each (Autonomous NIC offloads §4.2), or encrypts them in software.
//! - [`Reader`] opens records of which the NIC has decrypted all, nothing or a part.
//! - [`PostHandshake`] acts on the handshake messages and alerts that arrive as records afterwards. A [`KeySchedule`]
//!   gives it the keys after a key update.

mod alert;
mod aside;
mod engine;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod framing;
mod key_schedule;
mod parameters;
mod post_handshake;
mod protocol;
mod reader;
mod resync;
mod writer;

pub use crate::Direction;
pub use crate::crypto::Algorithm;
pub use alert::{Alert, AlertLevel};
pub use engine::Engine;
pub use error::{TlsError, Violation};
pub use framing::judge;
pub use key_schedule::{KeySchedule, KeyScheduleError, TrafficSecrets};
pub use parameters::{CryptoInfo, InvalidCryptoInfo, Version};
pub use post_handshake::{Event, KeyUpdate, PostHandshake};
pub use reader::{ContextTag, Location, Offloaded, Opened, Output, Piece, PieceData, Reader};
pub use resync::ResyncAnswer;
pub use wire::tls::ContentType;
pub use writer::{Layout, MAX_HEADER, MAX_PADDING_BLOCK, MAX_TRAILER, Writer};

/// Length of a record header in bytes (RFC 8446 §5.1).
pub const HEADER_LEN: usize = wire::tls::HEADER_LEN;

/// Length of the integrity check value at a record's end, for all of the algorithms.
pub const ICV_LEN: usize = crate::crypto::TAG_LEN;

/// Most content bytes in one record (RFC 8446 §5.1).
pub const MAX_PLAINTEXT: usize = wire::tls::MAX_PLAINTEXT;
