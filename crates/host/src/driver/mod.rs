//! The driver of one function: rings, buffers, shadow contexts, recovery (Autonomous NIC offloads §4.1–4.3).
//!
//! Everything posted goes through one send ring in one order, so that a context exists before the first packet that
//! names it. What does not fit waits: commands in the [`Function`], a segment with its socket, frames of the
//! stack's own in a bounded queue.

mod accel;
mod framed;
mod frames;
mod gather;
mod offloaded;
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

use driver::{Command, Function};
pub(crate) use driver::{Place, PlacedPart, Ticket};
use l5p::{ContextTag, Layers, Note, ProtocolId, ResourceId};
use nic::ring::accel::Established;
use nic::ring::{ContextId, Direction, HostFunction, Slice};
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use crate::SocketId;
use crate::counters::Counters;
use crate::memory::{Arena, ArenaLayout, Buffer, Limits, Purpose, SizeClass};

pub(crate) use accel::{HOP_LIMIT, Posted};
pub(crate) use framed::{FrameLayout, Framed};
pub(crate) use frames::Frame;
pub(crate) use payload::{Part, Payload};
pub(crate) use receive::{Delivered, FrameInfo, Received, Supply};
pub(crate) use recovery::MessageSource;
pub(crate) use regions::InUse;
pub(crate) use send::{Link, Stopped, Unsent};
use shadow::Shadow;
pub(crate) use toe::{ToeRecovery, bytes_of};

/// One function's driver.
#[derive(Debug)]
pub(crate) struct Driver {
    mac: MacAddr,
    function: Function<Shadow, Retired>,
    arena: Arena,
    /// Bytes of receive buffers that the rings take.
    rings_bytes: u64,
    /// Bytes of those that the NIC has.
    posted_bytes: u64,
    /// What memory is taken for that is written now.
    pub drawing: Purpose,
    /// Memory is short: blocks are no longer than they need to be.
    pub is_short: bool,
    pub regions: InUse,
    /// Frames of the stack's own that the ring had no room for.
    frames: VecDeque<Frame>,
    /// The rest of the arena block that small writes are cut from.
    tail: Option<Buffer>,
    beside: BesideFrames,
    /// The last reset that each receive ring has told of.
    resets: Vec<u32>,
    /// Connections that the NIC may run for this function.
    toe_connections: u32,
    /// Memory for their control blocks.
    images: Vec<Arena>,
    gather: Vec<Slice>,
    prefix: Vec<Slice>,
    next_queue: usize,
}

/// Bytes beside the receive buffers that there are at least.
const LEAST_MEMORY: u64 = 512 << 10;

/// What the driver keeps of a context of the NIC's.
pub(crate) type Contexts = driver::Contexts<Shadow>;

/// Memory that the NIC has in use and that is needed no longer.
#[derive(Debug)]
enum Retired {
    /// It may still be read.
    Payload(Payload),
    /// It may still be written.
    Written(Box<[Slice]>),
}

/// What the NIC says beside received frames.
#[derive(Debug)]
struct BesideFrames {
    /// Parts of the frame received last.
    placed: Vec<PlacedPart>,
    /// Notes on the frame received last.
    notes: Vec<Note>,
    /// What the NIC has said of the packet that comes next, with the queue that it comes on.
    opening: Option<(usize, Established)>,
    /// What TCP on the NIC has taken of the packet that comes next, with the queue that it comes on.
    delivered: Option<(usize, Delivered)>,
}

impl BesideFrames {
    fn with_capacity(parts: usize) -> Self {
        BesideFrames {
            placed: Vec::with_capacity(parts),
            notes: Vec::with_capacity(parts),
            opening: None,
            delivered: None,
        }
    }
}

