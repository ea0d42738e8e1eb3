//! The receive contexts of one function that run the same protocols.
//!
//! Each layer of a stack of protocols is a table of its own, generic over the engine, with the contexts of all flows at the same places. So
//! a packet costs one call by pointer per layer, and the contexts of a protocol lie together.

mod contents;
mod nested;
pub(crate) mod notes;
mod observer;
mod open;
pub(crate) mod placing;
pub(crate) mod recovery;
pub(crate) mod rr_table;
mod search;
mod single;
#[cfg(test)]
mod toy;

use std::fmt::Debug;

use l5p::{Layers, MAX_LAYERS, Protocol, ProtocolId, Visitor, visit};
use shared::Output;
use wire::SeqNum;

use crate::counters::L5Counters;
use crate::probing::ContextName;
use crate::resources::Resources;
use crate::ring::{ErrorCode, Slice};
use nested::Nested;
use notes::NoteList;
use placing::{PlacedList, Placer};
use recovery::Answer;
use rr_table::RrTable;
use single::Single;

/// The contexts of one layer, and of those inside it.
///
/// Positions are those of the stream that the layer's messages are in: TCP's sequence numbers, or bytes of content of the layer around it.
pub(crate) trait ReceiveTable: Debug + Send {
    /// The protocols, this layer's first.
    fn ids(&self) -> &[ProtocolId];

    /// Makes the context at place `at`, whose first message begins at `position`. The layer is the one of `layers` at `depth`.
    ///
    /// # Errors
    /// When the parameters of a layer mean nothing, or a protocol carries no other. Nothing was made then.
    fn create(
        &mut self,
        at: u32,
        position: SeqNum,
        layers: &Layers,
        depth: usize,
        resources: &Resources,
    ) -> Result<(), ErrorCode>;

    /// Ends the context at `at`. Nothing is written into its buffers any more.
    fn destroy(&mut self, at: u32);

    /// Whether what the protocol makes of a payload takes its place.
    fn replaces(&self) -> bool;

    /// Whether packets are transformed as they are copied into a receive buffer. Others are seen before they are copied, because data of
    /// theirs may belong elsewhere.
    fn transforms(&self) -> bool;

    /// A packet comes, of which maybe no part comes to this layer.
    fn begin_packet(&mut self);

    /// Takes a part of a packet; the one at 0 begins it. The output, as long as the part, is for a table that [transforms](Self::transforms).
    fn receive(&mut self, at: u32, part: Part<'_>, output: Option<Output<'_>>) -> Received;

    /// What has become of the packet that came last, whose payload was `payload`.
    fn made<'a>(&'a mut self, payload: &'a [u8]) -> Made<'a>;

    /// Whether a packet that begins at `seq` will be processed, unless a check fails. May be false for one that comes late.
    fn expects(&self, at: u32, seq: SeqNum) -> bool;

    /// Whether the context knows where the next message of each layer begins.
    fn is_in_step(&self, at: u32) -> bool;

    /// Nothing that was known of the stream's messages counts any longer.
    fn lose_track(&mut self, at: u32);

    /// Takes each message from the next one on for the one behind it: a fault that is made on purpose.
    fn corrupt(&mut self, at: u32);

    /// The guess that the host is or will be asked about, of the outermost layer that has one: which layer, counted from this one, and
    /// the position of its first byte.
    fn guess(&self, at: u32) -> Option<(u8, SeqNum)>;

    /// The question to the host that is to be put now.
    fn due_request(&mut self, at: u32, now_ms: u32) -> Option<Request>;

    /// Takes an answer: whether message number `index` of a layer begins at `position`.
    fn answer(&mut self, at: u32, layer: u8, position: SeqNum, index: Option<u64>) -> Answer;

    /// The position of the byte at `offset` in the content of the message that begins at `tcpsn`.
    fn position_of(&self, tcpsn: SeqNum, offset: u32) -> SeqNum;

    /// The buffers that a context's host has mapped, if its innermost protocol places.
    fn buffers(&mut self, at: u32) -> Option<&mut RrTable>;

    /// Writes what a context has made of the packet that came last for its buffers ([`l5p::Results`]); `write` answers whether it could. Where
    /// it could not, or there is no such buffer, the notes on the packet do not count.
    fn write_results(&mut self, at: u32, write: &mut dyn FnMut(Slice, &[u8]) -> bool);

    /// What is to be placed of the packet that came last, and the notes on it.
    fn metadata(&mut self) -> (&mut PlacedList, &mut NoteList);

