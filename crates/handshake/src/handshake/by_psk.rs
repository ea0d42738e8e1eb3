//! The handshake with a pre-shared key, by OpenSSL's library.

use l5p::tls::{Algorithm, HEADER_LEN, PostHandshake, TrafficSecrets, Version};
use rustls::Side;

use super::{Established, HandshakeError, first_record};
use crate::openssl::{Connection, Failure};
use crate::{PskClientConfig, PskServerConfig};

/// See [`Handshake`](super::Handshake).
pub struct ByPsk {
    connection: Connection,
    /// From the peer and not yet shown to OpenSSL, which sees one record at a time, so that none after the handshake
    /// reaches it.
    incoming: Vec<u8>,
    /// The peer has sent a record.
    speaks_tls: bool,
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
            speaks_tls: false,
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
        while !self.done {
            let record = first_record(&self.incoming);
            if record.is_err() && self.speaks_tls {
                // It has the keys for the alert: it gives one when it is shown the header, whatever else there is.
                self.incoming.resize(HEADER_LEN, 0);
                let header = std::mem::take(&mut self.incoming);
                let _ = self.advance(&header);
            }
            let Some(len) = record? else { break };
            self.speaks_tls = true;
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
        let we_are_client = self.connection.is_client();
        let keys = secrets.client.as_ref().zip(secrets.server.as_ref());
        let keys = keys.and_then(|(client, server)| {
            TrafficSecrets::new(we_are_client, algorithm, client, server)
        });
        let Some(keys) = keys else {
            return Err(HandshakeError::OpenSsl(
                "it did not give its secrets".into(),
            ));
        };
        Ok(Established {
            transmit: keys.transmit_keys(),
            receive: keys.receive_keys(),
            alpn: None,
            suite: suite.to_owned(),
            resumed: false,
            leftover: self.incoming,
            output: self.outgoing,
            psk_identity: self.connection.identity(),
            post_handshake: PostHandshake::new(Version::Tls13, Box::new(keys)),
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
