//! Copying payload.
//!
//! A C library's `memcpy` turns to `rep movsb` for long copies on processors that announce it as fast. Some of them (AMD
//! Zen 3) then run at a twentieth of their speed when the target is not aligned as the source is, and payload behind
//! packet and record headers never is. Pieces below that threshold are copied by vector moves everywhere.

/// Bytes copied at a time: below the shortest threshold at which glibc uses `rep movsb` with AVX (2,112 on Zen).
const PIECE: usize = 2048;

/// Copies `from` to `to` at the same speed whatever their alignment.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn copy(from: &[u8], to: &mut [u8]) {
    assert_eq!(
        from.len(),
        to.len(),
        "source and target of a copy differ in length"
    );
    for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::copy;

    #[test]
    fn every_length_around_a_piece_is_copied_whole() {
        let from: Vec<u8> = (0..3 * super::PIECE as u32 + 7)
            .map(|byte| byte as u8)
            .collect();
        for len in [0, 1, 2047, 2048, 2049, 4096, from.len()] {
            let mut to = vec![0; len];
            copy(&from[..len], &mut to);
            assert_eq!(to, from[..len]);
        }
    }
}
