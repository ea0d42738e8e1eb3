//! Keyed hashes, so that a peer can't choose what collides, and the secrets of their own that uses of one secret get.

use std::hash::{BuildHasher, Hasher};

use siphasher::sip::{SipHasher13, SipHasher24};

/// Keyed hash over what a peer chooses.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    keys: (u64, u64),
}

impl Keyed {
    /// A hash with this secret; `purpose` keeps tables of one stack apart.
    pub fn new(secret: &[u8; 16], purpose: u64) -> Self {
        let (low, high) = secret.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Self {
            keys: (word(low) ^ purpose, word(high)),
        }
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.keys.0, self.keys.1)
    }
}

/// A secret of its own for each use.
pub(crate) fn derive(secret: &[u8; 16], purpose: u8) -> [u8; 16] {
    let mut derived = [0; 16];
    for (half, out) in derived.chunks_mut(8).enumerate() {
        let mut hasher = SipHasher24::new_with_key(secret);
        hasher.write(&[purpose, half as u8]);
        out.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    derived
}
