//! The same key to the same server: highest random weight (rendezvous hashing), weighted.
//!
//! Each server draws a number from the key and its own identity, and the highest wins. When a server goes, its keys are
//! spread over the others and no other key moves; when it comes back it gets the same ones again. No table has to be
//! kept, and a choice takes one multiplication-like step per server.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::Candidate;

/// A key or an identity from bytes: the same in every process, so that balancers side by side agree.
pub fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x6c6f_6e67, 0x7368_6f72);
    hasher.write(bytes);
    hasher.finish()
}

pub(super) fn highest(candidates: impl Iterator<Item = Candidate>, key: u64) -> Option<usize> {
    let score = |candidate: &Candidate| {
        let drawn = mix(key ^ candidate.identity);
        // Uniform in (0, 1); the logarithm makes shares proportional to weights.
        let uniform = ((drawn >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        f64::from(candidate.weight) / -uniform.ln()
    };
    candidates
        .map(|candidate| (score(&candidate), candidate.index))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, index)| index)
}

/// The finaliser of SplitMix64: each bit of the input changes each bit of the output with probability 1/2.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
