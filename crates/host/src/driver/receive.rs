//! Taking packets off the receive rings, and keeping the NIC in buffers.

use driver::{Place, PlacedPart, take_notes, take_placed};
use l5p::{Note, ResourceId};
use nic::ring::accel::{AccelRoom, Established, SpliceEnded, SpliceState};
use nic::ring::toe::{ToeEvent, ToeId};
use nic::ring::{ContextId, ErrorCode, FillProducer, HostQueue, Packet, Processed, RecvDescriptor};
use tcp::Accepted;
use wire::SeqNum;

use super::Driver;
use crate::counters::Counters;
use crate::memory::{Arena, Buffer, Limits, SizeClass, Usage};

/// What the NIC has to say.
#[derive(Debug)]
pub(crate) enum Received {
    /// A frame, from its Ethernet header on. With `opening` it opens a connection that the NIC has set up.
    Frame {
        frame: Buffer,
        info: FrameInfo,
        opening: Option<Established>,
    },
    /// A frame of which TCP on the NIC has taken the payload, or some of it.
    Delivered {
        frame: Buffer,
        info: FrameInfo,
        taken: Delivered,
    },
    /// What the NIC tells of a connection that it runs.
    Toe(ToeEvent),
    /// The NIC was reset, and all that it had told before has been given.
    Reset,
    /// How much room the NIC has for connections.
    Room(AccelRoom),
    /// What became of something to be loaded.
    Resource {
        resource: ResourceId,
        error: Option<ErrorCode>,
    },
    /// `l5o_resync_rx_req` (Autonomous NIC offloads, Listing 2).
    ResyncRequest { context: ContextId, place: Place },
    /// A descriptor was refused, whose first slot had this index.
    Refused {
        context: Option<ContextId>,
        tcpsn: SeqNum,
        error: ErrorCode,
        index: u64,
    },
    /// A splice has ended.
    SpliceEnded(SpliceEnded),
    /// Where one connection of a splice stands that is the host's again.
    SpliceState(SpliceState),
}

/// What TCP on the NIC has taken of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub toe: ToeId,
    /// The part of the packet's payload.
    pub data: Accepted,
    /// The next position expected.
    pub rcv_nxt: SeqNum,
    /// Everything before it is acknowledged, and so many bytes may be under way at once.
    pub acked: (SeqNum, u32),
}

/// What the NIC says of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameInfo {
    /// Packets that it was on the wire.
    pub segments: u16,
    /// Checksums were found right.
    pub checksum_ok: bool,
    /// The context of its flow.
    pub context: Option<ContextId>,
    /// What that made of its payload.
    pub processed: Processed,
    /// Parts of the payload are not in the frame, but where [`Driver::placed`] says.
    pub is_placed: bool,
    /// There are [`Driver::notes`] on it.
    pub has_notes: bool,
    /// Bytes of payload, with those parts.
    pub payload_len: u32,
}

impl FrameInfo {
    /// Of a frame that is as it was on the wire.
    pub fn plain(segments: u16, payload_len: u32) -> Self {
        Self {
            segments,
            checksum_ok: true,
            context: None,
            processed: Processed::NONE,
            is_placed: false,
            has_notes: false,
            payload_len,
        }
    }
}

impl FrameInfo {
    /// Payload bytes of each packet that it was on the wire, if it was several; else 0.
    pub fn gso_size(&self) -> u16 {
        if self.segments < 2 {
            return 0;
        }
        let size = self.payload_len.div_ceil(self.segments.into());
        u16::try_from(size).unwrap_or(u16::MAX)
    }
}

impl Driver {
    /// Parts of the payload of the frame received last that are not in it, by ascending position. They do not overlap and are
    /// inside of it.
    pub fn placed(&self) -> &[PlacedPart] {
        &self.beside.placed
    }

    /// What the innermost protocol on the NIC has to say of the payload of the frame received last.
    pub fn notes(&self) -> &[Note] {
        &self.beside.notes
    }

    /// The next descriptor of any receive ring, the rings taking turns.
    #[inline]
    pub fn poll_receive(&mut self, counters: &mut Counters) -> Option<Received> {
        for _ in 0..self.function.queues.len() {
            let at = self.next_queue;
            while let Some(descriptor) = self.function.queues[at].recv.pop() {
                if let Some(received) = self.accept(at, descriptor, counters) {
                    return Some(received);
                }
            }
            self.next_queue = (at + 1) % self.function.queues.len();
        }
        None
    }

    /// The connection on the NIC of which something will be received soon, if that is known.
    #[inline]
    pub fn delivered_ahead(&self) -> Option<ToeId> {
        self.function.queues[self.next_queue].recv.delivered_ahead()
    }

    fn accept(
        &mut self,
        at: usize,
        descriptor: RecvDescriptor,
        counters: &mut Counters,
    ) -> Option<Received> {
        Some(match descriptor {
            RecvDescriptor::Packet(packet) => return self.accept_packet(at, &packet, counters),
            RecvDescriptor::Toe(event @ ToeEvent::Delivered { .. }) => {
                self.beside.delivered = delivered(&event).map(|delivered| (at, delivered));
                return None;
            }
            RecvDescriptor::Toe(event) => Received::Toe(event),
            RecvDescriptor::Reset { epoch } => {
                self.resets[at] = epoch;
                // What was told before on the other rings counts too.
                if !self.resets.iter().all(|it| *it == epoch) {
                    return None;
                }
                Received::Reset
            }
            // They belong to no packet.
            RecvDescriptor::Placed { .. } | RecvDescriptor::Notes { .. } => {
                counters.driver_errors += 1;
                return None;
            }
            RecvDescriptor::Resource { resource, error } => Received::Resource { resource, error },
            RecvDescriptor::AccelRoom(room) => Received::Room(room),
            RecvDescriptor::SpliceEnded(ended) => Received::SpliceEnded(ended),
            RecvDescriptor::SpliceState(state) => Received::SpliceState(state),
            RecvDescriptor::Established(established) => {
                self.beside.opening = Some((at, established));
                return None;
            }
            RecvDescriptor::ResyncRequest {
                context,
                tcpsn,
                inner,
            } => Received::ResyncRequest {
                context,
                place: Place { tcpsn, inner },
            },
            RecvDescriptor::Completion {
                context,
                tcpsn,
                error,
                send_index,
            } => {
                counters.driver_errors += 1;
                Received::Refused {
                    context,
                    tcpsn,
                    error,
                    index: send_index,
                }
            }
        })
    }

