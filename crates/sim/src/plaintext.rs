//! Finds plaintext in frames.

/// Bytes of a block: the unit in which plaintext is remembered.
const BLOCK: usize = 8;

/// Remembers plaintext, and finds any run of it that is 15 bytes long or longer, at any place in a frame.
///
/// Plaintext is remembered in aligned blocks of 8 bytes: a run of 15 bytes holds a whole one. The plaintext has to be
/// random, so that a block that turns up in a frame got there from the plaintext and not by chance (which happens
/// once in 2⁶⁴ comparisons).
#[derive(Clone, Debug, Default)]
pub struct Plaintext {
    /// Sorted.
    blocks: Vec<u64>,
    /// One bit for each value of a block's low 16 bits that occurs: spares most searches.
    seen: Vec<u64>,
}

/// Plaintext that stands in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Where in the frame its first block starts.
    pub offset: usize,
    /// That block.
    pub block: [u8; BLOCK],
}

impl Plaintext {
    /// Remembers these streams.
    pub fn of<'a>(streams: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut blocks: Vec<u64> = streams
            .into_iter()
            .flat_map(|stream| stream.as_chunks::<BLOCK>().0)
            .map(|block| u64::from_le_bytes(*block))
            .collect();
        blocks.sort_unstable();
        blocks.dedup();
        let mut seen = vec![0; (1 << 16) / 64];
        for block in &blocks {
            let low = (block & 0xffff) as usize;
            seen[low / 64] |= 1 << (low % 64);
        }
        Self { blocks, seen }
    }

    /// The first plaintext in a frame.
    pub fn find(&self, frame: &[u8]) -> Option<Leak> {
        if self.blocks.is_empty() {
            return None;
        }
        frame
            .windows(BLOCK)
            .enumerate()
            .find_map(|(offset, window)| {
                let block: [u8; BLOCK] = window.try_into().expect("windows are as long as a block");
                let value = u64::from_le_bytes(block);
                let low = (value & 0xffff) as usize;
                let maybe = self.seen[low / 64] & (1 << (low % 64)) != 0;
                (maybe && self.blocks.binary_search(&value).is_ok())
                    .then_some(Leak { offset, block })
            })
    }
}

#[cfg(test)]
mod tests;
