//! Memory that others may write at the same time: threads of a host, another process, any that maps the same file.
//!
//! Rust allows no reference to such memory, not even to read it: a `&[u8]` promises that the bytes stay as they are while it lives.
//! [`SharedSlice`] and [`SharedSliceMut`] are addresses instead. Another process may write at any time, so a read may give any mixture
//! of old bytes and new ones: each byte is read once, by a cipher or into memory of our own, and what was read is what is acted on.
//! After each copy the compiler takes all memory for changed, so that it never reads a byte again in place of what was copied.
//! [`Input`] and [`Output`] are either this or plain memory, for code that works on both.

#![warn(missing_docs)]

mod copy;
#[cfg(test)]
mod tests;

pub use copy::{Input, Output};

use std::marker::PhantomData;

/// Bytes to be read that others may write at the same time.
#[derive(Clone, Copy, Debug)]
pub struct SharedSlice<'a> {
    start: *const u8,
    len: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> SharedSlice<'a> {
    /// Of no bytes.
    pub const NOTHING: SharedSlice<'a> = SharedSlice {
        start: std::ptr::dangling(),
        len: 0,
        memory: PhantomData,
    };

    /// The `len` bytes at `start`.
    ///
    /// # Safety
    /// They are mapped, and may be read, during `'a`.
    #[inline]
    #[must_use]
    pub const unsafe fn from_raw_parts(start: *const u8, len: usize) -> SharedSlice<'a> {
        SharedSlice {
            start,
            len,
            memory: PhantomData,
        }
    }

    /// Its first byte. Valid for reads of [`len`](Self::len) bytes.
    #[inline]
    #[must_use]
    pub const fn as_ptr(self) -> *const u8 {
        self.start
    }

    /// Bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first `at` bytes, and the others.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    #[must_use]
    pub fn split_at(self, at: usize) -> (SharedSlice<'a>, SharedSlice<'a>) {
        assert!(at <= self.len, "{at} of {} bytes", self.len);
        // SAFETY: both are inside of these bytes.
        unsafe {
            (
                SharedSlice::from_raw_parts(self.start, at),
                SharedSlice::from_raw_parts(self.start.add(at), self.len - at),
            )
        }
    }

    /// Reads the bytes, each once.
    ///
    /// # Panics
    /// When `to` has another length.
    #[inline]
    pub fn copy_to(self, to: &mut [u8]) {
        Input::Shared(self).copy_to(to);
    }

    /// The bytes, as they were when they were read.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.copy_to(&mut bytes);
        bytes
    }
}

impl<'a> From<&'a [u8]> for SharedSlice<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> SharedSlice<'a> {
        // SAFETY: a reference is valid for reads as long as it lives.
        unsafe { SharedSlice::from_raw_parts(bytes.as_ptr(), bytes.len()) }
    }
}

/// Bytes to be written that others may write, or read, at the same time.
#[derive(Clone, Copy, Debug)]
pub struct SharedSliceMut<'a>(SharedSlice<'a>);

impl<'a> SharedSliceMut<'a> {
    /// The `len` bytes at `start`.
    ///
    /// # Safety
    /// They are mapped, and may be written, during `'a`, and no reference to them is used meanwhile.
    #[inline]
    #[must_use]
    pub const unsafe fn from_raw_parts(start: *mut u8, len: usize) -> SharedSliceMut<'a> {
        // SAFETY: the caller vouches for the bytes, and nothing here reads them.
        SharedSliceMut(unsafe { SharedSlice::from_raw_parts(start, len) })
    }

    /// Its first byte. Valid for writes of [`len`](Self::len) bytes.
    #[inline]
    #[must_use]
    pub const fn as_mut_ptr(self) -> *mut u8 {
        // It was one when this was made.
        self.0.as_ptr().cast_mut()
    }

    /// Bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether it has no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The first `at` bytes, and the others.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    #[must_use]
    pub fn split_at(self, at: usize) -> (SharedSliceMut<'a>, SharedSliceMut<'a>) {
        let (front, back) = self.0.split_at(at);
        (SharedSliceMut(front), SharedSliceMut(back))
    }

    /// Writes the bytes, each once.
    ///
    /// # Panics
    /// When `from` has another length.
    #[inline]
    pub fn copy_from<'f>(self, from: impl Into<Input<'f>>) {
        Output::Shared(self).copy_from(from);
    }
}
