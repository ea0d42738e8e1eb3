//! The driver of one function: rings, buffers, shadow contexts, recovery (Autonomous NIC offloads §4.1–4.3).
//!
//! Everything posted goes through one send ring in one order, so that a context exists before the first packet that
//! names it. What does not fit waits: commands in [`Driver::commands`], a segment with its socket, frames of the
//! stack's own in a bounded queue.

mod accel;
mod payload;
mod receive;
mod recovery;
mod regions;
mod rr_state;
mod send;
mod shadow;
mod toe;

use std::collections::VecDeque;
use std::sync::Arc;

use l5p::{ContextTag, Layers, Note, ProtocolId, ResourceId};
use nic::ring::accel::{Established, Splice, SpliceId};
use nic::ring::{ContextId, Direction, HostFunction, HostQueue, SendDescriptor, Slice};
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use crate::SocketId;
use crate::counters::Counters;
use crate::layer5::Place;
use crate::memory::{Arena, ArenaLayout, Buffer, SizeClass};

pub(crate) use accel::HOP_LIMIT;
pub(crate) use payload::Payload;
pub(crate) use receive::{Delivered, FrameInfo, PlacedPart, Received, Supply};
pub(crate) use recovery::MessageSource;
pub(crate) use regions::InUse;
pub(crate) use rr_state::Ticket;
pub(crate) use send::{Frame, Link, Stopped, Unsent};
pub(crate) use shadow::Contexts;
use shadow::Shadow;
pub(crate) use toe::bytes_of;

/// One function's driver.
#[derive(Debug)]
pub(crate) struct Driver {
    mac: MacAddr,
    queues: Vec<HostQueue>,
    arena: Arena,
    pub regions: InUse,
    pub contexts: Contexts,
    /// Commands that the ring had no room for. While there are any, no packet is posted.
    commands: VecDeque<Command>,
    /// Commands given so far.
    commanded: u64,
    settling: rr_state::Settling,
    /// Frames of the stack's own that the ring had no room for.
    frames: VecDeque<Frame>,
    /// What the NIC may still read, with where it has read it.
    retiring: VecDeque<(Posted, Payload)>,
    /// What it was last known to have completed.
    completed: Posted,
    /// What the NIC may still write, with the send ring's position after which it does not.
    held: VecDeque<(u64, Box<[Slice]>)>,
    /// The rest of the arena block that small writes are cut from.
    tail: Option<Buffer>,
    /// Parts of the frame received last.
    placed: Vec<PlacedPart>,
    /// Notes on the frame received last.
    notes: Vec<Note>,
    /// What the NIC has said of the packet that comes next, with the queue that it comes on.
    opening: Option<(usize, Established)>,
    /// What TCP on the NIC has taken of the packet that comes next, with the queue that it comes on.
    delivered: Option<(usize, Delivered)>,
    /// The last reset that each receive ring has told of.
    resets: Vec<u32>,
    /// Connections that the NIC may run for this function.
    toe_connections: u32,
    /// Memory for their control blocks.
    images: Vec<Arena>,
    gather: Vec<Slice>,
    prefix: Vec<Slice>,
    wakeup_due: bool,
    next_queue: usize,
}

/// Positions of the send ring and of the command ring.
#[derive(Clone, Copy, Debug, Default)]
struct Posted {
    sends: u64,
    commands: u64,
}

/// A command that is not a packet.
#[derive(Debug)]
enum Command {
    Create {
        context: ContextId,
        direction: Direction,
        flow: FlowKey,
        tcpsn: SeqNum,
        layers: Layers,
    },
    Destroy {
        context: ContextId,
    },
    Resync {
        context: ContextId,
        place: Place,
        index: Option<u64>,
    },
    DelRr {
        context: ContextId,
        tag: u16,
    },
    /// To make what contexts of a protocol share of these bytes.
    Load {
        resource: ResourceId,
        protocol: ProtocolId,
        bytes: Buffer,
    },
    Unload(ResourceId),
    Splice(Box<Splice>),
    Unsplice(SpliceId),
    /// A frame that came after its flow had been given away.
    Reinject {
        frame: Buffer,
        gso_size: u16,
    },
    /// Nothing for the NIC: when it has come here, it writes to this memory no more.
    Unhold(Box<[Slice]>),
    /// The same, of a buffer that is given up then.
    Retire(Buffer),
}

