//! The memory of commands.

use host::memory as ours;

/// Blocks of one size for the data of commands.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    /// In the memory of our stack.
    Ours(ours::BlockPool),
    /// In memory that is shared with the NIC, for Linux's TCP.
    Linux(kernel_nvme::BlockPool),
}

impl Pool {
    /// A block, with whatever it held before. `None`: all are taken.
    pub(crate) fn take(&self) -> Option<Block> {
        match self {
            Pool::Ours(pool) => pool.take().map(Block::Ours),
            Pool::Linux(pool) => pool.take().map(Block::Linux),
        }
    }

    /// Bytes of each block.
    pub(crate) fn block_len(&self) -> u32 {
        match self {
            Pool::Ours(pool) => pool.block_len(),
            Pool::Linux(pool) => pool.block_len(),
        }
    }
}

/// One block. It goes back to its pool when it is dropped, which must not be while a command may still use it.
#[derive(Debug)]
pub(crate) enum Block {
    Ours(ours::Block),
    Linux(kernel_nvme::Block),
}

impl Block {
    /// Bytes of it.
    pub(crate) fn block_len(&self) -> u32 {
        match self {
            Block::Ours(block) => block.block_len(),
            Block::Linux(block) => block.block_len(),
        }
    }

    /// Its bytes.
    ///
    /// # Safety
    /// As long as the reference lives, no command may name the block that writes to it.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: the caller's promise.
            Block::Ours(block) => unsafe { block.bytes() },
            // SAFETY: the caller's promise.
            Block::Linux(block) => unsafe { block.bytes() },
        }
    }

    /// Its bytes, to be filled.
    ///
    /// # Safety
    /// As long as the reference lives, no command may name the block.
    pub(crate) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            // SAFETY: the caller's promise.
            Block::Ours(block) => unsafe { block.bytes_mut() },
            // SAFETY: the caller's promise.
            Block::Linux(block) => unsafe { block.bytes_mut() },
        }
    }
}
