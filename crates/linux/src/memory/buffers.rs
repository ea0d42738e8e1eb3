//! Buffers for what the NIC receives: posted on the fill rings, and taken back as soon as Linux has the frame.

use nic::ring::{FunctionConfig, HostFunction, HostQueue, Slice};

use super::Memory;

/// All receive buffers of a function.
#[derive(Debug)]
pub(crate) struct Buffers {
    memory: Memory,
    small: Class,
    large: Class,
}

/// Buffers of one size, one behind the other.
#[derive(Debug)]
struct Class {
    start: usize,
    bytes: usize,
    /// For each, whether the device holds it.
    posted: Box<[bool]>,
}

/// A buffer that the device does not hold, with a frame in it.
#[derive(Debug)]
pub(crate) struct Held {
    is_large: bool,
    index: usize,
    at: usize,
    len: usize,
}

impl Buffers {
    /// As many as the rings have room for, all of them posted at once.
    pub(crate) fn new(function: &HostFunction, queue: &mut HostQueue) -> Buffers {
        let FunctionConfig {
            small_entries,
            small_bytes,
            large_entries,
            large_bytes,
            ..
        } = function.config;
        let small = Class::new(0, small_entries, small_bytes);
        let large = Class::new(small.end(), large_entries, large_bytes);
        let mut buffers = Buffers {
            memory: Memory::register(function, large.end()),
            small,
            large,
        };
        for is_large in [false, true] {
            for index in 0..buffers.class(is_large).posted.len() {
                buffers.post(is_large, index, queue);
            }
        }
        buffers
    }

    /// Takes a buffer back that the device has filled. `None` for a slice that is of no posted buffer.
    pub(crate) fn reclaim(&mut self, filled: Slice) -> Option<Held> {
        if !self.memory.has(&filled) {
            return None;
        }
        let (at, len) = (usize::try_from(filled.offset).ok()?, filled.len as usize);
        let is_large = at >= self.large.start;
        let class = match is_large {
            true => &mut self.large,
            false => &mut self.small,
        };
        let index = (at - class.start) / class.bytes;
        let is_start = class.start + index * class.bytes == at;
        let posted = class.posted.get_mut(index)?;
        if !*posted || !is_start || len > class.bytes {
            return None;
        }
        *posted = false;
        Some(Held {
            is_large,
            index,
            at,
            len,
        })
    }

    /// The frame in a buffer.
    pub(crate) fn frame(&mut self, held: &Held) -> &mut [u8] {
        // SAFETY: a `Held` is made by `reclaim` alone, and ends when the buffer is posted again: the device does not have it.
        unsafe { self.memory.bytes_mut(held.at, held.len) }
    }

    /// Gives a buffer to the device again.
    pub(crate) fn give_back(&mut self, held: Held, queue: &mut HostQueue) {
        self.post(held.is_large, held.index, queue);
    }

    fn post(&mut self, is_large: bool, index: usize, queue: &mut HostQueue) {
        let class = self.class(is_large);
        let (at, bytes) = (class.start + index * class.bytes, class.bytes);
        class.posted[index] = true;
        let slice = self.memory.slice(at, bytes);
        let ring = match is_large {
            true => &mut queue.large,
            false => &mut queue.small,
        };
        let pushed = ring.push(slice);
        debug_assert!(pushed, "a ring has a place for each of its buffers");
    }

    fn class(&mut self, is_large: bool) -> &mut Class {
        match is_large {
            true => &mut self.large,
            false => &mut self.small,
        }
    }
}

impl Class {
    fn new(start: usize, count: u32, bytes: u32) -> Class {
        Class {
            start,
            bytes: bytes as usize,
            posted: vec![false; count as usize].into(),
        }
    }

    fn end(&self) -> usize {
        self.start + self.posted.len() * self.bytes
    }
}
