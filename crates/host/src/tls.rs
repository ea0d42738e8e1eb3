//! What the application chooses of TLS.

use std::sync::Arc;

use rustls::pki_types::ServerName;

/// Which directions of a TLS session the NIC transforms. What it does not, the host does in software.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Offload {
    /// All in software.
    #[default]
    None,
    /// The NIC encrypts.
    Tx,
    /// The NIC decrypts.
    Rx,
    /// The NIC does both.
    Both,
}

impl Offload {
    /// Whether the NIC encrypts.
    pub fn transmit(self) -> bool {
        matches!(self, Self::Tx | Self::Both)
    }

    /// Whether the NIC decrypts.
    pub fn receive(self) -> bool {
        matches!(self, Self::Rx | Self::Both)
    }
}

/// Side of the TLS handshake, with what rustls needs for it.
#[derive(Clone, Debug)]
pub enum TlsRole {
    /// Opens the handshake.
    Client {
        /// Must have `enable_secret_extraction` set, or the handshake fails with an error that says so.
        config: Arc<rustls::ClientConfig>,
        /// Name that the server's certificate must have.
        name: ServerName<'static>,
    },
    /// Answers the handshake.
    Server {
        /// Must have `enable_secret_extraction` set, or the handshake fails with an error that says so.
        config: Arc<rustls::ServerConfig>,
    },
}
