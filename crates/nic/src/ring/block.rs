//! The shared block: one contiguous allocation that holds every ring of a function.
//!
//! Host and device address it by offsets from its start only, so that it can be mapped at
//! different addresses in two processes. All of it is read and written as 64-bit atomics: what the
//! other side does to it meanwhile, by mistake or by malice, is a wrong value, never undefined
//! behaviour.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Alignment of the block and of everything that one side alone writes: two cache lines, because
/// adjacent lines are fetched in pairs.
pub(super) const LINE: usize = 128;

/// The memory of one function's rings.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<AtomicU64>,
    words: usize,
    _memory: OwnMemory,
}

// SAFETY: the block is only reached as `AtomicU64`s, and its memory lives as long as it does.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Zeroed memory of this process.
    pub(super) fn allocate(bytes: usize) -> Block {
        let memory = OwnMemory::zeroed(bytes.next_multiple_of(LINE).max(LINE));
        Block {
            start: memory.start.cast(),
            words: memory.layout.size() / 8,
            _memory: memory,
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
