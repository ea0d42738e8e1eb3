//! Keys and pieces for the tests of this module.

use std::ops::Range;

use proptest::prelude::*;

use super::{Algorithm, CryptoInfo, Version};

pub(super) const PAIRS: [(Version, Algorithm); 6] = [
    (Version::Tls12, Algorithm::Aes128Gcm),
    (Version::Tls12, Algorithm::Aes256Gcm),
    (Version::Tls12, Algorithm::ChaCha20Poly1305),
    (Version::Tls13, Algorithm::Aes128Gcm),
    (Version::Tls13, Algorithm::Aes256Gcm),
    (Version::Tls13, Algorithm::ChaCha20Poly1305),
];

/// Keys made of one byte, different for each `seed`.
pub(super) fn info((version, algorithm): (Version, Algorithm), seed: u8) -> CryptoInfo {
    let mut info = CryptoInfo {
        version,
        algorithm,
        key: [0; 32],
        iv: [seed ^ 0x5a; 12],
        sequence: u64::from(seed) * 1000,
    };
    info.key[..algorithm.key_len()].fill(seed);
    info
}

pub(super) fn pair() -> impl Strategy<Value = (Version, Algorithm)> {
    prop::sample::select(&PAIRS[..])
}

pub(super) fn pair_of_tls13() -> impl Strategy<Value = (Version, Algorithm)> {
    prop::sample::select(&PAIRS[3..])
}

/// Cuts `len` bytes into ranges at the given places.
pub(crate) fn ranges(len: usize, cuts: &[u32]) -> Vec<Range<usize>> {
    let mut places: Vec<usize> = cuts.iter().map(|c| *c as usize % (len + 1)).collect();
    places.extend([0, len]);
    places.sort_unstable();
    places.windows(2).map(|w| w[0]..w[1]).collect()
}