impl Driver {
    pub fn new(function: HostFunction, layout: ArenaLayout) -> Self {
        let region = function.regions.allocate(layout.bytes() as usize);
        let region = Arc::new(region.expect("the system has memory for packets"));
        let id = function
            .register(Arc::clone(&region))
            .expect("a new function takes the memory of its host");
        let mut driver = Self {
            mac: function.config.mac,
            queues: function.queues,
            arena: Arena::new(region, id, layout),
            regions: InUse::new(Arc::clone(&function.regions)),
            contexts: Contexts::new(function.config.contexts),
            commands: VecDeque::new(),
            commanded: 0,
            settling: rr_state::Settling::default(),
            frames: VecDeque::new(),
            retiring: VecDeque::new(),
            completed: Posted::default(),
            held: VecDeque::new(),
            tail: None,
            placed: Vec::with_capacity(64),
            notes: Vec::with_capacity(64),
            opening: None,
            delivered: None,
            resets: vec![0; usize::from(function.config.queues)],
            toe_connections: function.config.toe_connections,
            images: Vec::new(),
            gather: Vec::with_capacity(64),
            prefix: Vec::with_capacity(64),
            wakeup_due: false,
            next_queue: 0,
        };
        driver.refill();
        driver.publish();
        driver
    }

    /// The function's address.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The stack's memory.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Asks the NIC for a context whose first message begins at `tcpsn` (Listing 1); what it decrypts is marked with `tag`.
    /// `None` when the quota is used up.
    pub fn l5o_create(
        &mut self,
        socket: SocketId,
        direction: Direction,
        flow: FlowKey,
        tcpsn: SeqNum,
        layers: Layers,
        tag: Option<ContextTag>,
    ) -> Option<ContextId> {
        let shadow = Shadow {
            socket,
            layers: shadow::LayersInfo::of(&layers),
            tag,
            expected: Some(tcpsn),
            frontier: tcpsn,
            failed: false,
            lost: false,
            errors: 0,
            erred_at: tcpsn,
            destroyed: false,
        };
        let context = self.contexts.allocate(shadow)?;
        self.command(Command::Create {
            context,
            direction,
            flow,
            tcpsn,
            layers,
        });
        Some(context)
    }

    /// Asks the NIC to make what contexts of a protocol share ([`Received::Resource`] tells what becomes of it).
    pub fn load(&mut self, resource: ResourceId, protocol: ProtocolId, bytes: Buffer) {
        self.command(Command::Load {
            resource,
            protocol,
            bytes,
        });
    }

    /// Gives up what contexts shared.
    pub fn unload(&mut self, resource: ResourceId) {
        self.command(Command::Unload(resource));
    }

    /// Ends a context (Listing 1).
    pub fn l5o_destroy(&mut self, context: ContextId) {
        self.command(Command::Destroy { context });
    }

    /// Answers a question of the NIC's: a message of this index begins there, or none does (Listing 1).
    pub fn l5o_resync_rx_resp(&mut self, context: ContextId, place: Place, index: Option<u64>) {
        self.command(Command::Resync {
            context,
            place,
            index,
        });
    }

    fn command(&mut self, command: Command) {
        self.commanded += 1;
        self.commands.push_back(command);
    }

    /// Whether a descriptor waits for room in the ring.
    pub fn is_blocked(&self) -> bool {
        !self.commands.is_empty() || !self.frames.is_empty()
    }

