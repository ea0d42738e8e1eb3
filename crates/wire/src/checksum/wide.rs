//! Sums by the vectors of the processor at hand, which are about twice as fast as additions with carry.

use super::{BLOCK, Sum};

/// Fewer blocks than that are not worth a look at what the processor has.
const LEAST_BLOCKS: usize = 4;

/// The sum of whole blocks; `None` where vectors do not help.
#[inline]
pub(super) fn of_blocks(blocks: &[[u8; BLOCK]]) -> Option<Sum> {
    #[cfg(target_arch = "x86_64")]
    if blocks.len() >= LEAST_BLOCKS && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return Some(unsafe { x86_64::with_avx2(blocks) });
    }
    None
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_and_si256, _mm256_extract_epi64, _mm256_loadu_si256,
        _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_srli_epi64,
    };

    use super::super::{BLOCK, Sum};

    /// Both halves of each 64-bit word are added to lanes of 64 bits, which as many blocks as memory has do not fill.
    #[target_feature(enable = "avx2")]
    pub(super) fn with_avx2(blocks: &[[u8; BLOCK]]) -> Sum {
        let low_half = _mm256_set1_epi64x(0xffff_ffff);
        let mut sums = [_mm256_setzero_si256(); 4];
        for block in blocks {
            for (at, sums) in sums.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let half = block[at * BLOCK / 2..].as_ptr().cast::<__m256i>();
                // SAFETY: it reads half of a block, from the block's beginning or middle on.
                let words = unsafe { _mm256_loadu_si256(half) };
                sums[0] = _mm256_add_epi64(sums[0], _mm256_and_si256(words, low_half));
                sums[1] = _mm256_add_epi64(sums[1], _mm256_srli_epi64::<32>(words));
            }
        }
        let pair = _mm256_add_epi64(sums[0], sums[1]);
        let sum = _mm256_add_epi64(pair, _mm256_add_epi64(sums[2], sums[3]));
        let lanes = [
            _mm256_extract_epi64::<0>(sum),
            _mm256_extract_epi64::<1>(sum),
            _mm256_extract_epi64::<2>(sum),
            _mm256_extract_epi64::<3>(sum),
        ];
        lanes
            .into_iter()
            .fold(Sum::ZERO, |sum, lane| sum + Sum(lane as u64))
    }
}