impl Driver {
    /// The driver of a function, with so many bytes of memory for packets and payload.
    pub fn new(function: HostFunction, memory: u64) -> Self {
        let rings_bytes = receive::bytes_of_rings(&function.queues);
        let limits = Limits::of(memory.saturating_sub(rings_bytes).max(LEAST_MEMORY));
        let layout = ArenaLayout::reserving(limits.bytes() + rings_bytes);
        let region = function.regions.allocate(layout.bytes() as usize);
        let region = Arc::new(region.expect("the system has memory for packets"));
        let id = function
            .register(Arc::clone(&region))
            .expect("a new function takes the memory of its host");
        let mut driver = Self {
            mac: function.config.mac,
            function: Function::new(function.queues, function.config.contexts),
            arena: Arena::new(region, id, layout, limits),
            rings_bytes,
            posted_bytes: 0,
            drawing: Purpose::Queued,
            is_short: false,
            regions: InUse::new(Arc::clone(&function.regions)),
            frames: VecDeque::new(),
            tail: None,
            beside: BesideFrames::with_capacity(64),
            resets: vec![0; usize::from(function.config.queues)],
            toe_connections: function.config.toe_connections,
            images: Vec::new(),
            gather: Vec::with_capacity(64),
            prefix: Vec::with_capacity(64),
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
        };
        self.function.create(shadow, direction, flow, tcpsn, layers)
    }

    /// Asks the NIC to make what contexts of a protocol share ([`Received::Resource`] tells what becomes of it).
    pub fn load(&mut self, resource: ResourceId, protocol: ProtocolId, bytes: Buffer) {
        let command = Command::Load {
            resource,
            protocol,
            bytes: bytes.slice(),
        };
        let bytes = Retired::Payload(Payload::plain(bytes));
        self.function.command_with(command, bytes);
    }

    /// Gives up what contexts shared.
    pub fn unload(&mut self, resource: ResourceId) {
        self.function.command(Command::Unload(resource));
    }

    /// Ends a context (Listing 1).
    pub fn l5o_destroy(&mut self, context: ContextId) {
        self.function.destroy(context);
    }

    /// Answers a question of the NIC's: a message of this index begins there, or none does (Listing 1).
    pub fn l5o_resync_rx_resp(&mut self, context: ContextId, place: Place, index: Option<u64>) {
        self.function.answer(context, place, index);
    }

    /// The NIC's contexts.
    #[inline]
    pub fn contexts(&self) -> &Contexts {
        &self.function.contexts
    }

    /// The same, to be changed.
    #[inline]
    pub fn contexts_mut(&mut self) -> &mut Contexts {
        &mut self.function.contexts
    }

    /// The NIC has none of its contexts any more.
    pub fn fail_contexts(&mut self) {
        for shadow in self.function.contexts.iter_mut() {
            shadow.failed = true;
            shadow.lost = true;
            shadow.expected = None;
        }
    }

    /// Whether a descriptor waits for room in the ring.
    pub fn is_blocked(&self) -> bool {
        self.function.is_blocked() || !self.frames.is_empty()
    }

    /// Posts what waited, as far as there is room. False when something still waits.
    pub fn flush(&mut self, counters: &mut Counters) -> bool {
        let flushed = self.function.flush();
        counters.driver_tx_posted += flushed.posted;
        if !flushed.is_done {
            counters.driver_tx_ring_full += 1;
            return false;
        }
        self.flush_frames(counters)
    }

    /// Lets go of payload that TCP no longer needs, once the NIC has read what was posted up to now.
    #[inline]
    pub fn retire(&mut self, payload: Payload) {
        self.function.retire(Retired::Payload(payload));
    }

    /// Frees what the NIC is done with. Gives whether anything was freed.
    pub fn reap(&mut self) -> bool {
        let mut is_any = false;
        while let Some(retired) = self.function.poll_retired() {
            is_any = true;
            match retired {
                Retired::Payload(payload) => {
                    if let Some(slice) = payload.as_region() {
                        self.regions.give_back(slice);
                    }
                }
                Retired::Written(slices) => {
                    for slice in slices {
                        self.regions.unhold(slice);
                    }
                }
            }
        }
        is_any
    }

    /// Slots of the send ring that the NIC has finished with.
    pub fn completed(&mut self) -> u64 {
        self.function.completed()
    }

    /// Slots of the send ring that were posted.
    pub fn posted(&self) -> u64 {
        self.function.posted()
    }

