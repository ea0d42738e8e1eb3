//! A ring that is shared with the kernel.

use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// A ring of which this side is the producer or the consumer. Its entries are plain numbers.
#[derive(Debug)]
pub(super) struct Ring<T: Copy> {
    map: MmapRaw,
    offsets: libc::xdp_ring_offset,
    capacity: u32,
    /// This side's index.
    ours: u32,
    /// The kernel's, as last seen.
    theirs: u32,
    _entries: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps a ring of a socket, of `capacity` entries, a power of two.
    pub(super) fn map(
        socket: &OwnedFd,
        page_offset: u64,
        offsets: libc::xdp_ring_offset,
        capacity: u32,
    ) -> io::Result<Ring<T>> {
        let bytes = offsets.desc as usize + capacity as usize * size_of::<T>();
        let mut options = MmapOptions::new();
        options.offset(page_offset).len(bytes).populate();
        Ok(Ring {
            map: options.map_raw(socket)?,
            offsets,
            capacity,
            ours: 0,
            theirs: 0,
            _entries: PhantomData,
        })
    }

    /// Entries that can be written.
    pub(super) fn free(&mut self) -> u32 {
        if self.ours.wrapping_sub(self.theirs) == self.capacity {
            self.theirs = self.index(self.offsets.consumer).load(Ordering::Acquire);
        }
        self.capacity - self.ours.wrapping_sub(self.theirs).min(self.capacity)
    }

    /// Writes an entry, if there is room. The kernel sees it after [`publish`](Self::publish).
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.free() == 0 {
            return false;
        }
        // SAFETY: inside of the mapping; the kernel does not read it before it is published.
        unsafe { self.entry(self.ours).write_volatile(entry) };
        self.ours = self.ours.wrapping_add(1);
        true
    }

    /// Shows the kernel all entries written.
    pub(super) fn publish(&self) {
        self.index(self.offsets.producer)
            .store(self.ours, Ordering::Release);
    }

    /// Whether the kernel has not taken all entries yet.
    pub(super) fn is_pending(&self) -> bool {
        self.index(self.offsets.consumer).load(Ordering::Acquire) != self.ours
    }

    /// Takes an entry that the kernel has written. The kernel gets its place after [`release`](Self::release).
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.ours == self.theirs {
            self.theirs = self.index(self.offsets.producer).load(Ordering::Acquire);
        }
        if self.ours == self.theirs {
            return None;
        }
        // SAFETY: inside of the mapping; the kernel has published it, and does not write it again before it is released.
        let entry = unsafe { self.entry(self.ours).read_volatile() };
        self.ours = self.ours.wrapping_add(1);
        Some(entry)
    }

    /// Gives the kernel the places of all entries taken.
    pub(super) fn release(&self) {
        self.index(self.offsets.consumer)
            .store(self.ours, Ordering::Release);
    }

    /// Whether the kernel wants to be called for what is on the ring.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.index(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn index(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel's offsets are inside of the mapping and aligned; both sides reach it as atomic.
        unsafe { &*self.map.as_ptr().add(offset as usize).cast() }
    }

    fn entry(&self, index: u32) -> *mut T {
        let place = (index & (self.capacity - 1)) as usize;
        let entries = self
            .map
            .as_mut_ptr()
            .wrapping_add(self.offsets.desc as usize);
        entries.cast::<T>().wrapping_add(place)
    }
}
