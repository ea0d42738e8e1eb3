//! The handshake, up to the point where records are ours: by rustls with certificates, by OpenSSL's library with a
//! pre-shared key, behind one interface.

use std::sync::Arc;

use l5p::tls::{Alert, CryptoInfo, HEADER_LEN, PostHandshake};
use rustls::{ClientConfig, ServerConfig, Side};
use rustls_pki_types::ServerName;
use thiserror::Error;

use crate::{PskClientConfig, PskServerConfig, UnknownPsk};

mod by_certificate;
mod by_psk;

use by_certificate::ByCertificate;
use by_psk::ByPsk;

/// Longest record that may come in a handshake (RFC 5246 §6.2.3).
const MAX_RECORD: usize = HEADER_LEN + wire::tls::MAX_CIPHERTEXT_TLS12;

/// Why there is no secured connection.
#[derive(Clone, Debug, Error)]
pub enum HandshakeError {
    /// rustls refused what the peer sent, or the peer refused us.
    #[error("the TLS handshake failed: {0}")]
    Failed(#[from] rustls::Error),
    /// The peer closed the connection.
    #[error("the peer closed the connection before the TLS handshake was complete")]
    Closed,
    /// The peer closed the connection after we had offered a pre-shared key; some do so instead of sending an alert.
    #[error(
        "the peer closed the connection before the TLS handshake was complete; perhaps it does not know PSK identity `{0}`"
    )]
    ClosedOnPsk(String),
    /// The bytes are no TLS.
    #[error("the peer does not speak TLS here: a record of {0} bytes was announced")]
    NotTls(usize),
    /// The bytes are no TLS: they begin no record.
    #[error("the peer does not speak TLS here")]
    NotARecord,
    /// [`Handshake::into_established`] came too early.
    #[error("the TLS handshake is not complete; feed it until `is_done`")]
    NotComplete,
    /// A client offered no pre-shared key that is known here.
    #[error("{0}")]
    UnknownPsk(UnknownPsk),
    /// A client offered a pre-shared key by a known identity, and has another key.
    #[error("the peer has another key than the one here for PSK identity `{0}`")]
    WrongPsk(String),
    /// The server did not take our pre-shared key.
    #[error("{}", refusal(.identity, *.alert))]
    PskRefused {
        /// The identity that was offered.
        identity: String,
        /// What the server said.
        alert: Alert,
    },
    /// OpenSSL's library refused what the peer sent, or the peer refused us.
    #[error("the TLS handshake with a pre-shared key failed: {0}")]
    OpenSsl(String),
    /// Something was negotiated that has no engine.
    #[error("{0} was negotiated, which records cannot be processed under here")]
    Unsupported(String),
}

/// A handshake in progress, from either side.
///
/// Give it what comes from the peer by [`feed`](Self::feed), send what
/// [`poll_output`](Self::poll_output) gives, also after an error, where that is the alert; once
/// [`is_done`](Self::is_done), take the keys by [`into_established`](Self::into_established).
pub struct Handshake(By);

enum By {
    Certificate(Box<ByCertificate>),
    Psk(Box<ByPsk>),
}

/// A secured connection, whose records are ours to process.
pub struct Established {
    /// Keys for what we send, and the number of the next record.
    pub transmit: CryptoInfo,
    /// Keys for what we receive, and the number of the next record.
    pub receive: CryptoInfo,
    /// The application protocol agreed on.
    pub alpn: Option<Vec<u8>>,
    /// Name of the cipher suite, as the RFCs write it.
    pub suite: String,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Bytes from the peer that come after the handshake: records for the reader, the last perhaps
    /// incomplete.
    pub leftover: Vec<u8>,
    /// Bytes for the peer that [`Handshake::poll_output`] has not given yet.
    pub output: Vec<u8>,
    /// Acts on later handshake messages and alerts.
    pub post_handshake: PostHandshake,
    /// The identity of the pre-shared key that both sides have proved to know; `None` in a handshake with certificates.
    pub psk_identity: Option<Vec<u8>>,
}

impl Handshake {
    /// The client's side with a server called `name`. It has output at once.
    ///
    /// # Errors
    /// When the configuration cannot work, for instance for want of a cipher suite.
    pub fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Handshake, HandshakeError> {
        let handshake = ByCertificate::client(config, name)?;
        Ok(Handshake(By::Certificate(Box::new(handshake))))
    }

