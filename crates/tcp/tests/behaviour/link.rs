//! Packets, and one direction of a link.

use std::time::Duration;

use tcp::Chunk;
use wire::tcp::{Flags, Header};

use crate::payload::Slice;

#[derive(Clone, Debug)]
pub struct Packet {
    pub header: Header,
    pub payload: Vec<Slice>,
    pub segments: u16,
}

impl Packet {
    pub fn len(&self) -> u32 {
        self.payload.iter().map(Chunk::len).sum()
    }

    /// LRO: joins `next` if it follows on.
    pub fn join(&mut self, next: &Packet) -> bool {
        let (a, b) = (&self.header, &next.header);
        let plain = |h: &Header| h.flags.without(Flags::PSH) == Flags::ACK;
        let joins = plain(a)
            && !a.flags.contains(Flags::PSH)
            && plain(b)
            && self.len() > 0
            && next.len() > 0
            && a.seq + self.len() == b.seq
            && a.ack == b.ack
            && a.window == b.window
            && a.options == b.options
            && a.ecn == b.ecn
            && self.len() + next.len() < 65_000;
        if joins {
            self.header.flags = next.header.flags;
            self.payload.extend(next.payload.iter().cloned());
            self.segments += 1;
        }
        joins
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Bits per second.
    pub rate: u64,
    pub delay: Duration,
    /// Bytes that queue before the bottleneck.
    pub queue: u64,
    pub loss: f64,
    pub reorder: f64,
    pub duplicate: f64,
    /// How much later a reordered packet comes, at most.
    pub jitter: Duration,
    /// Packets that come within this time are handed over together, joined where they can be.
    pub coalesce: Duration,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            rate: 1_000_000_000,
            delay: Duration::from_millis(1),
            queue: 4 << 20,
            loss: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            jitter: Duration::from_millis(1),
            coalesce: Duration::ZERO,
        }
    }
}