    /// Posts what waited, as far as there is room. False when something still waits.
    pub fn flush(&mut self, counters: &mut Counters) -> bool {
        while let Some(command) = self.commands.front() {
            let descriptor = match command {
                Command::Create {
                    context,
                    direction,
                    flow,
                    tcpsn,
                    layers,
                } => SendDescriptor::CreateContext {
                    context: *context,
                    direction: *direction,
                    flow: *flow,
                    tcpsn: *tcpsn,
                    layers,
                },
                Command::Destroy { context } => {
                    SendDescriptor::DestroyContext { context: *context }
                }
                Command::Resync {
                    context,
                    place,
                    index,
                } => SendDescriptor::ResyncResponse {
                    context: *context,
                    tcpsn: place.tcpsn,
                    inner: place.inner,
                    confirmed: index.is_some(),
                    index: index.unwrap_or(0),
                },
                Command::DelRr { context, tag } => SendDescriptor::DelRrState {
                    context: *context,
                    tag: *tag,
                },
                Command::Load {
                    resource,
                    protocol,
                    bytes,
                } => SendDescriptor::LoadResource {
                    resource: *resource,
                    protocol: *protocol,
                    bytes: bytes.slice(),
                },
                Command::Unload(resource) => SendDescriptor::UnloadResource {
                    resource: *resource,
                },
                Command::Splice(splice) => SendDescriptor::Splice(splice),
                Command::Unsplice(splice) => SendDescriptor::Unsplice { splice: *splice },
                Command::Reinject { frame, gso_size } => SendDescriptor::Reinject {
                    frame: frame.slice(),
                    gso_size: *gso_size,
                },
                Command::Retire(_) => {
                    if let Some(Command::Retire(buffer)) = self.commands.pop_front() {
                        self.retire(Payload::plain(buffer));
                    }
                    continue;
                }
                Command::Unhold(_) => {
                    if let Some(Command::Unhold(slices)) = self.commands.pop_front() {
                        let posted = self.queues[0].send.posted();
                        self.held.push_back((posted, slices));
                    }
                    continue;
                }
            };
            let send = &mut self.queues[0].send;
            if send.post(&descriptor).is_err() {
                counters.driver_tx_ring_full += 1;
                return false;
            }
            counters.driver_tx_posted += 1;
            if let Command::Destroy { context } = command {
                let context = *context;
                let posted = self.want_settled();
                self.contexts.release(context, posted);
            }
            if let Some(Command::Reinject { frame: read, .. } | Command::Load { bytes: read, .. }) =
                self.commands.pop_front()
            {
                self.retire(Payload::plain(read));
            }
        }
        self.flush_frames(counters)
    }

    /// Lets go of payload that TCP no longer needs, once the NIC has read what was posted up to now.
    #[inline]
    pub fn retire(&mut self, payload: Payload) {
        let queue = &self.queues[0];
        let posted = Posted {
            sends: queue.send.posted(),
            // Recoveries for connections on the NIC name it too.
            commands: queue.commands.posted(),
        };
        self.retiring.push_back((posted, payload));
    }

    /// Whether the NIC has done all that was posted until then.
    #[inline]
    fn has_completed(&mut self, posted: Posted) -> bool {
        let (done, queue) = (&mut self.completed, &mut self.queues[0]);
        if posted.sends > done.sends {
            done.sends = queue.send.completed();
        }
        if posted.commands > done.commands {
            done.commands = queue.commands.completed();
        }
        posted.sends <= done.sends && posted.commands <= done.commands
    }

