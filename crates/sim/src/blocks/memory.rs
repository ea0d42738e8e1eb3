//! The memory of commands, with guards around each slice.

use std::sync::Arc;

use nic::ring::{Region, RegionId, Slice};

/// Bytes between slices that nobody may touch.
const GUARD: u32 = 48;
const GUARD_BYTE: u8 = 0xa5;

/// Registered memory from which commands get slices, each once.
pub struct Memory {
    region: Arc<Region>,
    id: RegionId,
    used: u64,
}

/// The slices of one command.
pub struct Place {
    start: u64,
    end: u64,
    /// In the order of the data.
    pub slices: Vec<Slice>,
}

impl Memory {
    /// Memory of so many bytes, which `register` makes known to the NIC.
    pub fn new<E>(
        bytes: usize,
        register: impl FnOnce(Arc<Region>) -> Result<RegionId, E>,
    ) -> Result<Self, E> {
        let region = Arc::new(Region::anonymous(bytes));
        let all = region.write(0, &vec![GUARD_BYTE; bytes]);
        assert!(all, "it is as long as that");
        let id = register(Arc::clone(&region))?;
        Ok(Self {
            region,
            id,
            used: 0,
        })
    }

    /// Bytes that a command of `len` bytes in `slices` slices takes.
    pub fn needed(len: usize, slices: u8) -> usize {
        len + (usize::from(slices) + 1) * GUARD as usize
    }

    /// Puts data into fresh memory, in slices of about one size which lie in the reverse order.
    ///
    /// # Panics
    /// When there is too little memory left.
    pub fn place(&mut self, data: &[u8], slices: u8) -> Place {
        let start = self.used;
        let count = usize::from(slices).clamp(1, data.len().max(1));
        // Odd lengths, so that slices begin anywhere.
        let piece = data.len().div_ceil(count) | 1;
        let mut at = start + u64::from(GUARD);
        let mut placed: Vec<Slice> = Vec::with_capacity(count);
        let mut ends: Vec<usize> = (piece..data.len()).step_by(piece).collect();
        ends.push(data.len());
        let starts: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).collect();
        for (&from, &to) in starts.iter().zip(&ends).rev() {
            let len = (to - from) as u32;
            assert!(self.region.write(at, &data[from..to]), "memory is left");
            placed.push(Slice {
                region: self.id,
                offset: at,
                len,
            });
            at += u64::from(len + GUARD);
        }
        placed.reverse();
        self.used = at;
        Place {
            start,
            end: at,
            slices: placed,
        }
    }

    /// What a command's memory holds, and whether the guards around it are whole.
    pub fn read(&self, place: &Place) -> (Vec<u8>, bool) {
        let mut all = vec![0; (place.end - place.start) as usize];
        assert!(self.region.read(place.start, &mut all), "it is inside");
        let mut data = Vec::new();
        let mut guards = all.clone();
        for slice in &place.slices {
            let at = (slice.offset - place.start) as usize;
            let range = at..at + slice.len as usize;
            data.extend_from_slice(&all[range.clone()]);
            guards[range].fill(GUARD_BYTE);
        }
        (data, guards.iter().all(|&byte| byte == GUARD_BYTE))
    }
}
