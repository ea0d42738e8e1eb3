//! The memory that data goes to and comes from, shared with the NIC if there is one.
//!
//! The NIC is another process, which writes here at any time if a peer makes it. So there are no references to the memory of a command
//! that is under way: copies, digests and system calls get [addresses](shared). They read each byte once, and are right for any value.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attachment::{DataMemory, Errno, PAGE};
use shared::{SharedSlice, SharedSliceMut};

use crate::socket::Part;

/// A range of an initiator's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Bytes from the memory's beginning.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u32,
}

impl Slice {
    /// Of no bytes.
    pub const NOTHING: Slice = Slice { offset: 0, len: 0 };

    /// Bytes.
    pub fn len(self) -> u32 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// `len` of its bytes from `from` on.
    pub(crate) fn part(self, from: u32, len: u32) -> Slice {
        debug_assert!(from + len <= self.len);
        Slice {
            offset: self.offset + u64::from(from),
            len,
        }
    }
}

/// No memory is left for so many blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes of blocks are more than the {left} that the initiator's memory has left")]
pub struct NoMemory {
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Bytes that there are.
    pub left: u64,
}

/// All memory of an initiator.
#[derive(Debug)]
pub(crate) struct Memory {
    data: DataMemory,
    /// Bytes that pools have been given.
    used: Mutex<u64>,
}

impl Memory {
    /// Of so many bytes at most, which are taken as they are used.
    pub(crate) fn new(bytes: u64) -> Result<Memory, Errno> {
        Ok(Memory {
            data: DataMemory::create(bytes)?,
            used: Mutex::new(0),
        })
    }

    pub(crate) fn data(&self) -> &DataMemory {
        &self.data
    }

    fn take(&self, bytes: u64) -> Result<u64, NoMemory> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.data.len() as u64 - *used;
        if bytes > left {
            return Err(NoMemory { bytes, left });
        }
        let start = *used;
        *used += bytes;
        Ok(start)
    }

    fn address(&self, slice: Slice) -> *mut u8 {
        let end = slice.offset + u64::from(slice.len);
        assert!(end <= self.data.len() as u64, "{slice:?} is not inside");
        // SAFETY: inside of the mapping.
        unsafe { self.data.as_ptr().add(slice.offset as usize) }
    }

    /// A slice as system calls name it.
    pub(crate) fn raw(&self, slice: Slice) -> Part {
        Part {
            start: self.address(slice),
            len: slice.len as usize,
        }
    }

    /// The bytes of a command that is under way.
    pub(crate) fn bytes(&self, slice: Slice) -> SharedSlice<'_> {
        // SAFETY: inside of the mapping, which `self` keeps.
        unsafe { SharedSlice::from_raw_parts(self.address(slice), slice.len as usize) }
    }

    /// The memory of a command that is under way, to be filled.
    pub(crate) fn bytes_mut(&self, slice: Slice) -> SharedSliceMut<'_> {
        // SAFETY: inside of the mapping, which `self` keeps and which is writable. The command has the memory: its owner has no reference
        // to it (`Block::bytes`), and the initiator makes none.
        unsafe { SharedSliceMut::from_raw_parts(self.address(slice), slice.len as usize) }
    }
}

/// Blocks of one size in an initiator's memory. A handle: clones share the blocks.
#[derive(Clone, Debug)]
pub struct BlockPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    memory: Arc<Memory>,
    start: u64,
    block_len: u32,
    /// Numbers of the free blocks.
    free: Mutex<Vec<u32>>,
}

/// One block. It goes back to its pool when it is dropped, which must not be while a command may still use it.
#[derive(Debug)]
pub struct Block {
    shared: Arc<Shared>,
    index: u32,
}

impl BlockPool {
    pub(crate) fn new(
        memory: &Arc<Memory>,
        block_len: u32,
        count: u32,
    ) -> Result<BlockPool, NoMemory> {
        let stride = u64::from(block_len).next_multiple_of(PAGE as u64);
        let start = memory.take(stride * u64::from(count))?;
        Ok(BlockPool {
            shared: Arc::new(Shared {
                memory: Arc::clone(memory),
                start,
                block_len,
                // The first blocks are taken first, and again: those that the cache holds.
                free: Mutex::new((0..count).rev().collect()),
            }),
        })
    }

    /// A block, with whatever it held before. `None`: all are taken.
    #[must_use]
    pub fn take(&self) -> Option<Block> {
        let index = self.shared.free().pop()?;
        Some(Block {
            shared: Arc::clone(&self.shared),
            index,
        })
    }

    /// Bytes of each block.
    #[must_use]
    pub fn block_len(&self) -> u32 {
        self.shared.block_len
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    /// Bytes of it.
    #[must_use]
    pub fn block_len(&self) -> u32 {
        self.shared.block_len
    }

    /// Its first `len` bytes, as commands name them.
    ///
    /// # Panics
    /// When it has fewer.
    #[must_use]
    pub fn slice(&self, len: u32) -> Slice {
        let shared = &self.shared;
        assert!(len <= shared.block_len, "{len} bytes of a block");
        let stride = u64::from(shared.block_len).next_multiple_of(PAGE as u64);
        Slice {
            offset: shared.start + stride * u64::from(self.index),
            len,
        }
    }

    /// Its bytes.
    ///
    /// # Safety
    /// As long as the reference lives, no command may name the block that writes to it.
    #[must_use]
    pub unsafe fn bytes(&self) -> &[u8] {
        let slice = self.slice(self.shared.block_len);
        // SAFETY: the block lies in the memory, which `shared` keeps mapped; no other handle names it, and the caller sees to it that
        // it is not written.
        unsafe { std::slice::from_raw_parts(self.shared.memory.address(slice), slice.len as usize) }
    }

    /// Its bytes, to be filled.
    ///
    /// # Safety
    /// As long as the reference lives, no command may name the block.
    #[must_use]
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        let slice = self.slice(self.shared.block_len);
        let start = self.shared.memory.address(slice);
        // SAFETY: as in `bytes`, with an exclusive borrow of the only handle, without readers.
        unsafe { std::slice::from_raw_parts_mut(start, slice.len as usize) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.shared.free().push(self.index);
    }
}