    /// Frees what the NIC has read. Answers whether anything was freed.
    pub fn reap(&mut self) -> bool {
        if self.retiring.is_empty() && self.held.is_empty() {
            return false;
        }
        let completed = match self.held.is_empty() {
            true => 0,
            false => self.queues[0].send.completed(),
        };
        while let Some((posted, _)) = self.held.front()
            && *posted <= completed
        {
            for slice in self.held.pop_front().iter().flat_map(|(_, slices)| slices) {
                self.regions.unhold(*slice);
            }
        }
        let before = self.retiring.len();
        while let Some((posted, _)) = self.retiring.front()
            && self.has_completed(*posted)
        {
            if let Some((_, payload)) = self.retiring.pop_front()
                && let Some(slice) = payload.as_region()
            {
                self.regions.give_back(slice);
            }
        }
        self.retiring.len() != before
    }

    /// Slots of the send ring that the NIC has finished with.
    pub fn completed(&mut self) -> u64 {
        self.queues[0].send.completed()
    }

    /// Slots of the send ring that were posted.
    pub fn posted(&self) -> u64 {
        self.queues[0].send.posted()
    }

    /// Whether there is memory for any write.
    pub fn has_room(&self) -> bool {
        self.arena.has_free(SizeClass::Large)
    }

    /// Whether there is memory for `bytes` of a stream, cut into pieces of a record's length at most.
    pub fn has_memory_for(&self, bytes: u64) -> bool {
        const PIECE: u32 = SizeClass::Record.bytes();
        let in_large = SizeClass::Large.bytes() / PIECE * self.arena.free_blocks(SizeClass::Large);
        let pieces = in_large + self.arena.free_blocks(SizeClass::Record);
        bytes.div_ceil(u64::from(PIECE)) < u64::from(pieces)
    }

    /// Whether memory waits for the NIC to have read it.
    pub fn has_retiring(&self) -> bool {
        !self.retiring.is_empty() || !self.held.is_empty()
    }

    /// The NIC is gone, and all that it had told was taken: what was posted counts as done, and the buffers that it had are taken
    /// back. Another one finds the rings empty.
    pub fn clear(&mut self) {
        self.queues.iter_mut().for_each(HostQueue::clear);
        self.arena.reclaim_all();
        (self.opening, self.delivered) = (None, None);
        self.resets.fill(0);
    }

    /// Shows everything posted and taken to the NIC.
    pub fn publish(&mut self) {
        for queue in &mut self.queues {
            self.wakeup_due |= queue.publish();
        }
    }

    /// Whether the NIC slept when something was published, since this was asked last.
    pub fn take_wakeup(&mut self) -> bool {
        std::mem::take(&mut self.wakeup_due)
    }

    /// Announces that the host is about to sleep. False when something has come meanwhile: then it must not.
    pub fn prepare_sleep(&mut self) -> bool {
        for at in 0..self.queues.len() {
            if !self.queues[at].prepare_sleep() {
                self.queues[..at]
                    .iter_mut()
                    .for_each(HostQueue::cancel_sleep);
                return false;
            }
        }
        true
    }

    /// Takes the announcement back.
    pub fn cancel_sleep(&mut self) {
        self.queues.iter_mut().for_each(HostQueue::cancel_sleep);
    }

    /// Arena memory for `len` bytes of a stream, cut from a block that many writes share. `None` when memory has run
    /// out; `len` is at most a large block.
    #[inline]
    pub fn take_tail(&mut self, len: u32) -> Option<Buffer> {
        if self
            .tail
            .as_ref()
            .is_none_or(|tail| (tail.len() as u32) < len)
        {
            self.tail = None;
            let block = self
                .arena
                .allocate_class(SizeClass::Large)
                .or_else(|| self.arena.allocate(len))?;
            self.tail = Some(block);
        }
        let mut taken = self.tail.take()?;
        let rest = taken.split_off(len);
        if !rest.is_empty() {
            self.tail = Some(rest);
        }
        Some(taken)
    }

    /// Bytes that the shared block still has: a write that can be cut anywhere uses them up first.
    #[inline]
    pub fn tail_room(&self) -> u32 {
        self.tail.as_ref().map_or(0, |tail| tail.len() as u32)
    }
}

#[cfg(test)]
mod tests;
