//! Plain memory and shared memory by one name, and copies between the two.
//!
//! A C library's `memcpy` turns to `rep movsb` for long copies on processors that announce it as fast. Some of them (AMD
//! Zen 3) then run at a twentieth of their speed when the target is not aligned as the source is, and payload behind
//! packet and record headers never is. Pieces below that threshold are copied by vector moves everywhere.

use std::mem::MaybeUninit;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::{SharedSlice, SharedSliceMut};

/// Bytes copied at a time: below the shortest threshold at which glibc uses `rep movsb` with AVX (2,112 on Zen).
pub(crate) const PIECE: usize = 2048;

/// Bytes to be read.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Memory that stays as it is.
    Own(&'a [u8]),
    /// Memory that others may write meanwhile: each byte is to be read once.
    Shared(SharedSlice<'a>),
}

/// Bytes to be written.
#[derive(Debug)]
pub enum Output<'a> {
    /// Memory that nothing else reads or writes: what was written can be read again.
    Own(&'a mut [u8]),
    /// Memory that others may write meanwhile: what was written can't be relied on.
    Shared(SharedSliceMut<'a>),
}

impl<'a> Input<'a> {
    /// Bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        match self {
            Input::Own(bytes) => bytes.len(),
            Input::Shared(bytes) => bytes.len(),
        }
    }

    /// Whether it has no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Its first byte. Valid for reads of [`len`](Self::len) bytes.
    #[inline]
    #[must_use]
    pub const fn as_ptr(self) -> *const u8 {
        match self {
            Input::Own(bytes) => bytes.as_ptr(),
            Input::Shared(bytes) => bytes.as_ptr(),
        }
    }

    /// The first `at` bytes, and the others.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    #[must_use]
    pub fn split_at(self, at: usize) -> (Input<'a>, Input<'a>) {
        match self {
            Input::Own(bytes) => {
                let (front, back) = bytes.split_at(at);
                (Input::Own(front), Input::Own(back))
            }
            Input::Shared(bytes) => {
                let (front, back) = bytes.split_at(at);
                (Input::Shared(front), Input::Shared(back))
            }
        }
    }

    /// Calls `take` with the bytes as they are now: with shared memory's as they were when they were read, in at most `MOST` bytes of the
    /// stack.
    ///
    /// # Panics
    /// When shared memory has more.
    #[inline]
    pub fn read<const MOST: usize, R>(self, take: impl FnOnce(&[u8]) -> R) -> R {
        let bytes = match self {
            Input::Own(bytes) => return take(bytes),
            Input::Shared(bytes) => bytes,
        };
        let mut room = [MaybeUninit::<u8>::uninit(); MOST];
        let room = &mut room[..bytes.len()];
        // SAFETY: both are valid for the length of `room`, which nothing else knows of.
        unsafe { copy(bytes.as_ptr(), room.as_mut_ptr().cast(), room.len()) };
        // SAFETY: all of `room` was written.
        take(unsafe { &*(&raw const *room as *const [u8]) })
    }

    /// Reads the bytes, each once, at the same speed whatever their alignment.
    ///
    /// # Panics
    /// When `to` has another length.
    #[inline]
    pub fn copy_to(self, to: &mut [u8]) {
        Output::Own(to).copy_from(self);
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Input<'a> {
    #[inline]
    fn from(bytes: &'a T) -> Input<'a> {
        Input::Own(bytes.as_ref())
    }
}

impl<'a> From<SharedSlice<'a>> for Input<'a> {
    #[inline]
    fn from(bytes: SharedSlice<'a>) -> Input<'a> {
        Input::Shared(bytes)
    }
}

impl<'a> Output<'a> {
    /// Bytes.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Output::Own(bytes) => bytes.len(),
            Output::Shared(bytes) => bytes.len(),
        }
    }

    /// Whether it has no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its first byte. Valid for writes of [`len`](Self::len) bytes.
    #[inline]
    #[must_use]
    pub const fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Output::Own(bytes) => bytes.as_mut_ptr(),
            Output::Shared(bytes) => bytes.as_mut_ptr(),
        }
    }

    /// The first `at` bytes, and the others.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    #[must_use]
    pub fn split_at(self, at: usize) -> (Output<'a>, Output<'a>) {
        match self {
            Output::Own(bytes) => {
                let (front, back) = bytes.split_at_mut(at);
                (Output::Own(front), Output::Own(back))
            }
            Output::Shared(bytes) => {
                let (front, back) = bytes.split_at(at);
                (Output::Shared(front), Output::Shared(back))
            }
        }
    }

    /// Writes the bytes, each once, at the same speed whatever their alignment.
    ///
    /// # Panics
    /// When `from` has another length.
    #[inline]
    pub fn copy_from<'f>(mut self, from: impl Into<Input<'f>>) {
        let (from, len) = (from.into(), self.len());
        assert_eq!(
            from.len(),
            len,
            "source and target of a copy differ in length"
        );
        // Memory of our own overlaps nothing.
        let (start, own_start) = (from.as_ptr().addr(), self.as_mut_ptr().addr());
        if start.abs_diff(own_start) < len {
            return self.copy_from_overlap(from);
        }
        // SAFETY: the one is valid for reads and the other for writes of `len` bytes, and they do not overlap.
        unsafe { copy(from.as_ptr(), self.as_mut_ptr(), len) };
    }

    /// The two overlap.
    #[cold]
    fn copy_from_overlap(mut self, mut from: Input<'_>) {
        while !from.is_empty() {
            let (now, later) = from.split_at(from.len().min(PIECE));
            let (made, rest) = self.split_at(now.len());
            now.read::<PIECE, _>(|bytes| made.copy_from(bytes));
            (from, self) = (later, rest);
        }
    }
}

impl<'a, T: AsMut<[u8]> + ?Sized> From<&'a mut T> for Output<'a> {
    #[inline]
    fn from(bytes: &'a mut T) -> Output<'a> {
        Output::Own(bytes.as_mut())
    }
}

impl<'a> From<SharedSliceMut<'a>> for Output<'a> {
    #[inline]
    fn from(bytes: SharedSliceMut<'a>) -> Output<'a> {
        Output::Shared(bytes)
    }
}

/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes; they do not overlap. Others may write to shared memory meanwhile.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    while done < len {
        let piece = PIECE.min(len - done);
        // SAFETY: inside of what the caller vouches for. Where others write at the same time any bytes are copied, and nothing here
        // looks at them.
        unsafe { std::ptr::copy_nonoverlapping(from.add(done), to.add(done), piece) };
        done += piece;
    }
    // What was copied is not to be read again where it came from.
    compiler_fence(Ordering::SeqCst);
}
