//! How a record is laid out, named and numbered in each version and algorithm.

use wire::tls::ContentType;

use super::{CryptoInfo, HEADER_LEN, ICV_LEN, MAX_PLAINTEXT, Version};
use crate::Judgement;
use crate::crypto::{Algorithm, NONCE_LEN};

/// Length of the explicit nonce of AES-GCM in TLS 1.2 (RFC 5288 §3).
pub(super) const EXPLICIT_NONCE_LEN: usize = 8;

/// Second and third byte of every record after the handshake (RFC 8446 §5.1, RFC 5246 §6.2.1).
const VERSION_BYTES: [u8; 2] = wire::tls::VERSION_TLS12.to_be_bytes();

/// Judges the bytes where a protected record begins for certain, as an [`Engine`](super::Engine) does there, without keys.
pub fn judge(version: Version, algorithm: Algorithm, bytes: &[u8]) -> Judgement {
    let framing = Framing { version, algorithm };
    framing.judge_in_step(bytes)
}

/// The layout of protected records under one version and algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Framing {
    pub(super) version: Version,
    pub(super) algorithm: Algorithm,
}

impl Framing {
    pub(super) fn of(info: &CryptoInfo) -> Framing {
        Framing {
            version: info.version,
            algorithm: info.algorithm,
        }
    }

    /// Length of the explicit nonce after the header.
    pub(super) fn explicit_nonce_len(self) -> usize {
        match (self.version, self.algorithm) {
            (Version::Tls12, Algorithm::Aes128Gcm | Algorithm::Aes256Gcm) => EXPLICIT_NONCE_LEN,
            _ => 0,
        }
    }

    /// Where the encrypted bytes of a record begin.
    pub(super) fn body(self) -> usize {
        HEADER_LEN + self.explicit_nonce_len()
    }

    /// Bytes after the content that are encrypted with it: the inner content type of TLS 1.3.
    pub(super) fn inner_type_len(self) -> usize {
        usize::from(self.version == Version::Tls13)
    }

    /// The bounds of a record's length field.
    pub(super) fn length_bounds(self) -> (usize, usize) {
        let overhead = self.explicit_nonce_len() + self.inner_type_len() + ICV_LEN;
        (overhead, overhead + MAX_PLAINTEXT)
    }

    /// Whether a protected record may carry this type in its header.
    ///
    /// In TLS 1.3 all of them say `application_data` (RFC 8446 §5.2). The `change_cipher_spec`
    /// records of its middlebox compatibility mode end with the peer's Finished (§5) and so
    /// never come where records are numbered.
    fn outer_type_is_known(self, content_type: u8) -> bool {
        match self.version {
            Version::Tls12 => (20..=24).contains(&content_type),
            Version::Tls13 => content_type == ContentType::APPLICATION_DATA.0,
        }
    }

    /// Judges the magic pattern: type, version, bounds of the length (Autonomous NIC offloads §5.2).
    pub(super) fn judge(self, bytes: &[u8]) -> Judgement {
        match *bytes {
            [content_type, ..] if !self.outer_type_is_known(content_type) => Judgement::NotAHeader,
            _ => self.judge_in_step(bytes),
        }
    }

    /// Judges bytes where a record begins for certain: in TLS 1.2 it may be of a type that searches leave out.
    pub(super) fn judge_in_step(self, bytes: &[u8]) -> Judgement {
        let (min, max) = self.length_bounds();
        let is_tls13 = self.version == Version::Tls13;
        match *bytes {
            [content_type, ..] if is_tls13 && !self.outer_type_is_known(content_type) => {
                Judgement::NotAHeader
            }
            [_, major, ..] if major != VERSION_BYTES[0] => Judgement::NotAHeader,
            [_, _, minor, ..] if minor != VERSION_BYTES[1] => Judgement::NotAHeader,
            [_, _, _, high, ..] if usize::from(high) > max >> 8 => Judgement::NotAHeader,
            [_, _, _, high, low, ..] => {
                let length = u16::from_be_bytes([high, low]);
                if (min..=max).contains(&usize::from(length)) {
                    Judgement::Message {
                        len: HEADER_LEN as u32 + u32::from(length),
                    }
                } else {
                    Judgement::NotAHeader
                }
            }
            _ => Judgement::TooShort,
        }
    }

    /// The nonce of record `sequence`; `explicit` is what the record carries after its header.
    pub(super) fn nonce(self, iv: &[u8; NONCE_LEN], sequence: u64, explicit: &[u8]) -> [u8; 12] {
        let mut nonce = *iv;
        if self.explicit_nonce_len() != 0 {
            // RFC 5288 §3: salt, then the explicit part.
            nonce[4..].copy_from_slice(&explicit[..EXPLICIT_NONCE_LEN]);
        } else {
            // RFC 8446 §5.3 and RFC 7905 §2.
            xor_sequence(&mut nonce, sequence);
        }
        nonce
    }

    /// The explicit nonce that we put into record `sequence`. As rustls does, and unlike the bare
    /// sequence number, this never meets a nonce used in the handshake.
    pub(super) fn explicit_nonce(iv: &[u8; NONCE_LEN], sequence: u64) -> [u8; EXPLICIT_NONCE_LEN] {
        let mut nonce = *iv;
        xor_sequence(&mut nonce, sequence);
        let mut explicit = [0; EXPLICIT_NONCE_LEN];
        explicit.copy_from_slice(&nonce[4..]);
        explicit
    }

    /// The additional data of a record of `len` bytes, header included.
    pub(super) fn additional_data(
        self,
        sequence: u64,
        content_type: u8,
        len: u32,
    ) -> AdditionalData {
        let mut bytes = [0; 13];
        let version = VERSION_BYTES;
        match self.version {
            // RFC 8446 §5.2: the record header.
            Version::Tls13 => {
                let length = (len as usize).saturating_sub(HEADER_LEN) as u16;
                bytes[0] = content_type;
                bytes[1..3].copy_from_slice(&version);
                bytes[3..5].copy_from_slice(&length.to_be_bytes());
                AdditionalData { bytes, len: 5 }
            }
            // RFC 5246 §6.2.3.3: sequence number, type, version, length of the plaintext.
            Version::Tls12 => {
                let length = (len as usize).saturating_sub(self.body() + ICV_LEN) as u16;
                bytes[..8].copy_from_slice(&sequence.to_be_bytes());
                bytes[8] = content_type;
                bytes[9..11].copy_from_slice(&version);
                bytes[11..13].copy_from_slice(&length.to_be_bytes());
                AdditionalData { bytes, len: 13 }
            }
        }
    }
}

pub(super) struct AdditionalData {
    bytes: [u8; 13],
    len: usize,
}

impl AdditionalData {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn xor_sequence(nonce: &mut [u8; NONCE_LEN], sequence: u64) {
    for (byte, s) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
        *byte ^= s;
    }
}
