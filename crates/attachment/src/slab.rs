//! Memory that library and NIC share: a sealed file of slots, all of it atomics.
//!
//! ```text
//!   page 0   magic and version │ number of slots │ where to look for a free one
//!   page n   slot n − 1:  lifecycle │ status of both directions │ …  │ results and resync of the receiving direction
//! ```
#![allow(unsafe_code)]

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use l5p::Direction;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::mapping::{FileIdentity, Mapping};
use crate::pdus::Pdus;

/// Bytes of a slot, and of the header before the first one.
pub const SLOT_BYTES: usize = 4096;
/// Most slots of a slab.
pub const MAX_SLOTS: u32 = 1 << 16;
/// Words of a slot that belong to the receiving direction.
pub const RESULT_WORDS: usize = SLOT_WORDS / 2;

pub(crate) const SLOT_WORDS: usize = SLOT_BYTES / 8;
/// First word of a slab: `lnshslb` and the version of the layout.
const MAGIC: u64 = u64::from_be_bytes(*b"lnshslb\x01");
/// What must not be possible any more with the file: memory that goes away under its reader would end its process.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// `TMPFS_MAGIC` of `linux/magic.h`: what a memfd without huge pages is made of.
const TMPFS: u32 = 0x0102_1994;

const LIFECYCLE: usize = 0;
const TRANSMIT_STATUS: usize = 1;
const RECEIVE_STATUS: usize = 2;
const TRANSMIT_REQUEST: usize = 3;
const RECEIVE_REQUEST: usize = 4;

/// Why a file is no slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSlab {
    /// Its size may change, or it is no memfd.
    #[error(
        "the file is not sealed; make it with memfd_create, and seal it against shrinking and growing"
    )]
    NotSealed,
    /// Its pages may be missing when they are wanted.
    #[error("the file has huge pages; make it with memfd_create without MFD_HUGETLB")]
    NotOrdinaryMemory,
    /// Its size is that of no slab.
    #[error("a slab can't have {0} bytes: it has a header and 1 to 65536 slots of 4096 bytes each")]
    Size(u64),
    /// Its size is that of no [memory for data](crate::DataMemory).
    #[error("memory for data can't have {0} bytes: use whole pages of 4096 bytes, at most 64 GiB")]
    MemorySize(u64),
    /// What it begins with is not what a slab begins with.
    #[error(
        "the first word is {0:#018x}: this is not a slab, or one of another release; use the library of the NIC's release"
    )]
    Header(u64),
    /// The system refused.
    #[error("can't map the slab: {0}")]
    System(#[from] Errno),
}

/// A mapped slab.
pub struct Slab {
    start: NonNull<u8>,
    slots: u32,
    mapping: Mapping,
}

// SAFETY: the memory belongs to no thread and is reached as atomics only.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab")
            .field("slots", &self.slots)
            .field("identity", &self.identity())
            .finish_non_exhaustive()
    }
}

impl Slab {
    /// A new slab with free slots. Its pages are taken as they are used.
    ///
    /// # Errors
    /// `EINVAL` for no slots or more than [`MAX_SLOTS`]; what the system gives.
    pub fn create(slots: u32) -> Result<Slab, Errno> {
        if slots == 0 || slots > MAX_SLOTS {
            return Err(Errno::INVAL);
        }
        let file = make_sealed("longshore-slab", bytes_of(slots) as u64)?;
        let slab = Slab::map(file, slots)?;
        slab.header(1).store(u64::from(slots), Ordering::Relaxed);
        slab.header(0).store(MAGIC, Ordering::Release);
        Ok(slab)
    }

    /// A slab that somebody else has made.
    ///
    /// # Errors
    /// See [`BadSlab`].
    pub fn open(file: OwnedFd) -> Result<Slab, BadSlab> {
        let size = sealed_size(file.as_fd())?;
        let slots = (size / SLOT_BYTES as u64).saturating_sub(1);
        if slots == 0 || slots > u64::from(MAX_SLOTS) || !size.is_multiple_of(SLOT_BYTES as u64) {
            return Err(BadSlab::Size(size));
        }
        let slab = Slab::map(file, slots as u32)?;
        match slab.header(0).load(Ordering::Acquire) {
            MAGIC => Ok(slab),
            other => Err(BadSlab::Header(other)),
        }
    }

