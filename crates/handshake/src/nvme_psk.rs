//! Pre-shared keys of NVMe/TCP over TLS 1.3 (NVMe/TCP Transport 1.1 §3.6.1.3–3.6.1.5).
//!
//! ```text
//! configured PSK ──"HostNQN", host's NQN──▶ retained PSK ──"nvme-tls-psk", identity or digest──▶ TLS PSK
//! (an administrator's, in the            (bound to one     (named by a PSK identity
//!  interchange format)                    host)             in the handshake)
//! ```
//!
//! [`ConfiguredPsk`] is what administrators exchange, [`InputPsk`] what a PSK identity names, [`Psk`] what the
//! handshake takes. [`Keys`] is a file of configured PSKs and finds the one that an identity asks for.

use aws_lc_rs::{hkdf, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use l5p::crypto::wipe;
use thiserror::Error;
use wire::nvme::Nqn;

use crate::{Algorithm, Psk};

mod identity;
mod interchange;
mod keys;
#[cfg(test)]
mod tests;

pub use identity::{Identity, IdentityVersion, Kind};
pub use interchange::{ConfiguredPsk, InterchangeError};
pub use keys::{Keys, KeysError, NoKey};

/// The hash of a key derivation, and with it the cipher suite that the key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// `01`: SHA-256, for TLS_AES_128_GCM_SHA256.
    Sha256,
    /// `02`: SHA-384, for TLS_AES_256_GCM_SHA384.
    Sha384,
}

impl Hash {
    /// Its two digits in identities and in the interchange format.
    pub fn specifier(self) -> &'static str {
        match self {
            Self::Sha256 => "01",
            Self::Sha384 => "02",
        }
    }

    fn from_specifier(digits: &str) -> Option<Self> {
        match digits {
            "01" => Some(Self::Sha256),
            "02" => Some(Self::Sha384),
            _ => None,
        }
    }

    /// Bytes of its output, and of the keys that go with it.
    pub fn output_len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }

    /// The one whose keys have this many bytes.
    fn of_key_len(bytes: usize) -> Option<Self> {
        [Self::Sha256, Self::Sha384]
            .into_iter()
            .find(|hash| hash.output_len() == bytes)
    }

    /// The AEAD of its cipher suite.
    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::Sha256 => Algorithm::Aes128Gcm,
            Self::Sha384 => Algorithm::Aes256Gcm,
        }
    }

    fn hkdf(self) -> hkdf::Algorithm {
        match self {
            Self::Sha256 => hkdf::HKDF_SHA256,
            Self::Sha384 => hkdf::HKDF_SHA384,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
        }
    }
}

/// How the derivations encode the label of HKDF-Expand-Label. Both ends must do it alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Derivation {
    /// As RFC 8446 §7.1 has it, and with it the specification, SPDK, and libnvme since August 2025.
    #[default]
    Specification,
    /// As libnvme did before, and `nvme --compat` does: the length comes in little-endian order, and neither the label
    /// nor the context has its length before it.
    Libnvme,
}

/// Why a key cannot be derived.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DerivationError {
    /// Blanks are what separates the names in an identity.
    #[error("NQN `{0}` has a blank in it, and so cannot stand in a PSK identity")]
    Blank(String),
    /// RFC 8446 §7.1: the context of HKDF-Expand-Label has 255 bytes at most, and the identity is that in version 0.
    #[error(
        "PSK identity of {0} bytes is too long for version 0, which allows 255; use version 1 or shorter NQNs"
    )]
    IdentityTooLong(usize),
}

/// The key that a PSK identity names: a retained or a generated PSK (§3.6.1.3).
#[derive(Clone, PartialEq, Eq)]
pub struct InputPsk {
    kind: Kind,
    hash: Hash,
    /// As many bytes as the hash puts out.
    key: Vec<u8>,
}

impl InputPsk {
    /// A retained PSK that was derived and stored before. `None` when it has neither 32 nor 48 bytes.
    pub fn retained(key: &[u8]) -> Option<Self> {
        Self::new(Kind::Retained, key)
    }

    /// A PSK that an authentication transaction has generated (NVMe Base 2.0 §8.13.5.9). `None` when it has neither 32
    /// nor 48 bytes.
    pub fn generated(key: &[u8]) -> Option<Self> {
        Self::new(Kind::Generated, key)
    }

    fn new(kind: Kind, key: &[u8]) -> Option<Self> {
        let hash = Hash::of_key_len(key.len())?;
        Some(Self {
            kind,
            hash,
            key: key.to_vec(),
        })
    }

