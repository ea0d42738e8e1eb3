//! Bytes to send.

/// Bytes that are different at every place, as far as 32 bits go.
pub fn pattern(len: usize) -> Vec<u8> {
    pattern_of(len, 0)
}

/// The same, others for each seed.
pub fn pattern_of(len: usize, seed: u32) -> Vec<u8> {
    (0..len.div_ceil(4) as u32)
        .flat_map(|word| (word ^ seed).wrapping_mul(0x9e37_79b1).to_le_bytes())
        .take(len)
        .collect()
}