    fn map(file: OwnedFd, slots: u32) -> Result<Slab, Errno> {
        let mapping = Mapping::new(file, bytes_of(slots))?;
        Ok(Slab {
            start: mapping.start(),
            slots,
            mapping,
        })
    }

    /// Number of its slots.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Which file it is.
    pub fn identity(&self) -> FileIdentity {
        self.mapping.identity()
    }

    pub(crate) fn mapping_mut(&mut self) -> &mut Mapping {
        &mut self.mapping
    }

    /// A slot; `None` if the index is too large.
    pub fn slot(&self, index: u32) -> Option<Slot<'_>> {
        let at = bytes_of(index);
        (index < self.slots).then(|| Slot {
            // SAFETY: `at` is inside of the mapping, and at a page's beginning.
            words: unsafe { self.words(at) },
        })
    }

    /// Takes a free slot, for the library: its index, and the generation that is to be given with it. `None` when all are in use.
    pub fn claim(&self) -> Option<(u32, u32)> {
        let hint = self.header(2).load(Ordering::Relaxed) as u32 % self.slots;
        for offset in 0..self.slots {
            let index = (hint + offset) % self.slots;
            let slot = self.slot(index)?;
            if let Some(generation) = slot.claim() {
                let next = u64::from(index + 1);
                self.header(2).store(next, Ordering::Relaxed);
                return Some((index, generation));
            }
        }
        None
    }

    fn header(&self, word: usize) -> &AtomicU64 {
        // SAFETY: the header is at the beginning of the mapping.
        let words = unsafe { self.words(0) };
        &words[word]
    }

    /// # Safety
    /// `at` is a multiple of [`SLOT_BYTES`], and a slot's length before the mapping's end at the most.
    unsafe fn words(&self, at: usize) -> &[AtomicU64; SLOT_WORDS] {
        // SAFETY: by the caller there are as many bytes, aligned to a page; they stay mapped as long as `self`, and everyone on this
        // machine who has the file may write them, which is why they are atomics.
        unsafe { self.start.add(at).cast().as_ref() }
    }
}

impl AsFd for Slab {
    /// The file, for passing it on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mapping.as_fd()
    }
}

/// A memfd of fixed size: it is sealed.
pub(crate) fn make_sealed(name: &str, bytes: u64) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&file, bytes)?;
    rustix::fs::fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
    Ok(file)
}

/// The size of a file of somebody else's whose pages can't go away under their reader.
pub(crate) fn sealed_size(file: BorrowedFd<'_>) -> Result<u64, BadSlab> {
    // Only files that can be sealed answer.
    let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| BadSlab::NotSealed)?;
    if !seals.contains(SEALS) {
        return Err(BadSlab::NotSealed);
    }
    if rustix::fs::fstatfs(file)?.f_type as u32 != TMPFS {
        return Err(BadSlab::NotOrdinaryMemory);
    }
    Ok(rustix::fs::fstat(file)?.st_size as u64)
}

/// Bytes of a header and so many slots: where the slot of this index begins.
fn bytes_of(slots: u32) -> usize {
    (slots as usize + 1) * SLOT_BYTES
}

/// Whose a slot is. A generation is one use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// Free: this generation has ended.
    Free {
        /// That of the last use; 0 if there was none.
        generation: u32,
    },
    /// The library's, or the NIC's after its release.
    InUse {
        /// That of the use.
        generation: u32,
    },
}

/// What the NIC does for one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OffloadState {
    /// Nothing: it was given no keys, or has none any more.
    #[default]
    None,
    /// It makes or opens the records.
    Offloaded,
    /// It does so still, and asks the library to do it as soon as it can.
    Software,
    /// It has reset the connection: what came was not what had been agreed.
    Reset,
}

impl OffloadState {
    fn from_bits(bits: u32) -> OffloadState {
        match bits {
            1 => OffloadState::Offloaded,
            2 => OffloadState::Software,
            3 => OffloadState::Reset,
            _ => OffloadState::None,
        }
    }
}

/// A slot's memory.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    words: &'a [AtomicU64; SLOT_WORDS],
}

