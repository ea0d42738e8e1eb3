//! How much one connection may queue, by how short memory is.

use super::{Arena, MemoryLevel, Purpose};

/// Bytes that every connection may queue, as Linux's `SOCK_MIN_SNDBUF`.
const LEAST: u32 = 16 << 10;
/// Bytes that every connection may offer: room for the longest TLS record, which is taken as a whole.
const LEAST_WINDOW: u32 = 32 << 10;
/// Bytes that a connection may queue that has proved nothing yet.
const UNPROVEN: u32 = 256 << 10;
/// It may have this part of what is free at most, so that the more is in use, the less each may have (Choudhury and Hahne's dynamic thresholds).
const UNPROVEN_PART: u64 = 32;
/// The same of its share of the memory for data, of which the other parts are for received data and for those that prove to use more.
const SHARE_PART: u64 = 16;
/// The same of any connection, when memory is short.
const PROVEN_PART: u64 = 16;

/// What one connection may have in its send queue, or offer as its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    /// Bytes at most.
    pub most: u32,
    /// Bytes of a connection that has not proved to use more.
    pub unproven: u32,
}

impl QueueLimits {
    /// What a connection that has not proved to use more may offer as its window.
    pub fn window(&self) -> u32 {
        self.unproven.max(LEAST_WINDOW)
    }

    /// Those of a stack that has so many sockets, and allows `most` bytes while memory is free.
    pub fn of(level: MemoryLevel, arena: &Arena, most: u32, sockets: u32) -> Self {
        let free = arena.headroom(Purpose::Queued);
        let share = arena.limits().data / SHARE_PART / u64::from(sockets.max(1));
        let part = |part: u64, least: u32, most: u32| {
            u32::try_from(part).unwrap_or(u32::MAX).clamp(least, most)
        };
        let least = LEAST.min(most);
        match level {
            MemoryLevel::Free => Self {
                most,
                unproven: part((free / UNPROVEN_PART).min(share), least, UNPROVEN.min(most)),
            },
            MemoryLevel::Pressure => Self {
                most: part(free / PROVEN_PART, least, most),
                unproven: least,
            },
            MemoryLevel::Exhausted => Self {
                // What a connection may take that waits for no acknowledgment.
                most: part(arena.headroom(Purpose::Next) / PROVEN_PART, least, most),
                unproven: least,
            },
        }
    }
}