    /// Counts what happened with the packet that came last, for a context of this name, and tells tracers.
    fn count(&mut self, at: u32, name: ContextName, counters: &mut L5Counters, packet: Counted);
}

/// A part of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// Its first byte in the packet's payload.
    pub(crate) at: u32,
    /// Its first byte in the layer's stream.
    pub(crate) position: SeqNum,
    pub(crate) bytes: &'a [u8],
    /// It is what the layer around takes it for. Else nothing of it is placed.
    pub(crate) certain: bool,
}

/// What has become of a packet.
pub(crate) struct Made<'a> {
    /// Its payload as the outermost layer has made it, or as it was if that has changed nothing of it.
    pub(crate) payload: &'a [u8],
    /// What is to be placed of that.
    pub(crate) placed: &'a mut PlacedList,
    /// Notes on it.
    pub(crate) notes: &'a mut NoteList,
}

/// A packet, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Packets on the wire.
    pub(crate) segments: u32,
    /// Bytes of it that were placed.
    pub(crate) placed: u32,
    /// Notes on it.
    pub(crate) notes: u32,
}

/// What became of a part of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// By which layers it was processed, the lowest bit for the layer that was asked.
    pub(crate) layers: u8,
    /// A layer does not know where its next message begins: there may be a [question](ReceiveTable::due_request).
    pub(crate) searches: bool,
    /// Something happened that is to be [counted](ReceiveTable::count), beside what is placed.
    pub(crate) is_eventful: bool,
    /// There are [results](ReceiveTable::write_results) to be written.
    pub(crate) has_results: bool,
}

impl Received {
    /// No layer has processed it, or has anything to ask.
    pub(crate) const NOTHING: Received = Received {
        layers: 0,
        searches: false,
        is_eventful: false,
        has_results: false,
    };
}

/// A question: does a message of this layer begin there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Counted from the layer that was asked.
    pub(crate) layer: u8,
    /// Position of the first byte; for a layer inside, of the message of the layer that was asked.
    pub(crate) tcpsn: SeqNum,
    /// For a layer inside, the byte of that message's content.
    pub(crate) offset: u32,
}

/// Contexts of a function that may have open messages of a protocol at a time: about 8 MiB.
pub(super) const OPEN_CONTEXTS: u32 = 4096;

/// A table for contexts of these protocols, without any; at most `contexts` of them.
///
/// # Errors
/// When a protocol is not known, or carries no other.
pub(crate) fn table(layers: &Layers, contexts: u32) -> Result<Box<dyn ReceiveTable>, ErrorCode> {
    table_from(layers.ids(), true, contexts)
}

fn table_from(
    ids: &[ProtocolId],
    outermost: bool,
    contexts: u32,
) -> Result<Box<dyn ReceiveTable>, ErrorCode> {
    let (id, inside) = ids.split_first().ok_or(ErrorCode::BadParameters)?;
    let make = Make {
        inside,
        outermost,
        contexts,
    };
    visit(*id, make).unwrap_or(Err(ErrorCode::BadParameters))
}

/// Makes the table of a layer, and those inside it.
struct Make<'a> {
    inside: &'a [ProtocolId],
    outermost: bool,
    contexts: u32,
}

impl Visitor for Make<'_> {
    type Output = Result<Box<dyn ReceiveTable>, ErrorCode>;

    fn visit<P: Protocol>(self, id: ProtocolId) -> Self::Output {
        let open = self.contexts.min(OPEN_CONTEXTS);
        Ok(match (self.inside, P::REPLACES) {
            // What is inside reads what this one makes; there is no room for what it would make of that.
            (_, true) if !self.outermost => return Err(ErrorCode::Unsupported),
            ([], true) => Box::new(Single::<P, ()>::new(id, open)),
            ([], false) => Box::new(Single::<P, Placer>::new(id, open)),
            (inside, _) => {
                let inside = table_from(inside, false, self.contexts)?;
                Box::new(Nested::<P>::new(id, open, inside))
            }
        })
    }
}

/// The contexts of one layer, by their place.
#[derive(Debug)]
pub(super) struct Slab<T>(Vec<Option<T>>);

impl<T> Slab<T> {
    pub(super) const fn new() -> Slab<T> {
        Slab(Vec::new())
    }

    pub(super) fn put(&mut self, at: u32, context: T) {
        let at = at as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at] = Some(context);
    }

    pub(super) fn take(&mut self, at: u32) -> Option<T> {
        self.0.get_mut(at as usize)?.take()
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&T> {
        self.0.get(at as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0.get_mut(at as usize)?.as_mut()
    }
}

const _: () = assert!(MAX_LAYERS <= u8::BITS as usize);
