//! The stack's splices, and what is to be told of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nic::ring::accel::{LegState, SpliceEnded, SpliceId};

use wire::ethernet::MacAddr;

use crate::deadlines::earliest;
use crate::driver::Ticket;
use crate::memory::Buffer;
use crate::{Event, SocketId, SpliceHandle};

/// Every splice of the stack, by its handle.
#[derive(Debug, Default)]
pub(crate) struct Splices {
    slots: Vec<Slot>,
    free: Vec<u32>,
    len: u32,
    /// Those that wait for acknowledgments, by when they stop to.
    pub(super) draining: VecDeque<(Instant, SpliceHandle)>,
    /// Those that the NIC has not answered yet.
    pub(super) posted: Vec<SpliceHandle>,
    /// What the application has not been told yet, oldest first.
    pub(super) told: VecDeque<Event>,
    /// Where the look at next hops goes on, and when.
    pub(super) watched: u32,
    pub(super) watch_at: Option<Instant>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    splice: Option<Box<Spliced>>,
}

/// Two sockets that are, or are about to be, one splice.
#[derive(Debug)]
pub(crate) struct Spliced {
    pub sockets: [SocketId; 2],
    pub idle: Option<Duration>,
    /// Where the NIC sends their packets.
    pub hops: [MacAddr; 2],
    pub phase: Phase,
    /// Frames for the next owner of the connections, oldest first.
    pub kept: VecDeque<Kept>,
    /// The NIC was asked to give it back.
    pub is_called_back: bool,
    /// What the application wants with each socket once it is the host's again.
    pub leaving: [Option<Leaving>; 2],
    /// The path of a connection takes no more than this, as an ICMP message says.
    pub path_mss: [Option<u16>; 2],
    /// Why the NIC has given it back, and what it has told of the connections so far.
    pub ended: Option<SpliceEnded>,
    pub states: [Option<LegState>; 2],
}

/// How far a splice is.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The host owns both connections, and waits until all is acknowledged.
    Draining,
    /// The NIC was asked. Whether it owns them is known when the ticket is settled.
    Posted(Ticket),
    /// The NIC owns both connections.
    Relaying,
}

/// A frame that came while its splice was about to change its owner.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Which of the two sockets it is for.
    pub side: usize,
    pub frame: Buffer,
    /// Packets that it was on the wire.
    pub segments: u16,
}

/// What the application has asked for while the NIC had the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    Close,
    Abort,
}

impl Spliced {
    /// Frames kept at most; what comes beyond is as if it were lost.
    const MAX_KEPT: usize = 256;

    /// Keeps a frame for the next owner.
    pub fn keep(&mut self, kept: Kept) {
        if self.kept.len() < Self::MAX_KEPT {
            self.kept.push_back(kept);
        }
    }
}

/// Bits of a [`SpliceId`] that are the place in the table. The rest but the highest are the place's generation, so that what the
/// NIC says of a splice that is over is not taken for another one's.
const INDEX_BITS: u32 = 17;
const GENERATIONS: u32 = (1 << (31 - INDEX_BITS)) - 1;
/// Of every splice's number, and of no other number that the NIC's refusals name.
const SPLICES: u32 = 1 << 31;

impl Splices {
    /// Splices of all phases.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// `None` when there are as many as numbers.
    pub fn insert(&mut self, splice: Spliced) -> Option<SpliceHandle> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < 1 << INDEX_BITS => {
                self.slots.push(Slot {
                    generation: 0,
                    splice: None,
                });
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index as usize];
        slot.splice = Some(Box::new(splice));
        self.len += 1;
        Some(SpliceHandle {
            index,
            generation: slot.generation,
        })
    }

    pub fn get(&self, handle: SpliceHandle) -> Option<&Spliced> {
        let slot = self.slots.get(handle.index as usize)?;
        slot.splice
            .as_deref()
            .filter(|_| slot.generation == handle.generation)
    }

    pub fn get_mut(&mut self, handle: SpliceHandle) -> Option<&mut Spliced> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        slot.splice
            .as_deref_mut()
            .filter(|_| slot.generation == handle.generation)
    }

    pub fn remove(&mut self, handle: SpliceHandle) -> Option<Box<Spliced>> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.generation != handle.generation {
            return None;
        }
        let splice = slot.splice.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.index);
        self.len -= 1;
        self.posted.retain(|posted| *posted != handle);
        Some(splice)
    }

    /// The number by which the NIC knows a splice.
    pub fn number(handle: SpliceHandle) -> SpliceId {
        let generation = handle.generation & GENERATIONS;
        SpliceId(SPLICES | generation << INDEX_BITS | handle.index)
    }

    /// The splice of a number of the NIC's.
    pub fn find(&self, number: SpliceId) -> Option<SpliceHandle> {
        let index = number.0 & ((1 << INDEX_BITS) - 1);
        let slot = self.slots.get(index as usize)?;
        let handle = SpliceHandle {
            index,
            generation: slot.generation,
        };
        (slot.splice.is_some() && Self::number(handle) == number).then_some(handle)
    }

    /// Whether a refusal names a splice.
    pub fn is_number(name: u32) -> bool {
        name & SPLICES != 0
    }

    /// The splices at up to `most` places from `from` on, and the place after them.
    pub(super) fn some_from(&self, from: u32, most: u32) -> (Vec<SpliceHandle>, u32) {
        let end = from.saturating_add(most).min(self.slots.len() as u32);
        let handles = (from..end).filter_map(|index| {
            let slot = &self.slots[index as usize];
            slot.splice.as_ref()?;
            Some(SpliceHandle {
                index,
                generation: slot.generation,
            })
        });
        (handles.collect(), end)
    }

    /// When something is due that no packet brings about.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let draining = self.draining.front().map(|(until, _)| *until);
        earliest([draining, self.watch_at])
    }
}
