//! Giving the pages of free blocks back to the system.

use std::sync::atomic::Ordering;

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

use super::Arena;
use super::pool::{Pool, Shared};

impl Arena {
    /// Bytes of blocks that have been used and whose pages were not given back: what the arena has of the machine's memory at most.
    pub fn resident(&self) -> u64 {
        self.shared.pools.iter().map(Pool::resident).sum()
    }

    /// Gives the pages of `most` bytes of free blocks back to the system, those of the highest addresses first. Meanwhile other threads find
    /// fewer blocks free. Answers how many bytes it was.
    pub fn trim(&self, most: u64) -> u64 {
        let mut free = Vec::new();
        let mut given = 0;
        for pool in self.shared.pools.iter().rev() {
            let block = u64::from(pool.block_bytes);
            let wanted = most.saturating_sub(given) / block;
            if wanted == 0 {
                continue;
            }
            free.clear();
            pool.hot.take_all(&pool.entries, &mut free);
            free.sort_unstable();
            let kept = free.len().saturating_sub(wanted as usize);
            pool.hot.push_all(&pool.entries, &free[..kept]);
            free.drain(..kept);
            given += free.len() as u64 * block;
            pool.cold_blocks
                .fetch_add(free.len() as u32, Ordering::Relaxed);
            // A page that two blocks share goes when both are free: with those that are cold already.
            pool.cold.take_all(&pool.entries, &mut free);
            free.sort_unstable();
            for run in free.chunk_by(|at, next| at + 1 == *next) {
                self.shared.advise(pool, run[0], run.len());
            }
            pool.cold.push_all(&pool.entries, &free);
        }
        given
    }
}

impl Shared {
    /// Gives the whole pages of `count` blocks from `first` on back. The caller has taken these off the lists of free blocks.
    fn advise(&self, pool: &Pool, first: u32, count: usize) {
        let page = page_size();
        let start = self.base.addr().get() + pool.offset_of(first) as usize;
        let end = start + count * pool.block_bytes as usize;
        let (from, to) = (start.next_multiple_of(page), end / page * page);
        if from >= to {
            return;
        }
        let offset = from - self.base.addr().get();
        // A file's pages stay in it until they are taken out.
        let advice = match self.region.backing() {
            Some(_) => Advice::LinuxRemove,
            None => Advice::LinuxDontNeed,
        };
        // SAFETY: the range lies in the region. No handle names its blocks, and no thread can get one while they are on no list, so
        // that their content, which reads as zeroes from now on, is of no concern. A refusal changes nothing.
        let _ = unsafe { madvise(self.base.as_ptr().add(offset).cast(), to - from, advice) };
    }
}
