//! What connections in teardown have not had acknowledged: bytes in chains of small blocks.
//!
//! A response of 64 bytes takes one block and an initial window of 14,600 takes 115, so at most 127 bytes of a connection are
//! wasted. A chain is freed block by block, as its bytes are acknowledged. Nothing is allocated but once, and memory that
//! was never used costs no page.

/// Bytes of a block.
pub(crate) const BLOCK: u32 = 128;

/// No block.
const NONE: u32 = u32::MAX;

/// A pool of blocks.
#[derive(Debug)]
pub(crate) struct PacketMemory {
    bytes: Vec<u8>,
    /// For each block the next one of its chain, or of the free ones.
    next: Vec<u32>,
    free: u32,
    /// Blocks from this one on were never used.
    fresh: u32,
    used: u32,
}

/// Bytes of one connection. Must be given back to the memory that it is of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    first: u32,
    /// Bytes of the first block that were let go of already.
    skip: u32,
    len: u32,
}

impl Chain {
    /// No bytes.
    pub(crate) const EMPTY: Chain = Chain {
        first: NONE,
        skip: 0,
        len: 0,
    };
}

/// Blocks for so many bytes.
pub(crate) const fn blocks_for(bytes: u32) -> u32 {
    bytes.div_ceil(BLOCK)
}

impl PacketMemory {
    /// A pool of so many free blocks.
    pub(crate) fn new(blocks: u32) -> PacketMemory {
        let blocks = blocks.min(NONE - 1);
        PacketMemory {
            bytes: vec![0; blocks as usize * BLOCK as usize],
            next: vec![0; blocks as usize],
            free: NONE,
            fresh: 0,
            used: 0,
        }
    }

    /// Blocks not in use.
    pub(crate) fn free_blocks(&self) -> u32 {
        self.next.len() as u32 - self.used
    }

    /// Keeps `len` bytes, which `fill` writes part by part, in order.
    ///
    /// # Errors
    /// `Ok(None)` without room for them; what `fill` gives, when it fails.
    pub(crate) fn store<E>(
        &mut self,
        len: u32,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<Option<Chain>, E> {
        if blocks_for(len) > self.free_blocks() {
            return Ok(None);
        }
        let mut chain = Chain {
            len,
            ..Chain::EMPTY
        };
        let (mut left, mut last) = (len, NONE);
        while left > 0 {
            let block = self.take();
            match last {
                NONE => chain.first = block,
                last => self.next[last as usize] = block,
            }
            last = block;
            let part = left.min(BLOCK);
            left -= part;
            let at = block as usize * BLOCK as usize;
            if let Err(error) = fill(&mut self.bytes[at..at + part as usize]) {
                chain.len -= left;
                self.release(chain);
                return Err(error);
            }
        }
        Ok(Some(chain))
    }

    /// Copies bytes from `offset` on to `out`.
    ///
    /// # Panics
    /// If the chain has not so many.
    pub(crate) fn read(&self, chain: &Chain, offset: u32, out: &mut [u8]) {
        assert!(
            offset as usize + out.len() <= chain.len as usize,
            "{} bytes at {offset} of {}",
            out.len(),
            chain.len
        );
        let mut at = chain.skip + offset;
        let mut block = chain.first;
        while at >= BLOCK && block != NONE {
            block = self.next[block as usize];
            at -= BLOCK;
        }
        let mut done = 0;
        while done < out.len() {
            let len = ((BLOCK - at) as usize).min(out.len() - done);
            let start = block as usize * BLOCK as usize + at as usize;
            out[done..done + len].copy_from_slice(&self.bytes[start..start + len]);
            done += len;
            at = 0;
            block = self.next[block as usize];
        }
    }

    /// Lets go of the first `len` bytes of a chain, or all if it has no more. Gives the blocks that became free.
    pub(crate) fn trim(&mut self, chain: &mut Chain, len: u32) -> u32 {
        let len = len.min(chain.len);
        chain.len -= len;
        chain.skip += len;
        let mut freed = 0;
        while chain.first != NONE && (chain.skip >= BLOCK || chain.len == 0) {
            let whole = chain.skip + chain.len;
            let block = chain.first;
            chain.first = if whole > BLOCK {
                self.next[block as usize]
            } else {
                NONE
            };
            chain.skip = chain.skip.saturating_sub(BLOCK);
            self.put_back(block);
            freed += 1;
        }
        freed
    }

    /// Lets go of a chain. Gives the blocks that became free.
    pub(crate) fn release(&mut self, mut chain: Chain) -> u32 {
        let len = chain.len;
        self.trim(&mut chain, len)
    }

    fn take(&mut self) -> u32 {
        self.used += 1;
        if self.free != NONE {
            let block = self.free;
            self.free = self.next[block as usize];
            block
        } else {
            self.fresh += 1;
            self.fresh - 1
        }
    }

    fn put_back(&mut self, block: u32) {
        self.used -= 1;
        self.next[block as usize] = self.free;
        self.free = block;
    }
}

#[cfg(test)]
mod tests;
