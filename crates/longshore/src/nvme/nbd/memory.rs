//! Memory for the data of requests.

use host::memory::{Block, BlockPool};
use host::{SocketError, Stack};

/// Blocks of three sizes: requests are of all sizes, and each takes at least one.
#[derive(Debug)]
pub(super) struct Memory {
    pools: [BlockPool; 3],
    /// Bytes of the longest part.
    most: u32,
}

/// Block sizes, and bytes of each.
const SMALL: (u32, u32) = (16 << 10, 16 << 20);
const MIDDLE: (u32, u32) = (128 << 10, 32 << 20);
/// The largest blocks are as long as a command may be; there is memory for two requests of the greatest size.
const LARGE_BYTES: u32 = 64 << 20;

impl Memory {
    /// Memory for parts of at most `most` bytes.
    pub(super) fn new(stack: &mut Stack, most: u32) -> Result<Memory, SocketError> {
        let mut pool = |block_len: u32, bytes: u32| {
            BlockPool::new(stack, block_len, (bytes / block_len).max(2), "nbd")
        };
        Ok(Memory {
            pools: [
                pool(SMALL.0, SMALL.1)?,
                pool(MIDDLE.0, MIDDLE.1)?,
                pool(most.max(MIDDLE.0), LARGE_BYTES)?,
            ],
            most,
        })
    }

    /// Memory for `len` bytes in parts, added to `parts`: all of it or none.
    pub(super) fn take(&self, len: u32, parts: &mut Vec<(Block, u32)>) -> bool {
        let before = parts.len();
        let mut left = len;
        while left > 0 {
            let part = left.min(self.most);
            let fitting = self.pools.iter().filter(|pool| pool.block_len() >= part);
            let Some(block) = fitting.into_iter().find_map(BlockPool::take) else {
                parts.truncate(before);
                return false;
            };
            parts.push((block, part));
            left -= part;
        }
        true
    }
}
