//! Big-endian integers at fixed places in a slice.
//!
//! The callers have checked the slice's length before; with that check in sight the compiler drops the one
//! implied here.

/// The 16-bit integer at `at`.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32-bit integer at `at`.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The `N` bytes at `at`.
#[inline(always)]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Writes `value` at `at`.
#[inline(always)]
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes `value` at `at`.
#[inline(always)]
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The little-endian 16-bit integer at `at`.
#[inline(always)]
pub(crate) fn u16_le_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// The little-endian 32-bit integer at `at`.
#[inline(always)]
pub(crate) fn u32_le_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// The little-endian 64-bit integer at `at`.
#[inline(always)]
pub(crate) fn u64_le_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Writes `value` at `at`, little-endian.
#[inline(always)]
pub(crate) fn put_u16_le(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Writes `value` at `at`, little-endian.
#[inline(always)]
pub(crate) fn put_u32_le(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes `value` at `at`, little-endian.
#[inline(always)]
pub(crate) fn put_u64_le(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
