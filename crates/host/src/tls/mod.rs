//! TLS on sockets: what the application chooses, the handshake, and the session that glues records to TCP and to the
//! NIC's contexts.

mod content;
mod contexts;
mod fallback;
mod handshake;
mod info;
mod open;
mod opened;
mod receive;
mod rekey;
mod run;
mod session;
mod transmit;

use std::sync::Arc;

use ::handshake::{PskClientConfig, PskServerConfig};
use rustls::pki_types::ServerName;

pub(crate) use content::Content;
pub(crate) use handshake::{Handshaking, Progress};
pub use info::{OffloadState, TlsInfo};
pub(crate) use receive::{Front, Taken};
pub(crate) use session::{Keys, Session};

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

/// Side of the TLS handshake, with what it needs: certificates, or pre-shared keys that both ends were given before (TLS
/// 1.3 only, by OpenSSL's library).
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
    /// Opens the handshake with a pre-shared key.
    PskClient {
        /// The key.
        config: Arc<PskClientConfig>,
    },
    /// Answers the handshake of clients with a pre-shared key, which it looks up by the identity that they offer.
    PskServer {
        /// Where it looks.
        config: Arc<PskServerConfig>,
    },
}

/// TLS on a socket.
#[derive(Debug)]
pub(crate) enum Tls {
    /// The socket is without TLS.
    None,
    /// The handshake is under way.
    Handshake(Box<Handshaking>),
    /// Records go both ways.
    Open(Box<Session>),
}

impl Tls {
    pub fn session(&self) -> Option<&Session> {
        match self {
            Self::Open(session) => Some(session),
            _ => None,
        }
    }

    pub fn session_mut(&mut self) -> Option<&mut Session> {
        match self {
            Self::Open(session) => Some(session),
            _ => None,
        }
    }
}
