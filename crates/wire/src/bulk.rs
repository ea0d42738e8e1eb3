//! Copying payload.

/// Copies `from` to `to` at the same speed whatever their alignment.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn copy(from: &[u8], to: &mut [u8]) {
    shared::Input::Own(from).copy_to(to);
}
