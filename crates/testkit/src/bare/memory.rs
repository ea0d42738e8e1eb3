//! Memory that a host has registered.

use std::sync::Arc;

use nic::ring::{HostFunction, Region, RegionId, Regions, Slice};

use crate::fixtures::GUARD;

/// Memory that a host has registered.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The memory.
    pub region: Arc<Region>,
    /// Its number at the NIC.
    pub id: RegionId,
    /// What the NIC calls its first byte: 0, or its address on a guest's bus.
    pub start: u64,
}

impl Memory {
    /// Registers so many bytes.
    pub fn register(host: &HostFunction, bytes: usize) -> Memory {
        let region = Arc::new(Region::anonymous(bytes.max(1)));
        let id = host.register(Arc::clone(&region)).expect("a free id");
        Memory {
            region,
            id,
            start: 0,
        }
    }

    /// Maps so many bytes at an address of a guest's bus.
    pub(super) fn map(regions: &Regions, start: u64, bytes: usize) -> Memory {
        let region = Arc::new(Region::anonymous(bytes.max(1)));
        regions.map(start, Arc::clone(&region));
        Memory {
            region,
            id: RegionId(0),
            start,
        }
    }

    /// Registers so many bytes, all of them [`GUARD`].
    pub fn guarded(host: &HostFunction, bytes: usize) -> Memory {
        let memory = Memory::register(host, bytes);
        memory.write(0, &vec![GUARD; bytes]);
        memory
    }

    /// A part of it.
    pub fn slice(&self, offset: u64, len: u32) -> Slice {
        Slice {
            offset: self.start + offset,
            len,
            region: self.id,
        }
    }

    /// Whether a slice begins in it.
    pub(super) fn has(&self, slice: Slice) -> bool {
        let end = self.start + self.region.len() as u64;
        slice.region == self.id && (self.start..end).contains(&slice.offset)
    }

    /// What it holds there.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.region.read(offset, &mut bytes));
        bytes
    }

    /// What it holds in a part of it.
    pub fn get(&self, slice: Slice) -> Vec<u8> {
        assert_eq!(slice.region, self.id);
        self.read(slice.offset - self.start, slice.len as usize)
    }

    /// Writes to it.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(self.region.write(offset, bytes));
    }
}
