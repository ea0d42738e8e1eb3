//! Handshakes of TLS 1.2 and 1.3, as state machines that are given bytes and give bytes.
//!
//! - [`Handshake`] runs rustls with certificates, or OpenSSL's library with a pre-shared key, until both sides have their
//!   traffic keys. [`Established`] has those as [`CryptoInfo`]s, with what later key updates and session tickets need.
//! - [`Certificate`], [`Certificates`], [`client_config`] and [`server_config`] set rustls up.
//! - [`Psk`], [`PskClientConfig`] and [`PskServerConfig`] set OpenSSL's library up.
//! - [`nvme_psk`] derives pre-shared keys for NVMe/TCP.
//!
//! The records that follow are the matter of the crate `longshore-l5p`.
#![deny(unsafe_code)]

mod certificate;
mod certificates;
mod config;
mod handshake;
mod key_log;
pub mod nvme_psk;
mod openssl;
mod psk;
mod tickets;
mod trust_exactly;

pub use certificate::{Certificate, CertificateError, chain_from_pem};
pub use certificates::{Certificates, Misfit};
pub use config::{Options, Trust, client_config, server_config, server_config_by_name};
pub use handshake::{Established, Handshake, HandshakeError, begins_record};
pub use key_log::KeyLogSink;
pub use l5p::tls::{Algorithm, CryptoInfo, Version};
pub use openssl::OpenSslError;
pub use psk::{Psk, PskClientConfig, PskLookup, PskServerConfig, UnknownPsk};
pub use tickets::{TicketKey, TicketKeys};
