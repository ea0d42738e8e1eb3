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

    /// Fills the fill rings up. Answers false when the arena has too little left: the stack then takes no payload that
    /// it would have to keep.
    pub fn refill(&mut self) -> bool {
        let mut plenty = true;
        for queue in &mut self.queues {
            plenty &= fill(&mut queue.small, &self.arena, SizeClass::Packet);
            plenty &= fill(&mut queue.large, &self.arena, SizeClass::Large);
        }
        plenty
    }
}

/// Answers false when more than half of the ring stays empty.
fn fill(ring: &mut FillProducer, arena: &Arena, class: SizeClass) -> bool {
    let capacity = ring.capacity();
    let mut free = ring.free(capacity / 4);
    // In batches: a lent block costs its allocation.
    if free < capacity / 8 {
        return true;
    }
    while free > 0 {
        let Some(buffer) = arena.allocate_class(class) else {
            break;
        };
        let Ok(slice) = buffer.lend() else { break };
        if !ring.push(slice) {
            break;
        }
        free -= 1;
    }
    free <= capacity / 2
}
