//! Real bytes, for connections that never see them.

use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tcp::Chunk;

/// Some bytes of a shared buffer.
#[derive(Clone, Debug)]
pub struct Slice {
    of: Rc<[u8]>,
    start: usize,
    len: u32,
}

impl Slice {
    pub fn bytes(&self) -> &[u8] {
        &self.of[self.start..self.start + self.len as usize]
    }

    pub fn part(&self, offset: u32, len: u32) -> Slice {
        Slice {
            of: self.of.clone(),
            start: self.start + offset as usize,
            len,
        }
    }
}

impl Chunk for Slice {
    fn len(&self) -> u32 {
        self.len
    }

    fn split_off(&mut self, at: u32) -> Self {
        let rest = self.part(at, self.len - at);
        self.len = at;
        rest
    }
}

/// An endless stream of bytes that do not repeat within any window.
#[derive(Clone)]
pub struct Stream {
    pattern: Rc<[u8]>,
    position: usize,
}

impl Stream {
    /// A prime, so that a slip by any number of packets shows.
    const LEN: usize = 1_048_573;

    pub fn new(seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let pattern = (0..Self::LEN).map(|_| rng.random::<u8>()).collect();
        Self {
            pattern,
            position: 0,
        }
    }

    pub fn take(&mut self, len: u32) -> Slice {
        let start = self.position % Self::LEN;
        let len = len.min((Self::LEN - start) as u32);
        self.position += len as usize;
        Slice {
            of: self.pattern.clone(),
            start,
            len,
        }
    }

    pub fn expect(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let piece = self.take(bytes.len() as u32);
            let (now, later) = bytes.split_at(piece.len as usize);
            assert!(
                piece.bytes() == now,
                "bytes differ near position {}",
                self.position
            );
            bytes = later;
        }
    }
}
