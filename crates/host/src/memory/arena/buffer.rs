//! Handles of an arena's blocks, and of parts of them.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nic::ring::Slice;

use super::pool::{Entry, LENT, Shared};
use super::{Purpose, SizeClass};

/// Bytes of an arena that this handle alone may touch.
///
/// Dropping the last part of a block gives it back.
pub struct Buffer {
    pub(super) shared: Arc<Shared>,
    pub(super) index: u32,
    pub(super) start: u32,
    pub(super) len: u32,
    pub(super) class: u8,
}

impl Buffer {
    /// Where the bytes are, as a descriptor says it.
    pub fn slice(&self) -> Slice {
        let pool = &self.shared.pools[self.class as usize];
        Slice {
            region: self.shared.id,
            offset: pool.offset_of(self.index) + u64::from(self.start),
            len: self.len,
        }
    }

    /// A part of [`Self::slice`].
    ///
    /// # Panics
    /// When `offset + len` is beyond the buffer.
    pub fn subslice(&self, offset: u32, len: u32) -> Slice {
        let whole = self.slice();
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= whole.len),
            "{offset}+{len} is beyond a buffer of {} bytes",
            whole.len
        );
        Slice {
            offset: whole.offset + u64::from(offset),
            len,
            ..whole
        }
    }

    /// Keeps the first `len` bytes. Longer than the buffer changes nothing.
    #[inline]
    pub fn truncate(&mut self, len: u32) {
        self.len = self.len.min(len);
    }

    /// Appends bytes in what the block has behind this buffer. False, and nothing changes, when there is too little of it
    /// or other parts of the block are alive.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let end = u64::from(self.start) + u64::from(self.len) + bytes.len() as u64;
        let is_whole = Purpose::parts(self.entry().parts.load(Ordering::Acquire)) == 1;
        if !is_whole || end > u64::from(self.class().bytes()) {
            return false;
        }
        let at = self.len as usize;
        self.len += bytes.len() as u32;
        self[at..].copy_from_slice(bytes);
        true
    }

    /// Drops the first `len` bytes.
    ///
    /// # Panics
    /// When the buffer is shorter.
    #[inline]
    pub fn advance(&mut self, len: u32) {
        assert!(len <= self.len, "{len} is beyond a buffer of {}", self.len);
        self.start += len;
        self.len -= len;
    }

    /// Keeps `[0, at)` and returns `[at, len)`; both own their part of the block.
    ///
    /// # Panics
    /// When the buffer is shorter than `at`.
    pub fn split_off(&mut self, at: u32) -> Buffer {
        assert!(at <= self.len, "{at} is beyond a buffer of {}", self.len);
        self.entry().parts.fetch_add(1, Ordering::Relaxed);
        let back = Buffer {
            shared: self.shared.clone(),
            class: self.class,
            index: self.index,
            start: self.start + at,
            len: self.len - at,
        };
        self.len = at;
        back
    }

    /// The block's class.
    #[inline]
    pub fn class(&self) -> SizeClass {
        SizeClass::ALL[self.class as usize]
    }

    /// Lends the whole block to the device: its slice, to be posted, until [`Arena::reclaim`](super::Arena::reclaim).
    ///
    /// # Errors
    /// [`LendError`], with the buffer, while other parts of the block are alive.
    pub fn lend(mut self) -> Result<Slice, LendError> {
        let entry = self.entry();
        let word = entry.parts.load(Ordering::Acquire);
        // No other handle names a block in one part, which therefore stays as it is.
        if Purpose::parts(word) != 1 {
            return Err(LendError(self));
        }
        entry.parts.store(LENT, Ordering::Release);
        let bytes = self.class().bytes();
        self.shared.budget.give(Purpose::of(word), bytes);
        self.start = 0;
        self.len = bytes;
        let slice = self.slice();
        // The block stays taken; only the handle's hold on the arena ends here.
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped and not used again, so the Arc is read out once.
        drop(unsafe { std::ptr::read(&this.shared) });
        Ok(slice)
    }

    #[inline]
    fn entry(&self) -> &Entry {
        &self.shared.pools[self.class as usize].entries[self.index as usize]
    }

    #[inline]
    fn address(&self) -> *mut u8 {
        let pool = &self.shared.pools[self.class as usize];
        let offset = pool.offset_of(self.index) as usize + self.start as usize;
        // SAFETY: the layout was checked to lie in the region, and start + len in the block.
        unsafe { self.shared.base.as_ptr().add(offset) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is in the region, which `shared` keeps mapped; no other handle names
        // these bytes (parts are disjoint), and a device that was sent their slice for reading
        // does not write them, except an ICV that is read only after its completion.
        unsafe { std::slice::from_raw_parts(self.address(), self.len as usize) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.len as usize) }
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        let parts = &self.entry().parts;
        let before = match parts.load(Ordering::Acquire) {
            // No other handle names a block in one part.
            word if Purpose::parts(word) == 1 => {
                parts.store(0, Ordering::Relaxed);
                word
            }
            _ => parts.fetch_sub(1, Ordering::AcqRel),
        };
        debug_assert!(before < LENT && Purpose::parts(before) > 0);
        if Purpose::parts(before) == 1 {
            self.shared.give(self.class.into(), self.index, before);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:?}, {} bytes)", self.class(), self.len)
    }
}

/// A block was not lent because other parts of it are alive; here is the buffer.
#[derive(Debug, thiserror::Error)]
#[error("a block can be lent only whole, and other parts of it are in use")]
pub struct LendError(pub Buffer);
