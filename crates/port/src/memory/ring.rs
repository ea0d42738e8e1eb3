//! One direction of a link: a ring of bytes with one producer and one consumer.
//!
//! Frames lie one behind the other, each after a 16-byte header, aligned to cache lines, and never wrap: where the
//! largest frame would not fit before the ring's end, a header that says so sends the consumer to its front.
//! So a small frame takes little memory, and a ring stays in the cache, whatever the largest frame is.
//!
//! `head` and `tail` count bytes and never wrap in practice; a position modulo the capacity is a place in the
//! ring. The bytes in `head..tail` are the consumer's, all others the producer's.

use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use memmap2::{MmapMut, MmapRaw};

use crate::meta::Meta;

/// Makes a ring for frames of up to `max_frame` bytes.
pub(crate) fn ring(capacity: usize, max_frame: usize) -> (Producer, Consumer) {
    let largest_record = record_len(max_frame);
    let capacity = capacity.max(4 * largest_record).next_power_of_two();
    let shared = Arc::new(Shared {
        bytes: zeroed(capacity),
        tail: Position::default(),
        head: Position::default(),
        closed: AtomicBool::new(false),
    });
    let producer = Producer {
        shared: Arc::clone(&shared),
        max_frame,
        tail: 0,
        published: 0,
        head: 0,
        is_blocked: false,
    };
    let consumer = Consumer {
        shared,
        head: 0,
        released: 0,
        tail: 0,
    };
    (producer, consumer)
}

/// The writing side.
#[derive(Debug)]
pub(crate) struct Producer {
    shared: Arc<Shared>,
    max_frame: usize,
    /// Where the next record goes; at most one record beyond `published` per committed frame.
    tail: u64,
    /// What the consumer may know of.
    published: u64,
    /// The consumer's `head` when last looked at: never ahead of it.
    head: u64,
    /// The last reservation found no room.
    is_blocked: bool,
}

/// The reading side.
#[derive(Debug)]
pub(crate) struct Consumer {
    shared: Arc<Shared>,
    /// Where the next record is.
    head: u64,
    /// What the producer may know of.
    released: u64,
    /// The producer's `tail` when last looked at: never ahead of it.
    tail: u64,
}

