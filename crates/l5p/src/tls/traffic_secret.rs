//! Traffic secrets of TLS 1.3 and the keys that come of them (RFC 8446 §7.2, §7.3).

use aws_lc_rs::hkdf;

use super::{Algorithm, CryptoInfo, Version};
use crate::crypto::wipe;

/// The application traffic secret of one direction, in one epoch.
pub(super) struct TrafficSecret {
    algorithm: Algorithm,
    secret: Vec<u8>,
}

impl TrafficSecret {
    /// A secret under the cipher suite of `algorithm`. `None` when it has not as many bytes as that suite's hash.
    pub fn new(algorithm: Algorithm, secret: &[u8]) -> Option<Self> {
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
    pub fn crypto_info(&self) -> CryptoInfo {
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
    pub fn update(&mut self) {
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