    /// Whether there is memory for any write.
    pub fn has_room(&self) -> bool {
        self.has_memory_for(SizeClass::Large.bytes().into())
    }

    /// Whether there is memory for `bytes` of a stream, cut into pieces of a record's length at most.
    pub fn has_memory_for(&self, bytes: u64) -> bool {
        const PIECE: u64 = SizeClass::Record.bytes() as u64;
        const BLOCK: u64 = SizeClass::Large.bytes() as u64;
        let blocks = self.arena.headroom(self.drawing) / BLOCK;
        // A shorter block may have no room for two pieces.
        let bytes = bytes << u32::from(self.is_short);
        bytes.div_ceil(PIECE) < blocks.saturating_mul(BLOCK / PIECE)
    }

    /// Bytes of receive buffers that the NIC has.
    pub fn posted_bytes(&self) -> u64 {
        self.posted_bytes
    }

    /// Bytes of those that its rings take.
    pub fn rings_bytes(&self) -> u64 {
        self.rings_bytes
    }

    /// Whether memory waits for the NIC to have read it.
    pub fn has_retiring(&self) -> bool {
        self.function.has_retiring()
    }

    /// The NIC is gone, and all that it had told was taken: what was posted counts as done, and the buffers that it had are taken
    /// back. Another one finds the rings empty.
    pub fn clear(&mut self) {
        self.function.clear();
        self.arena.reclaim_all();
        self.posted_bytes = 0;
        (self.beside.opening, self.beside.delivered) = (None, None);
        self.resets.fill(0);
    }

    /// Shows everything posted and taken to the NIC.
    pub fn publish(&mut self) {
        self.function.publish();
    }

    /// Whether the NIC slept when something was published, since this was asked last.
    pub fn take_wakeup(&mut self) -> bool {
        self.function.take_wakeup()
    }

    /// Announces that the host is about to sleep. False when something has come meanwhile: then it must not.
    pub fn prepare_sleep(&mut self) -> bool {
        self.function.prepare_sleep()
    }

    /// Takes the announcement back.
    pub fn cancel_sleep(&mut self) {
        self.function.cancel_sleep();
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
            self.tail = Some(self.take_block(len)?);
        }
        let mut taken = self.tail.take()?;
        let rest = taken.split_off(len);
        if !rest.is_empty() {
            self.tail = Some(rest);
        }
        Some(taken)
    }

    /// The same for a purpose that has a reserve.
    pub fn take_tail_for(&mut self, purpose: Purpose, len: u32) -> Option<Buffer> {
        let before = std::mem::replace(&mut self.drawing, purpose);
        let taken = self.take_tail(len);
        self.drawing = before;
        taken
    }

    /// What is written from now on draws on the memory of this purpose if there is no other.
    #[inline]
    pub fn begin_write(&mut self, purpose: Purpose) {
        self.drawing = purpose;
        if self.is_short {
            // What one connection leaves unacknowledged must not hold up memory of others.
            self.tail = None;
        }
    }

    /// A block to cut at least `len` bytes from.
    fn take_block(&self, len: u32) -> Option<Buffer> {
        let least = match self.is_short {
            true => len.max(SizeClass::Packet.bytes()),
            false => SizeClass::Large.bytes(),
        };
        let arena = &self.arena;
        let block = arena.allocate(Purpose::Queued, least);
        let block = block.or_else(|| arena.allocate(Purpose::Queued, len));
        block.or_else(|| arena.allocate(self.drawing, len))
    }

    /// Bytes that a write is cut into when the shared block has too few: those of a block.
    #[inline]
    pub fn piece_len(&self) -> u32 {
        match self.is_short {
            true => SizeClass::Record.bytes(),
            false => SizeClass::Large.bytes(),
        }
    }

    /// Bytes that the shared block still has: a write that can be cut anywhere uses them up first.
    #[inline]
    pub fn tail_room(&self) -> u32 {
        self.tail.as_ref().map_or(0, |tail| tail.len() as u32)
    }
}