impl Producer {
    /// Room for the largest frame; `None` if the ring is full.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Option<&mut [u8]> {
        if !self.has_room() {
            return None;
        }
        if !self.fits_in_lap() {
            self.write_header(Header::END_OF_LAP);
            self.tail = self.shared.lap_end(self.tail);
        }
        let frame = self.shared.at(self.tail + HEADER_LEN as u64);
        // SAFETY: the record lies in `tail..head + capacity`, which is the producer's alone until it is published
        // (there is one producer, and `self` is borrowed for as long as the slice lives), and does not
        // cross the ring's end.
        Some(unsafe { std::slice::from_raw_parts_mut(frame, self.max_frame) })
    }

    /// Appends the frame that has been written into the last reservation. `true`: the consumer may see all frames by now.
    #[inline]
    pub(crate) fn commit(&mut self, len: usize, meta: Meta) -> bool {
        assert!(
            len <= self.max_frame,
            "a frame of {len} bytes in a buffer of {}",
            self.max_frame
        );
        self.write_header(Header::new(len, meta));
        self.tail += record_len(len) as u64;
        // The consumer works on the first frames of a batch while the others are written.
        let is_much = self.tail - self.published >= PUBLISH_BYTES;
        if is_much {
            self.store_tail();
        }
        is_much
    }

    /// Lets the consumer see all committed frames. `true`: it sleeps, and must be woken.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        self.store_tail();
        self.shared.tail.wants_wakeup()
    }

    /// Asks to be woken when there is room, if there was none. `false`: there is some.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        if !self.is_blocked {
            return true;
        }
        self.head = self.shared.head.sleep();
        !self.has_room()
    }

    pub(crate) fn cancel_sleep(&mut self) {
        self.shared.head.awake();
    }

    /// Whether more than half of the ring's bytes are the consumer's.
    #[inline]
    pub(crate) fn is_half_full(&mut self) -> bool {
        let half = self.shared.capacity() / 2;
        if self.tail - self.head > half {
            self.head = self.shared.head.value.load(Ordering::Acquire);
        }
        self.tail - self.head > half
    }

    pub(crate) fn is_connected(&self) -> bool {
        !self.shared.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }

    /// Whether there is room for a record with the largest frame, at the tail or at the ring's front.
    #[inline]
    fn has_room(&mut self) -> bool {
        let record = record_len(self.max_frame) as u64;
        let skipped = if self.fits_in_lap() {
            0
        } else {
            self.shared.lap_end(self.tail) - self.tail
        };
        let end = self.tail + skipped + record;
        let capacity = self.shared.capacity();
        if end - self.head > capacity {
            self.head = self.shared.head.value.load(Ordering::Acquire);
            if !self.is_connected() {
                // The reader is gone: what has been sent is lost.
                self.head = self.tail;
            }
        }
        self.is_blocked = end - self.head > capacity;
        !self.is_blocked
    }

    /// Whether a record with the largest frame fits between the tail and its lap's end. If not, the rest of
    /// the lap is skipped and counts as used.
    #[inline]
    fn fits_in_lap(&self) -> bool {
        record_len(self.max_frame) as u64 <= self.shared.lap_end(self.tail) - self.tail
    }

    #[inline]
    fn write_header(&mut self, header: Header) {
        let at = self.shared.at(self.tail).cast::<Header>();
        // SAFETY: as in `reserve`; a record begins at a cache line, which is aligned for a header and has room for one.
        unsafe { at.write(header) };
    }

    #[inline]
    fn store_tail(&mut self) {
        if self.published != self.tail {
            self.published = self.tail;
            self.shared.tail.value.store(self.tail, Ordering::Release);
        }
    }
}

impl Consumer {
    /// The oldest frame; `None` if the ring is empty.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<(&[u8], Meta)> {
        loop {
            if self.head == self.tail {
                self.tail = self.shared.tail.value.load(Ordering::Acquire);
                if self.head == self.tail {
                    return None;
                }
            }
            let header = self.header();
            if header == Header::END_OF_LAP {
                self.head = self.shared.lap_end(self.head);
                continue;
            }
            let frame = self.shared.at(self.head + HEADER_LEN as u64);
            // SAFETY: the record lies in `head..tail`, which the producer has published and won't touch until
            // `release`; there is one consumer, and `self` is borrowed for as long as the slice lives.
            let frame = unsafe { std::slice::from_raw_parts(frame, header.len as usize) };
            return Some((frame, header.meta()));
        }
    }

    /// Passes over the frame that `front` has given.
    #[inline]
    pub(crate) fn pop(&mut self) {
        debug_assert!(self.head != self.tail);
        self.head += record_len(self.header().len as usize) as u64;
        if self.head - self.released >= self.shared.capacity() / 4 {
            self.store_head();
        }
    }

    /// Gives the producer the room of all frames passed over. `true`: it waits for room, and must be woken.
    #[inline]
    pub(crate) fn release(&mut self) -> bool {
        self.store_head();
        self.shared.head.wants_wakeup()
    }

    /// Asks to be woken when a frame comes. `false`: one has.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        self.tail = self.shared.tail.sleep();
        self.head == self.tail
    }

    pub(crate) fn cancel_sleep(&mut self) {
        self.shared.tail.awake();
    }

    pub(crate) fn close(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }

    #[inline]
    fn header(&self) -> Header {
        // SAFETY: `head` is before `tail`, so that a record that the producer has published begins there.
        unsafe { self.shared.at(self.head).cast::<Header>().read() }
    }

    #[inline]
    fn store_head(&mut self) {
        if self.released != self.head {
            self.released = self.head;
            self.shared.head.value.store(self.head, Ordering::Release);
        }
    }
}

