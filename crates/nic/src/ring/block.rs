//! The shared block: one contiguous piece of memory that holds every ring of a function.
//!
//! Host and device address it by offsets from its start only, so that it can be mapped at
//! different addresses in two processes. All of it is read and written as 64-bit atomics: what the
//! other side does to it meanwhile, by mistake or by malice, is a wrong value, never undefined
//! behaviour.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Alignment of the block and of everything that one side alone writes: two cache lines, because
/// adjacent lines are fetched in pairs.
pub(super) const LINE: usize = 128;

/// The memory of one function's rings.
pub struct Block {
    start: NonNull<AtomicU64>,
    words: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the block is only reached as `AtomicU64`s, and its memory lives as long as it does.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("start", &self.start)
            .field("words", &self.words)
            .finish_non_exhaustive()
    }
}

impl Block {
    /// Zeroed memory of this process.
    pub(super) fn allocate(bytes: usize) -> Block {
        let memory = Arc::new(OwnMemory::zeroed(bytes.next_multiple_of(LINE).max(LINE)));
        let (start, len) = (memory.start, memory.layout.size());
        // SAFETY: `memory` owns `len` bytes at `start` until it is dropped, and nothing else points to them.
        unsafe { Block::from_raw_parts(start.as_ptr(), len, memory) }
    }

    /// Memory that `owner` keeps alive, which another process may have too. A new function's is zeroed.
    ///
    /// # Safety
    /// `start` must be valid for reads and writes of `len` bytes until `owner` is dropped, and in this process nothing else reaches
    /// them but through blocks.
    ///
    /// # Panics
    /// When `start` is null, or not aligned to 128 bytes.
    pub unsafe fn from_raw_parts(
        start: *mut u8,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Block {
        assert!(
            start.addr().is_multiple_of(LINE),
            "a block is aligned to {LINE} bytes"
        );
        Block {
            start: NonNull::new(start.cast()).expect("a block has an address"),
            words: len / 8,
            _owner: owner,
        }
    }

    /// All words of the block.
    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `start` is valid for `words` words for as long as `self` holds the memory,
        // is aligned to more than a word, and is reached as atomics only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

#[derive(Debug)]
struct OwnMemory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory, which any thread may free.
unsafe impl Send for OwnMemory {}
// SAFETY: as above.
unsafe impl Sync for OwnMemory {}

impl OwnMemory {
    fn zeroed(bytes: usize) -> OwnMemory {
        let layout =
            Layout::from_size_align(bytes, LINE).expect("a ring block fits the address space");
        // SAFETY: the layout's size is not zero: `allocate` asks for a line at least.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => OwnMemory { start, layout },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for OwnMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
