//! Connections between our handshake and record layer and rustls's own.

mod connection;
mod handshake;
mod key_update;
mod records;
mod resumption;

use l5p::tls::{Algorithm, Version};

/// Every version with every algorithm.
const PAIRS: [(Version, Algorithm); 6] = [
    (Version::Tls12, Algorithm::Aes128Gcm),
    (Version::Tls12, Algorithm::Aes256Gcm),
    (Version::Tls12, Algorithm::ChaCha20Poly1305),
    (Version::Tls13, Algorithm::Aes128Gcm),
    (Version::Tls13, Algorithm::Aes256Gcm),
    (Version::Tls13, Algorithm::ChaCha20Poly1305),
];
