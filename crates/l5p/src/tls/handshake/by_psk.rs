//! The handshake with a pre-shared key, by OpenSSL's library.

use rustls::Side;

use super::{Established, HandshakeError, first_record};
use crate::tls::openssl::{Connection, Failure};
use crate::tls::post_handshake::TrafficKeys;
use crate::tls::traffic_secret::TrafficSecret;
use crate::tls::{Algorithm, PostHandshake, PskClientConfig, PskServerConfig, Version};

/// See [`Handshake`](super::Handshake).
pub struct ByPsk {
    connection: Connection,
    /// From the peer and not yet shown to OpenSSL, which sees one record at a time, so that none after the handshake
    /// reaches it.
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    done: bool,
    failed: Option<HandshakeError>,
}

impl ByPsk {
    pub fn client(config: &PskClientConfig) -> Result<Self, HandshakeError> {
        Self::begin(Connection::client(
            config.context.clone(),
            config.psk.clone(),
            config.key_log.clone(),
        ))
    }

    pub fn server(config: &PskServerConfig) -> Result<Self, HandshakeError> {
        Self::begin(Connection::server(
            config.context.clone(),
            config.lookup.clone(),
            config.key_log.clone(),
        ))
    }

    fn begin(connection: Result<Connection, Failure>) -> Result<Self, HandshakeError> {
        let mut handshake = Self {
            connection: connection?,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            done: false,
            failed: None,
        };
        handshake.advance(&[])?;
        Ok(handshake)
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.incoming.extend_from_slice(bytes);
        let run = self.run();
        self.failed = run.as_ref().err().cloned();
        run
    }

    fn run(&mut self) -> Result<(), HandshakeError> {
        while !self.done
            && let Some(len) = first_record(&self.incoming)?
        {
            let record: Vec<u8> = self.incoming.drain(..len).collect();
            self.advance(&record)?;
        }
        Ok(())
    }

    fn advance(&mut self, record: &[u8]) -> Result<(), HandshakeError> {
        let advanced = self.connection.advance(record);
        self.connection.take_output(&mut self.outgoing);
        self.done = advanced?;
        Ok(())
    }

    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        (!self.outgoing.is_empty()).then(|| std::mem::take(&mut self.outgoing))
    }

    pub fn closed_by_peer(&self) -> HandshakeError {
        match self.connection.offered() {
            Some(identity) => HandshakeError::ClosedOnPsk(identity),
            None => HandshakeError::Closed,
        }
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    pub fn side(&self) -> Side {
        if self.connection.is_client() {
            Side::Client
        } else {
            Side::Server
        }
    }

    pub fn into_established(self) -> Result<Established, HandshakeError> {
        if !self.done {
            return Err(self.failed.unwrap_or(HandshakeError::NotComplete));
        }
        let (algorithm, suite) = match self.connection.suite() {
            Some(0x1301) => (Algorithm::Aes128Gcm, "TLS_AES_128_GCM_SHA256"),
            Some(0x1302) => (Algorithm::Aes256Gcm, "TLS_AES_256_GCM_SHA384"),
            Some(0x1303) => (Algorithm::ChaCha20Poly1305, "TLS_CHACHA20_POLY1305_SHA256"),
            other => {
                return Err(HandshakeError::Unsupported(format!(
                    "cipher suite {other:?}"
                )));
            }
        };
        let secrets = self.connection.take_secrets();
        let secret = |bytes: &Option<Vec<u8>>| TrafficSecret::new(algorithm, bytes.as_ref()?);
        let (Some(client), Some(server)) = (secret(&secrets.client), secret(&secrets.server))
        else {
            return Err(HandshakeError::OpenSsl(
                "it did not give its secrets".into(),
            ));
        };
        let we_are_client = self.connection.is_client();
        let (transmit, receive) = if we_are_client {
            (client, server)
        } else {
            (server, client)
        };
        Ok(Established {
            transmit: transmit.crypto_info(),
            receive: receive.crypto_info(),
            alpn: None,
            suite: suite.to_owned(),
            resumed: false,
            leftover: self.incoming,
            output: self.outgoing,
            psk_identity: self.connection.identity(),
            post_handshake: PostHandshake::new(
                Version::Tls13,
                TrafficKeys::Psk {
                    we_are_client,
                    transmit,
                    receive,
                },
            ),
        })
    }
}

impl From<Failure> for HandshakeError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::UnknownPsk(unknown) => Self::UnknownPsk(unknown),
            Failure::WrongPsk(identity) => Self::WrongPsk(identity),
            Failure::Refused { identity, alert } => Self::PskRefused { identity, alert },
            Failure::OpenSsl(what) => Self::OpenSsl(what),
        }
    }
}
