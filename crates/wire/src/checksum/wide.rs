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

/// The sum of whole blocks, each of which is copied to its target; `None` where vectors do not help.
#[inline]
pub(super) fn of_copied_blocks(blocks: &[[u8; BLOCK]], targets: &mut [[u8; BLOCK]]) -> Option<Sum> {
    #[cfg(target_arch = "x86_64")]
    if blocks.len() >= LEAST_BLOCKS && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return Some(unsafe { x86_64::of_copied_with_avx2(blocks, targets) });
    }
    None
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_and_si256, _mm256_extract_epi64, _mm256_loadu_si256,
        _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_srli_epi64, _mm256_storeu_si256,
    };

    use super::super::{BLOCK, Sum};

    #[target_feature(enable = "avx2")]
    pub(super) fn with_avx2(blocks: &[[u8; BLOCK]]) -> Sum {
        let mut lanes = Lanes::new();
        for block in blocks {
            lanes.add(load(block));
        }
        lanes.sum()
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn of_copied_with_avx2(blocks: &[[u8; BLOCK]], targets: &mut [[u8; BLOCK]]) -> Sum {
        let mut lanes = Lanes::new();
        for (block, target) in blocks.iter().zip(targets) {
            let halves = load(block);
            let [first, second] = target.as_chunks_mut::<{ BLOCK / 2 }>().0 else {
                unreachable!("a block has two halves");
            };
            // SAFETY: it writes the 32 bytes of each half.
            unsafe {
                _mm256_storeu_si256(first.as_mut_ptr().cast(), halves[0]);
                _mm256_storeu_si256(second.as_mut_ptr().cast(), halves[1]);
            }
            lanes.add(halves);
        }
        lanes.sum()
    }

    /// Both halves of a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(block: &[u8; BLOCK]) -> [__m256i; 2] {
        let [first, second] = block.as_chunks::<{ BLOCK / 2 }>().0 else {
            unreachable!("a block has two halves");
        };
        // SAFETY: it reads the 32 bytes of each half.
        unsafe {
            [
                _mm256_loadu_si256(first.as_ptr().cast()),
                _mm256_loadu_si256(second.as_ptr().cast()),
            ]
        }
    }

    /// Sums in lanes of 64 bits, to which both halves of each 64-bit word are added: as many blocks as memory has do not fill them.
    struct Lanes {
        low_half: __m256i,
        sums: [__m256i; 4],
    }

    impl Lanes {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn new() -> Lanes {
            Lanes {
                low_half: _mm256_set1_epi64x(0xffff_ffff),
                sums: [_mm256_setzero_si256(); 4],
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn add(&mut self, [first, second]: [__m256i; 2]) {
            let low_half = self.low_half;
            let sums = &mut self.sums;
            sums[0] = _mm256_add_epi64(sums[0], _mm256_and_si256(first, low_half));
            sums[1] = _mm256_add_epi64(sums[1], _mm256_srli_epi64::<32>(first));
            sums[2] = _mm256_add_epi64(sums[2], _mm256_and_si256(second, low_half));
            sums[3] = _mm256_add_epi64(sums[3], _mm256_srli_epi64::<32>(second));
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn sum(self) -> Sum {
            let [a, b, c, d] = self.sums;
            let sum = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
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
}