    /// The server's side.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub fn server(config: Arc<ServerConfig>) -> Result<Handshake, HandshakeError> {
        let handshake = ByCertificate::server(config)?;
        Ok(Handshake(By::Certificate(Box::new(handshake))))
    }

    /// The client's side with a pre-shared key (TLS 1.3, psk_dhe_ke). It has output at once.
    ///
    /// # Errors
    /// When OpenSSL has no memory or does not know the key's cipher suite.
    pub fn psk_client(config: &PskClientConfig) -> Result<Handshake, HandshakeError> {
        Ok(Handshake(By::Psk(Box::new(ByPsk::client(config)?))))
    }

    /// The server's side with pre-shared keys.
    ///
    /// # Errors
    /// When OpenSSL has no memory.
    pub fn psk_server(config: &PskServerConfig) -> Result<Handshake, HandshakeError> {
        Ok(Handshake(By::Psk(Box::new(ByPsk::server(config)?))))
    }

    /// Takes the next bytes from the peer, in pieces of any size.
    ///
    /// # Errors
    /// When the handshake failed. The alert for the peer is among the output then, but for a peer that has sent no record yet: it may not speak TLS.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        match &mut self.0 {
            By::Certificate(handshake) => handshake.feed(bytes),
            By::Psk(handshake) => handshake.feed(bytes),
        }
    }

    /// Bytes for the peer, `None` when there are none.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        match &mut self.0 {
            By::Certificate(handshake) => handshake.poll_output(),
            By::Psk(handshake) => handshake.poll_output(),
        }
    }

    /// What it means that the peer has closed the connection by now.
    pub fn closed_by_peer(&self) -> HandshakeError {
        match &self.0 {
            By::Certificate(_) => HandshakeError::Closed,
            By::Psk(handshake) => handshake.closed_by_peer(),
        }
    }

    /// Whether both sides have finished.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            By::Certificate(handshake) => handshake.is_done(),
            By::Psk(handshake) => handshake.is_done(),
        }
    }

    /// Takes the keys, and what came after the handshake.
    ///
    /// # Errors
    /// When the handshake is not complete, or rustls does not give its secrets because the
    /// configuration lacks `enable_secret_extraction`.
    pub fn into_established(self) -> Result<Established, HandshakeError> {
        match self.0 {
            By::Certificate(handshake) => handshake.into_established(),
            By::Psk(handshake) => handshake.into_established(),
        }
    }

    /// Which side we are.
    pub fn side(&self) -> Side {
        match &self.0 {
            By::Certificate(handshake) => handshake.side(),
            By::Psk(handshake) => handshake.side(),
        }
    }
}

/// Whether these can be the first bytes of a record: its type and the first half of its version say so, as far as they are there
/// (RFC 8446 §5.1). A client that speaks HTTP in clear would else be waited for: what it sends looks like a long record.
#[must_use]
pub fn begins_record(bytes: &[u8]) -> bool {
    const TYPES: std::ops::RangeInclusive<u8> = 20..=23;
    const MAJOR: u8 = 3;
    bytes.first().is_none_or(|kind| TYPES.contains(kind))
        && bytes.get(1).is_none_or(|major| *major == MAJOR)
}

/// Length of the record that `bytes` begin with, `None` while some of it is missing.
fn first_record(bytes: &[u8]) -> Result<Option<usize>, HandshakeError> {
    if !begins_record(bytes) {
        return Err(HandshakeError::NotARecord);
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk() else {
        return Ok(None);
    };
    let len = HEADER_LEN + usize::from(u16::from_be_bytes([high, low]));
    if len > MAX_RECORD {
        return Err(HandshakeError::NotTls(len));
    }
    Ok((bytes.len() >= len).then_some(len))
}

/// What a server's alert says of the key that it was offered.
fn refusal(identity: &str, alert: Alert) -> String {
    match alert {
        // RFC 8446 §6.2, which lets a server say the second for the first too.
        Alert::UnknownPskIdentity => format!("the server does not know PSK identity `{identity}`"),
        Alert::DecryptError | Alert::IllegalParameter => {
            format!("the server has another key for PSK identity `{identity}` ({alert})")
        }
        _ => format!("the server refused PSK identity `{identity}` with {alert}"),
    }
}
