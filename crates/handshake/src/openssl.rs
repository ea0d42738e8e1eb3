//! Handshakes of TLS 1.3 with an external pre-shared key, by OpenSSL's library over memory BIOs.
//!
//! rustls has no external PSK. The library is loaded when the first handshake needs it, so that nothing else here depends
//! on it. It sees the handshake only: its key log gives the traffic secrets, and records are ours from there on.
//!
//! - `library` loads it and names the functions that are used, with their C types.
//! - `context` is an `SSL_CTX`: TLS 1.3 only, no tickets, no certificates.
//! - `connection` is an `SSL`: bytes of the peer in, bytes for the peer out.
//! - `callbacks` is what the library calls: for the key, and with the secrets.
//!
//! These modules are the only ones of the crate with `unsafe` code.
#![allow(unsafe_code)]

mod callbacks;
mod connection;
mod context;
mod library;

pub use library::OpenSslError;

pub(super) use connection::{Connection, Failure};
pub(super) use context::Context;
