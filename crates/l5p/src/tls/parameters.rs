//! What one direction of a TLS connection needs to process its records.

use std::fmt;

use thiserror::Error;

use crate::crypto::{Algorithm, NONCE_LEN, wipe};

/// Protocol version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Keys and position of one direction of a connection, in one epoch.
#[derive(Clone, PartialEq, Eq)]
pub struct CryptoInfo {
    /// Protocol version.
    pub version: Version,
    /// AEAD algorithm.
    pub algorithm: Algorithm,
    /// Key; the algorithm's [`key_len`](Algorithm::key_len) bytes count, the others are 0.
    pub key: [u8; 32],
    /// The static part of the nonce. For AES-GCM in TLS 1.2 (RFC 5288 §3) the first 4 bytes are
    /// the salt, and the other 8 are XORed with the sequence number to make the explicit nonces
    /// that *we* send; a receiver takes the explicit nonce from the record. For all others, all 12
    /// are XORed with the sequence number (RFC 8446 §5.3, RFC 7905 §2).
    pub iv: [u8; NONCE_LEN],
    /// Sequence number of the next record.
    pub sequence: u64,
}

/// Bytes that are no [`CryptoInfo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "version {version} with algorithm {algorithm} is not among the TLS parameters known here, or bytes that must be zero are not"
)]
pub struct InvalidCryptoInfo {
    /// First byte.
    pub version: u8,
    /// Second byte.
    pub algorithm: u8,
}

impl CryptoInfo {
    /// Length of the encoding in a descriptor.
    pub const ENCODED_LEN: usize = 64;

    /// Whether bytes from the middle of a record can be encrypted by themselves ([`transform_at`](crate::Layer5::transform_at)):
    /// the keystream is that of AES-CTR, and the nonce needs nothing of the record's bytes.
    pub fn is_seekable(&self) -> bool {
        self.version == Version::Tls13 && self.algorithm != Algorithm::ChaCha20Poly1305
    }

    /// The fixed-size encoding for a descriptor: version, algorithm, 6 zeros, sequence number
    /// (little-endian), IV, key, 4 zeros.
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [0; Self::ENCODED_LEN];
        bytes[0] = match self.version {
            Version::Tls12 => 12,
            Version::Tls13 => 13,
        };
        bytes[1] = match self.algorithm {
            Algorithm::Aes128Gcm => 1,
            Algorithm::Aes256Gcm => 2,
            Algorithm::ChaCha20Poly1305 => 3,
        };
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..28].copy_from_slice(&self.iv);
        bytes[28..60].copy_from_slice(&self.key);
        bytes
    }

    /// The parameters that [`to_bytes`](Self::to_bytes) encoded.
    ///
    /// # Errors
    /// When version or algorithm is not supported, or a reserved byte is not zero.
    pub fn from_bytes(bytes: &[u8; Self::ENCODED_LEN]) -> Result<CryptoInfo, InvalidCryptoInfo> {
        let invalid = InvalidCryptoInfo {
            version: bytes[0],
            algorithm: bytes[1],
        };
        if bytes[2..8]
            .iter()
            .chain(&bytes[60..])
            .any(|byte| *byte != 0)
        {
            return Err(invalid);
        }
        let mut info = CryptoInfo {
            version: match bytes[0] {
                12 => Version::Tls12,
                13 => Version::Tls13,
                _ => return Err(invalid),
            },
            algorithm: match bytes[1] {
                1 => Algorithm::Aes128Gcm,
                2 => Algorithm::Aes256Gcm,
                3 => Algorithm::ChaCha20Poly1305,
                _ => return Err(invalid),
            },
            key: [0; 32],
            iv: [0; NONCE_LEN],
            sequence: 0,
        };
        let mut sequence = [0; 8];
        sequence.copy_from_slice(&bytes[8..16]);
        info.sequence = u64::from_le_bytes(sequence);
        info.iv.copy_from_slice(&bytes[16..28]);
        info.key.copy_from_slice(&bytes[28..60]);
        Ok(info)
    }

    /// The key's bytes.
    pub fn key(&self) -> &[u8] {
        &self.key[..self.algorithm.key_len()]
    }
}

impl fmt::Debug for CryptoInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CryptoInfo")
            .field("version", &self.version)
            .field("algorithm", &self.algorithm)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl Drop for CryptoInfo {
    fn drop(&mut self) {
        wipe(&mut self.key);
        wipe(&mut self.iv);
    }
}
