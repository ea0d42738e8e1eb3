//! Registered memory, and the only place where its bytes are seen as such: frames on their way to the NIC lie in
//! [`Staging`], received ones in [`Buffers`].

mod buffers;
mod staging;

pub(crate) use buffers::{Buffers, Held};
pub(crate) use staging::Staging;
pub use staging::{MAX_FRAME, Room};

use std::sync::Arc;

use attachment::DataMemory;

use nic::ring::{HostFunction, Region, RegionId, Slice};

/// Memory that a library has shared for data, as the device writes to it.
pub(crate) fn region_of(memory: &Arc<DataMemory>) -> Region {
    let owner: Arc<DataMemory> = Arc::clone(memory);
    // SAFETY: mapped for reading and writing until its owner is dropped, of a file that keeps its size. This process makes no reference to
    // any of it: it is read by copies.
    unsafe { Region::from_raw_parts(memory.as_ptr(), memory.len(), owner, true) }
}

/// A region of this function's.
#[derive(Debug)]
struct Memory {
    region: Arc<Region>,
    id: RegionId,
}

impl Memory {
    /// Registers `len` bytes.
    ///
    /// # Panics
    /// When the function has no region id left: a new one has.
    fn register(function: &HostFunction, len: usize) -> Memory {
        let region = Arc::new(Region::anonymous(len));
        let id = function
            .register(Arc::clone(&region))
            .expect("a new function has ids for regions");
        Memory { region, id }
    }

    /// What is registered already.
    fn of((region, id): (Arc<Region>, RegionId)) -> Memory {
        Memory { region, id }
    }

    /// As descriptors name a part of it.
    fn slice(&self, offset: usize, len: usize) -> Slice {
        Slice {
            region: self.id,
            offset: offset as u64,
            len: len as u32,
        }
    }

    /// Whether a slice is of this memory.
    fn has(&self, slice: &Slice) -> bool {
        slice.region == self.id
    }

    /// A part of it.
    ///
    /// # Safety
    /// The device must not hold any of these bytes to write to them.
    ///
    /// # Panics
    /// When it is not inside.
    unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        self.check(offset, len);
        // SAFETY: inside the region, which is initialised and lives as long as `self`. It is this process's alone, the
        // host writes through `&mut self` only, and the device does not write here as the caller promises.
        unsafe { std::slice::from_raw_parts(self.region.as_ptr().add(offset), len) }
    }

    /// A part of it, to be written.
    ///
    /// # Safety
    /// The device must not hold any of these bytes, neither to read nor to write.
    ///
    /// # Panics
    /// When it is not inside.
    unsafe fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        self.check(offset, len);
        // SAFETY: as in `bytes`; and the borrow of `self` keeps the host from a second reference.
        unsafe { std::slice::from_raw_parts_mut(self.region.as_ptr().add(offset), len) }
    }

    fn check(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.region.len()),
            "{offset}+{len} is beyond a region of {} bytes",
            self.region.len()
        );
    }
}