    #[inline]
    fn accept_packet(
        &mut self,
        at: usize,
        packet: &Packet,
        counters: &mut Counters,
    ) -> Option<Received> {
        // A buffer that was not lent is a fault of the device's: there is nothing to look at.
        let Some(frame) = self.arena.reclaim(packet.buffer) else {
            counters.driver_errors += 1;
            return None;
        };
        self.posted_bytes = self
            .posted_bytes
            .saturating_sub(frame.class().bytes().into());
        counters.driver_rx_packets += 1;
        let recv = &mut self.function.queues[at].recv;
        let fits = (packet.placed == 0 || take_placed(recv, packet, &mut self.beside.placed))
            && (packet.notes == 0 || take_notes(recv, packet, &mut self.beside.notes));
        if !fits {
            counters.driver_errors += 1;
            return None;
        }
        let opening = self.beside.opening.take().filter(|(queue, _)| *queue == at);
        let info = FrameInfo {
            segments: packet.segments.max(1),
            checksum_ok: packet.checksum_ok,
            context: packet.context,
            processed: packet.processed,
            is_placed: packet.placed > 0,
            has_notes: packet.notes > 0,
            payload_len: packet.payload_len,
        };
        if let Some((queue, taken)) = self.beside.delivered.take()
            && queue == at
        {
            return deliver(frame, packet.header_len, info, taken, counters);
        }
        Some(Received::Frame {
            frame,
            opening: opening.map(|(_, established)| established),
            info,
        })
    }

    /// Fills the fill rings up.
    pub fn refill(&mut self) {
        for queue in &mut self.function.queues {
            self.posted_bytes += fill(&mut queue.small, &self.arena, SizeClass::Packet);
            self.posted_bytes += fill(&mut queue.large, &self.arena, SizeClass::Large);
        }
    }
}

/// Bytes of the buffers that fill rings take.
pub(super) fn bytes_of_rings(queues: &[HostQueue]) -> u64 {
    let bytes = |ring: &FillProducer, class: SizeClass| {
        u64::from(ring.capacity()) * u64::from(class.bytes())
    };
    let of = |queue: &HostQueue| {
        bytes(&queue.small, SizeClass::Packet) + bytes(&queue.large, SizeClass::Large)
    };
    queues.iter().map(of).sum()
}

/// What TCP on the NIC says of the packet that comes next.
fn delivered(event: &ToeEvent) -> Option<Delivered> {
    let &ToeEvent::Delivered {
        toe,
        seq,
        skip,
        len,
        rcv_nxt,
        snd_una,
        flight,
    } = event
    else {
        return None;
    };
    Some(Delivered {
        toe,
        data: Accepted { seq, skip, len },
        rcv_nxt,
        acked: (snd_una, flight),
    })
}

/// A packet's payload, of which TCP on the NIC has taken some. `None` for what no device of ours says.
fn deliver(
    mut frame: Buffer,
    header_len: u16,
    info: FrameInfo,
    taken: Delivered,
    counters: &mut Counters,
) -> Option<Received> {
    let end = taken.data.skip.checked_add(taken.data.len);
    let is_whole = end.is_some_and(|end| end <= info.payload_len);
    let header_len = u32::from(header_len);
    if !is_whole || header_len as usize > frame.len() {
        counters.driver_errors += 1;
        return None;
    }
    frame.advance(header_len);
    Some(Received::Delivered { frame, info, taken })
}

/// Memory to keep what is received, in large buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// There is enough.
    Plenty,
    /// It is short.
    Short {
        /// Buffers that may be kept still.
        left: u32,
        /// How many of them are for sockets that have nothing to read.
        reserve: u32,
    },
}

impl Supply {
    /// What is left with so much in use.
    pub fn of(limits: &Limits, usage: &Usage) -> Self {
        const BLOCK: u64 = SizeClass::Large.bytes() as u64;
        let buffers = |bytes: u64| u32::try_from(bytes / BLOCK).unwrap_or(u32::MAX);
        let left = (limits.data + limits.awaited).saturating_sub(usage.bytes());
        Self::Short {
            left: buffers(left),
            reserve: buffers(limits.awaited),
        }
    }

    /// Whether a socket that holds so many buffers with what it has received may keep another. Each may have a part of what
    /// is left, so that however many take theirs, something is left for the next (Choudhury and Hahne's dynamic
    /// thresholds). Half of it is for what is `awaited`: comes next for a socket that has nothing to read. The last few
    /// are never kept, so that the NIC can always receive.
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

/// Answers how many bytes were posted.
fn fill(ring: &mut FillProducer, arena: &Arena, class: SizeClass) -> u64 {
    let capacity = ring.capacity();
    let mut free = ring.free(capacity / 4);
    // In batches: a lent block costs its allocation.
    if free < capacity / 8 {
        return 0;
    }
    let mut posted = 0;
    while free > 0 {
        let Some(slice) = arena.lend(class) else {
            break;
        };
        if !ring.push(slice) {
            break;
        }
        posted += u64::from(class.bytes());
        free -= 1;
    }
    posted
}
