//! Memory for the data of requests.

use anyhow::Result;

use crate::disk::{Block, Pool};
use crate::nvme::driver::Driver;
use crate::nvme::initiator::Initiator;

/// Blocks of three sizes: requests are of all sizes, and each takes at least one.
#[derive(Debug)]
pub(in crate::nvme) struct Memory {
    pools: [Pool; 3],
    /// Bytes of the longest part.
    most: u32,
    /// Bytes that one client may have, beside a single request: one that takes no answers leaves as much to the others.
    pub(super) share: u64,
}

/// Block sizes, and bytes of each.
const SMALL: (u32, u32) = (16 << 10, 16 << 20);
const MIDDLE: (u32, u32) = (128 << 10, 32 << 20);
/// The largest blocks are as long as a command may be; there is memory for two requests of the greatest size.
const LARGE_BYTES: u32 = 64 << 20;

impl Memory {
    /// Memory for parts of at most `most` bytes.
    pub(in crate::nvme) fn new(
        driver: &mut Driver,
        initiator: &Initiator,
        most: u32,
    ) -> Result<Memory> {
        let mut pool = |block_len: u32, bytes: u32| {
            initiator.blocks(driver, block_len, (bytes / block_len).max(2))
        };
        Ok(Memory {
            pools: [
                pool(SMALL.0, SMALL.1)?,
                pool(MIDDLE.0, MIDDLE.1)?,
                pool(most.max(MIDDLE.0), LARGE_BYTES)?,
            ],
            most,
            share: u64::from(LARGE_BYTES / 2),
        })
    }

    /// So many blocks of one length, in the memory of a stack that has nothing else to do.
    #[cfg(test)]
    pub(super) fn of_blocks(block_len: u32, count: u32) -> Memory {
        let mac = wire::ethernet::MacAddr([2, 0, 0, 0, 0, 1]);
        let (function, _device) = nic::ring::function(nic::ring::FunctionConfig::new(mac));
        let (now, config) = (std::time::Instant::now(), host::StackConfig::default());
        let mut stack = host::Stack::new(now, config, function);
        let pool = host::memory::BlockPool::new(&mut stack, block_len, count, "test");
        let pool = Pool::Ours(pool.expect("memory for a few blocks"));
        Memory {
            pools: [pool.clone(), pool.clone(), pool],
            most: block_len,
            share: u64::from(block_len * count / 2),
        }
    }

    /// Whether a client that has `held` bytes may have so many more.
    pub(super) fn allows(&self, held: u64, len: u32) -> bool {
        held == 0 || held + u64::from(len) <= self.share
    }

    /// Memory for `len` bytes in parts, added to `parts`: all of it or none.
    pub(super) fn take(&self, len: u32, parts: &mut Vec<(Block, u32)>) -> bool {
        let before = parts.len();
        let mut left = len;
        while left > 0 {
            let part = left.min(self.most);
            let fitting = self.pools.iter().filter(|pool| pool.block_len() >= part);
            let Some(block) = fitting.into_iter().find_map(Pool::take) else {
                parts.truncate(before);
                return false;
            };
            parts.push((block, part));
            left -= part;
        }
        true
    }
}

/// Bytes that these parts have of the memory.
pub(super) fn held_by(parts: &[(Block, u32)]) -> u64 {
    let lens = parts.iter().map(|(block, _)| u64::from(block.block_len()));
    lens.sum()
}
