//! TLS 1.2 and 1.3 records over a NIC that may do their cryptography.
//!
//! - [`Handshake`] runs rustls, or OpenSSL's library where there is a pre-shared key, until both sides
//!   have their traffic keys and hands those over as [`CryptoInfo`]s, with what later key updates and
//!   session tickets need.
//! - [`Engine`] is the NIC's part: it encrypts or decrypts a stream of records in pieces of any
//!   size.
//! - [`Writer`] frames records with a dummy integrity check value and remembers them until TCP has
//!   acknowledged all of each (Autonomous NIC offloads §4.2), or encrypts them in software.
//! - [`Reader`] opens records of which the NIC has decrypted all, none or some.
//! - [`PostHandshake`] acts on the handshake messages and alerts that arrive as records afterwards.

mod alert;
mod aside;
mod certificate;
mod config;
mod engine;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod framing;
mod handshake;
mod key_log;
mod openssl;
mod parameters;
mod post_handshake;
mod protocol;
mod psk;
mod reader;
mod resync;
mod traffic_secret;
mod trust_exactly;
mod writer;

pub use crate::Direction;
pub use crate::crypto::Algorithm;
pub use alert::{Alert, AlertLevel};
pub use certificate::{Certificate, CertificateError, chain_from_pem};
pub use config::{Options, Trust, client_config, server_config};
pub use engine::Engine;
pub use error::{TlsError, Violation};
pub use framing::judge;
pub use handshake::{Established, Handshake, HandshakeError};
pub use key_log::KeyLogSink;
pub use openssl::OpenSslError;
pub use parameters::{CryptoInfo, InvalidCryptoInfo, Version};
pub use post_handshake::{Event, KeyUpdate, PostHandshake};
pub use psk::{Psk, PskClientConfig, PskLookup, PskServerConfig, UnknownPsk};
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
