//! Memory that a socket shares with the kernel: frames of one size.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of a frame.
pub(super) const FRAME: usize = 4096;
/// Frames of a socket, half for each direction.
pub(super) const FRAMES: u32 = 4096;
/// Bytes of a frame that a driver may keep before the packet (XDP_PACKET_HEADROOM).
const HEADROOM: usize = 256;
/// Largest MTU whose packets fit, with an Ethernet header and a tag.
pub(super) const MAX_MTU: u16 = (FRAME - HEADROOM - 18) as u16;

/// The frames of one socket.
#[derive(Debug)]
pub(super) struct Umem {
    start: NonNull<u8>,
}

// SAFETY: memory that this owns, and gives out by references that borrow it.
unsafe impl Send for Umem {}

impl Umem {
    pub(super) const BYTES: usize = FRAME * FRAMES as usize;

    pub(super) fn new() -> io::Result<Umem> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel likes it touches nothing that there is.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                Self::BYTES,
                protection,
                MapFlags::PRIVATE,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Umem { start })
    }

    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Bytes that the kernel has given us, or that are free. `None` for what is not in one frame.
    ///
    /// The kernel must not hold the frame.
    pub(super) fn bytes(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        let at = usize::try_from(address).ok()?;
        let within = at % FRAME + len <= FRAME && at.checked_add(len)? <= Self::BYTES;
        // SAFETY: inside of the mapping, which lives as long as `self`. The caller has the frame from a ring that the kernel
        // gives frames back by, so that it does not write there; were it to, it would change plain bytes.
        within.then(|| unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), len) })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, with this length, and unmapped once. The kernel keeps pages that a socket still uses.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), Self::BYTES) };
    }
}
