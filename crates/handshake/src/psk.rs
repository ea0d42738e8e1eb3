//! External pre-shared keys (RFC 8446 §2.2, §4.2.11).

use std::fmt;
use std::sync::Arc;

use l5p::crypto::wipe;
use thiserror::Error;

use crate::openssl::{Context, OpenSslError};
use crate::{Algorithm, KeyLogSink};

/// A pre-shared key under its identity, for one cipher suite.
#[derive(Clone, PartialEq, Eq)]
pub struct Psk {
    identity: Vec<u8>,
    key: Vec<u8>,
    algorithm: Algorithm,
}

impl Psk {
    /// A key for TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 or TLS_CHACHA20_POLY1305_SHA256, by the algorithm.
    pub fn new(identity: Vec<u8>, key: &[u8], algorithm: Algorithm) -> Self {
        Self {
            identity,
            key: key.to_vec(),
            algorithm,
        }
    }

    /// What the client calls it.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// The secret.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The AEAD of its cipher suite.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk")
            .field("identity", &String::from_utf8_lossy(&self.identity))
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl Drop for Psk {
    fn drop(&mut self) {
        wipe(&mut self.key);
    }
}

/// Finds the key of an identity that a client offers, or says why it has no key.
pub type PskLookup = Arc<dyn Fn(&[u8]) -> Result<Psk, String> + Send + Sync>;

/// What a client with a pre-shared key needs for its handshakes.
pub struct PskClientConfig {
    pub(super) context: Arc<Context>,
    pub(super) psk: Psk,
    pub(super) key_log: Option<KeyLogSink>,
}

/// What a server with pre-shared keys needs for its handshakes.
pub struct PskServerConfig {
    pub(super) context: Arc<Context>,
    pub(super) lookup: PskLookup,
    pub(super) key_log: Option<KeyLogSink>,
}

impl PskClientConfig {
    /// Offers `psk`, and talks to no server that does not know it.
    ///
    /// # Errors
    /// When OpenSSL's library is not on this machine, with what to install.
    pub fn new(psk: Psk, key_log: Option<KeyLogSink>) -> Result<Arc<Self>, OpenSslError> {
        let context = Arc::new(Context::client()?);
        Ok(Arc::new(Self {
            context,
            psk,
            key_log,
        }))
    }

    /// The key that it offers.
    pub fn psk(&self) -> &Psk {
        &self.psk
    }
}

impl PskServerConfig {
    /// Takes the first of a client's identities that `lookup` has a key for.
    ///
    /// # Errors
    /// When OpenSSL's library is not on this machine, with what to install.
    pub fn new(lookup: PskLookup, key_log: Option<KeyLogSink>) -> Result<Arc<Self>, OpenSslError> {
        let context = Arc::new(Context::server()?);
        Ok(Arc::new(Self {
            context,
            lookup,
            key_log,
        }))
    }
}

impl fmt::Debug for PskClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PskClientConfig")
            .field("psk", &self.psk)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PskServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PskServerConfig").finish_non_exhaustive()
    }
}

/// Why a server took none of the keys that a client offered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownPsk {
    /// It offered none.
    #[error("the peer offers no pre-shared key")]
    NoneOffered,
    /// None of its identities is known here.
    #[error("PSK identity `{identity}` of the peer is refused: {why}")]
    Refused {
        /// The first that it offered.
        identity: String,
        /// Why there is no key for it.
        why: String,
    },
}

/// Identities of a ClientHello that are looked up. To look one up may take the derivation of several keys, and a ClientHello has room for thousands.
const MAX_IDENTITIES: usize = 8;

/// The first key that `lookup` has for what the extension `pre_shared_key` of a ClientHello offers.
pub(super) fn choose(lookup: &PskLookup, extension: &[u8]) -> Result<Psk, UnknownPsk> {
    let mut unknown = UnknownPsk::NoneOffered;
    for identity in offered_identities(extension) {
        match lookup(identity) {
            Ok(psk) => return Ok(psk),
            Err(why) if unknown == UnknownPsk::NoneOffered => {
                let identity = printable(identity);
                unknown = UnknownPsk::Refused { identity, why };
            }
            Err(_) => {}
        }
    }
    Err(unknown)
}

/// An identity of a peer's, for a message: no control characters, and not longer than any of NVMe's.
pub(super) fn printable(identity: &[u8]) -> String {
    const LONGEST: usize = 600;
    String::from_utf8_lossy(identity)
        .chars()
        .take(LONGEST)
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

/// The first identities that the extension `pre_shared_key` of a ClientHello offers, up to where it is malformed (RFC 8446
/// §4.2.11): `identities<7..2^16-1>`, of which each is `identity<1..2^16-1>` and 4 bytes.
fn offered_identities(extension: &[u8]) -> Vec<&[u8]> {
    let (mut rest, _) = take_vector(extension).unwrap_or_default();
    let mut identities = Vec::new();
    while identities.len() < MAX_IDENTITIES
        && let Some((identity, after)) = take_vector(rest)
        && let Some(after) = after.get(4..)
    {
        identities.push(identity);
        rest = after;
    }
    identities
}

fn take_vector(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

#[cfg(test)]
mod tests;
