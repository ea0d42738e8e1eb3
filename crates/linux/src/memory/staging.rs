//! Where the frames lie that Linux has sent, until the NIC has read them.
//!
//! Frames are put one behind the other into a chunk. A chunk whose frames have all been read is used again first of all, so
//! that as long as the wire keeps up it is one chunk, and that is in the cache.

use std::collections::VecDeque;
use std::sync::Arc;

use nic::ring::{HostFunction, Region, RegionId, Slice};

use super::Memory;

/// Most bytes of a frame from Linux: a 64 KiB IP packet with an Ethernet header and a tag.
pub const MAX_FRAME: usize = u16::MAX as usize + 18;
/// Room for a frame, in whole cache lines.
const ROOM: usize = MAX_FRAME.next_multiple_of(LINE);
const LINE: usize = 64;
const CHUNK: usize = 4 * ROOM;

/// Memory for frames on their way to the NIC.
#[derive(Debug)]
pub(crate) struct Staging {
    memory: Memory,
    /// That of retained plaintext, where frames may be read to that will probably be retained.
    retained: Memory,
    /// First bytes of chunks with nothing in them, the last one used last.
    free: Vec<usize>,
    current: Option<Chunk>,
    /// Full chunks, in the order in which the NIC reads them.
    full: VecDeque<Chunk>,
}

/// Where a frame is read to: to the first place as far as it has room, which is a super-frame's, what is beyond to the second. Together they
/// have room for [`MAX_FRAME`] bytes at least.
#[derive(Debug)]
pub struct Room<'a> {
    /// The frame's place.
    pub frame: &'a mut [u8],
    /// For the last bytes of a frame that is as long as can be.
    pub beyond: &'a mut [u8],
}

impl Room<'_> {
    /// Copies a frame there. False when it is too long.
    #[must_use]
    pub fn fill(&mut self, frame: &[u8]) -> bool {
        let (front, end) = frame.split_at(frame.len().min(self.frame.len()));
        let Some(beyond) = self.beyond.get_mut(..end.len()) else {
            return false;
        };
        wire::bulk::copy(front, &mut self.frame[..front.len()]);
        beyond.copy_from_slice(end);
        true
    }
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    start: usize,
    used: usize,
    /// The send ring's position at which all of it has been read.
    read_at: u64,
}

impl Staging {
    /// So many chunks, each with room for four super-frames; and the memory of retained plaintext.
    pub(crate) fn new(
        function: &HostFunction,
        chunks: u32,
        retained: (Arc<Region>, RegionId),
    ) -> Staging {
        let chunks = chunks.max(1) as usize;
        Staging {
            memory: Memory::register(function, chunks * CHUNK),
            retained: Memory::of(retained),
            free: (0..chunks).rev().map(|chunk| chunk * CHUNK).collect(),
            current: None,
            full: VecDeque::with_capacity(chunks),
        }
    }

    /// Where the next frame goes. `None` while all memory is in use.
    pub(crate) fn room(&mut self) -> Option<Room<'_>> {
        let at = self.place()?;
        // SAFETY: the device reads what was handed out by `take` only; that lies before `at`, or in other chunks.
        let frame = unsafe { self.memory.bytes_mut(at, ROOM) };
        Some(Room {
            frame,
            beyond: &mut [],
        })
    }

    /// Where the next frame goes, in a block of retained memory. What is longer than that ends where it would in [`room`](Self::room).
    pub(crate) fn room_in(&mut self, block: Slice) -> Option<Room<'_>> {
        let at = self.place()?;
        let (offset, len) = (block.offset as usize, block.len as usize);
        // SAFETY: as in `room`; and a block that nothing was posted of is not the device's to read.
        let (frame, beyond) = unsafe {
            (
                self.retained.bytes_mut(offset, len),
                self.memory.bytes_mut(at + len, ROOM - len),
            )
        };
        Some(Room { frame, beyond })
    }

    /// Puts the front of a frame that was too long for a block to where its end is.
    pub(crate) fn join(&mut self, block: Slice) {
        let Some(at) = self.place() else {
            return;
        };
        let (offset, len) = (block.offset as usize, block.len as usize);
        // SAFETY: as in `room_in`.
        let (front, place) = unsafe {
            (
                self.retained.bytes(offset, len),
                self.memory.bytes_mut(at, len),
            )
        };
        wire::bulk::copy(front, place);
    }

    /// The first bytes of [`room`](Self::room), with a frame in them. They are in use until the send ring has come to where it
    /// is when [`posted`](Self::posted) is called with it.
    ///
    /// # Panics
    /// When there is no room, or less.
    pub(crate) fn take(&mut self, len: usize) -> Slice {
        assert!(len <= ROOM, "{len} bytes are more than a frame's room");
        let at = self.place().expect("the frame is in it");
        if let Some(chunk) = &mut self.current {
            chunk.used += len.next_multiple_of(LINE);
        }
        self.memory.slice(at, len)
    }

    /// The bytes of a frame that was taken.
    pub(crate) fn bytes(&self, frame: Slice) -> &[u8] {
        let memory = match self.retained.has(&frame) {
            true => &self.retained,
            false => &self.memory,
        };
        // SAFETY: the device never writes to this memory.
        unsafe { memory.bytes(frame.offset as usize, frame.len as usize) }
    }

    /// The bytes of the frame taken last, of which no descriptor has been posted.
    pub(crate) fn last_mut(&mut self, frame: Slice) -> &mut [u8] {
        let memory = match self.retained.has(&frame) {
            true => &mut self.retained,
            false => &mut self.memory,
        };
        // SAFETY: no descriptor names it yet: the device does not read it.
        unsafe { memory.bytes_mut(frame.offset as usize, frame.len as usize) }
    }

    /// Descriptors for all frames taken so far have been posted, up to this position of the send ring.
    pub(crate) fn posted(&mut self, position: u64) {
        if let Some(chunk) = &mut self.current {
            chunk.read_at = position;
        }
    }

    /// The NIC has come to this position of the send ring.
    pub(crate) fn reap(&mut self, completed: u64) {
        while let Some(chunk) = self.full.front()
            && chunk.read_at <= completed
        {
            self.free.push(chunk.start);
            self.full.pop_front();
        }
        if let Some(chunk) = &mut self.current
            && chunk.read_at <= completed
        {
            chunk.used = 0;
        }
    }

    fn place(&mut self) -> Option<usize> {
        if self.current.is_none_or(|chunk| CHUNK - chunk.used < ROOM) {
            let start = self.free.pop()?;
            let next = Chunk {
                start,
                used: 0,
                read_at: 0,
            };
            self.full.extend(self.current.replace(next));
        }
        self.current.map(|chunk| chunk.start + chunk.used)
    }
}
