//! Keys after a handshake: those of each key update of TLS 1.3, from traffic secrets (RFC 8446 §7.2, §7.3).

use aws_lc_rs::hkdf;
use thiserror::Error;

use super::{Algorithm, CryptoInfo, Version};
use crate::crypto::wipe;

/// What a handshake leaves behind for what comes after it.
pub trait KeySchedule: Send {
    /// Whether we are the client.
    fn is_client(&self) -> bool;

    /// Our keys after the next key update.
    ///
    /// # Errors
    /// When no keys can be made.
    fn update_transmit(&mut self) -> Result<CryptoInfo, KeyScheduleError>;

    /// The peer's keys after the next key update.
    ///
    /// # Errors
    /// When no keys can be made.
    fn update_receive(&mut self) -> Result<CryptoInfo, KeyScheduleError>;

    /// Takes the body of a NewSessionTicket (RFC 8446 §4.6.1), and returns whether it is stored for the next connection.
    /// Only a client is given one.
    ///
    /// # Errors
    /// When it is malformed.
    fn store_ticket(&mut self, body: &[u8]) -> Result<bool, KeyScheduleError>;
}

/// Why there are no new keys, or no ticket.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyScheduleError {
    /// Only TLS 1.3 has key updates.
    #[error("TLS 1.2 has no key updates")]
    NoKeyUpdates,
    /// The library that keeps the secrets refused, in its words.
    #[error("{0}")]
    Refused(String),
}

/// The application traffic secrets of both directions of TLS 1.3, without a store for tickets.
pub struct TrafficSecrets {
    is_client: bool,
    transmit: TrafficSecret,
    receive: TrafficSecret,
}

impl TrafficSecrets {
    /// The secrets of client and server under the cipher suite of `algorithm`. `None` when they do not have as many bytes
    /// as that suite's hash.
    pub fn new(
        is_client: bool,
        algorithm: Algorithm,
        client: &[u8],
        server: &[u8],
    ) -> Option<TrafficSecrets> {
        let client = TrafficSecret::new(algorithm, client)?;
        let server = TrafficSecret::new(algorithm, server)?;
        let (transmit, receive) = if is_client {
            (client, server)
        } else {
            (server, client)
        };
        Some(TrafficSecrets {
            is_client,
            transmit,
            receive,
        })
    }

    /// Keys for what we send, from record 0 of the current epoch on.
    pub fn transmit_keys(&self) -> CryptoInfo {
        self.transmit.crypto_info()
    }

    /// Keys for what we receive, from record 0 of the current epoch on.
    pub fn receive_keys(&self) -> CryptoInfo {
        self.receive.crypto_info()
    }
}

impl KeySchedule for TrafficSecrets {
    fn is_client(&self) -> bool {
        self.is_client
    }

    fn update_transmit(&mut self) -> Result<CryptoInfo, KeyScheduleError> {
        self.transmit.update();
        Ok(self.transmit.crypto_info())
    }

    fn update_receive(&mut self) -> Result<CryptoInfo, KeyScheduleError> {
        self.receive.update();
        Ok(self.receive.crypto_info())
    }

    fn store_ticket(&mut self, _body: &[u8]) -> Result<bool, KeyScheduleError> {
        Ok(false)
    }
}

/// The application traffic secret of one direction, in one epoch.
struct TrafficSecret {
    algorithm: Algorithm,
    secret: Vec<u8>,
}

impl TrafficSecret {
    /// A secret under the cipher suite of `algorithm`. `None` when it has not as many bytes as that suite's hash.
    fn new(algorithm: Algorithm, secret: &[u8]) -> Option<Self> {
        (secret.len()
            == hash(algorithm)
                .hmac_algorithm()
                .digest_algorithm()
                .output_len())
        .then(|| Self {
            algorithm,
            secret: secret.to_vec(),
        })
    }

    /// Keys for records from number 0 on (RFC 8446 §7.3).
    fn crypto_info(&self) -> CryptoInfo {
        let mut info = CryptoInfo {
            version: Version::Tls13,
            algorithm: self.algorithm,
            key: [0; 32],
            iv: [0; 12],
            sequence: 0,
        };
        self.expand(b"key", &mut info.key[..self.algorithm.key_len()]);
        self.expand(b"iv", &mut info.iv);
        info
    }

    /// Goes over to the secret after the next key update (RFC 8446 §7.2).
    fn update(&mut self) {
        let mut next = vec![0; self.secret.len()];
        self.expand(b"traffic upd", &mut next);
        std::mem::swap(&mut self.secret, &mut next);
        wipe(&mut next);
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 §7.1).
    fn expand(&self, label: &[u8], output: &mut [u8]) {
        let len = (output.len() as u16).to_be_bytes();
        let label_len = [6 + label.len() as u8];
        let info = [&len[..], &label_len, b"tls13 ", label, &[0]];
        hkdf::Prk::new_less_safe(hash(self.algorithm), &self.secret)
            .expand(&info, Length(output.len()))
            .and_then(|key| key.fill(output))
            .expect("HKDF gives up to 255 times what its hash puts out");
    }
}

impl Drop for TrafficSecret {
    fn drop(&mut self) {
        wipe(&mut self.secret);
    }
}

fn hash(algorithm: Algorithm) -> hkdf::Algorithm {
    match algorithm {
        Algorithm::Aes128Gcm | Algorithm::ChaCha20Poly1305 => hkdf::HKDF_SHA256,
        Algorithm::Aes256Gcm => hkdf::HKDF_SHA384,
    }
}

/// Bytes that HKDF shall give.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests;
