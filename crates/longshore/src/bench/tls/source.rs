//! The bytes that are sent, and the check that they arrived.

use std::sync::Arc;

use nic::ring::{Region, Slice};
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Longest run that is compared, or sent, at once.
const LONGEST: usize = 1 << 17;

/// An endless stream for each connection: random bytes that repeat after a period, from a place of the connection's own.
pub struct Source {
    /// One period and what follows it.
    bytes: Vec<u8>,
    period: usize,
    region: Arc<Region>,
}

impl Source {
    /// A source from which messages of up to that many bytes are taken.
    pub fn new(seed: u64, message: usize) -> Self {
        // Not a multiple of what is sent, so that a message lost or doubled shows.
        let period = message + 4160;
        let mut bytes = vec![0; period + message.max(LONGEST)];
        let (first, rest) = bytes.split_at_mut(period);
        Pcg64Mcg::seed_from_u64(seed).fill_bytes(first);
        for piece in rest.chunks_mut(period) {
            piece.copy_from_slice(&first[..piece.len()]);
        }
        let region = Region::anonymous(bytes.len());
        assert!(
            region.write(0, &bytes),
            "the region is as long as the bytes"
        );
        Self {
            bytes,
            period,
            region: Arc::new(region),
        }
    }

    /// The same bytes as memory that can be registered.
    pub fn region(&self) -> Arc<Region> {
        Arc::clone(&self.region)
    }

    fn place(&self, connection: u32, position: u64) -> usize {
        ((u64::from(connection) * 4099 + position) % self.period as u64) as usize
    }

    /// What a connection sends from a position of its stream on; not more than a message.
    pub fn bytes(&self, connection: u32, position: u64, len: usize) -> &[u8] {
        let at = self.place(connection, position);
        &self.bytes[at..at + len]
    }

    /// The same in registered memory.
    pub fn slice(
        &self,
        region: nic::ring::RegionId,
        connection: u32,
        position: u64,
        len: u32,
    ) -> Slice {
        Slice {
            region,
            offset: self.place(connection, position) as u64,
            len,
        }
    }

    /// Whether these bytes belong at this position.
    pub fn verify(&self, connection: u32, position: u64, bytes: &[u8]) -> bool {
        let mut position = position;
        bytes.chunks(LONGEST).all(|piece| {
            let same = self.bytes(connection, position, piece.len()) == piece;
            position += piece.len() as u64;
            same
        })
    }
}
