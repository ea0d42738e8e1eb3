//! Telling the processor what will be needed.

#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Has the processor fetch the cache lines of a value that will be read or written soon. Does nothing where there is no way to say so.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        for line in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: SSE is part of x86-64, and a prefetch of any address has no effect that a program can see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
