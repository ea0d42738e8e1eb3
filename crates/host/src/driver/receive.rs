//! Taking packets off the receive rings, and keeping the NIC in buffers.

use nic::ring::{ContextId, ErrorCode, FillProducer, RecvDescriptor};
use wire::SeqNum;

use super::Driver;
use crate::counters::Counters;
use crate::memory::{Arena, Buffer, SizeClass};

/// What the NIC has to say.
#[derive(Debug)]
pub(crate) enum Received {
    /// A frame, from its Ethernet header on.
    Frame {
        frame: Buffer,
        /// Packets that it was on the wire.
        segments: u16,
        /// Checksums were found right.
        checksum_ok: bool,
        /// The context that transformed all of its payload.
        offloaded: Option<ContextId>,
    },
    /// `l5o_resync_rx_req` (seed 000, Listing 2).
    ResyncRequest { context: ContextId, tcpsn: SeqNum },
    /// A descriptor was refused.
    Refused {
        context: Option<ContextId>,
        tcpsn: SeqNum,
        error: ErrorCode,
    },
}

impl Driver {
    /// The next descriptor of any receive ring, the rings taking turns.
    #[inline]
    pub fn poll_receive(&mut self, counters: &mut Counters) -> Option<Received> {
        for _ in 0..self.queues.len() {
            let at = self.next_queue;
            while let Some(descriptor) = self.queues[at].recv.pop() {
                if let Some(received) = self.accept(descriptor, counters) {
                    return Some(received);
                }
            }
            self.next_queue = (at + 1) % self.queues.len();
        }
        None
    }

    fn accept(&mut self, descriptor: RecvDescriptor, counters: &mut Counters) -> Option<Received> {
        Some(match descriptor {
            RecvDescriptor::Packet(packet) => {
                // A buffer that was not lent is a fault of the device's: there is nothing to look at.
                let Some(frame) = self.arena.reclaim(packet.buffer) else {
                    counters.driver_errors += 1;
                    return None;
                };
                counters.driver_rx_packets += 1;
                Received::Frame {
                    frame,
                    segments: packet.segments.max(1),
                    checksum_ok: packet.checksum_ok,
                    offloaded: packet.context.filter(|_| packet.offloaded),
                }
            }
            // Nothing is mapped, so nothing can have been placed.
            RecvDescriptor::Placed { .. } => {
                counters.driver_errors += 1;
                return None;
            }
            RecvDescriptor::ResyncRequest { context, tcpsn, .. } => {
                Received::ResyncRequest { context, tcpsn }
            }
            RecvDescriptor::Completion {
                context,
                tcpsn,
                error,
                ..
            } => {
                counters.driver_errors += 1;
                Received::Refused {
                    context,
                    tcpsn,
                    error,
                }
            }
        })
    }

    /// Fills the fill rings up. Answers how much the arena has left for that.
    pub fn refill(&mut self) -> Supply {
        let (mut missing, mut capacity) = (0, 0);
        for queue in &mut self.queues {
            missing += fill(&mut queue.small, &self.arena, SizeClass::Packet);
            missing += fill(&mut queue.large, &self.arena, SizeClass::Large);
            capacity += queue.small.capacity() + queue.large.capacity();
        }
        if missing <= capacity / 2 {
            return Supply::Plenty;
        }
        Supply::Short {
            left: capacity - missing,
            reserve: capacity / 4,
        }
    }
}

/// Memory for what is received, in buffers of the NIC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// The NIC has buffers, and there are more.
    Plenty,
    /// The NIC has less than half of the buffers that it should have, and there are no more.
    Short {
        /// Those that it has.
        left: u32,
        /// How many of them are for sockets that have nothing to read.
        reserve: u32,
    },
}

impl Supply {
    /// Whether a socket that holds so many buffers with what it has received may keep another. Each may have a part of what
    /// is left, so that however many take theirs, something is left for the next (Choudhury and Hahne's dynamic
    /// thresholds). Half of it is for what is `awaited`: comes next to somebody who has nothing to read. The last few
    /// nobody may keep, lest the NIC hear nobody.
    #[inline]
    pub fn allows(self, held: u32, awaited: bool) -> bool {
        const PARTS: u32 = 16;
        const LAST: u32 = 8;
        match self {
            Self::Plenty => true,
            Self::Short { left, reserve } => {
                (awaited && left >= LAST) || held < left.saturating_sub(reserve) / PARTS
            }
        }
    }

    /// A buffer of the NIC's is kept.
    #[inline]
    pub fn keep(&mut self) {
        if let Self::Short { left, .. } = self {
            *left = left.saturating_sub(1);
        }
    }
}

/// Answers how many buffers are missing.
fn fill(ring: &mut FillProducer, arena: &Arena, class: SizeClass) -> u32 {
    let capacity = ring.capacity();
    let mut free = ring.free(capacity / 4);
    // In batches: a lent block costs its allocation.
    if free < capacity / 8 {
        return 0;
    }
    while free > 0 {
        let Some(buffer) = arena.allocate_class(class) else {
            // What was known may be from long ago.
            return ring.free(capacity);
        };
        let Ok(slice) = buffer.lend() else { break };
        if !ring.push(slice) {
            break;
        }
        free -= 1;
    }
    0
}
