//! The PSK interchange format (§3.6.1.5): `NVMeTLSkey-1:01:base64 of key and CRC-32:`.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use l5p::crypto::wipe;
use thiserror::Error;

use super::Hash;

const PREFIX: &str = "NVMeTLSkey-1:";

/// A PSK as administrators exchange it, of 32 or 48 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfiguredPsk {
    /// What to derive the retained PSK with; `None`: the retained PSK is this one.
    hash: Option<Hash>,
    key: Vec<u8>,
}

/// Why a text is no PSK in the interchange format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InterchangeError {
    /// It begins with something else.
    #[error("a PSK in the interchange format begins with `{PREFIX}`")]
    Prefix,
    /// Neither `00` nor `01` nor `02`.
    #[error("hash `{0}` of the PSK is not 00 (none), 01 (SHA-256) or 02 (SHA-384)")]
    Hash(String),
    /// The key's text does not end with a colon.
    #[error("the PSK is cut short: it must end with a colon")]
    End,
    /// The key's text is no base64.
    #[error("the PSK is not base64")]
    Base64,
    /// The key has neither 32 nor 48 bytes, or not those of its hash.
    #[error("the PSK has {0} bytes; it must have 32, or 48 for SHA-384")]
    Length(usize),
    /// The CRC-32 behind the key is another one.
    #[error("the PSK's checksum is wrong: it was not copied as it is")]
    Checksum,
}

impl ConfiguredPsk {
    /// A PSK from its bytes. `None` when it has neither 32 nor 48, or not those of its hash.
    pub fn new(hash: Option<Hash>, key: &[u8]) -> Option<Self> {
        let key_hash = Hash::of_key_len(key.len())?;
        hash.is_none_or(|hash| hash == key_hash).then(|| Self {
            hash,
            key: key.to_vec(),
        })
    }

    /// A new one, drawn at random.
    pub fn generate(hash: Hash) -> Self {
        let mut key = vec![0; hash.output_len()];
        rand::fill(&mut key).expect("the system has random numbers");
        Self {
            hash: Some(hash),
            key,
        }
    }

    /// What to derive the retained PSK with; `None`: the retained PSK is this one.
    pub fn hash(&self) -> Option<Hash> {
        self.hash
    }

    /// The hash that goes with keys of this length.
    pub(super) fn key_hash(&self) -> Hash {
        Hash::of_key_len(self.key.len()).expect("the constructors have checked it")
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The text that administrators exchange.
    pub fn to_interchange(&self) -> String {
        let mut bytes = self.key.clone();
        bytes.extend_from_slice(&crc32(&self.key).to_le_bytes());
        let specifier = self.hash.map_or("00", Hash::specifier);
        let text = format!("{PREFIX}{specifier}:{}:", STANDARD.encode(&bytes));
        wipe(&mut bytes);
        text
    }
}

impl FromStr for ConfiguredPsk {
    type Err = InterchangeError;

    fn from_str(text: &str) -> Result<Self, InterchangeError> {
        let rest = text.strip_prefix(PREFIX).ok_or(InterchangeError::Prefix)?;
        let (specifier, rest) = rest.split_once(':').ok_or(InterchangeError::End)?;
        let hash = match specifier {
            "00" => None,
            other => Some(
                Hash::from_specifier(other)
                    .ok_or_else(|| InterchangeError::Hash(other.chars().take(8).collect()))?,
            ),
        };
        let encoded = rest.strip_suffix(':').ok_or(InterchangeError::End)?;
        let mut bytes = STANDARD
            .decode(encoded)
            .map_err(|_| InterchangeError::Base64)?;
        let psk = checked(hash, &bytes);
        wipe(&mut bytes);
        psk
    }
}

/// The key before its CRC-32.
fn checked(hash: Option<Hash>, bytes: &[u8]) -> Result<ConfiguredPsk, InterchangeError> {
    let (key, checksum) = bytes
        .split_last_chunk()
        .ok_or(InterchangeError::Length(bytes.len()))?;
    let psk = ConfiguredPsk::new(hash, key).ok_or(InterchangeError::Length(key.len()))?;
    if crc32(key) == u32::from_le_bytes(*checksum) {
        Ok(psk)
    } else {
        Err(InterchangeError::Checksum)
    }
}

/// CRC-32 of IEEE 802.3, bit by bit: a table would show a key's bytes in the cache.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

impl fmt::Debug for ConfiguredPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfiguredPsk")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl Drop for ConfiguredPsk {
    fn drop(&mut self) {
        wipe(&mut self.key);
    }
}