impl<'a> Slot<'a> {
    /// Whose it is.
    pub fn lifecycle(&self) -> Lifecycle {
        let word = self.words[LIFECYCLE].load(Ordering::Acquire);
        let generation = (word >> 32) as u32;
        match word as u32 {
            0 => Lifecycle::Free { generation },
            _ => Lifecycle::InUse { generation },
        }
    }

    /// Takes it if it is free, for the library; gives the new generation, which is never 0.
    fn claim(&self) -> Option<u32> {
        let Lifecycle::Free { generation } = self.lifecycle() else {
            return None;
        };
        let next = generation.wrapping_add(1).max(1);
        let (free, taken) = (u64::from(generation) << 32, u64::from(next) << 32 | 1);
        let word = &self.words[LIFECYCLE];
        word.compare_exchange(free, taken, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        // What is left of its last use. The NIC writes here for a released slot only before it frees it.
        // Numbers of requests go on: one of the last use may be on its way.
        let numbers = [TRANSMIT_REQUEST, RECEIVE_REQUEST];
        for (at, word) in self.words.iter().enumerate().skip(LIFECYCLE + 1) {
            if !numbers.contains(&at) {
                word.store(0, Ordering::Relaxed);
            }
        }
        Some(next)
    }

    /// Ends this use of it: by the NIC once a released connection has ended, by the library if the NIC was never told of the slot. It is no other use that
    /// ends if this one has ended before.
    pub fn free(&self, generation: u32) {
        let free = u64::from(generation) << 32;
        let word = &self.words[LIFECYCLE];
        let _ = word.compare_exchange(free | 1, free, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Takes back a use of it that has ended although it is still needed, with all that is in it. False if there has been another use since.
    pub fn take_back(&self, generation: u32) -> bool {
        let free = u64::from(generation) << 32;
        let word = &self.words[LIFECYCLE];
        match word.compare_exchange(free, free | 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now == free | 1,
        }
    }

    /// Whether what is in it is of this use: no other one has begun since.
    #[inline]
    pub fn is_of(&self, generation: u32) -> bool {
        (self.words[LIFECYCLE].load(Ordering::Acquire) >> 32) as u32 == generation
    }

    /// What the NIC does for a direction in this generation.
    #[inline]
    pub fn status(&self, direction: Direction, generation: u32) -> OffloadState {
        let word = self.words[status_word(direction)].load(Ordering::Acquire);
        if (word >> 32) as u32 == generation {
            OffloadState::from_bits(word as u32)
        } else {
            OffloadState::None
        }
    }

    /// Tells the library what the NIC does.
    pub fn set_status(&self, direction: Direction, generation: u32, state: OffloadState) {
        let word = u64::from(generation) << 32 | state as u64;
        self.words[status_word(direction)].store(word, Ordering::Release);
    }

    /// The library is about to ask for something for a direction; gives the number that the request must bear. What it has asked before, and has had no answer
    /// to, is not done any more.
    pub fn next_request(&self, direction: Direction) -> u32 {
        let last = self.words[request_word(direction)].fetch_add(1, Ordering::AcqRel);
        (last as u32).wrapping_add(1)
    }

    /// The number of the library's last request for a direction.
    pub fn last_request(&self, direction: Direction) -> u32 {
        self.words[request_word(direction)].load(Ordering::Acquire) as u32
    }

    /// What a connection that carries NVMe/TCP PDUs has of it: all but the lifecycle and the status.
    #[inline]
    pub fn pdus(&self) -> Pdus<'a> {
        Pdus::new(self.words)
    }

    /// The receiving direction's half.
    #[inline]
    pub fn results(&self) -> &'a [AtomicU64; RESULT_WORDS] {
        self.words
            .last_chunk()
            .expect("half of a slot's words are fewer than all")
    }
}

fn request_word(direction: Direction) -> usize {
    match direction {
        Direction::Transmit => TRANSMIT_REQUEST,
        Direction::Receive => RECEIVE_REQUEST,
    }
}

fn status_word(direction: Direction) -> usize {
    match direction {
        Direction::Transmit => TRANSMIT_STATUS,
        Direction::Receive => RECEIVE_STATUS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_never_zero() {
        let slab = Slab::create(1).unwrap();
        let last = u64::from(u32::MAX) << 32;
        slab.slot(0).unwrap().words[LIFECYCLE].store(last, Ordering::Relaxed);
        assert_eq!(slab.claim(), Some((0, 1)));
    }
}
