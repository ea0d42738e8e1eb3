//! What is tried, decided by a seed, which both ends know.

use std::fmt;

use l5p::tls::{Algorithm, Version};

/// Random numbers that come again with their seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number less than `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A number of bytes, at most `most` and at least 1: small ones, records' sizes and large ones are all likely.
    pub fn size(&mut self, most: usize) -> usize {
        let size = match self.below(5) {
            0 => self.below(64),
            1 => self.below(3000),
            2 => 16_384 - 2 + self.below(5),
            3 => self.below(70_000),
            _ => self.below(300_000),
        };
        size.clamp(1, most.max(1))
    }
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub seed: u64,
    pub version: Version,
    pub algorithm: Algorithm,
    /// The program has the client's side of the handshake.
    pub program_is_client: bool,
    /// Bytes from the program to the peer, and from the peer to the program.
    pub bytes: (usize, usize),
    pub updates_keys: bool,
}

impl Case {
    pub fn new(seed: u64) -> Case {
        let mut random = Random::new(seed ^ 0x5eed);
        let algorithms = [
            Algorithm::Aes128Gcm,
            Algorithm::Aes256Gcm,
            Algorithm::ChaCha20Poly1305,
        ];
        // All six in six seeds.
        let which = (seed % 6) as usize;
        let version = [Version::Tls13, Version::Tls12][which / 3];
        Case {
            seed,
            version,
            algorithm: algorithms[which % 3],
            program_is_client: random.once_in(2),
            bytes: (random.below(2_000_000), random.below(2_000_000)),
            updates_keys: version == Version::Tls13 && !random.once_in(4),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.program_is_client {
            "client"
        } else {
            "server"
        };
        let updates = if self.updates_keys {
            ", key updates"
        } else {
            ""
        };
        let Case {
            seed,
            version,
            algorithm,
            bytes: (sent, received),
            ..
        } = self;
        write!(
            f,
            "seed {seed}: {version:?} {algorithm:?}, {side}, {sent} bytes sent, {received} received{updates}"
        )
    }
}