/// What both sides see.
#[derive(Debug)]
struct Shared {
    /// Each of these belongs to the producer or to the consumer, as `head` and `tail` say; the ownership of bytes passes on with a release store and
    /// an acquire load.
    bytes: MmapRaw,
    /// Written by the producer; the consumer sleeps on it.
    tail: Position,
    /// Written by the consumer; the producer sleeps on it.
    head: Position,
    /// One side is gone.
    closed: AtomicBool,
}

impl Shared {
    #[inline]
    fn capacity(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The byte at a position. The pointer is good up to the ring's end.
    #[inline]
    fn at(&self, position: u64) -> *mut u8 {
        let offset = (position & (self.capacity() - 1)) as usize;
        // SAFETY: `offset` is below the capacity, which is the length of `bytes`.
        unsafe { self.bytes.as_mut_ptr().add(offset) }
    }

    /// Where the lap of a position ends.
    #[inline]
    fn lap_end(&self, position: u64) -> u64 {
        (position & !(self.capacity() - 1)) + self.capacity()
    }
}

/// A position that one side writes, and on which the other may sleep.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Position {
    value: AtomicU64,
    is_waited_for: AtomicBool,
}

impl Position {
    /// Whether the other side sleeps on this position. Called after the value was stored; asked once per sleep.
    #[inline]
    fn wants_wakeup(&self) -> bool {
        // Orders the store of the value before the load of the flag, as `sleep` does with the reverse: one of the two
        // sides sees what the other one wrote.
        fence(Ordering::SeqCst);
        self.is_waited_for.load(Ordering::Relaxed)
            && self.is_waited_for.swap(false, Ordering::Relaxed)
    }

    /// Announces a sleep and gives the value as it is after that.
    fn sleep(&self) -> u64 {
        self.is_waited_for.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.value.load(Ordering::Acquire)
    }

    fn awake(&self) {
        self.is_waited_for.store(false, Ordering::Relaxed);
    }
}

/// What precedes each frame in the ring.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Header {
    len: u32,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
    flags: u16,
    padding: u32,
}

impl Header {
    /// No frame: the next record is at the ring's front.
    const END_OF_LAP: Header = Header {
        len: u32::MAX,
        gso_size: 0,
        checksum_start: 0,
        checksum_offset: 0,
        flags: 0,
        padding: 0,
    };
    const NEEDS_CHECKSUM: u16 = 1;
    const CHECKSUM_VALID: u16 = 2;

    #[inline]
    fn new(len: usize, meta: Meta) -> Header {
        let (checksum_start, checksum_offset) = meta.needs_checksum.unwrap_or_default();
        let needs = if meta.needs_checksum.is_some() {
            Header::NEEDS_CHECKSUM
        } else {
            0
        };
        let valid = if meta.checksum_valid {
            Header::CHECKSUM_VALID
        } else {
            0
        };
        Header {
            len: len as u32,
            gso_size: meta.gso_size,
            checksum_start,
            checksum_offset,
            flags: needs | valid,
            padding: 0,
        }
    }

    #[inline]
    fn meta(&self) -> Meta {
        let needs = self.flags & Header::NEEDS_CHECKSUM != 0;
        Meta {
            gso_size: self.gso_size,
            needs_checksum: needs.then_some((self.checksum_start, self.checksum_offset)),
            checksum_valid: self.flags & Header::CHECKSUM_VALID != 0,
        }
    }
}

/// So many bytes, of which the system has pages for those that are used only.
fn zeroed(len: usize) -> MmapRaw {
    let Ok(mapped) = MmapMut::map_anon(len) else {
        handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>()));
    };
    mapped.into()
}

/// Bytes of a cache line, to which records are aligned.
const LINE: usize = 64;
const HEADER_LEN: usize = size_of::<Header>();
/// Committed bytes that are published before the batch ends.
const PUBLISH_BYTES: u64 = 32 << 10;

/// Bytes of a record with a frame of `len` bytes.
#[inline]
fn record_len(len: usize) -> usize {
    (HEADER_LEN + len).next_multiple_of(LINE)
}

#[cfg(test)]
mod tests;