    /// Its hash, given by its length.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The PSK identity under which a host offers this key to a subsystem (§3.6.1.3).
    ///
    /// # Errors
    /// When one of the names has a blank in it.
    pub fn identity(
        &self,
        version: IdentityVersion,
        host: &Nqn,
        subsystem: &Nqn,
    ) -> Result<Identity, DerivationError> {
        check_name(host)?;
        check_name(subsystem)?;
        Ok(Identity {
            kind: self.kind,
            hash: self.hash,
            host: *host,
            subsystem: *subsystem,
            digest: match version {
                IdentityVersion::V0 => None,
                IdentityVersion::V1 => Some(self.digest(host, subsystem)),
            },
        })
    }

    /// The TLS PSK under its identity (§3.6.1.3): what the handshake takes.
    ///
    /// # Errors
    /// When one of the names has a blank in it, or both are so long that version 0 cannot express them.
    pub fn tls_psk(
        &self,
        version: IdentityVersion,
        host: &Nqn,
        subsystem: &Nqn,
        derivation: Derivation,
    ) -> Result<Psk, DerivationError> {
        let identity = self.identity(version, host, subsystem)?;
        let context = match &identity.digest {
            None => identity.to_string(),
            Some(digest) => format!("{} {digest}", self.hash.specifier()),
        };
        let mut key = expand_label(
            self.hash,
            &self.key,
            "nvme-tls-psk",
            context.as_bytes(),
            derivation,
        )?;
        let psk = Psk::new(
            identity.to_string().into_bytes(),
            &key,
            self.hash.algorithm(),
        );
        wipe(&mut key);
        Ok(psk)
    }

    /// The PSK digest of version 1: base64 of a MAC over both names under the key.
    fn digest(&self, host: &Nqn, subsystem: &Nqn) -> String {
        let key = hmac::Key::new(self.hash.hmac(), &self.key);
        let text = format!("{host} {subsystem} NVMe-over-Fabrics");
        STANDARD.encode(hmac::sign(&key, text.as_bytes()))
    }
}

impl std::fmt::Debug for InputPsk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputPsk")
            .field("kind", &self.kind)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl Drop for InputPsk {
    fn drop(&mut self) {
        wipe(&mut self.key);
    }
}

impl ConfiguredPsk {
    /// The retained PSK of one host (§3.6.1.4). It is the configured one itself when the interchange format names no
    /// hash.
    ///
    /// # Errors
    /// When `host` has a blank in it.
    pub fn retained(
        &self,
        host: &Nqn,
        derivation: Derivation,
    ) -> Result<InputPsk, DerivationError> {
        check_name(host)?;
        let key = match self.hash() {
            None => self.key().to_vec(),
            Some(hash) => expand_label(
                hash,
                self.key(),
                "HostNQN",
                host.as_str().as_bytes(),
                derivation,
            )?,
        };
        Ok(InputPsk {
            kind: Kind::Retained,
            hash: self.key_hash(),
            key,
        })
    }

    /// The TLS PSK with which a host reaches a subsystem: [`retained`](Self::retained), then
    /// [`tls_psk`](InputPsk::tls_psk).
    ///
    /// # Errors
    /// Those of both.
    pub fn tls_psk(
        &self,
        version: IdentityVersion,
        host: &Nqn,
        subsystem: &Nqn,
        derivation: Derivation,
    ) -> Result<Psk, DerivationError> {
        self.retained(host, derivation)?
            .tls_psk(version, host, subsystem, derivation)
    }
}

fn check_name(name: &Nqn) -> Result<(), DerivationError> {
    if name.as_str().contains(' ') {
        return Err(DerivationError::Blank(name.to_string()));
    }
    Ok(())
}

/// HKDF-Extract with no salt, then HKDF-Expand-Label (RFC 8446 §7.1) to as many bytes as the hash puts out.
fn expand_label(
    hash: Hash,
    secret: &[u8],
    label: &str,
    context: &[u8],
    derivation: Derivation,
) -> Result<Vec<u8>, DerivationError> {
    let too_long = |_| DerivationError::IdentityTooLong(context.len());
    let context_len = u8::try_from(context.len()).map_err(too_long)?;
    let len = hash.output_len();
    let label = format!("tls13 {label}");
    let mut info = Vec::with_capacity(4 + label.len() + context.len());
    match derivation {
        Derivation::Specification => {
            info.extend_from_slice(&(len as u16).to_be_bytes());
            info.push(label.len() as u8);
            info.extend_from_slice(label.as_bytes());
            info.push(context_len);
        }
        Derivation::Libnvme => {
            info.extend_from_slice(&(len as u16).to_le_bytes());
            info.extend_from_slice(label.as_bytes());
        }
    }
    info.extend_from_slice(context);
    let mut output = vec![0; len];
    hkdf::Salt::none(hash.hkdf())
        .extract(secret)
        .expand(&[&info], Length(len))
        .and_then(|key| key.fill(&mut output))
        .expect("HKDF gives up to 255 times what its hash puts out");
    Ok(output)
}

/// Bytes that HKDF shall give.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
